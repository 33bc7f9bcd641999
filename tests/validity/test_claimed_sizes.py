"""Liars that see every score choose how many scores they claim: the honest sites are covered all the same.

All draws are calibrated side by side: sizes are the same in all of them, so a guarantee is asked about one threshold
of every draw at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Integers
from tests.contracts.tools import promised_many
from tests.validity.lies import MISSED, count_more, miscount
from tests.validity.simulation import Floats, Mean, mean

Lie = tuple[int, int]
"""Number of scores that a liar claims, and number of these below all others."""


def thresholds(guarantee: fc.Guarantee, alpha: str, honest: Sequence[Floats], lies: Sequence[Lie]) -> Floats:
    """Return the smallest honest score that promises enough in every draw; `honest` has (draws, n_k) of each site."""
    draws = len(honest[0])
    points = np.sort(np.concatenate(honest, axis=1), axis=1)
    points = np.concatenate([points, np.full((draws, 1), np.inf)], axis=1)
    sizes = [*(part.shape[1] for part in honest), *(size for size, _ in lies)]
    sent = np.repeat(np.array([low for _, low in lies], dtype=np.int64)[:, None], draws, axis=1)
    bound = guarantee.bind([f"s{k}" for k in range(len(sizes))], sizes)
    first, last = np.zeros(draws, dtype=np.int64), np.full(draws, points.shape[1] - 1)
    while (first < last).any():
        middle = (first + last) // 2
        q = np.take_along_axis(points, middle[:, None], axis=1)
        counts = np.concatenate([[np.count_nonzero(part <= q, axis=1) for part in honest], sent])
        enough = np.array([promised >= 1 - Fraction(alpha) for promised in promised_many(bound, counts, sizes)])
        last = np.where(enough, middle, last)
        first = np.where(enough, first, np.minimum(middle + 1, last))
    return np.take_along_axis(points, last[:, None], axis=1)[:, 0]


def lowest(
    guarantees: Sequence[fc.Guarantee], alpha: str, honest: Sequence[Floats], lies: Sequence[Sequence[Lie]]
) -> Floats:
    """Let the liars choose, draw by draw, what lowers the threshold most."""
    found = [thresholds(guarantee, alpha, honest, lie) for guarantee in guarantees for lie in lies]
    return np.asarray(np.min(found, axis=0))


def check_kept(coverage: Mean, target: float, one_rank: float) -> None:
    """Demand enough coverage, from a simulation that would see a rank."""
    average, tolerance = coverage
    assert tolerance < 0.6 * one_rank, f"a rank is not seen: {tolerance:.4f} against {one_rank:.4f}"
    assert average >= target - tolerance, f"{average:.4f} is below {target}"


LIARS, SIZE = 10, 20
CLAIMS = [[(claim, claim)] * LIARS for claim in (1, 3, 4, 6, 8, 19, 20, 21, 45, 2**32)]


def alike(sizes: Sequence[int], draws: int = 400) -> list[Floats]:
    """Draw uniform scores, whose coverage is the threshold."""
    rng = np.random.default_rng(21)
    return [rng.random((draws, n)) for n in sizes]


def check_alike_sites() -> None:
    """Thirty sites of twenty scores, ten of which claim what suits them."""
    guarantee = fc.QuantileOfQuantiles(liars=LIARS, least_scores=SIZE)
    check_kept(mean(lowest([guarantee], "0.1", alike([SIZE] * 20), CLAIMS)), 0.9, 1 / 21)


def check_alike_sites_of_many_sizes() -> None:
    """One of the honest sites is too small to count."""
    guarantee = fc.QuantileOfQuantiles(liars=3, least_scores=SIZE)
    honest = alike([*[20] * 8, 21, 22, 25, 19])
    lies = [[(claim, claim)] * 3 for claim in (1, 19, 20, 25, 2**32)]
    check_kept(mean(np.minimum(lowest([guarantee], "0.145", honest, lies), 1)), 0.855, 1 / 21)


def check_the_top_of_the_chain() -> None:
    """Every site names its largest score, and more than half of the names have to be below."""
    guarantee = fc.QuantileOfQuantiles(liars=3, least_scores=SIZE)
    assert guarantee.promised([SIZE] * 8 + [0] * 5, [SIZE] * 13) < Fraction("0.965")  # 5 and those of the liars
    lies = [[(claim, claim)] * 3 for claim in (1, 20, 2**32)]
    check_kept(mean(lowest([guarantee], "0.035", alike([SIZE] * 10), lies)), 0.965, 1 / 21)


def check_different_sites() -> None:
    """One big easy site, four hard ones of one score whose rows are all missed: coverage is no more than it must be."""
    rng = np.random.default_rng(22)
    easy = rng.random((400, 41))
    honest = [easy, *(2 + rng.random((400, 1)) for _ in range(4))]
    claims = (1, 60, 10**4, 590_000_000, 2**32)
    lies = [[(claim, claim * share // 100)] for claim in claims for share in (81, 86, 99, 100)]
    q = lowest([fc.Robust(liars=1)], "0.2", honest, lies)
    check_kept(mean((41 * np.minimum(q, 1) + 4 * np.clip(q - 2, 0, 1)) / 45), 0.8, 1 / 45)


CASES: list[tuple[Callable[[], None], type[fc.Guarantee], int]] = [
    (check_alike_sites, fc.QuantileOfQuantiles, 20),
    (check_alike_sites_of_many_sizes, fc.QuantileOfQuantiles, 12),
    (check_different_sites, fc.Robust, 1),
]


@pytest.mark.parametrize("check", [*(case[0] for case in CASES), check_the_top_of_the_chain])
def test_claims_do_not_lower_coverage(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize(("check", "kind", "sites"), CASES)
def test_a_rank_too_low_is_seen(
    monkeypatch: pytest.MonkeyPatch, check: Callable[[], None], kind: type[fc.Guarantee], sites: int
) -> None:
    count_more(monkeypatch, kind, slice(sites))
    with pytest.raises(AssertionError, match=MISSED):
        check()


def test_a_name_too_few_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the top of the chain a site more that has named its score is what a rank is elsewhere."""

    def one_more(counts: Integers, sizes: list[int]) -> Integers:
        more = counts.copy()
        columns = np.arange(counts.shape[1])
        first = np.argmax(counts[:10] < SIZE, axis=0)  # the first honest site that has not
        more[first, columns] = SIZE
        return more

    miscount(monkeypatch, fc.QuantileOfQuantiles, one_more)
    with pytest.raises(AssertionError, match=MISSED):
        check_the_top_of_the_chain()


def test_choosing_the_least_afterwards_breaks_it() -> None:
    """If the smallest size claimed were the least, liars would choose between chains: 0.892 at 0.9."""
    guarantees = [fc.QuantileOfQuantiles(liars=LIARS, least_scores=least) for least in (3, 4, 6, 8, SIZE)]
    average, tolerance = mean(lowest(guarantees, "0.1", alike([SIZE] * 20), [[(SIZE, SIZE)] * LIARS]))
    assert average + tolerance < 0.9
    assert average == pytest.approx(0.892, abs=0.005)
