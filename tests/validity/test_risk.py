"""Expected losses stay at or below the limit, for every guarantee that takes losses: exactly, on sites that differ.

Each site draws its rows from a few loss curves with known chances. All draws of all sites are gone through, the chosen
threshold is looked up, and its mean loss for the rows that are promised something is averaged in fractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.guarantees.mixture import SumTerms
from fedconformal.summaries import LossSummary
from tests.contracts.tools import maybe_infeasible

Curve = tuple[float, ...]
Law = dict[Curve, Fraction]
"""The loss curves that a row may have, and how often."""

GRID = (1.0, 2.0, 3.0, 4.0)
BY_HAND: list[list[Curve]] = [
    [(1, 0.5, 0.25, 0), (1, 1, 0, 0), (0.5, 0.25, 0, 0)],
    [(1, 1, 0.5, 0), (1, 0.75, 0.5, 0.25)],
]
"""Two sites, whose bounds were worked out by hand."""


def third(*curves: Curve) -> Law:
    return dict.fromkeys(curves, Fraction(1, len(curves)))


EASY = third((0.25, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))
UNEVEN = third((1.0, 0.75, 0.0, 0.0), (1.0, 1.0, 0.5, 0.0), (0.5, 0.25, 0.25, 0.25))
HARD: Law = {(1.0, 1.0, 1.0, 0.0): Fraction(2, 3), (1.0, 1.0, 1.0, 1.0): Fraction(1, 3)}


def summaries(rows: Sequence[Sequence[Curve]]) -> list[LossSummary]:
    return [
        fc.LossSummary.of_losses(np.array(site), thresholds=GRID, site=name)
        for name, site in zip("abcdef", rows, strict=False)
    ]


def risks(guarantee: fc.Guarantee, sites: Sequence[fc.Summary], risk: float = 0.4) -> fc.Predictor:
    with maybe_infeasible():
        return fc.calibrate(sites, risk=risk, guarantee=guarantee, exact=True)


@pytest.mark.parametrize(
    ("guarantee", "last", "threshold"),
    [
        (fc.Mixture(), ["1.0000000000", "0.9000000000", "0.4500000000", "0.2500000000"], 4),  # (1.25 + B)/5 is 0.45
        (fc.Mixture(weights=(0.5, 0.5)), ["0.5416666667", "0.3125000000"], 4),  # + 1/4, as 1/8 + 1/6 is more
        (fc.NewSite(), ["0.5277777778", "0.3750000000"], 4),
        (fc.EverySite(), ["0.4166666667"], math.inf),
    ],
    ids=repr,
)
def test_bounds_by_hand(guarantee: fc.Guarantee, last: list[str], threshold: float) -> None:
    result = risks(guarantee, summaries(BY_HAND))
    assert [f"{found / 1e15:.10f}" for found in result.curve.promised[-len(last) :]] == last
    assert result.threshold == threshold


def draws(law: Law, rows: int) -> Iterator[tuple[list[Curve], Fraction]]:
    """Give every multiset of rows that a site may draw, and its chance."""
    for chosen in combinations_with_replacement(law, rows):
        orders = math.factorial(rows)
        for curve in set(chosen):
            orders //= math.factorial(chosen.count(curve))
        yield list(chosen), orders * math.prod((law[curve] for curve in chosen), start=Fraction(1))


def mean_loss(law: Law, threshold: float, risk: Fraction) -> Fraction:
    """Return the mean loss at a threshold; +inf is an action that loses as much as a safe one may."""
    total = Fraction(0)
    for curve, chance in law.items():
        loss = min(Fraction(curve[-1]), risk) if threshold == math.inf else Fraction(curve[GRID.index(threshold)])
        total += chance * loss
    return total


def mean_losses(
    laws: Sequence[Law], sizes: Sequence[int], guarantee: fc.Guarantee, risk: float, lies: Sequence[Curve] | None = None
) -> list[Fraction]:
    """Return each site's expected loss over all calibration draws; the last site may send what it likes."""
    limit, honest = Fraction(repr(risk)), len(laws)
    found = [Fraction(0)] * honest
    seen: dict[tuple[int, ...], float] = {}
    for rows in product(*(draws(law, size) for law, size in zip(laws, sizes, strict=True))):
        sent = [curves for curves, _ in rows] + ([list(lies)] if lies is not None else [])
        sites = summaries(sent)
        key = tuple(np.concatenate([site.units for site in sites]).tolist())
        if key not in seen:
            seen[key] = float(risks(guarantee, sites, risk).certificate.limit)
        chance = math.prod((p for _, p in rows), start=Fraction(1))
        found = [so_far + chance * mean_loss(law, seen[key], limit) for so_far, law in zip(found, laws, strict=True)]
    return found


FEDERATIONS = [
    pytest.param([EASY, HARD], [4, 1], id="a large easy site and a small hard one"),
    pytest.param([HARD, EASY], [4, 1], id="a large hard site and a small easy one"),
    pytest.param([UNEVEN, EASY, HARD], [2, 3, 2], id="three that differ"),
]
different = pytest.mark.parametrize(("laws", "sizes"), FEDERATIONS)
every_limit = pytest.mark.parametrize("risk", [0.45, 0.6])


def weighted(weights: Sequence[Fraction], losses: Sequence[Fraction]) -> Fraction:
    return sum((w * loss for w, loss in zip(weights, losses, strict=True)), start=Fraction(0))


def proportional(sizes: Sequence[int]) -> list[Fraction]:
    return [Fraction(n, sum(sizes)) for n in sizes]


@different
@every_limit
def test_the_mixture_loses_no_more(laws: list[Law], sizes: list[int], risk: float) -> None:
    limit, count = Fraction(repr(risk)), len(laws)
    assert weighted(proportional(sizes), mean_losses(laws, sizes, fc.Mixture(), risk)) <= limit
    uniform = mean_losses(laws, sizes, fc.Mixture(weights="uniform"), risk)
    assert weighted([Fraction(1, count)] * count, uniform) <= limit


@different
@every_limit
def test_each_site_loses_no_more(laws: list[Law], sizes: list[int], risk: float) -> None:
    limit = Fraction(repr(risk))
    assert max(mean_losses(laws, sizes, fc.EverySite(), risk)) <= limit
    assert max(mean_losses(laws, sizes, fc.WorstCase(), risk)) <= limit
    for k in range(len(laws)):
        assert mean_losses(laws, sizes, fc.OneSite(site=k), risk)[k] <= limit


@different
@every_limit
def test_the_worst_mixture_loses_no_more(laws: list[Law], sizes: list[int], risk: float) -> None:
    losses = mean_losses(laws, sizes, fc.WorstCase(contamination=0.2), risk)
    worst = Fraction(4, 5) * weighted(proportional(sizes), losses) + max(losses) / 5
    assert worst <= Fraction(repr(risk))
    losses = mean_losses(laws, sizes, fc.WorstCase(box=(0.1, 0.6)), risk)
    worst, left = sum(losses, start=Fraction(0)) / 10, 1 - Fraction(len(losses), 10)
    for loss in sorted(losses, reverse=True):  # as much as the box allows to the site that loses most
        more = min(left, Fraction(1, 2))
        worst, left = worst + more * loss, left - more
    assert worst <= Fraction(repr(risk))


@different
@every_limit
@pytest.mark.parametrize("lie", [(0.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)])
def test_honest_sites_lose_no_more(laws: list[Law], sizes: list[int], risk: float, lie: Curve) -> None:
    losses = mean_losses(laws, sizes, fc.Robust(liars=1), risk, lies=[lie] * 4)
    assert weighted(proportional(sizes), losses) <= Fraction(repr(risk))


def test_a_loss_without_its_price_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red with (sum of losses)/N <= a: three rows that are missed by the first 0 to 3 thresholds lose 3/8 at 0.34."""
    law = third(*(tuple(float(j < missed) for j in range(4)) for missed in range(4)))
    limit, sizes, shares = 0.34, [2, 1], [Fraction(2, 3), Fraction(1, 3)]
    assert weighted(shares, mean_losses([law, law], sizes, fc.Mixture(), limit)) <= Fraction(repr(limit))
    monkeypatch.setattr(fc.Mixture, "terms", lambda _, sizes: SumTerms(None, sum(sizes)))
    assert weighted(shares, mean_losses([law, law], sizes, fc.Mixture(), limit)) == Fraction(3, 8)


@every_limit
def test_a_fresh_site_loses_no_more(risk: float) -> None:
    """Sites are easy or hard, with two rows or one; all that four of them may be is gone through."""
    kinds, limit = [(EASY, 1), (HARD, 2), (UNEVEN, 1)], Fraction(repr(risk))
    found = Fraction(0)
    for chosen in combinations_with_replacement(range(3), 3):
        orders = math.factorial(3) // math.prod(math.factorial(chosen.count(k)) for k in set(chosen))
        laws, sizes = [kinds[k][0] for k in chosen], [kinds[k][1] for k in chosen]
        for rows in product(*(draws(law, n) for law, n in zip(laws, sizes, strict=True))):
            at = risks(fc.NewSite(), summaries([curves for curves, _ in rows]), risk).certificate.limit
            fresh = sum((mean_loss(law, float(at), limit) for law, _ in kinds), start=Fraction(0)) / 3
            found += Fraction(orders, 27) * math.prod((p for _, p in rows), start=Fraction(1)) * fresh
    assert found <= limit


@pytest.mark.parametrize(("laws", "sizes"), [([EASY, HARD], [10, 4]), ([UNEVEN, HARD], [3, 6])])
@pytest.mark.parametrize("risk", [0.45, 0.6, 0.75])
def test_few_calibrations_lose_more(laws: list[Law], sizes: list[int], risk: float) -> None:
    """Of all calibrations, at most a share of 0.2 have a mean loss above the limit."""
    limit, failed = Fraction(repr(risk)), Fraction(0)
    shares = [Fraction(n, sum(sizes)) for n in sizes]
    for rows in product(*(draws(law, size) for law, size in zip(laws, sizes, strict=True))):
        at = float(risks(fc.PAC(failure=0.2), summaries([curves for curves, _ in rows]), risk).certificate.limit)
        if weighted(shares, [mean_loss(law, at, limit) for law in laws]) > limit:
            failed += math.prod((p for _, p in rows), start=Fraction(1))
    assert failed <= Fraction(1, 5)


def miss_rate(shares: Sequence[int]) -> float:
    """Return the mean loss where one site has many easy rows and twenty have one hard row each."""
    rng, points = np.random.default_rng(0), np.arange(1000) / 1000
    weights, found = np.array(shares) / sum(shares), []
    hard = fc.LossSummary.of_losses(np.ones((1, 1000)), thresholds=points)
    for _ in range(40):
        easy = fc.LossSummary.of_losses(rng.random(1000)[:, None] > points, thresholds=points)
        at = risks(fc.Mixture(), [easy, *[hard] * 20], 0.1).certificate.limit
        found.append(weights @ np.append(1 - min(1.0, float(at)), np.ones(20)))
    return float(np.mean(found))


def test_one_virtual_row_serves_shares_by_rows() -> None:
    """B once in all; under shares n_k + 1, where a site of one row counts twice, the same rule loses .117."""
    assert miss_rate([1000, *[1] * 20]) == pytest.approx(0.1, abs=0.002)
    assert miss_rate([1001, *[2] * 20]) == pytest.approx(0.117, abs=0.002)


def with_safe_action(loses: Fraction, keeps: Fraction) -> Fraction:
    """Return the expected loss of one row at one threshold, which it loses at .6 of the time, or else of an action.

    The action loses so much on rows that lose at the threshold, and so much on the others.
    """
    often = Fraction(3, 5)
    kept = fc.calibrate([fc.LossSummary.of_losses([[0]], thresholds=[1])], risk=0.5, exact=True)
    assert kept.threshold == 1
    with pytest.warns(fc.InfeasibleWarning, match="cannot be promised at any threshold of the grid"):
        assert (
            fc.calibrate([fc.LossSummary.of_losses([[1]], thresholds=[1])], risk=0.5, exact=True).threshold == math.inf
        )
    return (1 - often) * often + often * (often * loses + (1 - often) * keeps)


def test_a_safe_action_loses_no_more_than_the_last_threshold() -> None:
    half = Fraction(1, 2)
    assert with_safe_action(loses=half, keeps=Fraction(0)) <= half
    assert with_safe_action(loses=half, keeps=half) == Fraction(54, 100)  # the limit, whatever the row
