"""A score and a promise curve: everything it takes to turn probabilities into prediction sets."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base import registry
from fedconformal._base.arrays import ALPHA_UNIT, Booleans, Floats, Probabilities, as_alpha
from fedconformal._base.classes import in_order
from fedconformal._base.names import shown
from fedconformal.calibration.calibrate import Calibration
from fedconformal.calibration.certificate import Certificate, threshold_text
from fedconformal.calibration.curve import ClassCurves, PromiseCurve
from fedconformal.calibration.document import Document
from fedconformal.errors import InfeasibleWarning, InputError
from fedconformal.evaluation import Evaluation, evaluate_sets
from fedconformal.guarantees.by_class import name_of, to_classes
from fedconformal.scores import Score


class _Curve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    thresholds: list[float]
    promised: list[Annotated[int, msgspec.Meta(ge=0, lt=ALPHA_UNIT)]]


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the JSON file holds, field by field."""

    score: dict[str, Any]
    certificate: Certificate
    curve: _Curve | list[_Curve | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictor(Document):
    """Turns probabilities into sets that keep the certificate's promise.

    >>> from fedconformal import LAC, calibrate, summarize
    >>> site = summarize(LAC().evaluate([[0.75, 0.25]] * 9, [0] * 8 + [1]), site="a", score=LAC())
    >>> predictor = Predictor.of(calibrate([site], alpha=0.2))
    >>> predictor
    Predictor(LAC(), alpha=0.2, threshold=0.25, certified: mixture of 1 site)
    >>> predictor.predict_set([[0.7, 0.3], [0.8, 0.2]], allow_empty=True)
    array([[False, False],
           [ True, False]])
    >>> predictor.predict_p([[0.7, 0.3], [0.8, 0.2]])
    array([[0.2, 0.2],
           [1. , 0.1]])
    """

    kind = "fedconformal predictor"

    score: Score
    certificate: Certificate
    curve: PromiseCurve | ClassCurves

    def __post_init__(self) -> None:
        if self.certificate.score not in (None, self.score.to_dict()):
            raise InputError("the predictor's score is not the one that was certified")
        if not np.array_equal(self.curve.threshold(as_alpha(self.certificate.alpha)), self.certificate.limit):
            raise InputError("the promise curve and the certificate give different thresholds")

    @classmethod
    def of(cls, result: Calibration, *, score: Score | None = None) -> Predictor:
        """Make a predictor from a calibration; the summaries say which score, unless they were made without."""
        described = result.certificate.score
        found = score if described is None else registry.build(described, Score)
        if found is None:
            raise InputError("the summaries do not say which score they hold; pass score=")
        if score is not None and found != score:
            raise InputError(f"the summaries hold scores of {found}, not of {score}")
        return cls(score=found, certificate=result.certificate, curve=result.curve)

    def threshold(self, alpha: Any = None) -> float | Floats:
        """Return the threshold at alpha, by default the certified one; +inf, with a warning, if it is too small.

        For a promise given the class it is an array with one for each class.
        """
        threshold = self._certified if alpha is None else self.curve.threshold(as_alpha(alpha))
        if (threshold.max() if isinstance(threshold, np.ndarray) else threshold) == math.inf:
            wanted = as_alpha(self.certificate.alpha if alpha is None else alpha)
            warnings.warn(self._infeasible(wanted, threshold), InfeasibleWarning, stacklevel=2)
        return threshold.copy() if isinstance(threshold, np.ndarray) else threshold

    @cached_property
    def _certified(self) -> float | Floats:
        return self.certificate.limit

    def _infeasible(self, alpha: Fraction, threshold: float | Floats) -> str:
        start = f"alpha={float(alpha):g} cannot be promised"
        if isinstance(self.curve, PromiseCurve):
            return (
                f"{start}, so every label is in every set; "
                f"the scores that this predictor was made from promise {float(self.curve.most):.6g} at most"
            )
        lacking = np.flatnonzero(np.isinf(threshold)).tolist()
        return f"{start} {to_classes(lacking, self.certificate.labels)} in every set; too few scores of them were seen"

    def predict_set(self, probs: ArrayLike, *, alpha: Any = None, allow_empty: bool = False) -> Booleans:
        """Return (n, J) booleans, or (n, J, A) for a list of A alphas.

        Each alpha must have been fixed beforehand; picking one after looking at sets voids the promise.
        """
        if isinstance(alpha, Sequence | np.ndarray) and not isinstance(alpha, str) and np.ndim(alpha):
            if np.ndim(alpha) != 1 or not len(alpha):
                raise InputError(f"alpha is {shown(alpha)}, expected a number between 0 and 1, or a list of such")
            return np.stack([self.predict_set(probs, alpha=a, allow_empty=allow_empty) for a in alpha], axis=-1)
        threshold = self.threshold(alpha)
        first, *others = self._as_scored(probs)
        limit = np.asarray(threshold)
        if limit.ndim:  # a class that no site has seen is in every set
            limit = np.append(limit, np.full(max(0, first.shape[1] - len(limit)), math.inf))
        answer = self.score.predict_set if limit.ndim else self.score.sets_of  # which takes one number as it is
        sets = answer(first, limit, allow_empty=allow_empty)
        for other in others:
            sets |= answer(other, limit, allow_empty=True)
        return sets

    def predict_p(self, probs: ArrayLike) -> Floats:
        """Return (n, J) p-values; {p > alpha} is the set at alpha (before the top label is forced in)."""
        first, *others = [self.curve.p_values(self.score.evaluate_all(form)) for form in self._as_scored(probs)]
        for other in others:
            np.maximum(first, other, out=first)
        return first

    def _as_scored(self, probs: ArrayLike) -> list[Probabilities]:
        """Return the probabilities as they were scored at calibration, once their classes are checked.

        Rounded to float32, if the certificate says so. If it says nothing, probabilities in float64 count both as they
        are and rounded: a label that conforms either way is in the set, so nothing is lost whichever was scored.
        """
        matrix = in_order(probs, self.certificate.labels)
        if matrix.dtype == np.float32:
            return [matrix]
        with np.errstate(over="ignore"):  # a number too large for float32 is no probability, and refused as such
            rounded = matrix.astype(np.float32)
        return [rounded] if self.certificate.precision == "float32" else [matrix, rounded]

    def evaluate(
        self,
        probs: ArrayLike,
        labels: ArrayLike,
        *,
        clients: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        groups: Mapping[str, ArrayLike] | None = None,
        alpha: Any = None,
        allow_empty: bool = False,
    ) -> Evaluation:
        """Compare the sets with known labels: coverage and size, by client, class and set size, and a verdict.

        With clients it also gives the coverage of the certified mixture, and tests the promise on that. `groups` are
        other columns to give the coverage by, such as {"sex": [...], "age": [...]}. Rows of one cluster, such as the
        images of one patient, may depend on each other; without clusters all rows are taken to be independent.
        """
        sets = self.predict_set(probs, alpha=alpha, allow_empty=allow_empty)
        return evaluate_sets(
            sets,
            labels,
            clients=clients,
            clusters=clusters,
            groups=groups,
            certificate=self.certificate,
            alpha=alpha,
        )

    def content(self) -> dict[str, Any]:
        return {
            "score": self.score.to_dict(),
            "certificate": self.certificate.to_dict(),
            "curve": self.curve.to_dict(),
        }

    @classmethod
    def of_content(cls, content: dict[str, Any]) -> Predictor:
        held = msgspec.convert(content, _Content, strict=True)
        return cls(score=registry.build(held.score, Score), certificate=held.certificate, curve=_curve(held.curve))

    def __repr__(self) -> str:
        about = self.certificate
        sites = f"{about.clients} site{'s' if about.clients > 1 else ''}"
        return (
            f"Predictor({self.score}, alpha={about.alpha:g}, threshold={threshold_text(about.limit)}, "
            f"{about.status}: {name_of(about.guarantee)} of {sites})"
        )


def _curve(found: _Curve | list[_Curve | None]) -> PromiseCurve | ClassCurves:
    if isinstance(found, list):
        return ClassCurves([None if curve is None else _plain_curve(curve) for curve in found])
    return _plain_curve(found)


def _plain_curve(found: _Curve) -> PromiseCurve:
    return PromiseCurve(np.array(found.thresholds), np.array(found.promised, dtype=np.int64))
