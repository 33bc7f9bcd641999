"""Golden files: what was written by any release is read, and written, for ever."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import fedconformal as fc
from tests.contracts.tools import KINDS
from tests.golden import make

NAMES = sorted(make.summaries())
STRATIFIED = {"ranks by class", "exact by class", "ranks by group", "exact by class by group", "exact by group"}


def test_every_file_is_checked() -> None:
    assert {path.stem for path in make.HERE.glob("*.fcs")} == set(NAMES)
    assert {summary.name for summary in make.summaries().values()} == {*KINDS, *STRATIFIED}
    assert all(path.stat().st_size < 3072 for path in make.HERE.glob("*.fcs"))


@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_the_same(name: str) -> None:
    data, made = (make.HERE / f"{name}.fcs").read_bytes(), make.summaries()[name]
    assert made.to_bytes() == data
    found = fc.Summary.from_bytes(data)
    assert found.to_bytes() == data
    assert (found.name, found.sizes, found.sites, found.gap) == (made.name, made.sizes, made.sites, made.gap)
    assert found.points.tolist() == made.points.tolist()
    assert found.provenance == made.provenance


def test_a_file_by_hand() -> None:
    shared = b"\x82\xa4kind\xa5exact\xa5score\x92\xa3lac\x90"
    own = b"\x83\xa5sizes\x91\x05\xa5sites\x91\xa8clinic-a\xa7lengths\x91\x05"
    by_hand = b"FCS1" + len(shared).to_bytes(4, "little") + shared + len(own).to_bytes(4, "little") + own
    by_hand += np.array([-1.0, 0.25, 0.25, 0.5, 1.75], dtype="<f8").tobytes()
    assert (make.HERE / "exact.fcs").read_bytes() == by_hand + zlib.crc32(by_hand).to_bytes(4, "little")
