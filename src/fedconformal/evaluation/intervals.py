"""95% intervals of the coverage on test rows: Clopper and Pearson (1934) for independent rows, else clustered.

For clusters, Korn and Graubard, "Confidence intervals for proportions with small expected number of positive counts
estimated from survey data", 1998: with the smaller of two effective sample sizes, as the linearised variance is too
small if the few clusters that were missed happen to be small ones. The other is from the intraclass correlation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, Integers

CONFIDENCE = 0.95


def clopper_pearson(
    hits: Integers | Floats, trials: Integers | Floats, *, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats]:
    """Return the interval of success rates that these counts, whole or not, do not rule out.

    >>> low, high = clopper_pearson(np.array([9, 10]), np.array([10, 10]))
    >>> low.round(4), high.round(4)
    (array([0.555 , 0.6915]), array([0.9975, 1.    ]))
    """
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    misses = trials - hits
    low = np.where(hits > 0, betaincinv(np.where(hits > 0, hits, 1), misses + 1, tail), 0.0)
    high = np.where(misses > 0, betaincinv(hits + 1, np.where(misses > 0, misses, 1), 1 - tail), 1.0)
    return low, high


def clustered_interval(
    covered: Booleans,
    clusters: Integers,
    *,
    sites: Integers | None = None,
    weights: Floats | None = None,
    confidence: float = CONFIDENCE,
) -> tuple[float, float] | None:
    """Return the interval of the coverage if clusters are independent; None if fewer than two of them count.

    With `weights`, which add up to one, it is that of the weighted mean over `sites`, numbered from 0, not of the mean
    over the rows. A cluster may have rows at several sites.

    >>> covered = np.repeat([True, True, True, True, False], 10)  # five patients, ten images each
    >>> [round(end, 3) for end in clustered_interval(covered, np.repeat(np.arange(5), 10))]
    [0.084, 1.0]
    >>> [round(end, 3) for end in clustered_interval(covered, np.arange(50))]
    [0.661, 0.901]
    """
    from scipy.special import stdtrit

    if not len(covered):
        return None
    if sites is None or weights is None:
        sites, weights = np.zeros(len(covered), dtype=np.int64), np.ones(1)
    cells = _Cells.of(covered, clusters, sites)
    rows, share = cells.rows, cells.hits / cells.rows
    alike = cells.alike()
    worth = rows / (1 + alike * (np.bincount(cells.site, cells.sizes**2) / rows - 1))
    near = (worth * share + 1) / (worth + 2)  # one hit and one miss more: at 0 and at 1 a share still varies
    spread, part = np.sqrt(near * (1 - near)), weights / rows
    # The variance of the mean if rows of a cluster are that much alike, wherever they are.
    pull = np.bincount(cells.cluster, (part * spread)[cells.site] * cells.sizes)
    if np.count_nonzero(pull) < 2:
        return None
    modelled = (1 - alike) * float(part**2 @ (rows * spread**2)) + alike * float(pull @ pull)
    centre = float(weights @ near)
    trials = centre * (1 - centre) / modelled
    # The linearised one: how far each cluster is from the mean of its sites.
    few = np.sqrt(cells.clusters / np.maximum(1, cells.clusters - 1))
    off = np.bincount(cells.cluster, (few * part)[cells.site] * (cells.covered - cells.sizes * share[cells.site]))
    mean = min(1.0, float(weights @ share))
    if seen := float(off @ off):
        trials = min(trials, mean * (1 - mean) / seen)
    freedom = float(pull.sum() ** 2 / (pull @ pull)) - 1
    tail = (1 + confidence) / 2
    trials *= float(stdtrit(len(covered) - 1, tail) / stdtrit(freedom, tail)) ** 2
    if not trials > 0:  # one cluster outweighs all others: nothing is known
        return 0.0, 1.0
    low, high = clopper_pearson(np.array(mean * trials), np.array(trials), confidence=confidence)
    return float(low), float(high)


class _Cells(NamedTuple):
    """Rows counted by site and cluster."""

    site: Integers
    cluster: Integers
    sizes: Floats
    covered: Floats
    rows: Floats
    hits: Floats
    clusters: NDArray[np.intp]

    @classmethod
    def of(cls, covered: Booleans, clusters: Integers, sites: Integers) -> _Cells:
        names, number = np.unique(clusters, return_inverse=True)
        count = len(names)
        found, index = np.unique(sites * count + number, return_inverse=True)
        site = found // count
        return cls(
            site=site,
            cluster=found % count,
            sizes=np.bincount(index).astype(np.float64),
            covered=np.bincount(index, covered).astype(np.float64),
            rows=np.bincount(sites).astype(np.float64),
            hits=np.bincount(sites, covered).astype(np.float64),
            clusters=np.bincount(site),
        )

    def alike(self) -> float:
        """Return how alike rows of one cluster are: 0 as any rows, 1 all the same.

        How often two rows of a cluster differ is compared with how often two rows of its site do. Sites with one
        cluster say nothing of that.
        """
        several = self.clusters > 1
        cells = several[self.site]
        differ = float((self.covered * (self.sizes - self.covered))[cells].sum())
        pairs = float((self.sizes * (self.sizes - 1))[cells].sum())
        spare = self.clusters[several] / (self.clusters[several] - 1)
        varies = float((spare * self.hits[several] * (1 - self.hits[several] / self.rows[several])).sum())
        if not pairs or not varies:
            return 1.0
        return min(1.0, max(0.0, 1 - differ / pairs * float(self.rows[several].sum()) / varies))
