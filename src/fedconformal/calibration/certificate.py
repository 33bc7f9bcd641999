"""What was promised, under which assumption, from which inputs: a record that can be checked again."""

from __future__ import annotations

import math
import platform
import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import Floats, shares_of
from fedconformal._base.groups import column_of
from fedconformal._version import __version__
from fedconformal.calibration.replaced import Replaced
from fedconformal.calibration.sentence import promise_sentence, why_estimated
from fedconformal.certificates import text
from fedconformal.errors import HeavySiteWarning, InfeasibleWarning, InputError
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import MissRateBound
from fedconformal.scores import RegressionScore
from fedconformal.summaries import Provenance, Summary
from fedconformal.summaries.batch import names_of


class SummaryRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One summary that was used: who sent it, how many scores, and the SHA-256 of its bytes."""

    sites: tuple[str, ...]
    sizes: tuple[int, ...]
    kind: str
    sha256: str


class SignatureRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who signed a summary: the site, its public key, and the signature, both in hexadecimal digits."""

    site: str
    key: str
    signature: str


Threshold = float | Literal["inf"]


class ClassRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is promised to one class, where each has a threshold of its own."""

    label: int
    scores: int
    threshold: Threshold
    rank: int | None
    rank_out_of: int | None
    slack: float
    coverage_at_least: float
    coverage_at_most: float


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is promised to one group, where each has a threshold of its own; or one for each class in it."""

    group: str
    scores: int
    threshold: Threshold | list[Threshold]
    rank: int | None
    rank_out_of: int | None
    slack: float
    coverage_at_least: float
    coverage_at_most: float


class LowerEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the lower end of the intervals promises by itself, where it has a threshold and a share of alpha of its own.

    The threshold, rank and slack of the certificate are then those of the upper end, which may miss the rest of alpha.
    """

    alpha: float
    threshold: float | Literal["-inf"]
    rank: int | None
    rank_out_of: int | None
    slack: float
    coverage_at_least: float
    coverage_at_most: float


class SiteRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is promised to one site, where each has a threshold of its own, or one for each end of its intervals."""

    site: str
    scores: int
    threshold: Threshold
    rank: int | None
    rank_out_of: int | None
    slack: float
    coverage_at_least: float
    coverage_at_most: float
    lower: LowerEnd | None = None

    @property
    def limit(self) -> float | tuple[float, float]:
        """The threshold as a number, or the lower and the upper one."""
        return float(self.threshold) if self.lower is None else (float(self.lower.threshold), float(self.threshold))


class HeavySite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site that weighs far more than the others, because of the number of scores that it claims."""

    site: str
    share: float


class RiskRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a promise on losses is about: how large the mean may be, of which losses, on which grid of thresholds."""

    limit: float
    bound: float
    points: int
    first: float
    last: float
    grid_sha256: str
    loss: tuple[str, tuple[bool | int | float, ...]] | None = None
    """The name of the loss and its parameters, if the summaries say so."""
    rising: bool = False
    """Whether it need not fall along the grid."""
    safe: str | None = None
    """What to do where no threshold is good enough, in the words of who calibrated: what never loses more than the
    limit, nor than the last threshold."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site that is known of but not in the calibration, and why; the promise does not cover it."""

    site: str
    reason: str


class Certificate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is promised; it states the target and the theorem's band, never the count that came out."""

    format: Literal[1, 2] = 1
    status: Literal["certified", "estimated"]
    promise: str
    assumption: str
    caveat: str
    conditions: str = text.SETS.conditions
    alpha: float
    guarantee: dict[str, Any]
    threshold: Threshold | list[Threshold | list[Threshold]]
    """One, or one for each class, or for each group one or one for each class."""
    target: str
    rank: int | None
    rank_out_of: int | None
    sites: int
    scores: int
    slack: float
    coverage_at_least: float
    coverage_at_most: float
    score: dict[str, Any] | None
    seed: int | None
    model: str | None
    temperature: float | None
    summaries: list[SummaryRecord]
    versions: dict[str, str]
    classes: list[ClassRecord] | None = None
    """For a promise given the class."""
    privacy: dict[str, Any] | None = None
    """For a release with differential privacy or from sums only: what is claimed, and what is outside the claim."""
    signatures: list[SignatureRecord] | None = None
    """Who sent the summaries, where they were signed."""
    left_out: list[LeftOut] | None = None
    """Sites that dropped out or were refused, where an engine knows of them."""
    exact: Literal[True] | None = None
    """Whether thresholds and promise curve are as found, and show calibration scores. Else thresholds are rounded up,
    and the most that is covered is of those before that (public_grid.py)."""

    # Format 2 adds what follows; a certificate that needs none of it is of format 1.
    labels: int | list[str] | None = None
    """The number of classes, or their names in order."""
    precision: Literal["float32"] | None = None
    """What probabilities are rounded to before they are scored."""
    calibration: str | None = None
    """The id of the calibration that all summaries were made for."""
    expires: str | None = None
    """The last day of the first summary to expire."""
    """Sites whose summaries do not say what those of other sites say: classes, precision, calibration."""
    heavy_sites: list[HeavySite] | None = None
    """Sites that weigh far more than the others."""
    class_scores: list[Annotated[int, msgspec.Meta(ge=0)]] | None = None
    """The number of calibration scores of every class, where classes play the sites."""
    groups: list[GroupRecord] | None = None
    """For a promise to every group."""

    by_site: list[SiteRecord] | None = None
    """For a promise to every site; the threshold of the certificate is the largest of them."""
    lower: LowerEnd | None = None
    """The lower end of the intervals, where it has a threshold of its own."""
    risk: RiskRecord | None = None
    """For a promise on losses; coverage then stands for one minus the mean loss over its bound."""
    trained: Literal[True] | None = None
    """Whether the model was trained on sites that calibrated, where the promise needs one that was not."""
    replaces: Replaced | None = None
    """The predictor whose place this one takes, and why."""

    def __post_init__(self) -> None:
        needed = 1 if all(getattr(self, name) is None for name in FORMAT_2) else 2
        if self.format != needed:
            raise ValueError(f"the certificate is of format {self.format}, its content needs {needed}")

    @property
    def limit(self) -> float | Floats:
        """The threshold as a number, or as an array with one for each class or group, or a row for each group."""
        try:
            return (
                np.array(self.threshold, dtype=np.float64)
                if isinstance(self.threshold, list)
                else float(self.threshold)
            )
        except ValueError:
            raise InputError("the certificate is malformed: it has more thresholds for some groups") from None

    @property
    def thresholds(self) -> dict[str, Any]:
        """The threshold of every site, class or group, by its name; none if there is one for all."""
        if self.by_site is not None:
            return {record.site: record.limit for record in self.by_site}
        if self.groups is not None:
            return dict(zip((record.group for record in self.groups), np.asarray(self.limit), strict=True))
        return {text.class_called(record.label, self.labels): float(record.threshold) for record in self.classes or ()}

    @property
    def limit_text(self) -> str:
        """The threshold for people, or both where there are two."""
        lower = "" if self.lower is None else f"{float(self.lower.threshold):.6g} to "
        return lower + threshold_text(self.limit, "class" if self.groups is None else "group")

    @property
    def before_rounding(self) -> str:
        """What is to be said of the most that is covered: of thresholds that are rounded up it does not hold."""
        rounded = self.exact is None and self.privacy is None and self.coverage_at_most < 1
        return ", before thresholds are rounded up" if rounded else ""

    @property
    def group_columns(self) -> list[str]:
        """The columns that say which groups a row is in; none if the promise is not by group."""
        return sorted({column for record in self.groups or () if (column := column_of(record.group))})

    @property
    def intervals(self) -> bool:
        """Whether it is for intervals that hold a number, not for sets of labels."""
        return self.score is not None and self.score.get("name") in registry.members(RegressionScore)

    @property
    def why_estimated(self) -> str:
        """Why nothing is promised, where it is an estimate."""
        return why_estimated(self)

    def terms(self) -> tuple[Guarantee, list[str], list[int]]:
        """Return the guarantee, the names of the sites that have one, and how many scores each site has."""
        names = [site for used in self.summaries for site in used.sites]
        guarantee: Guarantee = registry.build(self.guarantee, Guarantee)
        if guarantee.by_group == (self.groups is None):
            raise InputError("the certificate is malformed: its groups do not fit its guarantee")
        if self.by_site is not None and not (
            guarantee.by_site and [record.site for record in self.by_site] == site_names(self.summaries)
        ):
            raise InputError("the certificate is malformed: its thresholds of sites do not fit its guarantee")
        return guarantee, names, [n for used in self.summaries for n in used.sizes]

    def parties(self) -> tuple[Guarantee, list[str], list[int]]:
        """Return what promises coverage, and by name and number of scores whom it counts: the sites, or the classes."""
        guarantee, names, sizes = self.terms()
        over_classes = guarantee.by_class and guarantee.inner is guarantee
        if over_classes == (self.class_scores is None):
            raise InputError("the certificate is malformed: the scores of each class do not fit its guarantee")
        if self.class_scores is not None:
            sizes = self.class_scores
            names = self.labels if isinstance(self.labels, list) else [str(label) for label in range(len(sizes))]
        return guarantee.inner.bind(names, sizes), names, sizes

    def miss_rate_bounds(
        self, bound: Guarantee, alpha: Fraction, sizes: Sequence[int], failure: float
    ) -> list[MissRateBound]:
        """Bound how often rows are missed, all bounds together but with probability `failure`.

        A value that misses an interval with two thresholds misses one of its ends. So the limits of both ends are
        added up, each end with its share of alpha and half of the failure; an end at infinity misses nothing.
        """
        if self.lower is None:
            return bound.miss_rate_bounds(alpha, sizes, failure)
        share = registry.build(self.score or {}, RegressionScore).lower_share
        if share is None:
            raise InputError("the certificate is malformed: it has a lower end, and its score has none")
        each, infinite = bound.bind((), sizes, "end"), float(alpha) == self.alpha
        ends = [
            [limit._replace(rate=0.0) if infinite and at in ("-inf", "inf") else limit for limit in limits]
            for at, part in zip((self.lower.threshold, self.threshold), shares_of(alpha, share), strict=True)
            for limits in [each.miss_rate_bounds(part, sizes, failure / 2)]
        ]
        return [low._replace(rate=min(1.0, low.rate + high.rate)) for low, high in zip(*ends, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dicts, numbers and strings, as JSON has them."""
        built: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return {field: value for field, value in built.items() if value is not None or field not in OPTIONAL}

    def sentence(self) -> str:
        """Say the promise in one sentence; of a predictor that replaces another, in a second one from which rows."""
        return promise_sentence(self) + ("" if self.replaces is None else f" {self.replaces.sentence()}")


FORMAT_2 = (
    "labels",
    "precision",
    "calibration",
    "expires",
    "heavy_sites",
    "class_scores",
    "groups",
    "by_site",
    "lower",
    "risk",
    "trained",
    "replaces",
)
OPTIONAL = ("classes", "privacy", "signatures", "left_out", "exact", *FORMAT_2)
"""Fields that are written only if there is something to say."""


FAR = 10
"""A site with more scores than this many times the median outweighs the others; one with more than half does too."""


def made_certificate(
    *, guarantee: Guarantee, origin: Provenance, summaries: Sequence[SummaryRecord], **found: Any
) -> Certificate:
    """Put a certificate together: the words of the guarantee, what the scores are from, and what was found."""
    score, sizes, sites = origin.score, [n for record in summaries for n in record.sizes], site_names(summaries)
    answers = text.answers_to(score)
    fields = {
        "promise": text.promise(guarantee, sites),
        "assumption": text.assumption(guarantee, sites),
        "caveat": text.caveat(guarantee, answers),
        "conditions": answers.conditions,
        "guarantee": guarantee.to_dict(),
        "score": None if score is None else score.to_dict(),
        "seed": getattr(score, "random_state", None) if getattr(score, "randomized", False) else None,
        "model": origin.model,
        "temperature": origin.temperature,
        "labels": list(origin.classes) if isinstance(origin.classes, tuple) else origin.classes,
        "precision": origin.precision,
        "calibration": origin.calibration,
        "expires": origin.expires,
        "trained": True if origin.trained and guarantee.inner.untrained else None,
        "sites": len(sizes),
        "scores": sum(sizes),
        "summaries": list(summaries),
        "versions": versions(),
        "heavy_sites": heavy_sites(guarantee, sites, sizes) or None,
        **found,
    }
    if isinstance(score, RegressionScore) and score.lower_share:
        fields["conditions"] += text.EVERY_LEVEL
    fields["format"] = 1 if all(fields.get(name) is None for name in FORMAT_2) else 2
    return Certificate(**fields)


def site_names(summaries: Sequence[Summary | SummaryRecord]) -> list[str]:
    """Name every site; those without a name are numbered."""
    return names_of([summary.sites for summary in summaries], [summary.sizes for summary in summaries])


def heavy_sites(guarantee: Guarantee, names: Sequence[str], sizes: Sequence[int]) -> list[HeavySite]:
    """Name the sites that weigh far more than the others because they claim that many scores.

    >>> from fedconformal import Mixture
    >>> heavy_sites(Mixture(), ["a", "b", "c"], [50, 50, 900])
    [HeavySite(site='c', share=0.9)]
    """
    if guarantee.sites_apart or len(sizes) < 2:
        return []
    total = sum(sizes)
    # Of two sites one always has half or more.
    most = FAR * min(sizes) if len(sizes) == 2 else min(total / 2, FAR * float(np.median(sizes)))
    if max(sizes) <= most:
        return []
    return [HeavySite(site=name, share=n / total) for name, n in zip(names, sizes, strict=True) if n > most]


def warn_of_sites(certificate: Certificate) -> None:
    """Warn of sites that outweigh the others, and of those that say less of their scores than others do."""
    for remark in remarks(certificate):
        warnings.warn(remark, stacklevel=3)


def remarks(certificate: Certificate) -> list[UserWarning]:
    """Say what is to be known of the sites in a certificate."""
    from fedconformal.evaluation.full import why_full  # which reads certificates

    found: list[UserWarning] = [*map(heavy_warning, certificate.heavy_sites or [])]
    claim = certificate.privacy or {}
    plain = claim.get("mode") == "sums" and "epsilon" not in claim and certificate.risk is None
    if plain and (why := why_full(certificate)):
        found.append(InfeasibleWarning(why))
    return found


def heavy_warning(heavy: HeavySite) -> HeavySiteWarning:
    """Say what it means that a site outweighs the others."""
    return HeavySiteWarning(text.heavy_site(heavy.site, heavy.share))


def threshold_json(threshold: float | Floats) -> Any:
    """Write a threshold, or one for each class or group, for JSON, which has no infinity."""
    if isinstance(threshold, np.ndarray):
        return [threshold_json(limit if isinstance(limit, np.ndarray) else float(limit)) for limit in threshold]
    return "inf" if threshold == math.inf else threshold


def threshold_text(threshold: float | Floats, by: str = "class") -> str:
    """Write a threshold for people; where there is one for each class or group, from the least to the largest.

    >>> threshold_text(0.25), threshold_text(np.array([0.5, np.inf, 0.25]))
    ('0.25', '0.25 to inf by class')
    """
    if isinstance(threshold, np.ndarray):
        return f"{threshold.min():.6g} to {threshold.max():.6g} by {by}"
    return f"{threshold:.6g}"


def versions() -> dict[str, str]:
    """Say which software made this."""
    return {"fedconformal": __version__, "numpy": np.__version__, "python": platform.python_version()}
