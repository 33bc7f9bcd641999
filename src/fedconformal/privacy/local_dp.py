"""Differential privacy without a trusted coordinator: noise is added before anything leaves the site.

Each site sends a histogram of its scores over a public grid, with discrete Laplace noise in every cell (OpenDP);
replacing a row moves one count from a cell to another, an L1 distance of two. The coordinator adds the histograms up
and takes the first candidate with r + t noisy counts up to it. The noise in a sum of n cells exceeds t with probability
at most exp(-v (t + 1)) M(v)^n for any v, M being the noise's moment generating function (Chernoff); so with t large
enough for all candidates together, coverage is at least (1 - gamma) r / (N + K). It is certified, and costs more than
a trusted coordinator: about sqrt(K B) / epsilon ranks instead of log(B) / epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal.errors import InputError
from fedconformal.guarantees import Mixture
from fedconformal.guarantees.base import as_decimal
from fedconformal.privacy.bit_order import keys_of
from fedconformal.privacy.dp import FAILURES, as_epsilon, as_grid
from fedconformal.privacy.extras import needing
from fedconformal.summaries.wire import MAX_SIZE, Name
from fedconformal.validation import Floats, as_alpha, as_name, as_scores

MAGIC = b"FCN1"
MOVED = 2
"""The L1 distance between the histograms of data sets that differ in one row."""


class NoisyHistogram(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """What a site sends: its name and number of scores, epsilon, the grid, and noisy counts in its cells."""

    site: Name
    size: Annotated[int, msgspec.Meta(ge=1, le=MAX_SIZE)]
    epsilon: Annotated[float, msgspec.Meta(ge=0.001, le=1000)]
    grid: Annotated[list[float], msgspec.Meta(min_length=2, max_length=2**12)]
    counts: Annotated[
        list[Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]], msgspec.Meta(min_length=2, max_length=2**12)
    ]

    def to_bytes(self) -> bytes:
        """Encode for the wire."""
        return MAGIC + msgspec.msgpack.encode(self)

    @staticmethod
    def from_bytes(data: bytes) -> NoisyHistogram:
        """Decode hostile bytes."""
        if data[: len(MAGIC)] != MAGIC:
            raise InputError("this is not a noisy histogram")
        try:
            found = msgspec.msgpack.decode(data[len(MAGIC) :], type=NoisyHistogram)
        except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError) as error:
            raise InputError(f"the noisy histogram cannot be decoded: {error}") from None
        as_grid(found.grid)
        as_name(found.site, "site")
        if len(found.grid) != len(found.counts) or found.to_bytes() != data:
            raise InputError("the noisy histogram is not in canonical form")
        return found


def local_grid() -> Floats:
    """Return fewer candidates than a trusted coordinator would use: every cell brings its own noise."""
    parts = [np.linspace(0, 0.9, 31), 1 - 0.1 * 2.0 ** (-np.arange(1, 17) / 2), np.linspace(1, 2, 17)]
    return np.append(np.unique(np.concatenate(parts).round(12)), math.inf)


def noisy_histogram(scores: ArrayLike, *, epsilon: Any, site: str, grid: ArrayLike | None = None) -> NoisyHistogram:
    """Count a site's scores in the cells of the grid and add noise; this is all that may leave the site.

    >>> found = noisy_histogram([0.1, 0.5, 0.9], epsilon=1, site="clinic-a", grid=[0.5, 1.0, math.inf])
    >>> found.size, len(found.counts)
    (3, 3)
    """
    budget, edges = as_epsilon(epsilon), as_grid(local_grid() if grid is None else grid)
    values = as_scores(scores)
    cells = np.searchsorted(keys_of(edges), keys_of(values), side="left")
    counts = np.bincount(cells, minlength=len(edges))
    noisy = _noise(budget)(counts.tolist())
    return NoisyHistogram(as_name(site, "site"), len(values), float(budget), edges.tolist(), [int(c) for c in noisy])


@lru_cache(maxsize=16)
def _noise(epsilon: Fraction) -> Any:
    with needing("dp"):
        import opendp.prelude as dp
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    scale = MOVED / float(epsilon)
    while True:
        mechanism: Any = dp.m.make_laplace(*space, scale=scale)
        if mechanism.map(MOVED) <= epsilon:
            return mechanism
        scale = math.nextafter(scale, math.inf)


class LocalRelease(msgspec.Struct, frozen=True, kw_only=True):
    """The threshold, and what is promised about it."""

    threshold: float
    coverage: float
    """At least (1 - failure) r / (N + K), which is 1 - alpha or more."""
    failure: float
    rank: int
    margin: int
    """t, the counts asked for on top of r."""


def calibrate_locally(histograms: Sequence[NoisyHistogram], *, alpha: Any = 0.1) -> LocalRelease:
    """Find a threshold that promises 1 - alpha to the mixture in proportion to n_k + 1; +inf if there are too few rows.

    >>> rows = np.arange(20_000) / 20_000
    >>> sites = [noisy_histogram(rows, epsilon=1, site=name) for name in ("a", "b")]
    >>> 0.9 <= calibrate_locally(sites).threshold < 0.95
    True
    """
    wanted, histograms = as_alpha(alpha), list(histograms)
    if not histograms or len({found.site for found in histograms}) < len(histograms):
        raise InputError("expected the noisy histograms of one or more sites, each once")
    first = histograms[0]
    for found in histograms:
        if (found.grid, found.epsilon) != (first.grid, first.epsilon):
            raise InputError(f"sites {first.site!r} and {found.site!r} used another grid or epsilon")
    sizes = [found.size for found in histograms]
    total = np.cumsum(np.sum([np.array(found.counts, dtype=object) for found in histograms], axis=0))
    # What is above the last finite candidate was counted without looking: +inf covers everything.
    candidates = len(first.grid) - 1
    choices = []
    for failure in FAILURES:
        rank = Mixture().rank(1 - (1 - wanted) / (1 - failure), sizes)
        if rank is not None and rank[0] <= rank[1]:
            margin = tail_margin(as_decimal(first.epsilon), len(sizes) * candidates, candidates, failure)
            choices.append((rank[0] + margin, rank[0], margin, failure))
    _, rank_, margin, failure = min(choices)
    reached = np.flatnonzero([count >= rank_ + margin for count in total[:candidates]])
    return LocalRelease(
        threshold=float(first.grid[int(reached[0])]) if len(reached) else math.inf,
        coverage=float((1 - failure) * Fraction(rank_, sum(sizes) + len(sizes))),
        failure=float(failure),
        rank=rank_,
        margin=margin,
    )


def tail_margin(epsilon: Fraction, terms: int, candidates: int, failure: Fraction) -> int:
    """Return t with candidates * P(noise of `terms` cells > t) <= failure, by the best of many v."""
    scale = MOVED / float(epsilon) * (1 + 1e-9)
    v = np.geomspace(1e-6, 0.999, 2000) / scale
    p = math.exp(-1 / scale)
    log_moment = 2 * math.log1p(-p) - np.log1p(-p * np.exp(v)) - np.log1p(-p * np.exp(-v))
    needed = (terms * log_moment + math.log(candidates / failure)) / v
    return math.ceil(float(needed.min()) * (1 + 1e-9))
