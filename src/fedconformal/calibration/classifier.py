"""All of it in one object, in scikit-learn's manner."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike

from fedconformal._base.arrays import Booleans, Floats
from fedconformal._base.names import shown
from fedconformal.calibration.calibrate import calibrate
from fedconformal.calibration.certificate import Certificate
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import ClassCountsWarning, InputError
from fedconformal.evaluation import Evaluation
from fedconformal.guarantees import ByClass, Guarantee
from fedconformal.scores import DEFAULT, Score
from fedconformal.summaries.rows import summarize_rows

Site = tuple[ArrayLike, ArrayLike]


class FederatedConformalClassifier:
    """Calibrate on the sites' rows, then answer with prediction sets.

    `model=None` means that inputs are probabilities; otherwise `model(X)` must return them (for a fitted
    scikit-learn classifier pass `classifier.predict_proba`). `score=None` means `scores.DEFAULT`, which is LAC.

    >>> sites = {"a": ([[0.9, 0.1]] * 9, [0] * 9), "b": ([[0.3, 0.7]] * 9, [1] * 9)}
    >>> classifier = FederatedConformalClassifier(alpha=0.1).calibrate(sites)
    >>> classifier.predict_set([[0.95, 0.05], [0.5, 0.5]])
    array([[ True, False],
           [ True, False]])
    """

    def __init__(
        self,
        *,
        model: Callable[[Any], ArrayLike] | None = None,
        score: Score | None = None,
        alpha: Any = 0.1,
        guarantee: Guarantee | None = None,
        kind: str = "exact",
        allow_empty: bool = False,
    ) -> None:
        """Keep the parameters; everything is checked by `calibrate`."""
        self.model = model
        self.score = score
        self.alpha = alpha
        self.guarantee = guarantee
        self.kind = kind
        self.allow_empty = allow_empty

    def calibrate(self, sites: Sequence[Site] | Mapping[str, Site]) -> Self:
        """Score each site's (X, labels), summarise, and find the threshold."""
        named = list(sites.items()) if isinstance(sites, Mapping) else [(f"#{k + 1}", s) for k, s in enumerate(sites)]
        score = DEFAULT if self.score is None else self.score
        if not isinstance(score, Score):
            raise InputError(f"score is {shown(score)}, expected a score such as fedconformal.LAC()")
        summaries = []
        for name, site in named:
            try:
                rows, labels = site
                about: dict[str, Any] = {"alpha": self.alpha, "score": score, "site": name}
                about["by_class"] = isinstance(self.guarantee, ByClass)
                with warnings.catch_warnings():  # nothing leaves this process
                    warnings.simplefilter("ignore", ClassCountsWarning)
                    summaries.append(summarize_rows(self._probabilities(rows), labels, self.kind, **about))
            except (ValueError, TypeError) as error:
                raise InputError(f"site {name!r}: {error}") from error
        self.predictor_ = Predictor.of(calibrate(summaries, alpha=self.alpha, guarantee=self.guarantee))
        return self

    @property
    def threshold_(self) -> float | Floats:
        """The threshold that was found, or one for each class."""
        return self._fitted.threshold()

    @property
    def certificate_(self) -> Certificate:
        """What is promised."""
        return self._fitted.certificate

    def predict_set(self, X: Any, *, alpha: Any = None) -> Booleans:
        """Return (n, J) booleans, or (n, J, A) for a list of alphas."""
        return self._fitted.predict_set(self._probabilities(X), alpha=alpha, allow_empty=self.allow_empty)

    def predict_p(self, X: Any) -> Floats:
        """Return (n, J) p-values."""
        return self._fitted.predict_p(self._probabilities(X))

    def evaluate(self, X: Any, y: ArrayLike, *, clients: ArrayLike | None = None) -> Evaluation:
        """Compare the sets with known labels."""
        return self._fitted.evaluate(self._probabilities(X), y, clients=clients, allow_empty=self.allow_empty)

    def save(self, path: str | Path) -> None:
        """Write the predictor (score, certificate, promise curve; not the model) to a JSON file."""
        self._fitted.save(path)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """Return the parameters, as scikit-learn's `clone` wants them."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name."""
        for name, value in parameters.items():
            if name not in self._parameter_names():
                raise InputError(f"there is no parameter {name!r}; there are {', '.join(self._parameter_names())}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Tell the parameters, and what is promised once calibrated."""
        inside = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items() if value is not None)
        promise = f" -> {self.predictor_!r}" if hasattr(self, "predictor_") else ""
        return f"FederatedConformalClassifier({inside}){promise}"

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def _probabilities(self, rows: Any) -> ArrayLike:
        return rows if self.model is None else self.model(rows)

    @property
    def _fitted(self) -> Predictor:
        if not hasattr(self, "predictor_"):
            raise InputError("not calibrated yet; call calibrate first")
        return self.predictor_
