"""Contract checks for authors of scores, summary kinds and guarantees.

Each check raises `AssertionError` if a plug-in violates a property that calibration relies on. The default inputs are
fixed edge cases: ties, near ties, zeros, tiny and huge numbers, sites with one row.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base import registry
from fedconformal._base.arrays import Floats, as_alpha
from fedconformal.guarantees.guarantee import Counts, Guarantee, Shortfall, feasible, whole_type
from fedconformal.scores import Score
from fedconformal.summaries import Summary, pool

SIZES = ((1, 1, 1), (2, 60, 7), (40, 40, 40), (10**6, 30, 5 * 10**6))
ALPHAS = (0.001, 0.1, 1 / 3, 0.9)

__all__ = ["check_guarantee", "check_score", "check_summary"]


def check_score(score: Score, probs: ArrayLike | None = None) -> None:
    """Check a score of probabilities: calibration and prediction must compute identical scores, bit for bit.

    Parameters
    ----------
    score
        The score, with its parameters.
    probs
        (n, J) probabilities to use instead of the default inputs.

    Examples
    --------
    >>> import fedconformal as fc
    >>> check_score(fc.RAPS(penalty=0.1))
    """
    _check_value(score, Score)
    for inputs in _hard_probabilities() if probs is None else [np.asarray(probs)]:
        matrix = inputs.copy()
        matrix.setflags(write=False)
        scores = score.evaluate_all(matrix)
        assert scores.dtype == np.float64, "scores are float64"
        assert scores.shape == matrix.shape, "every label of every row has a score"
        assert np.isfinite(scores).all(), "scores are finite"
        _check_rows(score, matrix, scores)
        _check_sets(score, matrix, scores)
    assert score.evaluate_all(np.empty((0, 4))).shape == (0, 4)
    assert score.evaluate(np.empty((0, 4)), []).shape == (0,)


def check_summary(
    kind: str, scores: ArrayLike | None = None, more: ArrayLike | None = None, *, alpha: float | None = 0.1
) -> None:
    """Check a kind of summary: counts, encoding and pooling.

    Parameters
    ----------
    kind
        Name of the kind.
    scores, more
        Scores of two sites to use instead of the default inputs.
    alpha
        Miscoverage level around which the summary is most precise.

    Examples
    --------
    >>> check_summary("ranks")
    """
    summarize = partial(Summary.of_scores, kind=kind, alpha=alpha)
    inputs = _hard_scores() if scores is None or more is None else [np.asarray(scores), np.asarray(more)]
    for first, second in zip(inputs, inputs[1:] + inputs[:1], strict=True):
        site = summarize(first, site="a")
        pooled = pool([site, summarize(second, site="b")])
        assert (pooled.sizes, pooled.sites) == ((len(first), len(second)), ("a", "b"))
        for summary, values in ((site, first), (pooled, np.concatenate([first, second]))):
            check_counts(summary, values)
            check_bytes(summary)
        assert summarize(first[::-1], site="a").to_bytes() == site.to_bytes(), "the order of rows does not matter"
        zeros = summarize(np.zeros(len(first)))
        assert zeros.gap == site.gap, "the gap follows from the size"
        assert summarize(-np.zeros(len(first))).to_bytes() == zeros.to_bytes(), "-0.0 is 0.0"


def check_guarantee(guarantee: Guarantee, sizes: Counts | None = None, *, seed: int = 0) -> None:
    """Check a guarantee: promised coverage is non-decreasing in the counts and consistent with its bounds and advice.

    Parameters
    ----------
    guarantee
        The guarantee, for sites named a, b, c and so on.
    sizes
        Sizes of the sites, instead of the default inputs for three sites.
    seed
        Seed of the random counts.

    Examples
    --------
    >>> import fedconformal as fc
    >>> check_guarantee(fc.Mixture(weights=(0.5, 0.3, 0.2)))
    """
    _check_value(guarantee, Guarantee)
    rng = np.random.default_rng(seed)
    for some in SIZES if sizes is None else [tuple(sizes)]:
        held, full = list(some), np.array(some)[:, None]
        bound = guarantee.bind([chr(ord("a") + k) for k in range(len(held))], held)
        counts = np.sort(rng.integers(0, full + 1, size=(len(held), 9)), axis=1)
        columns = np.concatenate([np.zeros_like(full), counts, full], axis=1)
        promised = [bound.promised(column, held) for column in columns.T.tolist()]
        assert all(isinstance(coverage, Fraction) for coverage in promised), "coverage is an exact fraction"
        assert promised == sorted(promised), "the promise rises with the counts"
        assert promised[0] >= 0, "no promise is negative"
        assert promised[-1] < 1, "a finite threshold never promises certainty"
        group, promise = bound.grouped(held)
        assert promise(summed(columns, group, held)) == promised, "many counts at once promise the same"
        for alpha in map(as_alpha, ALPHAS):
            _check_band(bound, alpha, held, rng.integers(0, held).tolist())
            _check_shortfall(bound, alpha, held)


def summed(counts: NDArray[Any], group: NDArray[Any] | None, sizes: Counts) -> NDArray[Any]:
    """Return exact sums of the counts of the sites in each group."""
    index = np.zeros(len(counts), dtype=np.int64) if group is None else group
    sums: NDArray[Any] = np.zeros((int(index.max()) + 1, counts.shape[1]), dtype=whole_type(sum(sizes)))
    np.add.at(sums, index, counts)
    return sums


def _check_value(thing: Any, base: Any) -> None:
    assert isinstance(getattr(type(thing), "name", None), str), "it has a name"
    again = registry.rebuild(thing.to_dict(), base)
    assert (type(again), again) == (type(thing), thing), "a description rebuilds the value"
    assert hash(again) == hash(thing), "equal values have equal hashes"
    assert type(thing).__dataclass_params__.frozen, "it is a frozen dataclass"


def _check_rows(score: Score, matrix: NDArray[Any], scores: Floats) -> None:
    truth = np.arange(len(matrix)) % matrix.shape[1]
    own = scores[np.arange(len(matrix)), truth]
    assert _same_bits(score.evaluate(matrix, truth), own), "of_labels and of_all agree"
    alone = [score.evaluate(row[None], [label]) for row, label in zip(matrix, truth, strict=True)]
    assert _same_bits(np.concatenate(alone), own), "a row scores the same by itself"
    assert _same_bits(score.evaluate_all(matrix[::-1]), scores[::-1]), "the order of rows does not matter"
    narrow, wide = (score.evaluate_all(matrix.astype(np.float32).astype(kind)) for kind in (np.float32, np.float64))
    assert _same_bits(narrow, wide), "float32 and its float64 copy agree"


def _check_sets(score: Score, matrix: NDArray[Any], scores: Floats) -> None:
    """Check that sets hold the labels that score at most the threshold, and the top label unless `allow_empty`."""
    values = np.unique(scores)
    picked = values[np.linspace(0, len(values) - 1, 7).astype(int)]
    limits = np.concatenate([picked, np.nextafter(picked, -np.inf), [-math.inf, math.inf]])
    for q in (*limits, np.resize(limits, matrix.shape[1])):  # the last has one threshold per class
        sets = score.predict_set(matrix, q, allow_empty=True)
        assert _same_bits(sets, scores <= q), "a set holds the labels that score at most the threshold"
        sets[np.arange(len(matrix)), matrix.argmax(axis=1)] = True
        assert _same_bits(score.predict_set(matrix, q), sets), "the most probable label is never left out"


def check_counts(summary: Summary, scores: Floats) -> None:
    """Check the bounds at every possible jump of the count; a kind that is not certified need only be consistent."""
    with np.errstate(over="ignore"):
        beside = [np.nextafter(scores, -np.inf), np.nextafter(scores, np.inf)]
    q = np.unique(np.concatenate([scores, *beside, summary.points, [-np.inf, 0.0, np.inf]]))
    lower, upper = summary.bounds(q)
    truth = np.searchsorted(np.sort(scores), q, side="right")
    assert summary.n == len(scores)
    assert lower.dtype == upper.dtype == np.int64, "counts are int64"
    assert (np.diff([lower, upper]) >= 0).all(), "counts rise"
    assert ((lower <= upper) & (upper - lower <= summary.gap)).all(), "the gap bounds the difference"
    assert (lower[0], lower[-1], upper[-1]) == (0, len(scores), len(scores)), "counts rise from 0 to n"
    assert not summary.certified or ((lower <= truth) & (truth <= upper)).all(), "certified bounds contain the count"
    points = summary.points
    assert (points[1:] >= points[:-1]).all(), "points rise"
    assert points[-1] == scores.max(), "the largest score is a point"
    last = np.append(points[1:] != points[:-1], True)  # of equal points
    assert np.array_equal(summary.lower_counts[last], summary.bounds(points)[0][last]), "lower counts are the bounds"


def check_bytes(summary: Summary) -> None:
    """Check that the decoded message is the same summary, and encodes to the same bytes."""
    data = summary.to_bytes()
    again = Summary.from_bytes(data)
    assert type(again) is type(summary)
    assert again.to_bytes() == data, "a message encodes to the same bytes"
    for field in ("sizes", "sites", "provenance", "n", "gap", "skipped"):
        assert getattr(again, field) == getattr(summary, field), f"{field} is encoded"
    assert _same_bits(again.points, summary.points), "points are encoded"
    assert np.array_equal(again.bounds(again.points), summary.bounds(summary.points)), "bounds are encoded"


def _check_band(bound: Guarantee, alpha: Fraction, sizes: Counts, gaps: Counts) -> None:
    """Check that the ends of the band are in order, and that no smaller rank suffices."""
    exact, rough = bound.band(alpha, sizes), bound.band(alpha, sizes, gaps)
    assert rough == exact._replace(most=rough.most, slack=rough.slack), "gaps change the upper end and the slack only"
    assert 1 - alpha <= exact.least <= exact.most <= rough.most <= 1, "the ends of the band are in order"
    assert exact.slack == 0 <= rough.slack <= 1, "exact counts have no slack"
    if exact.rank is None:
        return
    assert bound.promised(_filled(bound, exact.rank - 1, sizes), sizes) < 1 - alpha, "no smaller rank is enough"
    if feasible(bound, alpha, sizes):
        assert bound.promised(_filled(bound, exact.rank, sizes), sizes) >= exact.least, "the rank is enough"


def _filled(bound: Guarantee, rank: int, sizes: Counts) -> list[int]:
    """Return counts that sum to the rank, or reach it at each site if every site has its own rank."""
    if bound.sites_apart:
        return [min(rank, n) for n in sizes]
    before = np.cumsum([0, *sizes[:-1]]).tolist()
    return [min(n, max(0, rank - start)) for n, start in zip(sizes, before, strict=True)]


def _check_shortfall(bound: Guarantee, alpha: Fraction, sizes: Counts) -> None:
    found = bound.missing(alpha, sizes)
    if feasible(bound, alpha, sizes):
        assert found == Shortfall(), "a feasible promise lacks nothing"
    elif found.sites:
        assert feasible(bound, alpha, [*sizes, *[1] * found.sites])
        assert not feasible(bound, alpha, [*sizes, *[10**6] * (found.sites - 1)])
    elif found.parameter:
        name, stated, needed = found.parameter
        assert getattr(bound, name) == stated < needed
        enough, short = (dataclasses.replace(bound, **{name: number}) for number in (needed, needed - 1))
        assert feasible(enough, alpha, [max(n, needed) for n in sizes])
        assert not feasible(short, alpha, [max(n, needed - 1) for n in sizes])
    else:
        more = {0: found.anywhere} if found.anywhere else found.scores
        assert min(more.values(), default=0) > 0, "an infeasible promise names the missing scores"
        assert feasible(bound, alpha, [n + more.get(k, 0) for k, n in enumerate(sizes)])
        assert not feasible(bound, alpha, [n + max(0, more.get(k, 0) - 1) for k, n in enumerate(sizes)])


def _same_bits(left: NDArray[Any], right: NDArray[Any]) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def _hard_probabilities() -> Iterable[NDArray[Any]]:
    """Yield probabilities in both precisions: spread, tied, nearly tied, uniform, degenerate and tiny."""
    rng = np.random.default_rng(0)
    for classes in (1, 2, 5, 40, 130):
        flat = np.full((1, classes), 1 / classes)
        spread = rng.dirichlet(np.full(classes, 0.2), size=5)
        tied = rng.multinomial(3 * classes, flat[0], size=5) / (3 * classes)
        odd = rng.choice([0.0, 1e-320, 1e-40, 1e-12, 0.1, 1.0, 1.0 + 1e-13], size=(5, classes))
        odd[:, 0] = 1.0
        matrix = np.concatenate([spread, tied, odd / odd.sum(axis=1, keepdims=True), flat, np.eye(classes)[:2]])
        yield from (matrix, matrix.astype(np.float32))


def _hard_scores() -> list[Floats]:
    """Return the scores of several sites: one score, ties, huge and tiny numbers, and more scores than ranks."""
    rng = np.random.default_rng(0)
    odd = np.array([0.0, -3.5, 5e-324, -5e-324, 2.2e-308, 1e300, -1e300, 1.7e308, 1.001])
    few = [np.array([0.5]), odd, rng.random(60).round(1), np.full(99, -0.5), np.full(101, 0.5)]
    return [*few, rng.normal(size=999), rng.integers(0, 9, 3000) / 4, 1 - rng.random(5000) ** 9]
