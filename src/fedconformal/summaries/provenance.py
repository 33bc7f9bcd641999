"""Provenance of scores: summaries are combined only if score, model and calibration agree."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha, as_array, as_temperature, rising
from fedconformal._base.names import abbreviate, as_name, join_names
from fedconformal.errors import InputError
from fedconformal.scores import AnyScore
from fedconformal.summaries.format import ENCODER, MAX_CLASSES, NOT_CANONICAL, ProvenanceHeader

SAME = ("score", "model", "temperature", "precision", "loss", "bound", "grid", "rising", "calibration")
"""Fields that must be equal in all summaries of a calibration, also where one of them states nothing."""

MAX_GRID = 2**14
MOST_BOUND = 10**6
MAX_PARAMETERS = 16

Classes = int | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How the scores of a summary were made, and for which calibration.

    Parameters
    ----------
    score, model, temperature
        The score, a fingerprint of the model, and the temperature that divided its logits.
    classes
        Number of classes, or their names in order.
    precision
        "float32" if outputs were rounded to it before scoring.
    estimated
        True if no theorem covers how the scores were made.
    calibration, alpha, expires
        Identifier of the only calibration that may use the summary, its alpha, and the last day of use.
    loss, bound, grid, rising
        Of loss curves: name and parameters of the loss, the largest loss, the thresholds as bytes, and whether losses
        may rise along the grid.
    trained
        True if the model was trained on other rows of the same site.

    Examples
    --------
    >>> Provenance(temperature=1.5).difference(Provenance(temperature=2.0))
    'temperature 1.5 against 2.0'
    >>> Provenance(classes=2).difference(Provenance(classes=3)), Provenance(classes=2).difference(Provenance())
    ('classes 2 against 3', None)
    """

    score: AnyScore | None = None
    model: str | None = None
    temperature: float | None = None
    classes: Classes | None = None
    precision: str | None = None
    estimated: bool = False
    calibration: str | None = None
    alpha: str | None = None
    expires: str | None = None
    loss: tuple[str, tuple[Any, ...]] | None = None
    bound: float | None = None
    grid: bytes | None = None
    rising: bool = False
    trained: bool = False

    def __post_init__(self) -> None:
        if self.score is not None and not isinstance(self.score, AnyScore):
            raise InputError(f"score is {self.score!r:.80}, expected a score such as fedconformal.LAC()")
        if self.precision not in (None, "float32"):
            raise InputError(f"precision is {self.precision!r:.40}, expected 'float32' or None")
        for name in ("estimated", "trained"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} is {getattr(self, name)!r:.40}, expected True or False")
        checked: dict[str, Any] = {
            "model": None if self.model is None else as_name(self.model, "model fingerprint"),
            "temperature": None if self.temperature is None else as_temperature(self.temperature),
            "classes": None if self.classes is None else as_classes(self.classes),
            "calibration": None if self.calibration is None else as_name(self.calibration, "calibration id"),
            "alpha": None if self.alpha is None else repr(float(as_alpha(self.alpha))),
            "expires": None if self.expires is None else as_day(self.expires),
        }
        if self.grid is not None or self.bound is not None or self.loss is not None or self.rising:
            checked |= {"grid": as_grid(self.grid), "bound": as_bound(self.bound), "loss": _as_loss(self.loss)}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_header(cls, header: ProvenanceHeader) -> Provenance:
        """Check the provenance of a message."""
        found = {name: getattr(header, name) for name in ProvenanceHeader.__struct_fields__}
        score = None if header.score is None else score_from(*header.score)
        provenance = cls(**found | {"score": score})
        if ENCODER.encode(provenance.to_header()) != ENCODER.encode(ProvenanceHeader(**found)):
            raise InputError(NOT_CANONICAL)
        return provenance

    def to_header(self) -> ProvenanceHeader:
        """Return the fields of the wire format."""
        found = {name: getattr(self, name) for name in ProvenanceHeader.__struct_fields__}
        if self.score is not None:
            found["score"] = (self.score.name, tuple(getattr(self.score, field.name) for field in fields(self.score)))
        return ProvenanceHeader(**found)

    def difference(self, other: Provenance) -> str | None:
        """Name the first field that keeps two summaries from being combined, or return None."""
        if (self.grid is None) != (other.grid is None):
            return "losses against scores" if other.grid is None else "scores against losses"
        compared = [*SAME]
        if self.classes is not None and other.classes is not None:
            compared.append("classes")
        if self.calibration is not None:
            compared += ["alpha", "expires"]
        for name in compared:
            mine, theirs = getattr(self, name), getattr(other, name)
            unnamed = name == "classes" and not (isinstance(mine, tuple) and isinstance(theirs, tuple))
            if (number_of(mine) != number_of(theirs)) if unnamed else mine != theirs:
                one = "one " if name == "grid" else ""
                return f"{name} {_apart(mine, theirs)} against {one}{_apart(theirs, mine)}"
        return None

    def combine(self, other: Provenance) -> Provenance:
        """Return the provenance of two summaries together."""
        if other == self:
            return self
        named = [found.classes for found in (self, other) if isinstance(found.classes, tuple)]
        days = sorted(found.expires for found in (self, other) if found.expires is not None)
        return replace(
            self,
            classes=named[0] if named else self.classes or other.classes,
            estimated=self.estimated or other.estimated,
            trained=self.trained or other.trained,
            expires=days[0] if days else None,
        )

    def check_use(self, alpha: Fraction | None, label: Callable[[], str], *, expired: bool = False) -> None:
        """Refuse scores that are for another alpha, or that may not be used any more unless `expired` is allowed.

        Of very many, `label` is asked for only if these are refused.
        """
        if self.alpha is not None and alpha is not None and as_alpha(self.alpha) != alpha:
            raise InputError(
                f"{label()} was summarised for a calibration at alpha {self.alpha}, not at {float(alpha):g}; "
                "calibrate at that alpha, or ask the sites anew"
            )
        if not expired and has_expired(self.expires):
            raise InputError(f"the summary of {label()} expired on {self.expires}; ask the site for a new one")


UNKNOWN = Provenance()


def combine_provenances(provenances: Iterable[Provenance]) -> Provenance:
    """Return the provenance of several summaries together."""
    first, *rest = dict.fromkeys({id(one): one for one in provenances}.values())  # very many may share one object
    for one in rest:
        first = first.combine(one)
    return first


def check_provenances(provenances: Sequence[Provenance], names: Sequence[str]) -> Provenance:
    """Return the provenance of all summaries together; refuse those that differ, naming two."""
    first = {id(one): i for i, one in reversed(list(enumerate(provenances)))}
    together = provenances[0]
    for i in sorted(first.values()):
        found = provenances[i]
        if difference := together.difference(found):
            other = next(k for k in sorted(first.values()) if (difference := provenances[k].difference(found)))
            same = "loss, bound, grid, model" if found.grid else "score, model, temperature, classes, precision"
            raise InputError(
                f"{names[other]} and {names[i]} do not go together: {difference}; "
                f"summarise all sites with the same {same} and calibration"
            )
        together = together.combine(found)
    return together


def score_from(name: str, parameters: Sequence[Any]) -> AnyScore:
    """Rebuild a score from the wire."""
    cls = registry.find(name, AnyScore)
    names = [field.name for field in fields(cls)]
    if len(names) != len(parameters):
        raise InputError(f"the score {name!r} has {len(parameters)} parameters, expected {len(names)}")
    return cls(**dict(zip(names, parameters, strict=True)))


def number_of(classes: int | Sequence[str]) -> int:
    """Return how many classes there are."""
    return classes if isinstance(classes, int) else len(classes)


def as_classes(classes: Any) -> Classes:
    """Check a number of classes, or their names in order."""
    if isinstance(classes, int) and not isinstance(classes, bool):
        if not 1 <= classes <= MAX_CLASSES:
            raise InputError(f"classes is {classes}, expected a number from 1 to {MAX_CLASSES}")
        return classes
    classes = classes.tolist() if hasattr(classes, "tolist") else classes
    if isinstance(classes, str) or not isinstance(classes, Sequence) or not 1 <= len(classes) <= MAX_CLASSES:
        raise InputError(f"classes is {classes!r:.60}, expected their number, or their names in order")
    names = tuple(as_name(name, "class") for name in classes)
    if len(set(names)) < len(names):
        raise InputError("classes: two classes have the same name")
    return names


def as_day(day: Any) -> str:
    """Check a day, as in 2027-06-30."""
    try:
        found = dt.date.fromisoformat(day).isoformat()
    except (ValueError, TypeError):
        found = None
    if found != day or found is None:
        raise InputError(f"expires is {day!r:.40}, expected a day such as 2027-06-30")
    return found


def as_grid(grid: Any) -> bytes:
    """Check the thresholds of loss curves, finite and each above the one before; as bytes, they are soon compared."""
    if isinstance(grid, bytes):
        if len(grid) % 8:
            raise InputError("thresholds: the grid is not one of numbers")
        grid = np.frombuffer(grid, dtype="<f8")
    values = as_array([] if grid is None else grid, "thresholds").astype("<f8") + 0.0  # -0.0 becomes 0.0
    if values.ndim != 1 or not 1 <= len(values) <= MAX_GRID:
        raise InputError(f"thresholds: have shape {values.shape}, expected a list of 1 to {MAX_GRID} numbers")
    if not np.isfinite(values).all():
        raise InputError(f"thresholds: number {int(np.argmin(np.isfinite(values)))} is not finite")
    if not rising(values):
        place = int(np.argmax(values[1:] <= values[:-1])) + 1
        raise InputError(f"thresholds: {values[place]:g} after {values[place - 1]:g}; list them in rising order")
    return values.tobytes()


def as_bound(bound: Any) -> float:
    """Check the largest loss of a row."""
    number = isinstance(bound, int | float | np.floating | np.integer) and not isinstance(bound, bool)
    if not number or not 1 / MOST_BOUND <= bound <= MOST_BOUND:
        raise InputError(f"bound is {abbreviate(bound)}, expected a number from 1e-06 to 1e+06; rescale the losses")
    return float(bound)


def _as_loss(loss: Any) -> tuple[str, tuple[Any, ...]] | None:
    """Check the name and the parameters of a loss, where they are stated."""
    if loss is None:
        return None
    try:
        name, parameters = loss
        plain = all(isinstance(one, bool | int | float) for one in parameters) and len(parameters) <= MAX_PARAMETERS
    except (TypeError, ValueError):
        plain = False
    if not plain:
        raise InputError(f"loss is {abbreviate(loss)}, expected its name and up to {MAX_PARAMETERS} parameters")
    return as_name(name, "loss"), tuple(parameters)


def has_expired(expires: str | None) -> bool:
    """Whether a last day has passed, if there is one."""
    return expires is not None and expires < dt.datetime.now(dt.UTC).date().isoformat()


def _apart(mine: Any, theirs: Any) -> str:
    """Write a value; of names that begin alike, those that differ."""
    if isinstance(mine, bytes) and isinstance(theirs, bytes) and _text(mine) == _text(theirs):
        here, there = (np.frombuffer(value, dtype="<f8") for value in (mine, theirs))
        return f"with {here.tolist()[np.argmax(here != there)]}"
    if isinstance(mine, tuple) and isinstance(theirs, tuple) and _text(mine) == _text(theirs):
        return _text(tuple(one for one, other in zip(mine, theirs, strict=True) if one != other))
    return _text(mine)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        points = np.frombuffer(value, dtype="<f8")
        return f"of {len(points)} thresholds from {points[0]:g} to {points[-1]:g}"
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], tuple):
        return f"{value[0]}{value[1] or ''}"
    return join_names(value) if isinstance(value, tuple) else str(value)
