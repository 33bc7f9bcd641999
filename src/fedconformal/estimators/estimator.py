"""What scikit-learn asks of an estimator, without scikit-learn: it is imported when scikit-learn itself asks.

So an estimator of ours can be imported, and used with probabilities, where scikit-learn is not installed. It has no
base class of scikit-learn; `clone`, `Pipeline`, searches, checks and notebooks ask only for what is here.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, ClassVar, Self

from fedconformal.errors import InputError, NotCalibratedError


class SklearnMixin:
    """Parameters by name, tags, metadata and pictures, as scikit-learn's `BaseEstimator` has them."""

    estimator_type: ClassVar[str]

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002
        """Return the parameters, with those of an estimator inside as `estimator__name`."""
        found = {name: vars(self)[name] for name in self._defaults()}
        if deep:
            inside = [(name, value) for name, value in found.items() if _has_parameters(value)]
            found |= {f"{name}__{key}": one for name, value in inside for key, one in value.get_params().items()}
        return found

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name, also those of an estimator inside."""
        known = self._defaults()
        for name in sorted(parameters, key=lambda name: "__" in name):  # an estimator before what is inside it
            own, _, inside = name.partition("__")
            if own not in known or (inside and not _has_parameters(vars(self)[own])):
                raise InputError(f"there is no parameter {name!r}; there are {', '.join(known)}")
            if inside:
                vars(self)[own].set_params(**{inside: parameters[name]})
            else:
                setattr(self, own, parameters[name])
        return self

    def __sklearn_tags__(self) -> Any:
        """Be a classifier or a regressor that takes what the estimator inside takes."""
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags, get_tags

        inside = vars(self).get("estimator")
        inside = inside[0] if isinstance(inside, tuple | list) and inside else inside
        return Tags(
            estimator_type=self.estimator_type,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if self.estimator_type == "classifier" else None,
            regressor_tags=RegressorTags() if self.estimator_type == "regressor" else None,
            input_tags=get_tags(inside).input_tags if hasattr(inside, "__sklearn_tags__") else InputTags(),
        )

    def get_metadata_routing(self) -> Any:
        """Ask for `sites` in `fit`, where scikit-learn routes metadata."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=type(self).__name__)
        request.fit.add_request(param="sites", alias=True)
        return request

    def __repr__(self) -> str:
        own, known = self.get_params(deep=False), self._defaults()
        changed = [f"{name}={value!r}" for name, value in own.items() if repr(value) != repr(known[name])]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str | None:
        """Draw scikit-learn's diagram, if that is wanted and there is one to draw it."""
        try:
            from sklearn import get_config
            from sklearn.utils import estimator_html_repr
        except ImportError:
            return None
        drawn: str | None = estimator_html_repr(self) if get_config()["display"] == "diagram" else None
        return drawn

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        shown = {"text/plain": repr(self), "text/html": self._repr_html_()}
        return {kind: text for kind, text in shown.items() if text is not None}

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}


def not_calibrated(message: str) -> NotCalibratedError:
    """Return an error that is scikit-learn's NotFittedError too, if scikit-learn is loaded to look for it."""
    loaded = sys.modules.get("sklearn.exceptions")
    if loaded is None:
        return NotCalibratedError(message)
    bases = (NotCalibratedError, loaded.NotFittedError)
    more = {"__reduce__": lambda self: (not_calibrated, (str(self),)), "__module__": NotCalibratedError.__module__}
    error: NotCalibratedError = type("NotCalibratedError", bases, more)(message)
    return error


def _has_parameters(value: Any) -> bool:
    return hasattr(value, "get_params") and not isinstance(value, type)
