"""A chain of predictors: what is missing, what does not belong to it, and what changed at each link."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal.calibration.chain import changes, in_chain
from fedconformal.certificates.replacement import Replacement, Rows
from fedconformal.verification import Link, verify_chain
from tests.contracts.tools import changed


def sites(seed: int, **about: Any) -> list[fc.Summary]:
    rng = np.random.default_rng(seed)
    return [fc.Summary.of_scores(rng.random(40), site=name, **{"score": fc.LAC(), **about}) for name in ("a", "b")]


FIRST, SECOND, THIRD = sites(1), sites(2), sites(3)
OLDEST = fc.calibrate(FIRST)
OLDER = fc.recalibrate(OLDEST, SECOND, why="alarm at b", rows="new")
NEWEST = fc.recalibrate(OLDER, THIRD, rows="new")


def problems(links: list[Link]) -> list[str]:
    return [one for link in links for one in link.problems]


@pytest.mark.parametrize("older", [[OLDER, OLDEST], [OLDEST, OLDER]])
def test_a_whole_chain_in_any_order(older: list[fc.Predictor]) -> None:
    links = verify_chain(NEWEST, THIRD, older)
    assert [link.predictor for link in links] == [NEWEST, OLDER, OLDEST]
    assert [link.recomputed for link in links] == [True, False, False]
    assert problems(links) == []
    everything = verify_chain(NEWEST, [*FIRST, *THIRD, *SECOND], older)
    assert all(link.recomputed for link in everything)
    assert problems(everything) == []


def test_a_gap_says_what_is_missing() -> None:
    (problem,) = problems(verify_chain(NEWEST, THIRD, [OLDER]))
    assert problem == f"the chain has a gap: the predictor with the sha256 {OLDEST.digest()} is not given"
    gap, spare = problems(verify_chain(NEWEST, THIRD, [OLDEST]))
    assert OLDER.digest() in gap
    assert spare == f"the predictor with the sha256 {OLDEST.digest()} is no link of this chain"
    assert len(problems(verify_chain(OLDEST, FIRST, [NEWEST]))) == 1  # the wrong way round


def test_each_link_is_recomputed_from_its_own_summaries() -> None:
    some = [*THIRD, SECOND[0]]
    assert problems(verify_chain(NEWEST, some, [OLDER, OLDEST])) == [
        "the certified summary of site 'b' was not given",
    ]
    strange = problems(verify_chain(NEWEST, [*THIRD, *sites(9)], [OLDER, OLDEST]))
    assert strange == [f"the summary of site '{site}' is not the one that was certified" for site in "ab"]


def altered(predictor: fc.Predictor, **fields: Any) -> fc.Predictor:
    return replace(predictor, certificate=changed(predictor.certificate, **fields))


def test_every_tampering_with_a_link_is_noticed() -> None:
    assert OLDER.certificate.replaces is not None
    for fields in (
        {"replaces": msgspec.structs.replace(OLDER.certificate.replaces, why="yearly")},
        {"replaces": msgspec.structs.replace(OLDER.certificate.replaces, rows=Rows.watched)},
        {"replaces": None},
        {"coverage_at_most": 0.95},
    ):
        other = altered(OLDER, **fields)
        assert other.digest() != OLDER.digest()
        assert problems(verify_chain(NEWEST, THIRD, [other, OLDEST]))  # its digest is not the one that is named
    watched = fc.recalibrate(OLDER, THIRD, why="alarm", rows="watched")
    promoted = msgspec.structs.replace(watched.certificate.replaces, rows=Rows.new)  # type: ignore[type-var]
    forged = altered(watched, replaces=promoted)
    assert any(one.startswith("status") for one in problems(verify_chain(forged, THIRD, [OLDER, OLDEST])))


def test_one_link_alone() -> None:
    assert fc.verify(OLDER, SECOND, older=OLDEST) == []
    (alone,) = fc.verify(OLDER, SECOND)
    assert alone.startswith(f"replaces: not confirmed without the predictor with the sha256 {OLDEST.digest()}")
    assert fc.verify(OLDER, SECOND, sealed=True) == []
    (wrong,) = fc.verify(OLDER, SECOND, older=NEWEST)
    assert wrong.startswith("replaces: the certificate names the predictor with the sha256")
    (none,) = fc.verify(OLDEST, FIRST, older=NEWEST)
    assert none == "replaces: the certificate names no predictor that it replaces"


def test_rows_of_any_older_predictor_are_not_new() -> None:
    claimed = Replacement(sha256=OLDER.digest(), why="alarm", rows=Rows.new)
    again = altered(fc.recalibrate(OLDER, FIRST, rows="new"), replaces=claimed)  # the rows of the one before the last
    assert problems(verify_chain(again, FIRST, [OLDER, OLDEST])) == [
        "rows: those of site 'a' calibrated an older predictor as well, so they are not new"
    ]


def test_a_circle_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file can be in one, as a digest would have to hold itself; the walk ends all the same."""
    names = {id(NEWEST): "n" * 64, id(OLDER): "o" * 64}
    monkeypatch.setattr(fc.Predictor, "digest", lambda self: names[id(self)])
    for one, other in ((NEWEST, OLDER), (OLDER, NEWEST)):
        monkeypatch.setitem(vars(one), "certificate", circled(one.certificate, names[id(other)]))
    chain, spare, missing = in_chain(NEWEST, [OLDER])
    assert (len(chain), spare) == (2, [])
    assert missing is not None
    assert "circle" in missing


def circled(certificate: fc.Certificate, sha256: str) -> fc.Certificate:
    return changed(certificate, replaces=Replacement(sha256=sha256, why="x", rows=Rows.new))


def test_what_changed_is_said() -> None:
    assert changes(OLDEST.certificate, OLDER.certificate) == "same score, classes, model, guarantee, alpha and sites"
    fresh = sites(4, score=fc.TopK(), model="m2")[:1]
    other = fc.recalibrate(OLDEST, fresh, score=fc.TopK(), guarantee=fc.PAC(), rows="new")
    words = changes(OLDEST.certificate, changed(other.certificate, class_names=["x", "y"]))
    assert words.startswith("same alpha; ")
    for part in (
        "another score: topk",
        "other classes: x, y instead of not recorded",
        "another model: m2 instead of not recorded",
        "another guarantee: pac (failure=0.05) instead of mixture (weights=rows",
        "other sites: a instead of a, b",
    ):
        assert part in words
