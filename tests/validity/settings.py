"""The sites on which the promises are tested: N is about 50, so that one rank is worth 2% of coverage.

Scores are negative, above one, heavy-tailed, tied; nothing may depend on their scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from scipy import stats

import fedconformal as fc
from tests.validity.promises import Promise, every_site, fcp, mixture, one_site, weighted_mixture, worst_case
from tests.validity.simulation import HalfAtOneHalf, Site, uniform

EASY, HARD = uniform(0, 1), uniform(2, 3)

# Four sites that can hardly be more different: negative, skewed, above one, without a mean.
DIFFERENT = (
    Site(stats.norm(-2, 1), 20),
    Site(stats.beta(1, 8), 12),
    Site(uniform(0.5, 1.5), 8),
    Site(stats.cauchy(), 6),
)

# Every calibration score of the hard sites is above the threshold, and so is every test score of theirs.
BIG_EASY_SITE = (Site(EASY, 41), *[Site(HARD, 1)] * 4)

# The mirror image: every score of the easy sites is below the threshold.
BIG_HARD_SITE = (Site(HARD, 41), *[Site(EASY, 1)] * 4)

PARETO = [Site(stats.pareto(1), 30), Site(stats.t(2), 12), Site(stats.beta(5, 1), 5)]

ALIKE_OR_NOT: dict[str, tuple[Sequence[Site], float]] = {
    "alike sites": ([Site(uniform(-1, 1), 9)] * 5, 0.2),
    "different sites": (DIFFERENT, 0.2),
    "different sites, 90%": (PARETO, 0.1),
    "sites that do not overlap": ([Site(EASY, 30), Site(HARD, 18)], 0.3),
    "one big easy site": (BIG_EASY_SITE, 0.2),
    "one big hard site": (BIG_HARD_SITE, 0.2),
}

MIXTURE: dict[str, Promise] = {name: mixture(*given) for name, given in ALIKE_OR_NOT.items()} | {
    "fifty sites of one row": mixture([Site(EASY, 1)] * 40 + [Site(HARD, 1)] * 10, 0.2),
    "one site": mixture([Site(stats.cauchy(), 49)], 0.1),
}

THEOREM_1: dict[str, Promise] = {name: fcp(*given) for name, given in ALIKE_OR_NOT.items()}

TIES: dict[str, Promise] = {
    "a coarse grid": mixture([Site(stats.randint(-2, 8), 25), Site(stats.randint(3, 12), 20)], 0.2, distinct=False),
    "half of the scores are equal": mixture([Site(HalfAtOneHalf(), 38), Site(EASY, 10)], 0.22, distinct=False),
}

WEIGHTS: dict[str, Promise] = {
    "uniform, lower end": weighted_mixture([Site(EASY, 24), Site(HARD, 9)], 0.6),
    "uniform, upper end": weighted_mixture([Site(HARD, 24), Site(EASY, 9)], 0.2),
    "uniform, different sites": weighted_mixture([Site(stats.norm(), 24), Site(stats.cauchy(1), 14)], 0.2),
    "given, lower end": weighted_mixture([Site(EASY, 44), Site(HARD, 1), Site(HARD, 1)], 0.2, ["0.9", "0.06", "0.04"]),
    "given, against the sizes": weighted_mixture(
        [Site(stats.norm(-2, 1), 4), Site(stats.beta(1, 8), 29), Site(uniform(-0.2, 1.5), 9)],
        0.3,
        ["0.1", "0.6", "0.3"],
    ),
    "given, one site without weight": weighted_mixture(
        [Site(uniform(0, 2), 19), Site(EASY, 19), Site(HARD, 10)], 0.2, ["0.4", "0.6", "0"]
    ),
}

ONE_SITE: dict[str, Promise] = {
    "the others are easier": one_site([Site(EASY, 80), Site(HARD, 39)], 0.1, site=1),
    "the others are harder": one_site([Site(stats.t(2), 39), Site(HARD, 7), Site(stats.cauchy(5), 1)], 0.2, site=0),
}

EVERY_SITE: dict[str, Promise] = {
    "one is harder": every_site([Site(EASY, 24), Site(HARD, 39)], 0.1),
    "all are different": every_site([Site(stats.norm(), 30), Site(stats.t(2), 30), Site(uniform(-3, 2), 24)], 0.2),
}

# Three sites that do not overlap much; the corners of each set of mixtures are written out.
APART = (Site(EASY, 20), Site(uniform(0.5, 2.5), 14), Site(HARD, 9))
SHARES = [Fraction(n, 43) for n in (20, 14, 9)]
UNITS = [[Fraction(int(j == k)) for j in range(3)] for k in range(3)]
NONE, FIFTH, HALF = Fraction(0), Fraction(1, 5), Fraction(1, 2)

WORST_CASE: dict[str, Promise] = {
    "contamination": worst_case(
        fc.WorstCase(contamination=0.2),
        APART,
        0.2,
        [[(1 - FIFTH) * w + FIFTH * u for w, u in zip(SHARES, unit, strict=True)] for unit in UNITS],
    ),
    "box": worst_case(
        fc.WorstCase(box=(0.2, (0.5, 0.6, 0.4))),
        APART,
        0.2,
        [
            [HALF, FIFTH, Fraction(3, 10)],
            [HALF, Fraction(3, 10), FIFTH],
            [FIFTH, Fraction(3, 5), FIFTH],
            [FIFTH, Fraction(2, 5), Fraction(2, 5)],
            [Fraction(2, 5), FIFTH, Fraction(2, 5)],
        ],
    ),
    "any mixture": worst_case(fc.WorstCase(), APART, 0.2, UNITS),
}

ALL: dict[str, dict[str, Promise]] = {
    "mixture": MIXTURE,
    "Theorem 1": THEOREM_1,
    "ties": TIES,
    "weights": WEIGHTS,
    "one site": ONE_SITE,
    "every site": EVERY_SITE,
    "worst case": WORST_CASE,
}
