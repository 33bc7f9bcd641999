"""Local differential privacy, without a trusted coordinator: noise is added before anything leaves the site.

Each site sends a histogram of its scores over a public grid with noise in every cell. The price is about sqrt(K B) /
epsilon ranks instead of log(B) / epsilon; `distributed_dp` needs the noise of one site only, in a sums session.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import msgspec
from numpy.typing import ArrayLike

from fedconformal._base.arrays import as_alpha, as_scores, keys_of
from fedconformal._base.names import as_name, check_name, name_key
from fedconformal._base.registry import build
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import SummaryRecord
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.dp import as_epsilon, as_grid, check_alike
from fedconformal.privacy.noise import MOST_CANDIDATES, in_cells, mechanism, noisy_grid, plan_noisy
from fedconformal.privacy.release import Inputs, certify_release, check_one_end
from fedconformal.summaries import Provenance
from fedconformal.summaries.format import MAX_SIZE, NOISY, NOTHING, Name, ProvenanceHeader
from fedconformal.summaries.provenance import UNKNOWN

Cells = msgspec.Meta(min_length=2, max_length=MOST_CANDIDATES)


class NoisyHistogram(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """Noisy counts of a site's scores in the cells of a public grid; `noisy_histogram` creates it.

    Parameters
    ----------
    site, size
        Name and number of rows of the site, which are public.
    epsilon
        Epsilon of the noise.
    grid, counts
        Upper edges of the cells, and the noisy count in each.
    header
        Encoded provenance of the scores.
    """

    name: ClassVar[str] = "noisy"

    site: Name
    size: Annotated[int, msgspec.Meta(ge=1, le=MAX_SIZE)]
    epsilon: Annotated[float, msgspec.Meta(ge=0.001, le=1000)]
    grid: Annotated[list[float], Cells]
    counts: Annotated[list[Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]], Cells]
    header: ProvenanceHeader = msgspec.field(default=NOTHING, name="provenance")

    def __str__(self) -> str:
        return f"site {self.site!r}"

    @property
    def provenance(self) -> Provenance:
        """Provenance of the scores."""
        return Provenance.from_header(self.header)

    def to_bytes(self) -> bytes:
        """Encode for the wire."""
        return NOISY + msgspec.msgpack.encode(self)

    @staticmethod
    def from_bytes(data: bytes) -> NoisyHistogram:
        """Decode untrusted bytes."""
        if data[: len(NOISY)] != NOISY:
            raise InputError("this is not a noisy histogram; make one with noisy_histogram", param="privacy")
        try:
            histogram = msgspec.msgpack.decode(data[len(NOISY) :], type=NoisyHistogram)
        except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError) as error:
            raise InputError(f"the noisy histogram cannot be decoded: {error}") from None
        as_grid(histogram.grid)
        check_name(histogram.site, "site")
        as_epsilon(histogram.epsilon)
        _ = histogram.provenance
        if len(histogram.grid) != len(histogram.counts) or histogram.to_bytes() != data:
            raise InputError("the noisy histogram is not in canonical form")
        return histogram


def noisy_histogram(
    scores: ArrayLike, *, epsilon: Any, site: str, grid: ArrayLike | None = None, provenance: Provenance | None = None
) -> NoisyHistogram:
    """Count a site's scores in the cells of a public grid, with noise; nothing else may leave the site.

    Parameters
    ----------
    scores
        The calibration scores of the site.
    epsilon
        Epsilon of the differential privacy of one row.
    site
        Name of the site.
    grid
        Public candidates for the threshold, increasing up to +inf; the same at all sites.
    provenance
        Provenance of the scores.

    Returns
    -------
    NoisyHistogram

    Examples
    --------
    >>> histogram = noisy_histogram([0.1, 0.5, 0.9], epsilon=1, site="clinic-a", grid=[0.5, 1.0, math.inf])
    >>> histogram.size, len(histogram.counts)
    (3, 3)
    """
    budget, edges = as_epsilon(epsilon), as_grid(noisy_grid() if grid is None else grid, MOST_CANDIDATES)
    values = as_scores(scores)
    noisy = mechanism("laplace", budget)(in_cells(keys_of(values), edges).tolist())
    return NoisyHistogram(
        site=as_name(site, "site"),
        size=len(values),
        epsilon=float(budget),
        grid=edges.tolist(),
        counts=[int(count) for count in noisy],
        header=(provenance or UNKNOWN).to_header(),
    )


def calibrate_locally(
    histograms: Sequence[NoisyHistogram], *, alpha: Any = 0.1, guarantee: Guarantee | str = "mixture"
) -> Predictor:
    """Return a predictor with coverage 1 - alpha from noisy histograms; its threshold is +inf if rows are too few."""
    miss_rate, histograms = as_alpha(alpha), list(histograms)
    guarantee = check_alike(build(guarantee, Guarantee))
    if not histograms or len({name_key(histogram.site) for histogram in histograms}) < len(histograms):
        raise InputError("expected the noisy histograms of one or more sites, each once")
    first = histograms[0]
    for histogram in histograms:
        check_one_end(histogram.provenance.score, str(histogram))
        if (histogram.grid, histogram.epsilon) != (first.grid, first.epsilon):
            raise InputError(f"sites {first.site!r} and {histogram.site!r} used another grid or epsilon")
        if difference := first.provenance.difference(histogram.provenance):
            raise InputError(f"sites {first.site!r} and {histogram.site!r} do not go together: {difference}")
    sizes = [histogram.size for histogram in histograms]
    epsilon, grid = as_epsilon(first.epsilon), as_grid(first.grid)
    plan = plan_noisy(guarantee, miss_rate, sizes, epsilon, grid, strength=Fraction(len(histograms)))
    threshold = math.inf
    if plan is not None:
        counts = [sum(cell) for cell in zip(*(histogram.counts for histogram in histograms), strict=True)]
        threshold = plan.threshold(counts, sum(sizes))
    records = [
        SummaryRecord(sites=(h.site,), sizes=(h.size,), kind=h.name, sha256=hashlib.sha256(h.to_bytes()).hexdigest())
        for h in histograms
    ]
    return certify_release(
        threshold,
        plan,
        Inputs(alpha=miss_rate, guarantee=guarantee, records=records, provenance=first.provenance),
        definition="pure differential privacy of what each site sends, by OpenDP's discrete Laplace noise in each cell",
        epsilon=epsilon,
        grid=grid,
        margin=None if plan is None else int(plan.margins.max()),
    )
