"""Verification: confirmed from the right summaries, and never from anything else."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal.certificates.certificate import (
    LeftOut,
    Promise,
    ProvenanceRecord,
    RenewalRows,
    Replacement,
    RiskRecord,
    Statement,
)
from tests.calibration.test_predictor import resealed
from tests.contracts.tools import altered

SITES = ("a", "b", "c")


def summaries(kind: str = "ranks", **about: Any) -> list[fc.Summary]:
    rng = np.random.default_rng(4)
    scores = [rng.normal(size=size) for size in (40, 25, 30)]
    return [
        fc.Summary.of_scores(part, kind=kind, site=site, score=fc.LAC(), alpha=0.1, **about)
        for part, site in zip(scores, SITES, strict=True)
    ]


def test_another_summary_is_noticed() -> None:
    a, b, c = summaries()
    predictor = fc.calibrate([a, b, c], alpha=0.2)
    other = fc.Summary.of_scores(np.append(np.zeros(39), 1e-9), site="a", score=fc.LAC(), alpha=0.1)
    assert fc.verify(predictor, [other, b, c]) == [
        "the summary of site 'a' is not the one that was certified",
        "the certified summary of site 'a' was not given",
    ]
    assert fc.verify(predictor, [a, b]) == ["the certified summary of site 'c' was not given"]
    assert fc.verify(fc.calibrate(a, alpha=0.1), a) == []
    assert fc.verify(predictor, []) == [f"the certified summary of site {site!r} was not given" for site in SITES]
    more = fc.Summary.of_scores([0.5], site="d", score=fc.LAC())
    assert fc.verify(predictor, [a, b, c, more]) == ["the summary of site 'd' is not the one that was certified"]


def test_every_changed_byte_of_a_summary_is_noticed() -> None:
    a, b, c = summaries()
    predictor = fc.calibrate([a, b, c], alpha=0.2)
    data = a.to_bytes()
    for i in range(len(data)):
        try:
            changed = fc.Summary.from_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
        except fc.InputError:
            continue
        assert fc.verify(predictor, [changed, b, c])


def test_a_summary_that_was_used_twice_must_be_given_twice() -> None:
    nameless = fc.Summary.of_scores([0.1, 0.2, 0.3], score=fc.LAC())
    predictor = fc.calibrate([nameless, nameless], alpha=0.5)
    assert fc.verify(predictor, [nameless, nameless]) == []
    assert fc.verify(predictor, [nameless])


CHANGES: dict[str, Any] = {
    **dict.fromkeys(("promise", "assumption", "caveat", "conditions", "model", "calibration"), "none"),
    **dict.fromkeys(("threshold", "slack", "coverage_at_least", "coverage_at_most", "temperature"), 0.5),
    **dict.fromkeys(("rank", "rank_out_of", "scores", "class_index", "class_names"), 3),
    **dict.fromkeys(("exact", "trained"), True),
    "summaries": [],
    "promises": [],
    "status": "estimated",
    "target": "1/2",
    "site": "a",
    "group": "sex=F",
    "end": "upper",
    "guarantee": {"name": "fcp"},
    "alpha": 0.2000000000000001,
    "privacy": {"epsilon": 1.0},
    "precision": "float32",
    "expires": "2999-01-31",
    "class_scores": [5, 7],
    "risk": RiskRecord(limit=0.2, bound=1.0, points=1, first=0.0, last=0.0, grid_sha256="0" * 64),
    "replaces": Replacement(sha256="0" * 64, why="alarm", rows=RenewalRows.new),
    "left_out": [LeftOut(site="d", reason="none")],
}


def test_every_field_is_checked() -> None:
    parts = (fc.Certificate, Statement, ProvenanceRecord, Promise)
    fields = {field for part in parts for field in part.__struct_fields__}
    assert fields - set(CHANGES) == {"statement", "provenance", "versions", "score"}


@pytest.mark.parametrize("field", CHANGES)
def test_a_changed_certificate_is_noticed(field: str) -> None:
    sites = summaries()
    predictor = fc.calibrate(sites, alpha=0.2)
    problems = fc.verify(altered(predictor, **{field: CHANGES[field]}), sites)
    assert problems
    assert all(len(problem.splitlines()) == 1 for problem in problems)


def test_another_version_is_no_problem() -> None:
    sites = summaries()
    elsewhere = {"fedconformal": "9.9", "numpy": "9", "python": "4.0.0rc1+"}
    assert fc.verify(altered(fc.calibrate(sites, alpha=0.2), versions=elsewhere), sites) == []


@pytest.mark.parametrize(
    "versions",
    [
        {},
        {"fedconformal": "9.9", "numpy": "9", "python": "4", "note": "1"},
        {"fedconformal": "9.9", "numpy": "9", "python": "4, and it holds for every patient"},
    ],
)
def test_versions_hold_nothing_but_versions(versions: dict[str, str]) -> None:
    sites = summaries()
    (problem,) = fc.verify(altered(fc.calibrate(sites, alpha=0.2), versions=versions), sites)
    assert problem.startswith("versions: ")


def test_a_changed_record_of_a_summary_is_noticed() -> None:
    sites = summaries()
    predictor = fc.calibrate(sites, alpha=0.2)
    first, *rest = predictor.certificate.summaries
    for change in ({"sizes": [41]}, {"sites": ["z"]}, {"kind": "exact"}, {"sha256": "0" * 64}):
        records = [msgspec.structs.replace(first, **change), *rest]
        assert fc.verify(altered(predictor, summaries=records), sites)


def test_a_changed_curve_is_noticed() -> None:
    sites = summaries()
    content = json.loads(fc.calibrate(sites, alpha=0.2).to_bytes())
    for column, i, step in (("promised", 0, 1), ("thresholds", 1, 1e-9)):
        changed = json.loads(json.dumps(content))
        changed["curves"][0][column][i] += step
        found = fc.Predictor.from_bytes(resealed(changed))
        assert fc.verify(found, sites) == ["the promise curve is not the one that the summaries give"]


def test_summaries_that_do_not_say_their_score() -> None:
    sites = [fc.Summary.of_scores([0.1, 0.2, 0.3], site=site) for site in SITES]
    predictor = fc.calibrate(sites, alpha=0.5)
    (problem,) = fc.verify(predictor, sites)
    assert problem.startswith("score: not confirmed, as the summaries do not name")
    assert fc.verify(predictor, sites, sealed=True) == []
