"""Intervals keep their promise, both ends, by exact conditional expectation: no simulation, no tolerance.

Given the n_k + 1 rows that a site has together with a test row, each of them is the test row with the same chance, at
every site. So the coverage given these bags is an average over all ways to leave one row out at each site, and it may
not be below the promise for any bags. The bags here differ strongly between sites, are small, and hold ties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.summaries import ranks
from fedconformal.summaries.exact import ExactSummary

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning")

Bags = tuple[tuple[float, ...], ...]
Found = tuple[float, float]
Rule = Callable[[Sequence[Sequence[float]]], Found]
"""From the scores of every site to the lower and the upper end."""


def bags_of(sizes: Sequence[int], seed: int) -> Bags:
    """Draw sites that differ: shifted up or down, wide or narrow, in steps so coarse that there are ties."""
    rng = np.random.default_rng(seed)
    shifts, widths = rng.permutation([-6, 0, 6])[: len(sizes)], rng.choice([0.5, 2, 5], len(sizes))
    found = zip(sizes, shifts, widths, strict=True)
    return tuple(tuple(np.round(shift + width * rng.normal(size=n + 1)).tolist()) for n, shift, width in found)


LONELY: Bags = (tuple(range(10)), (-50.0, -40.0), (-60.0, -45.0), (70.0, 60.0), (80.0, 90.0))
"""One large easy site, and hard sites of one row below and above it."""


def library(guarantee: fc.Guarantee, alpha: float, score: fc.Signed, kind: str = "exact") -> Rule:
    def rule(sites: Sequence[Sequence[float]]) -> Found:
        given = [
            fc.Summary.of_scores(site, kind=kind, score=score, site=str(k), alpha=alpha) for k, site in enumerate(sites)
        ]
        certificate = fc.calibrate(given, alpha=alpha, guarantee=guarantee, exact=True).certificate
        lower, upper = (promise for promise in certificate.promises if promise.site is None)
        return lower.limit, upper.limit

    return rule


def left_out(bags: Bags) -> Iterator[tuple[list[list[float]], list[float]]]:
    """Yield every way to leave one row out at each site: what is left, and the rows."""
    for places in product(*(range(len(bag)) for bag in bags)):
        rest = [[s for i, s in enumerate(bag) if i != place] for bag, place in zip(bags, places, strict=True)]
        yield rest, [bag[place] for bag, place in zip(bags, places, strict=True)]


def coverage(bags: Bags, rule: Rule) -> list[tuple[Fraction, Fraction, Fraction]]:
    """Return for each site how often its row is inside, not below the lower end, and not above the upper one."""
    inside = np.zeros((len(bags), 3), dtype=np.int64)
    for rest, rows in left_out(bags):
        low, high = rule(rest)
        inside += [(low <= s <= high, low <= s, s <= high) for s in rows]
    total = prod(map(len, bags))
    return [(Fraction(a, total), Fraction(b, total), Fraction(c, total)) for a, b, c in inside.tolist()]


def under(found: list[tuple[Fraction, Fraction, Fraction]], shares: Sequence[Fraction]) -> list[Fraction]:
    columns = zip(*found, strict=True)
    return [sum((w * c for w, c in zip(shares, column, strict=True)), Fraction(0)) for column in columns]


def by_rows(bags: Bags) -> list[Fraction]:
    """Return n_k / N; a bag is the n_k rows of a site and its next one."""
    return [Fraction(len(bag) - 1, sum(map(len, bags)) - len(bags)) for bag in bags]


def check(bags: Bags, rule: Rule, alpha: str, lower: str, mixtures: Sequence[Sequence[Fraction]]) -> None:
    """Demand the promise of the interval and of each end, under every mixture."""
    missed = Fraction(alpha) * Fraction(lower)
    found = coverage(bags, rule)
    for shares in mixtures:
        inside, above, below = under(found, shares)
        assert above >= 1 - missed, f"above the lower end {float(above)} is below"
        assert below >= 1 - Fraction(alpha) + missed, f"below the upper end {float(below)} is below"
        assert inside >= 1 - Fraction(alpha), f"inside {float(inside)} is below"


WEIGHTS = (0.5, 0.25, 0.25)
CASES: dict[str, tuple[fc.Guarantee, Callable[[Bags], list[list[Fraction]]]]] = {
    "by rows": (fc.Mixture(), lambda bags: [by_rows(bags)]),
    "uniform": (fc.Mixture(weights="uniform"), lambda bags: [[Fraction(1, len(bags))] * len(bags)]),
    "weights": (fc.Mixture(weights=WEIGHTS), lambda _: [[Fraction(w) for w in WEIGHTS]]),
    "one site": (fc.OneSite(site=1), lambda _: [[Fraction(k == 1) for k in range(3)]]),
    "every site": (fc.EverySite(), lambda bags: [[Fraction(k == j) for k in range(3)] for j in range(len(bags))]),
    "worst case": (
        fc.WorstCase(contamination=0.25),
        lambda bags: [[(3 * w + (k == j)) / 4 for k, w in enumerate(by_rows(bags))] for j in range(len(bags))],
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("alpha", "lower"), [("0.5", "0.5"), ("0.9", "0.4")])
def test_both_ends_keep_their_promise(case: str, alpha: str, lower: str) -> None:
    guarantee, mixtures = CASES[case]
    for seed in range(2):
        bags = bags_of((2, 3, 5), seed)
        rule = library(guarantee, float(alpha), fc.Signed(lower=float(lower)))
        check(bags, rule, alpha, lower, mixtures(bags))


def test_a_rank_summary_keeps_it_with_far_fewer_points_than_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "POINTS", 6)
    for seed in range(2):
        bags = bags_of((9, 12), seed)
        rule = library(fc.Mixture(), 0.5, fc.Signed(), "ranks")
        check(bags, rule, "0.5", "0.5", [by_rows(bags)])
        assert len(fc.Summary.of_scores(bags[1], score=fc.Signed(), alpha=0.5).points) <= 6


def naive(alpha: str, stand_ins: int, price: int = 0) -> Rule:
    """The rank of all scores together, from N and these stand-ins, and so much higher."""

    def rule(sites: Sequence[Sequence[float]]) -> Found:
        scores = sorted(s for site in sites for s in site)
        rank = -int(-(1 - Fraction(alpha) / 2) * (len(scores) + stand_ins) // 1) + price
        return (scores[-rank], scores[rank - 1]) if rank <= len(scores) else (-np.inf, np.inf)

    return rule


def test_a_rank_without_its_price_is_seen() -> None:
    """Red with ceil((1 - alpha) N), and with N for N + 1 at one site; one rank more is the library's."""
    check(LONELY, naive("0.6", 0, price=1), "0.6", "0.5", [by_rows(LONELY)])
    ours, rest = library(fc.Mixture(), 0.6, fc.Signed()), next(left_out(LONELY))[0]
    assert ours(rest) == naive("0.6", 0, price=1)(rest)
    bags = tuple(tuple(float(3 * i + k) for i in range(5)) for k in range(3))
    check(bags, naive("0.5", 0, price=1), "0.5", "0.5", [by_rows(bags)])
    with pytest.raises(AssertionError, match="is below"):
        check(bags, naive("0.5", 0), "0.5", "0.5", [by_rows(bags)])
    one = (tuple(float(i) for i in range(9)),)
    check(one, naive("0.5", 1), "0.5", "0.5", [[Fraction(1)]])
    with pytest.raises(AssertionError, match="is below"):
        check(one, naive("0.5", 0), "0.5", "0.5", [[Fraction(1)]])


def test_a_lower_end_one_rank_too_high_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ExactSummary.__neg__

    def one_more(self: ExactSummary) -> ExactSummary:
        """Leave out the score that is counted first, so that each count is reached one score too early."""
        found = honest(self)
        return ExactSummary(values=np.append(found.values[:1], found.values[:-1]), sizes=found.sizes)

    bags = tuple(tuple(float(i * 3 + k) for i in range(n + 1)) for k, n in enumerate((4, 6, 5)))
    rule = library(fc.Mixture(weights="uniform"), 0.5, fc.Signed())
    mixtures = [[Fraction(1, 3)] * 3]
    check(bags, rule, "0.5", "0.5", mixtures)
    monkeypatch.setattr(ExactSummary, "__neg__", one_more)
    with pytest.raises(AssertionError, match="lower end"):
        check(bags, rule, "0.5", "0.5", mixtures)


def test_a_new_site_is_covered_on_both_sides() -> None:
    """Given the rows of K + 1 sites, each is the new one with the same chance, and each of its rows the test row."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        sites = [np.round(rng.normal(rng.choice([-6, 0, 0, 6]), 2, n)).tolist() for n in (1, 2, 5, 3, 1, 4, 2)]
        rule = library(fc.NewSite(), 0.5, fc.Signed())
        found = np.array([Fraction(0)] * 3)
        for new, rows in enumerate(sites):
            low, high = rule([site for k, site in enumerate(sites) if k != new])
            for s in rows:
                found += np.array([low <= s <= high, low <= s, s <= high]) * Fraction(1, len(rows) * len(sites))
        assert (found >= [Fraction(1, 2), Fraction(3, 4), Fraction(3, 4)]).all()


def test_pac_splits_its_failure_over_the_ends() -> None:
    scores = np.random.default_rng(1).normal(size=300)
    parts = {"a": scores[:90], "b": scores[90:]}
    given = [fc.Summary.of_scores(part, kind="exact", score=fc.Signed(), site=site) for site, part in parts.items()]
    certificate = fc.calibrate(given, alpha=0.2, guarantee=fc.PAC(failure=0.1), exact=True).certificate
    rank = fc.PAC(failure=0.05).band(Fraction(1, 10), [90, 210]).rank or 0
    assert rank > (fc.PAC(failure=0.1).band(Fraction(1, 10), [90, 210]).rank or 0)
    lower, upper = certificate.promises
    assert (lower.rank, upper.rank) == (rank, rank)
    assert upper.threshold == np.sort(scores)[rank - 1]
    assert lower.threshold == np.sort(scores)[-rank]
    assert certificate.guarantee == {"name": "pac", "failure": 0.1}


def test_the_certificate_adds_up_both_ends() -> None:
    """N = 100: each end is rank 91 of 100, and covers 0.9 to 0.91; a miss is a miss of one end."""
    rng = np.random.default_rng(1)
    given = [fc.Summary.of_scores(rng.normal(size=n), kind="exact", score=fc.Signed(), site=str(n)) for n in (40, 60)]
    found = fc.calibrate(given, alpha=0.2, exact=True).certificate
    for end in found.promises:
        assert (end.rank, end.rank_out_of, end.coverage_at_least, end.coverage_at_most) == (91, 100, 0.9, 0.91)
    assert (found.coverage_at_least, found.coverage_at_most, found.target) == (
        0.8,
        0.82,
        "4/5",
    )
    assert fc.calibrate(given, alpha=0.01, exact=True).certificate.coverage_at_least == 1.0  # the whole line
