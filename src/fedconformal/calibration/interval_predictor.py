"""A score of numbers and a promise curve: everything it takes to turn predictions into intervals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal import evaluation
from fedconformal._base import registry
from fedconformal._base.arrays import Booleans, Floats, as_alpha, as_array, one_a_row
from fedconformal._base.names import shown
from fedconformal.calibration.certificate import Certificate
from fedconformal.calibration.curve import (
    USUAL_ALPHAS,
    CurveFields,
    EndCurves,
    PromiseCurve,
    SiteFields,
    fields_of,
)
from fedconformal.calibration.document import Document, check_score
from fedconformal.calibration.membership import SiteCurves, check_sites, own_sites, read_sites, site_members
from fedconformal.certificates.text import guarantee_name
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.evaluation.full import lacks_ends
from fedconformal.scores import RegressionScore
from fedconformal.scores.regression_score import as_numbers

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
EXACT_LEVELS = sorted({level for alpha in USUAL_ALPHAS for level in (alpha, 1 - alpha)})
"""The curve of the upper end is exact at these."""


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the JSON file holds, field by field."""

    score: dict[str, Any] | None
    certificate: Certificate
    curve: CurveFields
    lower: CurveFields | None = None
    """Of the scores times -1, where the lower end has a curve of its own."""
    sites: list[SiteFields] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class IntervalPredictor(Document):
    """Turns a model's predictions into intervals that keep the certificate's promise.

    >>> from fedconformal import Residual, calibrate
    >>> from fedconformal import summarize
    >>> site = summarize([1.0] * 9, [1.25] * 8 + [3.0], score=Residual(), site="a")
    >>> predictor = calibrate([site], alpha=0.2)
    >>> predictor
    IntervalPredictor(Residual(), alpha=0.2, threshold=0.25, certified: mixture of 1 site)
    >>> predictor.predict_interval([2.0, 5.0])
    array([[1.75, 2.25],
           [4.75, 5.25]])
    """

    kind = "fedconformal interval predictor"

    certificate: Certificate
    curve: PromiseCurve | EndCurves
    site_curves: SiteCurves | None = None
    """The promise curve of every site, where each has a threshold of its own; `curve` is for rows of any site."""

    def __post_init__(self) -> None:
        if isinstance(self.certificate.threshold, list):
            raise InputError("the certificate is malformed: it has thresholds by class or group, as no interval")
        if (self.score.lower_share is None) != (self.certificate.lower is None):
            raise InputError("the certificate is malformed: its ends are not those of the score")
        if self.curve.threshold(as_alpha(self.certificate.alpha)) != self._certified:
            raise InputError("the promise curve and the certificate give different thresholds")
        check_sites(self.certificate, self.site_curves)

    @cached_property
    def score(self) -> RegressionScore:
        """The score that the summaries name."""
        if self.certificate.score is None:
            raise InputError("the summaries do not say which score of numbers they hold; summarise with score=")
        return registry.build(self.certificate.score, RegressionScore)

    @property
    def threshold(self) -> float | tuple[float, float]:
        """The certified threshold; the lower and the upper one if there are two."""
        return self._certified

    @property
    def _certified(self) -> float | tuple[float, float]:
        upper, lower = float(self.certificate.limit), self.certificate.lower
        return upper if lower is None else (float(lower.threshold), upper)

    def threshold_at(self, alpha: Any = None, *, site: str | None = None) -> float | tuple[float, float]:
        """Return the threshold at alpha, by default the certified one; the lower and the upper if there are two.

        It is infinite, with a warning, if alpha is too small for the scores that were seen. For a promise to every site
        it is that of `site`, or the largest.
        """
        wanted, curve, whom = as_alpha(self.certificate.alpha if alpha is None else alpha), self.curve, ""
        if site is not None:
            (name,) = site_members(self.certificate, site, 1)
            curve, whom = (self.site_curves or {})[name], f" to {shown(name)}"
        found = curve.threshold(wanted)
        ends = list(found) if isinstance(found, tuple) else [found]
        if so := lacks_ends(ends):
            warnings.warn(
                f"alpha={float(wanted):g} cannot be promised{whom}, so {so}; "
                f"the thresholds of this predictor promise {_most(curve, ends):.6g} at most",
                InfeasibleWarning,
                stacklevel=2,
            )
        return found

    def predict_interval(self, predictions: ArrayLike, *, sites: ArrayLike | None = None, alpha: Any = None) -> Floats:
        """Return the (n, 2) ends of the intervals, or (n, 2, A) for a list of A alphas.

        A predictor for every site takes the `sites` of the rows, or one name for all of them; without, the largest
        threshold. Each alpha must have been fixed beforehand; picking one after looking at intervals voids the promise.
        """
        if isinstance(alpha, Sequence | np.ndarray) and not isinstance(alpha, str) and np.ndim(alpha):
            if np.ndim(alpha) != 1 or not len(alpha):
                raise InputError(f"alpha is {shown(alpha)}, expected a number between 0 and 1, or a list of such")
            return np.stack([self.predict_interval(predictions, sites=sites, alpha=a) for a in alpha], axis=-1)
        if sites is None:
            return self._ends(predictions, *_upper_first(self.threshold_at(alpha)))
        given = as_array(predictions, "predictions")
        ends = np.empty((len(given) if given.ndim else 1, 2))
        for site, mine in site_members(self.certificate, sites, len(ends)).items():
            ends[mine] = self._ends(given[mine], *_upper_first(self.threshold_at(alpha, site=site)))
        return ends

    def contains(
        self, predictions: ArrayLike, y: ArrayLike, *, sites: ArrayLike | None = None, alpha: Any = None
    ) -> Booleans:
        """Say for each row whether its interval holds this number.

        >>> from fedconformal import Residual, Summary, calibrate
        >>> predictor = calibrate([Summary.of_scores([0.5] * 9, score=Residual())])
        >>> predictor.contains([2.0, 2.0], [2.5, 3.0])
        array([ True, False])
        """
        ends = self.predict_interval(predictions, sites=sites, alpha=alpha)
        truth = as_numbers(one_a_row(as_array(y, "y"), len(ends), "y"), "y")
        inside: Booleans = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        return inside

    def predict_distribution(self, predictions: ArrayLike, levels: Sequence[float] | Floats = LEVELS) -> Floats:
        """Return (n, L) numbers: for each level c, fixed beforehand, one that y is at most with probability c or more.

        Pointwise: each level holds by itself, not all of them at once. `distribution_band` says how exact each is. It
        takes a score with its sign, such as Signed.
        """
        upper = self._upper_curve()
        found = [upper.threshold(1 - level) for level in as_levels(levels)]
        if any(map(math.isinf, found)):
            highest = float(upper.most)
            message = f"this predictor promises no level above {highest:.6g}, so those above are at infinity"
            warnings.warn(message, InfeasibleWarning, stacklevel=2)
        return np.stack([self._ends(predictions, threshold, -math.inf)[:, 1] for threshold in found], axis=1)

    def distribution_band(self, levels: Sequence[float] | Floats = LEVELS) -> Floats:
        """Return (L, 2) bounds: y is at most the level's number with probability of at least the first.

        It is below the number with probability of at most the second; for a level that is no hundredth, that of the
        next hundredth. The second is 1 unless the calibration was exact.

        >>> from fedconformal import Signed, Summary, calibrate
        >>> sites = [Summary.of_scores([i / 8 for i in range(start, 10, 2)], score=Signed()) for start in (-8, -7)]
        >>> predictor = calibrate(sites, alpha=0.3, exact=True)
        >>> predictor.predict_distribution([1.0], levels=[0.25, 0.5])
        array([[0.625, 1.125]])
        >>> predictor.distribution_band([0.25, 0.5])
        array([[0.27777778, 0.33333333],
               [0.5       , 0.55555556]])
        """
        upper, lower = self._upper_curve(), self.certificate.lower
        if lower is None or self.certificate.status != "certified":
            return np.tile([0.0, 1.0], (len(levels), 1))
        guarantee, names, sizes = self.certificate.terms()
        bound = guarantee.bind(names, sizes).bind(names, sizes, "end")
        found = []
        for level in as_levels(levels):
            finite = math.isfinite(upper.threshold(1 - level))
            exact = next((one for one in EXACT_LEVELS if one >= level and self.certificate.exact), None)
            most = 1.0 if exact is None else float(bound.band(1 - exact, sizes).most) + lower.slack
            least = float(bound.band(1 - level, sizes).least) if finite else 1.0
            found.append((least, min(1.0, most) if finite else 1.0))
        return np.array(found)

    def _upper_curve(self) -> PromiseCurve:
        if not isinstance(self.curve, EndCurves):
            raise InputError(f"{self.score.name} has no sign, so it gives no distribution; calibrate with Signed")
        return self.curve.upper

    def _ends(self, predictions: ArrayLike, upper: float, lower: float | None) -> Floats:
        """Return the ends for predictions as they were scored at calibration: in float32, if the certificate says so.

        Those that are given with fewer digits may be rounded from others, at most one step away. The ends go that much
        further out, so nothing is lost to the rounding.
        """
        given, scored = as_array(predictions, "predictions"), np.dtype(self.certificate.precision or np.float64)
        with np.errstate(over="ignore"):  # what is too large for float32 is refused as not finite
            ends = self.score.interval(given.astype(np.float32) if scored == np.float32 else given, upper, lower)
        if given.dtype.kind == "f" and given.dtype.itemsize < scored.itemsize:
            steps = np.spacing(np.abs(given)).astype(np.float64).reshape(len(ends), -1).sum(axis=1)
            for end, (threshold, sign) in enumerate([(upper if lower is None else lower, -1.0), (upper, 1.0)]):
                ends[:, end] += sign * steps * max(1.0, abs(threshold))
        return ends

    def evaluate(
        self,
        predictions: ArrayLike,
        y: ArrayLike,
        *,
        sites: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        groups: Mapping[str, ArrayLike] | None = None,
        alpha: Any = None,
    ) -> evaluation.IntervalEvaluation:
        """Compare the intervals with known numbers: coverage, width and Winkler score, by site and group, a verdict.

        `sites`, `clusters` and `groups` are as in `Predictor.evaluate`.
        """
        return evaluation.evaluate_intervals(
            self.predict_interval(predictions, sites=own_sites(self.certificate, sites), alpha=alpha),
            y,
            sites=sites,
            clusters=clusters,
            groups=groups,
            certificate=self.certificate,
            alpha=alpha,
        )

    def content(self) -> dict[str, Any]:
        curves = fields_of(self.curve, self.site_curves)
        return {"score": self.certificate.score, "certificate": self.certificate.to_dict(), **curves}

    @classmethod
    def of_content(cls, content: dict[str, Any]) -> IntervalPredictor:
        held = msgspec.convert(content, _Content, strict=True)
        score: RegressionScore = check_score(held.score, held.certificate, RegressionScore)
        curve = SiteFields(held.curve, held.lower).built(score.lower_share)
        own = read_sites(held.certificate, held.sites, score.lower_share)
        return cls(certificate=held.certificate, curve=curve, site_curves=own)

    def __repr__(self) -> str:
        about = self.certificate
        sites = f"{about.sites} site{'s' if about.sites > 1 else ''}"
        return (
            f"IntervalPredictor({self.score}, alpha={about.alpha:g}, threshold={about.limit_text}, "
            f"{about.status}: {guarantee_name(about.guarantee)} of {sites})"
        )


def _upper_first(found: float | tuple[float, float]) -> tuple[float, float | None]:
    return found[::-1] if isinstance(found, tuple) else (found, None)


def _most(curve: PromiseCurve | EndCurves, ends: Sequence[float]) -> float:
    """Return the most that both ends promise together, or by itself the one that is at infinity."""
    if isinstance(curve, PromiseCurve):
        return float(curve.most)
    most = [end.most for end, q in zip((curve.lower, curve.upper), ends, strict=True) if math.isinf(q)]
    return max(0.0, float(sum(most, Fraction(1 - len(most)))))


def as_levels(levels: Sequence[float] | Floats) -> list[Fraction]:
    """Check levels of a distribution, as the decimals that were typed, rounded up to 15 places.

    >>> as_levels([0.25, 0.5])
    [Fraction(1, 4), Fraction(1, 2)]
    """
    try:
        found = [1 - as_alpha(1 - Fraction(repr(float(level)))) for level in levels]
    except (ValueError, TypeError, OverflowError):
        found = []
    if not found:
        raise InputError(f"levels are {shown(levels)}, expected numbers between 0 and 1")
    return found
