"""A promise on losses: the threshold to answer with, for the certified limit and for others."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import as_array
from fedconformal.calibration.certificate import Certificate, RiskRecord, threshold_text
from fedconformal.calibration.document import Document
from fedconformal.calibration.risk import as_limit, check_limit
from fedconformal.calibration.risk_curve import RiskCurve
from fedconformal.certificates import text
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.evaluation.losses import LossEvaluation, evaluate_losses
from fedconformal.evaluation.mixture import shares_by_site
from fedconformal.losses.loss import Loss, described_loss


class _Curve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    thresholds: list[float]
    risks: list[Annotated[int, msgspec.Meta(ge=0)]]


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the JSON file holds, field by field."""

    certificate: Certificate
    curve: _Curve


@dataclass(frozen=True, eq=False, kw_only=True)
class RiskPredictor(Document):
    """Gives the threshold at which the expected loss is at most a limit.

    >>> import numpy as np
    >>> from fedconformal import LossSummary, calibrate
    >>> losses = np.linspace(0, 0.6, 30)[:, None] > np.array([0.2, 0.4, 0.6])
    >>> rule = calibrate([LossSummary.of_losses(losses, thresholds=[0.2, 0.4, 0.6])], risk=0.4, exact=True)
    >>> rule
    RiskPredictor(risk=0.4, threshold=0.4, certified: mixture of 1 site)
    >>> rule.threshold_at(0.1), rule.evaluate(losses).overall.mean_loss
    (0.6, 0.3333333333333333)
    """

    kind = "fedconformal risk predictor"

    certificate: Certificate
    curve: RiskCurve

    def __post_init__(self) -> None:
        if isinstance(self.certificate.threshold, list):
            raise InputError("the certificate is malformed: it has thresholds by class or group, as no loss")
        if self.curve.threshold(self.limit()) != self.certificate.limit:
            raise InputError("the risk curve and the certificate give different thresholds")

    @property
    def about(self) -> RiskRecord:
        """What the promise is about: limit, bound, grid, loss."""
        if self.certificate.risk is None:
            raise InputError("the certificate is not one on losses; make a Predictor or an IntervalPredictor")
        return self.certificate.risk

    @property
    def threshold(self) -> float:
        """The certified threshold; +inf if no threshold of the grid promises enough."""
        return float(self.certificate.limit)

    def threshold_at(self, risk: Any = None) -> float:
        """Return the smallest threshold whose expected loss is at most `risk`, by default the certified limit.

        It is +inf, with a warning, if there is none: take the safe action then. Each limit must have been fixed
        beforehand; picking one after looking at losses voids the promise.
        """
        limit = self.limit(risk)
        threshold = self.curve.threshold(limit)
        if threshold == math.inf:
            warnings.warn(
                f"risk={float(limit):g} cannot be promised at any threshold of the grid; the best one promises "
                f"{float(self.curve.least):.6g}; take a safe action, {text.SAFE_ACTION}",
                InfeasibleWarning,
                stacklevel=2,
            )
        return threshold

    @property
    def loss(self) -> Loss | None:
        """The loss that is limited, if it is one of fedconformal.losses."""
        return described_loss(self.about.loss)

    def predict(self, scores: Any, *, risk: Any = None) -> Any:
        """Return what is predicted at the threshold: booleans in the shape of the scores, as its loss says.

        At +inf it is the safe action: every label for a false negative rate, none for an error among answers.
        """
        if self.loss is None:
            raise InputError(
                "the certificate does not say which loss it limits, so it cannot predict; use its threshold where the "
                "losses come from"
            )
        return self.loss.predict(scores, self.threshold_at(risk))

    def limit(self, risk: Any = None) -> Fraction:
        """Return a limit on the expected loss as a fraction, by default the certified one."""
        limit = as_limit(self.about.limit if risk is None else risk, self.about.bound)
        if self.loss is not None:
            check_limit(self.loss, limit)
        return limit

    def evaluate(self, losses: ArrayLike, *, sites: ArrayLike | None = None, risk: Any = None) -> LossEvaluation:
        """Compare the promise with the losses of new rows: the mean with a 95% interval, over all and by site.

        Losses are on the grid, a column for each threshold, or those at the threshold alone, one a row.
        """
        array, at = as_array(losses, "losses"), self.curve.threshold(self.limit(risk))
        if array.ndim == 2:
            if array.shape[1] != len(self.curve.thresholds):
                raise InputError(f"have {array.shape[1]} columns for {self.about.points} thresholds", where="losses")
            if at == math.inf:
                raise InputError("there is no threshold to look up the losses at; give those of the safe action")
            array = array[:, np.searchsorted(self.curve.thresholds, at)]
        return evaluate_losses(array, bound=self.about.bound, sites=sites, shares=shares_by_site(self.certificate))

    def content(self) -> dict[str, Any]:
        return {"certificate": self.certificate.to_dict(), "curve": self.curve.to_dict()}

    @classmethod
    def of_content(cls, content: dict[str, Any]) -> RiskPredictor:
        held = msgspec.convert(content, _Content, strict=True)
        curve = RiskCurve(np.array(held.curve.thresholds, dtype=np.float64), tuple(held.curve.risks))
        return cls(certificate=held.certificate, curve=curve)

    def __repr__(self) -> str:
        about = self.certificate
        sites = f"{about.sites} site{'s' if about.sites > 1 else ''}"
        return (
            f"RiskPredictor(risk={self.about.limit:g}, threshold={threshold_text(about.limit)}, "
            f"{about.status}: {text.guarantee_name(about.guarantee)} of {sites})"
        )
