"""Rank summaries: the stated gap is known from the sizes, whatever the scores and however they come in."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.summaries import ranks
from fedconformal.summaries.ranks import FINEST, KEEP, RankSummary
from tests.contracts.tools import checks

BATCHES = [(605, 534, 547, 848), (2000, 100, 3000), (10, 990, 30, 1500, 700), (5000, *[40] * 90), (900, *[900] * 20)]
ORDERS = ("random", "ascending", "descending", "from both ends", "from the middle", "drifting", "few values")
BYTES_A_POINT = 24


def scores_in_order(order: str, n: int) -> Floats:
    """Draw scores in an order that a summary may find hard."""
    rng = np.random.default_rng(n)
    ascending = np.sort(rng.beta(2, 1, n))
    inwards = np.empty(n)
    inwards[::2], inwards[1::2] = ascending[: (n + 1) // 2], ascending[::-1][: n // 2]
    orders = {
        "random": rng.permutation(ascending),
        "ascending": ascending,
        "descending": ascending[::-1],
        "from both ends": inwards,
        "from the middle": inwards[::-1],
        "drifting": np.cumsum(rng.normal(size=n)),
        "few values": rng.integers(0, 3000, n) / 3000,
    }
    return orders[order]


def grown(scores: Floats, sizes: Sequence[int], alpha: float | None = 0.1) -> Iterator[RankSummary]:
    """Summarise the first batch, extend by the others, and yield every summary on the way."""
    cuts = np.cumsum([0, *sizes])
    summary = None
    for start, stop in pairwise(cuts):
        batch = scores[start:stop]
        made = fc.Summary.of_scores(batch, alpha=alpha) if summary is None else summary.extend(batch)
        assert isinstance(made, RankSummary)
        summary = made
        yield summary


def check(summary: RankSummary, scores: Floats) -> None:
    """Compare the counts with the truth at every point and right before it: in between, neither bound changes."""
    q = np.concatenate([summary.values, np.nextafter(summary.values, -np.inf)])
    lower, upper = summary.bounds(q)
    truth = np.searchsorted(np.sort(scores), q, side="right")
    assert (lower <= truth).all()
    assert (truth <= upper).all()
    assert (upper - lower).max() <= summary.gap
    assert summary.count_at_most(scores.max()) == (len(scores), len(scores))
    assert fc.Summary.from_bytes(summary.to_bytes()).to_bytes() == summary.to_bytes()


@pytest.mark.parametrize("sizes", BATCHES)
def test_the_gap_of_an_extended_summary_does_not_depend_on_the_scores(sizes: tuple[int, ...]) -> None:
    gaps = set()
    for mode, (shift, width) in enumerate([(0.0, 1.0), (1.0, 1.0), (-1.0, 1.0), (0.5, 0.01), (0.0, 0.0)]):
        rng = np.random.default_rng(mode)
        summary = fc.Summary.of_scores(rng.random(sizes[0]), alpha=0.1)
        for i, size in enumerate(sizes[1:]):
            summary = summary.extend(rng.random(size) * width + shift * (i + 1))
        gaps.add(summary.gap)
    assert len(gaps) == 1


@pytest.mark.long
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sizes", [(3000,) * 100, (4000, *[7] * 400), (50, *[300] * 60), (100_000, *[3000] * 9)])
def test_the_slack_is_stated_and_small_however_often_a_site_grows(order: str, sizes: tuple[int, ...]) -> None:
    scores = scores_in_order(order, sum(sizes))
    first = fc.Summary.of_scores(scores[: sizes[0]], alpha=0.1).gap
    most = 0
    for summary in grown(scores, sizes):
        most = max(most, len(summary.values))
    check(summary, scores)
    assert most <= 2 * KEEP
    assert len(summary.to_bytes()) <= BYTES_A_POINT * 2 * KEEP + 100 < 50_000
    assert summary.gap <= summary.n // FINEST + max(0, first - sizes[0] // FINEST) + 1
    if len(sizes) == 100:
        assert summary.gap < summary.n / 200


@pytest.mark.long
@pytest.mark.parametrize(("order", "batches"), [("random", 10_000), ("from both ends", 2_500)])
def test_very_many_small_batches(order: str, batches: int) -> None:
    """In a good order, and in the worst known, which takes more points."""
    scores = scores_in_order(order, 100_000)
    most = 0
    for summary in grown(scores, [100_000 // batches] * batches):
        most = max(most, len(summary.values))
    check(summary, scores)
    assert summary.gap <= summary.n / 250
    assert most <= (2 * KEEP if order == "random" else FINEST * np.log2(summary.n / FINEST))


@given(st.lists(st.integers(1, 40), min_size=2, max_size=12), st.integers(0, 2**32 - 1), st.sampled_from([0, 3, 50]))
@checks(150)
def test_counts_stay_true_while_points_are_dropped(sizes: list[int], seed: int, distinct: int) -> None:
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    scores = rng.integers(0, distinct, n) / 4 if distinct else rng.normal(size=n) * rng.random(n) ** 9
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "KEEP", 4)
        patch.setattr(ranks, "FINEST", 3)
        *_, summary = grown(scores, sizes)
        check(summary, scores)


def test_points_are_dropped_only_when_there_are_too_many() -> None:
    scores = np.random.default_rng(0).random(2 * KEEP + 1)
    *_, all_there = grown(scores[:-1], [100, KEEP, KEEP - 100])
    assert (all_there.gap, len(all_there.values)) == (0, 2 * KEEP)
    dropped = all_there.extend(scores[-1:])
    assert dropped.gap == dropped.n // FINEST
    assert KEEP / 2 < len(dropped.values) <= KEEP


def test_a_wide_gap_of_a_file_from_elsewhere_does_not_grow_faster() -> None:
    wide = fc.Summary.of_scores(np.random.default_rng(0).random(10_000), alpha=0.1).extend([0.5]).thin(gap=4000)  # type: ignore[attr-defined]
    again = fc.Summary.from_bytes(wide.to_bytes())
    assert again.extend(np.random.default_rng(1).random(10_000)).gap == 4000 + 20_001 // FINEST - 10_001 // FINEST


def test_a_small_site_is_sent_whole() -> None:
    scores = np.random.default_rng(0).random(100)
    assert fc.Summary.of_scores(scores, alpha=0.1).gap == 0
    assert fc.Summary.of_scores(scores[:40]).extend(scores[40:]).gap == 0


def test_a_hundred_points_fit_in_900_bytes() -> None:
    for n in (500, 5_000, 1_000_000):
        scores = np.random.default_rng(n).random(n)
        summary = fc.Summary.of_scores(scores, alpha=0.1, score=fc.RAPS(), site="clinic-a")
        assert len(summary.to_bytes()) <= 900
