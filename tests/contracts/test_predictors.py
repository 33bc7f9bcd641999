"""What every predictor must do, whatever score, summary and guarantee it was made from."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal._base.arrays import Floats, as_alpha
from fedconformal.calibration.search import MAX_POINTS
from tests.contracts.tools import (
    ALPHAS,
    KINDS,
    SITES,
    certified_kinds,
    coverage_at,
    guarantee_examples,
    one_curve,
    probes,
    score_examples,
    true_counts,
)

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning"),
]  # a whole grid of them

CLASSES = 5
SIZES = (60, 35, 45)


def combinations(kinds: Iterable[str]) -> pytest.MarkDecorator:
    """Return pairs: every kind of summary with every guarantee and with every score."""
    scores, guarantees, names = score_examples(), guarantee_examples(), sorted(kinds)
    found = [
        (scores[(i + j) % len(scores)], kind, guarantee)
        for (i, kind), (j, guarantee) in product(enumerate(names), enumerate(guarantees))
    ]
    assert len({(repr(score), kind) for score, kind, _ in found}) == len(scores) * len(names)
    assert len({(kind, repr(guarantee)) for _, kind, guarantee in found}) == len(names) * len(guarantees)
    return pytest.mark.parametrize(
        ("score", "kind", "guarantee"),
        [pytest.param(*one, id=f"{one[0]!r}-{one[1]}-{one[2]!r}") for one in found],
    )


every_combination = combinations(KINDS)
certified_combination = combinations(certified_kinds())
certified_kind = pytest.mark.parametrize("kind", sorted(certified_kinds()))
every_guarantee = pytest.mark.parametrize("guarantee", guarantee_examples(), ids=repr)


@cache
def rows(size: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return probabilities with many ties (multiples of 1/16) and labels that follow them."""
    rng = np.random.default_rng(seed)
    probs = rng.multinomial(16, rng.dirichlet(np.full(CLASSES, 0.7), size=size)) / 16
    labels = np.array([rng.choice(CLASSES, p=row) for row in probs])
    return probs.astype(np.float32), labels


@cache
def scores_at(score: fc.Score) -> tuple[Floats, ...]:
    return tuple(score.evaluate(*rows(size, seed)) for seed, size in enumerate(SIZES))


@cache
def summaries(score: fc.Score, kind: str) -> tuple[fc.Summary, ...]:
    about: Any = {"kind": kind, "score": score, "model": "m1", "temperature": 1.5, "precision": "float32"}
    return tuple(
        fc.Summary.of_scores(part, alpha=0.1, site=site, **about)
        for part, site in zip(scores_at(score), SITES, strict=True)
    )


@cache
def calibration(
    score: fc.Score, kind: str, guarantee: fc.Guarantee, alpha: Any = 0.1, *, exact: bool = False
) -> fc.Predictor:
    return fc.calibrate(summaries(score, kind), alpha=alpha, guarantee=guarantee, exact=exact)


TEST_ROWS = rows(60, seed=99)


@every_combination
def test_p_values_above_alpha_are_the_set(score: fc.Score, kind: str, guarantee: fc.Guarantee) -> None:
    """So sets are nested in alpha."""
    predictor = calibration(score, kind, guarantee)
    p = predictor.predict_p(TEST_ROWS[0])
    assert np.array_equal(predictor.predict_set(TEST_ROWS[0]), predictor.predict_set(TEST_ROWS[0], alpha=0.1))
    assert p.dtype == np.float64
    assert p.shape == TEST_ROWS[0].shape
    assert ((p > 0) & (p <= 1)).all()
    reached = [1 - float(c) for c in np.unique(one_curve(predictor).promised / 10**15)]
    for alpha in [*ALPHAS, *np.unique(p[p < 1]).tolist(), *(a for a in reached if 0 < a < 1)]:
        limit = np.float64(alpha) if not isinstance(alpha, np.floating) else alpha
        sets = predictor.predict_set(TEST_ROWS[0], alpha=alpha, allow_empty=True)
        assert np.array_equal(p > limit, sets), alpha


@every_combination
def test_saving_and_loading_change_nothing(score: fc.Score, kind: str, guarantee: fc.Guarantee, tmp_path: Path) -> None:
    predictor = calibration(score, kind, guarantee)
    predictor.save(tmp_path / "p.json")
    again = fc.load(tmp_path / "p.json")
    assert (tmp_path / "p.json").read_bytes() == again.to_bytes() == predictor.to_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]
    assert again.score == predictor.score == score
    assert again.certificate == predictor.certificate
    assert repr(again) == repr(predictor)
    probs = TEST_ROWS[0]
    assert np.array_equal(again.predict_p(probs), predictor.predict_p(probs))
    for alpha in (None, 0.3, "0.05"):
        assert np.array_equal(again.predict_set(probs, alpha=alpha), predictor.predict_set(probs, alpha=alpha))
    assert again.evaluate(*TEST_ROWS) == predictor.evaluate(*TEST_ROWS)
    assert fc.verify(again, summaries(score, kind)) == []
    assert fc.verify(again, summaries(score, kind)[::-1]) == []


@every_combination
def test_the_curve_meets_the_certificate(score: fc.Score, kind: str, guarantee: fc.Guarantee) -> None:
    for alpha in (0.1, 0.3, 1 / 3, 0.07, 0.001):
        result = calibration(score, kind, guarantee, alpha)
        assert one_curve(result).threshold(as_alpha(alpha)) == result.threshold == result.certificate.limit
        assert len(one_curve(result).thresholds) <= MAX_POINTS
        if result.threshold < np.inf:
            assert coverage_at(one_curve(result), float(result.threshold)) >= 1 - as_alpha(alpha)
        assert result.certificate.status == ("certified" if KINDS[kind].certified else "estimated")


def exact_promise(guarantee: fc.Guarantee, scores: tuple[Floats, ...], q: float) -> Fraction:
    sizes = [len(part) for part in scores]
    counts = [int(true_counts(part, np.array([q]))[0]) for part in scores]
    return guarantee.bind(SITES, sizes).promised(counts, sizes)


@certified_combination
def test_the_curve_never_promises_too_much(score: fc.Score, kind: str, guarantee: fc.Guarantee) -> None:
    curve, rounded = (one_curve(calibration(score, kind, guarantee, exact=exact)) for exact in (True, False))
    for q in probes(np.unique(np.concatenate(scores_at(score)))).tolist():
        truth = exact_promise(guarantee, scores_at(score), q)
        assert coverage_at(rounded, q) <= coverage_at(curve, q) <= truth
        if kind == "exact":  # every step is there, so only the rounding is lost
            assert coverage_at(curve, q) > truth - Fraction(1, 10**15)


@every_guarantee
@certified_kind
def test_a_long_curve_is_cut_short_on_the_safe_side(kind: str, guarantee: fc.Guarantee) -> None:
    rng = np.random.default_rng(8)
    scores = tuple(rng.normal(size=size) for size in (1500, 900, 700))
    sites = [fc.Summary.of_scores(part, kind=kind, site=site) for part, site in zip(scores, SITES, strict=True)]
    result = fc.calibrate(sites, alpha=0.0371, guarantee=guarantee, exact=True)
    curve = one_curve(result)
    assert len(curve.thresholds) <= MAX_POINTS
    assert curve.threshold(as_alpha(0.0371)) == result.threshold
    for q in np.quantile(np.concatenate(scores), np.linspace(0, 1, 60)).tolist():
        assert coverage_at(curve, q) <= exact_promise(guarantee, scores, q)
    for usual in (0.01, 0.1, 0.5):  # the curve is exact at the usual alphas
        alone = fc.calibrate(sites, alpha=usual, guarantee=guarantee, exact=True)
        assert curve.threshold(as_alpha(usual)) == alone.threshold
