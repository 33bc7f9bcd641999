"""Certificates: the promises of a predictor, their assumptions and the inputs of the computation."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from itertools import product
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import Floats, shares_of
from fedconformal._base.groups import ALL, column_of
from fedconformal._base.names import abbreviate, as_line
from fedconformal._version import __version__
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import MissRateBound
from fedconformal.scores import AnyScore, RegressionScore
from fedconformal.summaries import Provenance, Summary
from fedconformal.summaries.batch import SummaryBatch, names_of

MOST_WHY = 200
PLANNED = "planned renewal"
FAR = 10
"""A site is heavy with over half of all scores, or over `FAR` times the median; of two sites, `FAR` times the other."""
Threshold = float | Literal["inf", "-inf"]
PromiseKey = tuple[str | None, str | None, int | None, Literal["lower", "upper"] | None]
"""Site, group, class and end of an interval; None for no restriction."""
Json = dict[str, Any]
"""A JSON object, such as the name and the parameters of a score or a guarantee."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base class of the parts of a certificate: fields with their default value are not encoded."""


class SignatureRecord(_Record, frozen=True, kw_only=True):
    """The signature of a site and its public key, in hexadecimal digits."""

    site: str
    key: str
    signature: str


class SummaryRecord(_Record, frozen=True, kw_only=True, gc=False):
    """An input summary: sites, sizes, kind, and the SHA-256 of its bytes."""

    sites: tuple[str, ...]
    sizes: tuple[int, ...]
    kind: str
    sha256: str
    signature: SignatureRecord | None = None


class Promise(_Record, frozen=True, kw_only=True):
    """The threshold of one stratum and the coverage it promises."""

    site: str | None = None
    group: str | None = None
    class_index: int | None = None
    end: Literal["lower", "upper"] | None = None
    scores: int
    threshold: Threshold
    rank: int | None
    rank_out_of: int | None
    slack: float
    coverage_at_least: float
    coverage_at_most: float

    @classmethod
    def of(
        cls,
        threshold: float,
        scores: int,
        *,
        least: float,
        most: float = 1.0,
        slack: float = 1.0,
        rank: tuple[int | None, int | None] = (None, None),
        stratum: PromiseKey = (None, None, None, None),
    ) -> Promise:
        """Return the promise of a threshold, by default for all rows."""
        fields = (*stratum, scores, threshold_json(threshold), *rank, slack, least, most)
        return cls(**dict(zip(cls.__struct_fields__, fields, strict=True)))

    @property
    def limit(self) -> float:
        """The threshold as a number."""
        return float(self.threshold)

    @property
    def stratum(self) -> PromiseKey:
        """The stratum."""
        return self.site, self.group, self.class_index, self.end


class Statement(_Record, frozen=True, kw_only=True):
    """The promise in words."""

    promise: str
    assumption: str
    caveat: str
    conditions: str


class ProvenanceRecord(_Record, frozen=True, kw_only=True):
    """Provenance of the calibration scores."""

    score: Json | None = None
    class_names: int | list[str] | None = None
    """The names of the classes in order, or their number."""
    class_scores: list[Annotated[int, msgspec.Meta(ge=0)]] | None = None
    """Number of calibration scores per class, if classes take the place of sites."""
    model: str | None = None
    temperature: float | None = None
    precision: str | None = None
    """Floating-point type to which outputs are rounded before scoring."""
    calibration: str | None = None
    expires: str | None = None
    """Earliest last day of use of the summaries."""
    trained: bool = False
    """Whether the model was trained on calibration sites although the guarantee excludes that."""


class RiskRecord(_Record, frozen=True, kw_only=True):
    """A promise on losses: the limit on their mean, and the grid of thresholds."""

    limit: float
    bound: float
    points: int
    first: float
    last: float
    grid_sha256: str
    loss: tuple[str, tuple[bool | int | float, ...]] | None = None
    """Name and parameters of the loss, if the summaries contain them."""
    rising: bool = False
    safe: str | None = None
    """The action at +inf, whose loss never exceeds the limit, nor the loss at the last threshold."""


class RenewalRows(StrEnum):
    """Calibration rows of a successor; "watched" rows promise nothing, as outcomes decide when a watch stops."""

    new = "new"
    watched = "watched"


class Replacement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SHA-256 of the replaced predictor, the reason, and the kind of calibration rows of the new one."""

    sha256: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    why: str
    rows: RenewalRows

    def __post_init__(self) -> None:
        as_line(self.why, "why", MOST_WHY)
        if self.rows not in list(RenewalRows):
            meant = "expected 'new' or 'watched': has a watch counted rows that calibrate?"
            raise InputError(f"rows is {abbreviate(self.rows)}, {meant}", param="rows")

    @classmethod
    def of(cls, sha256: str, why: str | None, rows: Any) -> Replacement:
        """Return a replacement, by default for a planned renewal."""
        return cls(sha256=sha256, why=PLANNED if why is None else why, rows=rows)


class LeftOut(_Record, frozen=True, kw_only=True):
    """A known site that did not take part in the calibration, and is not covered by the promise."""

    site: str
    reason: str


class Certificate(_Record, frozen=True, kw_only=True):
    """The promises of a predictor, with their assumptions and inputs.

    It contains the target and the bounds of the theorem, but not the observed counts.

    Parameters
    ----------
    status
        "certified", or "estimated" if nothing is promised.
    statement
        The promise in words.
    alpha
        Miscoverage level; for losses, the limit on their mean divided by their bound.
    target
        Coverage at the required rank, or the limit on losses, as an exact fraction.
    guarantee
        Name and parameters of the guarantee.
    promises
        Threshold and coverage of each stratum.
    coverage_at_least, coverage_at_most
        Bounds on the coverage of all promises together.
    summaries, provenance
        The input summaries, and the origin of their scores.
    versions
        Versions of the software.
    risk, privacy
        For losses, the limit and the grid; for a private release, the claim and its scope.
    replaces, left_out
        The replaced predictor; known sites that did not take part.
    exact
        Whether thresholds and promise curves are exact and reveal calibration scores. Otherwise thresholds are rounded
        up, and `coverage_at_most` is the bound before rounding.

    Examples
    --------
    >>> import fedconformal as fc
    >>> certificate = fc.calibrate([fc.Summary.of_scores([0.1, 0.2, 0.3, 0.4], site="a")], alpha=0.25).certificate
    >>> certificate.status, certificate.threshold, certificate.coverage_at_most
    ('certified', 0.5, 0.8)
    """

    status: Literal["certified", "estimated"]
    statement: Statement
    alpha: float
    target: str
    guarantee: Json
    promises: list[Promise]
    coverage_at_least: float
    coverage_at_most: float
    summaries: list[SummaryRecord]
    provenance: ProvenanceRecord
    versions: dict[str, str]
    risk: RiskRecord | None = None
    privacy: Json | None = None
    replaces: Replacement | None = None
    left_out: list[LeftOut] | None = None
    exact: bool = False

    @property
    def sites(self) -> int:
        """The number of sites."""
        return sum(len(used.sizes) for used in self.summaries)

    @property
    def scores(self) -> int:
        """The number of calibration scores."""
        return sum(sum(used.sizes) for used in self.summaries)

    @property
    def class_names(self) -> int | list[str] | None:
        """The names of the classes in order, or their number."""
        return self.provenance.class_names

    @property
    def score(self) -> Json | None:
        """The score and its parameters."""
        return self.provenance.score

    @property
    def intervals(self) -> bool:
        """Whether the predictor returns intervals."""
        return self.score is not None and self.score.get("name") in registry.members(RegressionScore)

    @property
    def by(self) -> Literal["site", "group", "class"] | None:
        """Outermost kind of stratum with separate thresholds; None for a single threshold."""
        last = self.promises[-1]
        if last.site is not None:
            return "site"
        return "group" if last.group is not None else None if last.class_index is None else "class"

    @property
    def whole(self) -> list[Promise]:
        """The promises to all rows: one, or one per end of the intervals; empty by class or group."""
        return [promise for promise in self.promises if promise.stratum[:3] == (None, None, None)]

    @property
    def parts(self) -> dict[str | int, list[Promise]]:
        """The promises of each site, group or class, in order; empty for a single threshold."""
        parts: dict[str | int, list[Promise]] = {}
        for promise in self.promises:
            key = next((key for key in (promise.site, promise.group, promise.class_index) if key is not None), None)
            if key is not None:
                parts.setdefault(key, []).append(promise)
        return parts

    @property
    def slack(self) -> float:
        """Upper bound on the additional coverage caused by inexact summaries."""
        return sum(one.slack for one in self.whole) if self.whole else max(one.slack for one in self.promises)

    @property
    def threshold(self) -> float:
        """The largest threshold, which is valid for any row; for two ends, the upper one."""
        return max(one.limit for one in self.promises if one.site is None and one.end != "lower")

    @property
    def limit(self) -> float | Floats:
        """The threshold for all rows; an array by class or by group, of shape (groups, classes) by both."""
        if self.whole:
            return self.whole[-1].limit
        limits = np.array([[one.limit for one in part] for part in self.parts.values()])
        return limits[:, 0] if limits.shape[1] == 1 else limits

    @property
    def thresholds(self) -> Json:
        """Thresholds by name of the site, group, class or end; several as a tuple."""
        if self.by is None:
            return {str(one.end): one.limit for one in self.promises if one.end}
        names = self.class_names if isinstance(self.class_names, list) else range(len(self.promises))
        named = {
            str(names[key]) if isinstance(key, int) else key: [one.limit for one in part]
            for key, part in self.parts.items()
        }
        return {name: limits[0] if len(limits) == 1 else tuple(limits) for name, limits in named.items()}

    @property
    def limit_text(self) -> str:
        """The threshold as text: both of two ends, or the range over classes or groups."""
        if self.whole:
            return " to ".join(f"{one.limit:.6g}" for one in self.whole)
        limits = [one.limit for one in self.promises]
        return f"{min(limits):.6g} to {max(limits):.6g} by {self.by}"

    @property
    def group_columns(self) -> list[str]:
        """The columns that define the groups."""
        return sorted({column for one in self.promises if one.group and (column := column_of(one.group))})

    @property
    def heavy_sites(self) -> dict[str, float]:
        """Shares of the sites that dominate the others by their claimed numbers of scores."""
        guarantee, _, sizes = self.terms()
        if guarantee.sites_apart or len(sizes) < 2:
            return {}
        total = sum(sizes)
        # One of two sites always has at least half of the scores.
        most = FAR * min(sizes) if len(sizes) == 2 else min(total / 2, FAR * float(np.median(sizes)))
        if max(sizes) <= most:
            return {}
        return {name: n / total for name, n in zip(site_names(self.summaries), sizes, strict=True) if n > most}

    @property
    def watched(self) -> bool:
        """Whether nothing is promised because a monitor has counted calibration rows."""
        return self.replaces is not None and self.replaces.rows == "watched"

    def terms(self) -> tuple[Guarantee, list[str], list[int]]:
        """Return the guarantee, the names of the named sites, and the size of each site."""
        names = [site for used in self.summaries for site in used.sites]
        guarantee: Guarantee = registry.rebuild(self.guarantee, Guarantee)
        return guarantee, names, [n for used in self.summaries for n in used.sizes]

    def parties(self) -> tuple[Guarantee, list[str], list[int]]:
        """Return the bound guarantee, and names and sizes of its parties: the sites, or the classes."""
        guarantee, names, sizes = self.terms()
        class_scores, class_names = self.provenance.class_scores, self.class_names
        if guarantee.over_classes == (class_scores is None):
            raise InputError("the certificate is malformed: the scores of each class do not fit its guarantee")
        if class_scores is not None:
            sizes = class_scores
            names = class_names if isinstance(class_names, list) else [str(label) for label in range(len(sizes))]
        return guarantee.inner.bind(names, sizes), names, sizes

    def check_strata(self) -> None:
        """Refuse promises whose strata do not fit the guarantee and the score."""
        guarantee, _, _ = self.terms()
        self.parties()
        share = self.lower_share
        groups = list(dict.fromkeys(one.group for one in self.promises)) if guarantee.by_group else [None]
        by_class = guarantee.by_class and not guarantee.over_classes
        classes = {one.class_index for one in self.promises} - {None} if by_class else set()
        sites = site_names(self.summaries) if any(one.site is not None for one in self.promises) else []
        labels, ends = range(len(classes)) or [None], [None] if share is None else ["lower", "upper"]
        expected = product([None, *sites], groups, labels, ends)
        fits = (ALL in groups) == guarantee.by_group and bool(classes) == by_class and (guarantee.by_site or not sites)
        if not fits or [one.stratum for one in self.promises] != list(expected):
            raise InputError("the certificate is malformed: its promises do not fit its guarantee, sites and score")

    @property
    def lower_share(self) -> Fraction | None:
        """The share of alpha for the lower end of a two-sided score; None otherwise."""
        return None if self.score is None else registry.rebuild(self.score, AnyScore).lower_share

    def miss_rate_bounds(
        self, bound: Guarantee, alpha: Fraction, sizes: Sequence[int], failure: float
    ) -> list[MissRateBound]:
        """Bound the miss rate, simultaneously except with probability `failure`; bounds of two ends are added."""
        share = self.lower_share
        if share is None:
            return bound.miss_rate_bounds(alpha, sizes, failure)
        each, certified = bound.bind((), sizes, "end"), float(alpha) == self.alpha
        ends = [
            [one._replace(rate=0.0) if certified and math.isinf(promise.limit) else one for one in bounds]
            for promise, part in zip(self.whole, shares_of(alpha, share), strict=True)
            for bounds in [each.miss_rate_bounds(part, sizes, failure / 2)]
        ]
        return [low._replace(rate=min(1.0, low.rate + high.rate)) for low, high in zip(*ends, strict=True)]

    def without_promise(self) -> Certificate:
        """Return a copy with the status "estimated" and no promised coverage."""
        nothing = {"coverage_at_least": 0.0, "coverage_at_most": 1.0}
        promises = [msgspec.structs.replace(one, **nothing) for one in self.promises]
        return msgspec.structs.replace(self, status="estimated", promises=promises, **nothing)

    def replacing(self, replaced: Replacement) -> Certificate:
        """Return a copy that names the replaced predictor, without promise for rows counted by a monitor."""
        certificate = msgspec.structs.replace(self, replaces=replaced)
        return certificate.without_promise() if replaced.rows == "watched" else certificate

    def to_dict(self) -> Json:
        """Return plain lists, dicts, numbers and strings for JSON."""
        return msgspec.json.decode(msgspec.json.encode(self), type=Json)


def made_certificate(  # noqa: PLR0913
    *,
    guarantee: Guarantee,
    provenance: Provenance,
    summaries: Sequence[SummaryRecord],
    status: Literal["certified", "estimated"],
    alpha: float,
    target: Fraction,
    promises: list[Promise],
    statement: Statement,
    band: tuple[float, float] | None = None,
    class_scores: list[int] | None = None,
    risk: RiskRecord | None = None,
    privacy: Json | None = None,
) -> Certificate:
    """Compose a certificate from promises, their statement, and the provenance of the scores."""
    score, (least, most) = provenance.score, band or (promises[0].coverage_at_least, promises[0].coverage_at_most)
    return Certificate(
        status=status,
        statement=statement,
        alpha=alpha,
        target=str(target),
        guarantee=guarantee.to_dict(),
        promises=promises,
        coverage_at_least=least,
        coverage_at_most=most,
        summaries=list(summaries),
        provenance=ProvenanceRecord(
            score=None if score is None else score.to_dict(),
            class_names=list(provenance.classes) if isinstance(provenance.classes, tuple) else provenance.classes,
            class_scores=class_scores,
            model=provenance.model,
            temperature=provenance.temperature,
            precision=provenance.precision,
            calibration=provenance.calibration,
            expires=provenance.expires,
            trained=provenance.trained and guarantee.inner.untrained,
        ),
        versions=versions(),
        risk=risk,
        privacy=privacy,
    )


def records_of(batch: SummaryBatch) -> list[SummaryRecord]:
    """Return the records of the input summaries."""
    columns = zip(batch.sites, batch.sizes, batch.kinds, batch.digests, strict=True)
    return [SummaryRecord(sites=sites, sizes=sizes, kind=kind, sha256=digest) for sites, sizes, kind, digest in columns]


def band_of(promises: Sequence[Promise]) -> list[float]:
    """Return the coverage bounds of one promise, or of two ends together by the union bound."""
    bands = zip(*((one.coverage_at_least, one.coverage_at_most) for one in promises), strict=True)
    return [max(0.0, sum(ends) - len(promises) + 1) for ends in bands]


def site_names(summaries: Sequence[Summary | SummaryRecord]) -> list[str]:
    """Return the name of every site; unnamed sites are numbered."""
    return names_of([summary.sites for summary in summaries], [summary.sizes for summary in summaries])


def threshold_json(threshold: Any) -> Any:
    """Return a threshold, or several, for JSON, which has no infinity."""
    if isinstance(threshold, np.ndarray | list | tuple):
        return list(map(threshold_json, threshold))
    return float(threshold) if math.isfinite(threshold) else str(float(threshold))


def versions() -> dict[str, str]:
    """Return the versions of the software."""
    return {"fedconformal": __version__, "numpy": np.__version__, "python": platform.python_version()}
