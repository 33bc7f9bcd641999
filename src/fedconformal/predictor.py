"""A score and a promise curve: everything it takes to turn probabilities into prediction sets."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal import registry
from fedconformal.calibration import Calibration
from fedconformal.certificate import Certificate
from fedconformal.curve import PromiseCurve
from fedconformal.errors import AlteredError, InfeasibleWarning, InputError
from fedconformal.evaluation import Evaluation, evaluate_sets
from fedconformal.files import naming, read_bytes, write_bytes
from fedconformal.guarantees import Guarantee
from fedconformal.scores import Score
from fedconformal.validation import ALPHA_UNIT, Booleans, Floats, as_alpha, shown


class _Curve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    thresholds: list[float]
    promised: list[Annotated[int, msgspec.Meta(ge=0, lt=ALPHA_UNIT)]]


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON file, field by field."""

    kind: Literal["fedconformal predictor"]
    score: dict[str, Any]
    certificate: Certificate
    curve: _Curve
    sha256: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictor:
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

    score: Score
    certificate: Certificate
    curve: PromiseCurve

    def __post_init__(self) -> None:
        """Check that the parts tell the same story."""
        if self.certificate.score not in (None, self.score.to_dict()):
            raise InputError("the predictor's score is not the one that was certified")
        if self.curve.threshold(as_alpha(self.certificate.alpha)) != self.certificate.limit:
            raise InputError("the promise curve and the certificate give different thresholds")

    @classmethod
    def of(cls, result: Calibration, *, score: Score | None = None) -> Predictor:
        """Make a predictor from a calibration; the summaries say which score, unless they were made without."""
        described = result.certificate.score
        found = score if described is None else _build_score(described)
        if found is None:
            raise InputError("the summaries do not say which score they hold; pass score=")
        if score is not None and found != score:
            raise InputError(f"the summaries hold scores of {found}, not of {score}")
        return cls(score=found, certificate=result.certificate, curve=result.curve)

    def threshold(self, alpha: Any = None) -> float:
        """Return the threshold at alpha, by default the certified one; +inf, with a warning, if it is too small."""
        wanted = as_alpha(self.certificate.alpha if alpha is None else alpha)
        threshold = self.curve.threshold(wanted)
        if threshold == math.inf:
            most = self.curve.promised[-1] / ALPHA_UNIT
            warnings.warn(
                f"alpha={float(wanted):g} cannot be promised, so every label is in every set; "
                f"the scores that this predictor was made from promise {most:.6g} at most",
                InfeasibleWarning,
                stacklevel=2,
            )
        return threshold

    def predict_set(self, probs: ArrayLike, *, alpha: Any = None, allow_empty: bool = False) -> Booleans:
        """Return (n, J) booleans, or (n, J, A) for a list of A alphas.

        Each alpha must have been fixed beforehand; picking one after looking at sets voids the promise.
        """
        if isinstance(alpha, Sequence | np.ndarray) and not isinstance(alpha, str) and np.ndim(alpha):
            if np.ndim(alpha) != 1 or not len(alpha):
                raise InputError(f"alpha is {shown(alpha)}, expected a number between 0 and 1, or a list of such")
            return np.stack([self.predict_set(probs, alpha=a, allow_empty=allow_empty) for a in alpha], axis=-1)
        return self.score.predict_set(probs, self.threshold(alpha), allow_empty=allow_empty)

    def predict_p(self, probs: ArrayLike) -> Floats:
        """Return (n, J) p-values; {p > alpha} is the set at alpha (before the top label is forced in)."""
        return self.curve.p_values(self.score.evaluate_all(probs))

    def evaluate(
        self,
        probs: ArrayLike,
        labels: ArrayLike,
        *,
        clients: ArrayLike | None = None,
        alpha: Any = None,
        allow_empty: bool = False,
    ) -> Evaluation:
        """Compare the sets with known labels: coverage and size, by client, class and set size."""
        sets = self.predict_set(probs, alpha=alpha, allow_empty=allow_empty)
        return evaluate_sets(sets, labels, clients=clients)

    def to_bytes(self) -> bytes:
        """Write as JSON, with a SHA-256 of the content that shows any change."""
        content = {
            "kind": "fedconformal predictor",
            "score": self.score.to_dict(),
            "certificate": self.certificate.to_dict(),
            "curve": {"thresholds": self.curve.thresholds.tolist(), "promised": self.curve.promised.tolist()},
        }
        content["sha256"] = _digest(content)
        return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False).encode() + b"\n"

    def save(self, path: str | Path) -> None:
        """Write to a JSON file."""
        write_bytes(Path(path), self.to_bytes())

    @staticmethod
    def from_bytes(data: bytes) -> Predictor:
        """Read hostile JSON: anything malformed or changed is refused."""
        try:
            content = json.loads(data, parse_constant=_refuse_constant)
            if not isinstance(content, dict) or content.get("kind") != "fedconformal predictor":
                raise InputError("not a fedconformal predictor")
            digest = _digest({key: value for key, value in content.items() if key != "sha256"})
        except (ValueError, RecursionError) as error:
            raise InputError(f"not a fedconformal predictor: {shown(str(error))}") from None
        if content.get("sha256") != digest:
            raise AlteredError("the predictor was altered after it was made (its SHA-256 does not match)")
        try:
            document = msgspec.convert(content, _Document, strict=True)
        except msgspec.ValidationError as error:
            raise InputError(f"the predictor is malformed: {error}") from None
        registry.build(document.certificate.guarantee, Guarantee)
        return Predictor(
            score=_build_score(document.score),
            certificate=document.certificate,
            curve=PromiseCurve(np.array(document.curve.thresholds), np.array(document.curve.promised, dtype=np.int64)),
        )

    def __repr__(self) -> str:
        """Tell what is promised."""
        about = self.certificate
        sites = f"{about.clients} site{'s' if about.clients > 1 else ''}"
        return (
            f"Predictor({self.score}, alpha={about.alpha:g}, threshold={about.limit:.6g}, "
            f"{about.status}: {about.guarantee['name']} of {sites})"
        )


def load(path: str | Path) -> Predictor:
    """Read a predictor that was saved."""
    with naming(path):
        return Predictor.from_bytes(read_bytes(Path(path)))


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _build_score(described: dict[str, Any]) -> Score:
    return registry.build(described, Score)
