"""Golden files: what was written by any release is read, and written, for ever."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import fedconformal as fc
from tests.contracts.tools import KINDS
from tests.golden import make

FACTS = {
    "class": ((300,), ("clinic-a",), 4, {-1.0: (0, 4), 2.02: (164, 168), 3.5: (261, 263), 5.0: (300, 300)}),
    "class-pooled": ((30, 1, 7), ("s30", "s1", "s7"), 0, {-0.2: (0, 0), 0.0: (6, 6), 0.25: (28, 28), 2.02: (38, 38)}),
    "ddsketch": ((59,), ("clinic-a",), 58, {-1e308: (1, 1), 0.0: (12, 12), 0.25: (30, 31), 2.0: (58, 58)}),
    "ddsketch-pooled": ((40, 1, 90), ("s40", "s1", "s90"), 130, {-1.0: (0, 0), 0.25: (49, 51), 2.0: (131, 131)}),
    "exact": ((5,), ("clinic-a",), 0, {-2.0: (0, 0), 0.25: (3, 3), 0.3: (3, 3), 2.0: (5, 5)}),
    "exact-bare": ((1,), (), 0, {0.5: (0, 0), 1.0: (1, 1)}),
    "exact-pooled": ((3, 1, 9), ("s3", "s1", "s9"), 0, {0.0: (4, 4), 0.015625: (6, 6), 1.0: (13, 13)}),
    "group": ((60,), ("clinic-a",), 0, {-0.2: (0, 0), 0.0: (8, 8), 0.25: (24, 24), 2.0: (60, 60)}),
    "group-class": ((20,), (), 0, {-0.2: (0, 0), 0.0: (3, 3), 0.25: (19, 19), 2.0: (20, 20)}),
    "group-pooled": ((30, 1, 7), ("s30", "s1", "s7"), 0, {-0.2: (0, 0), 0.0: (6, 6), 0.25: (28, 28), 2.0: (38, 38)}),
    "ranks": ((300,), ("clinic-a",), 5, {-1.0: (0, 5), 2.02: (162, 167), 3.5: (260, 263), 5.0: (300, 300)}),
    "ranks-plain": ((250,), ("病院",), 2, {0.0: (30, 32), 1.0: (95, 97), 4.0: (250, 250)}),
    "ranks-pooled": ((40, 25), ("clinic-a", "Köln 2"), 0, {0.0: (10, 10), 0.25: (47, 47), 1.0: (65, 65)}),
    "ranks-signed": ((300,), ("clinic-a",), 6, {-1.0: (0, 0), -0.5: (5, 6), 2.02: (166, 171), 5.0: (300, 300)}),
    "tdigest": ((30,), ("clinic-a",), 0, {-2.0: (0, 0), 0.0: (9, 9), 0.125: (20, 20), 2.0: (29, 29), 2.5: (30, 30)}),
    "tdigest-few": ((5,), (), 0, {-2.0: (0, 0), 0.25: (3, 3), 0.3: (3, 3), 2.0: (5, 5)}),
    "tdigest-pooled": ((60, 1, 25), ("s60", "s1", "s25"), 0, {0.0: (13, 13), 0.25: (45, 45), 1.0: (86, 86)}),
}
"""What each file says: sizes, sites, gap, and the bounds at some q."""

PARTED = {
    "class": "ranks by class",
    "class-pooled": "exact by class",
    "group": "ranks by group",
    "group-class": "exact by class by group",
    "group-pooled": "exact by group",
}

every_file = pytest.mark.parametrize("name", sorted(FACTS))


def test_every_file_is_checked() -> None:
    assert {path.stem for path in make.HERE.glob("*.fcs")} == set(FACTS) == set(make.summaries())
    assert {summary.name for summary in make.summaries().values()} == {*KINDS, *PARTED.values()}
    assert all(path.stat().st_size < 3072 for path in make.HERE.glob("*.fcs"))


@every_file
def test_bytes_are_the_same(name: str) -> None:
    assert make.summaries()[name].to_bytes() == (make.HERE / f"{name}.fcs").read_bytes()


@every_file
def test_files_say_what_they_said(name: str) -> None:
    sizes, sites, gap, bounds = FACTS[name]
    data = (make.HERE / f"{name}.fcs").read_bytes()
    found = fc.Summary.from_bytes(data)
    assert found.to_bytes() == data
    assert (found.sizes, found.sites, found.gap) == (sizes, sites, gap)
    assert found.name == PARTED.get(name, name.partition("-")[0])
    assert {q: found.count_at_most(q) for q in bounds} == bounds
    assert found.provenance == make.summaries()[name].provenance


def test_a_file_by_hand() -> None:
    shared = b"\x82\xa4kind\xa5exact\xa5score\x92\xa3lac\x90"
    own = b"\x83\xa5sizes\x91\x05\xa5sites\x91\xa8clinic-a\xa7lengths\x91\x05"
    by_hand = b"FCS1" + len(shared).to_bytes(4, "little") + shared + len(own).to_bytes(4, "little") + own
    by_hand += np.array([-1.0, 0.25, 0.25, 0.5, 1.75], dtype="<f8").tobytes()
    assert (make.HERE / "exact.fcs").read_bytes() == by_hand + zlib.crc32(by_hand).to_bytes(4, "little")
