"""The cases of tests/vectors/wire, on which every implementation agrees: the bytes, what they say, what is refused."""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base import registry
from fedconformal.scores import AnyScore
from scripts import vectors
from scripts.vector_cases import twins as twins_of
from tests.contracts.tools import KINDS

FILES = {name: (vectors.FOLDER / f"{name}.json").read_text("utf-8") for name in vectors.SOURCES}
CASES = {f"{name}: {case['name']}": case for name, text in FILES.items() for case in json.loads(text)}
GIVEN = ("name", "input", "file")
"""Inputs of a case; the other fields must follow from them."""


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    case = CASES[name]
    if "key" in case.get("input", ()):
        pytest.importorskip("cryptography", reason="signatures need cryptography")
    bare = {key: value for key, value in case.items() if key in GIVEN or (key == "bytes" and "input" not in case)}
    assert {**bare, **vectors.outcome(bare)} == case


@pytest.mark.parametrize("name", FILES)
def test_files_are_written_again_as_they_are(name: str) -> None:
    if name == "summaries":
        pytest.importorskip("cryptography", reason="signatures need cryptography")
    assert vectors.text(name) == FILES[name], "run `python -m scripts.vectors`"


def test_what_is_written_is_read() -> None:
    """Files of one implementation are accepted by all others, with the same content."""
    written: list[dict[str, Any]] = [one for one in CASES.values() if "input" in one and "counts" in one]
    assert len(written) > 100
    for case in written:
        assert vectors.outcome({"bytes": case["bytes"]}) == {key: case[key] for key in ("bytes", "counts")}


def test_every_kind_and_every_score_is_among_them() -> None:
    good = [fc.Summary.from_bytes(bytes.fromhex(case["bytes"])) for case in CASES.values() if "counts" in case]
    assert {summary.name.partition(" by ")[0] for summary in good} == {*KINDS}
    assert {summary.name.partition(" ")[2] for summary in good} == {"", "by class", "by group", "by class by group"}
    assert sum("units" in case for case in CASES.values()) > 5
    named = {case["input"]["score"]["name"] for case in CASES.values() if "score" in case.get("input", ())}
    assert named == {*registry.members(AnyScore)}


def test_every_accepted_message_has_a_twin_that_is_refused() -> None:
    good = [name for name, case in CASES.items() if case.get("bytes") and ("counts" in case or "units" in case)]
    twins = [name.removeprefix("twins: ").rpartition(": ")[0] for name in CASES if name.startswith("twins: ")]
    assert sorted(twins) == sorted(name.partition(": ")[2] for name in good)
    assert all("refused" in case for name, case in CASES.items() if name.startswith(("refused: ", "twins: ")))
    assert len({name.rpartition(": ")[2] for name in CASES if name.startswith("twins: ")}) == len(twins_of.TWINS)


def test_the_files_are_small() -> None:
    assert sum(len(text.encode()) for text in FILES.values()) < 400_000


def test_a_file_by_hand() -> None:
    shared = b"\x82\xa4kind\xa5exact\xa5score\x92\xa3lac\x90"
    own = b"\x83\xa5sizes\x91\x05\xa5sites\x91\xa8clinic-a\xa7lengths\x91\x05"
    by_hand = b"FCS1" + len(shared).to_bytes(4, "little") + shared + len(own).to_bytes(4, "little") + own
    by_hand += np.array([-1.0, 0.25, 0.25, 0.5, 1.75], dtype="<f8").tobytes()
    made = fc.Summary.of_scores([0.5, -1.0, 0.25, 1.75, 0.25], kind="exact", site="clinic-a", score=fc.LAC())
    assert made.to_bytes() == by_hand + zlib.crc32(by_hand).to_bytes(4, "little")
