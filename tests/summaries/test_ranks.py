"""Rank summaries: the stated gap is known from the sizes, whatever the scores and however they come in."""

import numpy as np
import pytest

import fedconformal as fc

BATCHES = [(605, 534, 547, 848), (2000, 100, 3000), (10, 990, 30, 1500, 700)]


@pytest.mark.parametrize("sizes", BATCHES)
def test_the_gap_of_an_extended_summary_does_not_depend_on_the_scores(sizes: tuple[int, ...]) -> None:
    gaps = set()
    for mode, (shift, width) in enumerate([(0.0, 1.0), (1.0, 1.0), (-1.0, 1.0), (0.5, 0.01), (0.0, 0.0)]):
        rng = np.random.default_rng(mode)
        summary = fc.summarize(rng.random(sizes[0]), alpha=0.1)
        for i, size in enumerate(sizes[1:]):
            summary = summary.extend(rng.random(size) * width + shift * (i + 1))
        gaps.add(summary.gap)
    assert len(gaps) == 1


def test_a_small_site_is_sent_whole() -> None:
    scores = np.random.default_rng(0).random(100)
    assert fc.summarize(scores, alpha=0.1).gap == 0
    assert fc.summarize(scores[:40]).extend(scores[40:]).gap == 0


def test_a_hundred_points_fit_in_850_bytes() -> None:
    for n in (500, 5_000, 1_000_000):
        scores = np.random.default_rng(n).random(n)
        summary = fc.summarize(scores, alpha=0.1, score=fc.RAPS(), site="clinic-a")
        assert len(summary.to_bytes()) <= 850
