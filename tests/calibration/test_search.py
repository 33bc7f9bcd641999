"""The search for thresholds, against one that tries every point from left to right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.calibration.search import MAX_POINTS, USUAL_ALPHAS, Search, in_units
from tests.contracts.tools import KINDS, checks, promised_many, vectors

pytestmark = pytest.mark.long

GUARANTEES: list[fc.Guarantee] = [
    fc.Mixture(),
    fc.Mixture(weights="uniform"),
    fc.FCP(),
    fc.PAC(failure=0.2),
    fc.EverySite(),
    fc.OneSite(site=1),
    fc.NewSite(),
    fc.WorstCase(contamination=0.2),
]
ALPHAS = [Fraction(i, 20) for i in range(1, 20)] + [Fraction(1, 1000)]
every_guarantee = pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda guarantee: repr(guarantee)[:40])


def counted(summary: fc.Summary, q: Floats) -> Any:
    """Read the count at the last of the summary's own points; between them an estimate may say more."""
    own = summary.points
    return np.append(0, summary.bounds(own)[0])[np.searchsorted(own, q, side="right")]


def tried_one_by_one(summaries: Sequence[fc.Summary], guarantee: fc.Guarantee) -> dict[float, Fraction]:
    """Return what every point there is promises, from the counts that the summaries themselves give."""
    sizes = [n for summary in summaries for n in summary.sizes]
    points = np.unique(np.concatenate([summary.points for summary in summaries]))
    counts = np.array([counted(summary, points) for summary in summaries])
    return dict(zip(points.tolist(), promised_many(guarantee, counts, sizes), strict=True))


def check(summaries: Sequence[fc.Summary], guarantee: fc.Guarantee) -> None:
    promised = tried_one_by_one(summaries, guarantee)
    search = Search(summaries, guarantee, [n for summary in summaries for n in summary.sizes])
    expected = [next((q for q, found in promised.items() if found >= 1 - alpha), math.inf) for alpha in ALPHAS]
    assert [search.smallest(alpha) for alpha in ALPHAS] == expected
    curve = search.curve(Fraction(1, 10))
    assert curve.promised.tolist() == [in_units(promised[q]) for q in curve.thresholds.tolist()]
    if len(promised) <= MAX_POINTS:
        assert curve.promised.tolist() == sorted({in_units(found) for found in promised.values()})
    else:
        exact = [alpha for alpha in ALPHAS if alpha in USUAL_ALPHAS]
        assert [curve.threshold(alpha) for alpha in exact] == [search.smallest(alpha) for alpha in exact]


@every_guarantee
@given(st.lists(vectors(30), min_size=2, max_size=5))
@checks(40)
def test_every_threshold_is_the_smallest(guarantee: fc.Guarantee, scores: list[Floats]) -> None:
    check([fc.Summary.of_scores(part, kind="exact") for part in scores], guarantee)


@every_guarantee
@pytest.mark.parametrize("kind", [*sorted(KINDS), "mixed"])
def test_every_kind_is_searched(guarantee: fc.Guarantee, kind: str) -> None:
    rng = np.random.default_rng(3)
    kinds = sorted(KINDS) if kind == "mixed" else [kind] * 6
    scores = [rng.beta(3, 1, size=rng.integers(20, 400)).round(rng.integers(1, 4)) for _ in kinds]
    check(
        [fc.Summary.of_scores(part, kind=kind, alpha=0.1) for part, kind in zip(scores, kinds, strict=True)], guarantee
    )


@pytest.mark.long
@every_guarantee
def test_many_points_are_searched(guarantee: fc.Guarantee) -> None:
    rng = np.random.default_rng(4)
    check([fc.Summary.of_scores(rng.normal(size=n), kind="exact") for n in (1, 3000, 7000)], guarantee)


@pytest.mark.parametrize("guarantee", [fc.Mixture(), fc.PAC(failure=0.2), fc.EverySite()], ids=repr)
@pytest.mark.parametrize("kind", ["exact", "ranks", "ddsketch"])
def test_a_single_summary_is_searched(guarantee: fc.Guarantee, kind: str) -> None:
    """Also for exactly what each of its points promises, where one point further would do as well."""
    scores = np.random.default_rng(7).beta(3, 1, size=300).round(3)
    summary = fc.Summary.of_scores(scores, kind=kind, alpha=0.1)
    check([summary], guarantee)
    promised = tried_one_by_one([summary], guarantee)
    first = {found: q for q, found in sorted(promised.items(), reverse=True) if found}
    search = Search([summary], guarantee, summary.sizes)
    assert [search.smallest(1 - found) for found in first] == list(first.values())


@pytest.mark.parametrize("value", [0.0, 5e-324, -5e-324, np.finfo(np.float64).max, -np.finfo(np.float64).max])
def test_very_many_equal_points_are_searched(value: float) -> None:
    tied = np.full(2**12, value)
    for others in ([], [value], [-1.0], [1.0], [-1.0, 1.0]):
        check([fc.Summary.of_scores(np.append(tied, others), kind="exact"), fc.Summary.of_scores([0.5])], fc.Mixture())


@pytest.mark.parametrize("guarantee", [fc.Mixture(), fc.FCP(), fc.PAC()])
def test_pooled_summaries_are_searched(guarantee: fc.Guarantee) -> None:
    rng = np.random.default_rng(5)
    sites: list[Any] = [fc.Summary.of_scores(rng.normal(size=300), alpha=0.1) for _ in range(4)]
    check([fc.pool(sites[:2]), *sites[2:]], guarantee)


@pytest.mark.parametrize("sampled", ["any", "smallest", "largest"])
def test_a_sample_narrows_the_search(sampled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any scores in the sample, as their order is up to the sites."""
    monkeypatch.setattr("fedconformal.calibration.search.SAMPLE", 50)
    scores = np.random.default_rng(6).beta(3, 1, size=1000).round(2)
    if sampled != "any":
        scores = np.sort(scores)[:: 1 if sampled == "smallest" else -1]
        scores = np.column_stack([scores[:50], scores[50:].reshape(50, 19)]).ravel()  # every 20th is sampled
    for guarantee in (fc.Mixture(), fc.PAC(failure=0.2)):
        check([fc.Summary.of_scores([score], kind="exact") for score in scores], guarantee)
