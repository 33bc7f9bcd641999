"""What scores were made from, and what for: summaries go together only where this agrees.

Score, model and temperature are in every summary. The rest is what version 2 of the format adds; a summary that says
nothing of it is written as version 1. Where one summary says something and another says nothing, they go together; but
an id of the calibration that only some give is accepted beside version 1 alone, which cannot give one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedconformal._base.arrays import as_alpha, as_array, as_temperature, rising
from fedconformal._base.names import as_name, check_name, listed, name_key, shown
from fedconformal.errors import InputError
from fedconformal.scores import AnyScore, RegressionScore
from fedconformal.summaries.wire import MAX_CLASSES, About

SAME = ("score", "model", "temperature", "loss", "bound", "grid", "rising")
"""Summaries differ in these also if one of them says nothing."""

OF_CALIBRATION = ("alpha", "expires")
"""Summaries that are for one calibration differ in these also if one of them says nothing."""

MAX_GRID = 2**14
MOST_BOUND = 10**6
MAX_PARAMETERS = 16

Classes = int | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What scores were made from; summaries go together only when this agrees.

    `classes` is the number of classes, or their names in order. `precision` is "float32" if probabilities were rounded
    to it before they were scored. `estimated` says that no theorem covers how the scores were made. `calibration` is
    the id of the one calibration that the summary is for, at `alpha`; `expires` is the last day to use it. Loss curves
    have a `bound` and a `grid` of thresholds, as bytes; `loss` says which loss, by its name and parameters, and
    `rising` that it need not fall along the grid. `trained` says that the model was trained on other rows of the same
    site, as a training run knows of its sites.

    >>> Origin(temperature=1.5).difference(Origin(temperature=2.0))
    'temperature 1.5 against 2.0'
    >>> Origin(classes=2).difference(Origin(classes=3)), Origin(classes=2).difference(Origin())
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
            "model": None if self.model is None else check_name(self.model, "model fingerprint"),
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

    def difference(self, other: Origin) -> str | None:
        """Name the first thing that differs, or None."""
        if (self.grid is None) != (other.grid is None):
            return "losses against scores" if other.grid is None else "scores against losses"
        compared = [*SAME]
        if self.classes is not None and other.classes is not None:
            compared.append("classes")
        if self.calibration != other.calibration and not (self.silent or other.silent):
            compared.append("calibration")
        if isinstance(self.score, RegressionScore):  # scores of rounded predictions are others, so thresholds are too
            compared.append("precision")
        if self.calibration is not None and other.calibration is not None:
            compared += OF_CALIBRATION
        for name in compared:
            mine, theirs = getattr(self, name), getattr(other, name)
            if _compared(mine, theirs) != _compared(theirs, mine):
                one = "one " if name == "grid" else ""
                return f"{name} {_apart(mine, theirs)} against {one}{_apart(theirs, mine)}"
        return None

    def joined(self, other: Origin) -> Origin:
        """Put together what two of them say that do not differ; a precision only if both of them say it."""
        if other == self:
            return self
        named = [found.classes for found in (self, other) if isinstance(found.classes, tuple)]
        days = sorted(found.expires for found in (self, other) if found.expires is not None)
        return replace(
            self,
            classes=named[0] if named else self.classes or other.classes,
            precision=self.precision if self.precision == other.precision else None,
            estimated=self.estimated or other.estimated,
            trained=self.trained or other.trained,
            calibration=self.calibration or other.calibration,
            alpha=self.alpha or other.alpha,
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

    @property
    def about(self) -> About:
        """What goes into version 2 of the wire format; empty if version 1 is enough."""
        return About(**{name: getattr(self, name) for name in About.__struct_fields__})

    @property
    def silent(self) -> bool:
        """Whether version 1 of the format says it all."""
        return self == replace(UNKNOWN, score=self.score, model=self.model, temperature=self.temperature)


UNKNOWN = Origin()


def all_joined(origins: Iterable[Origin]) -> Origin:
    """Put together what all of them say."""
    first, *rest = dict.fromkeys({id(origin): origin for origin in origins}.values())  # each is looked at once
    for origin in rest:
        first = first.joined(origin)
    return first


def number_of(classes: int | Sequence[str]) -> int:
    """Return how many classes there are."""
    return classes if isinstance(classes, int) else len(classes)


def as_classes(classes: Any) -> Classes:
    """Check a number of classes, or their names in order.

    >>> as_classes(["benign", "malignant"])
    ('benign', 'malignant')
    """
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
    """Check a day, as in 2027-06-30.

    >>> as_day("2027-06-31")
    Traceback (most recent call last):
    fedconformal.errors.InputError: expires is '2027-06-31', expected a day such as 2027-06-30
    """
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
    """Check the most that a loss can be.

    >>> as_bound(1), as_bound(0)
    Traceback (most recent call last):
    fedconformal.errors.InputError: bound is 0, expected a number from 1e-06 to 1e+06; rescale the losses
    """
    number = isinstance(bound, int | float | np.floating | np.integer) and not isinstance(bound, bool)
    if not number or not 1 / MOST_BOUND <= bound <= MOST_BOUND:
        raise InputError(f"bound is {shown(bound)}, expected a number from 1e-06 to 1e+06; rescale the losses")
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
        raise InputError(f"loss is {shown(loss)}, expected its name and up to {MAX_PARAMETERS} parameters")
    return check_name(name, "loss"), tuple(parameters)


def has_expired(expires: str | None) -> bool:
    """Whether a last day has passed, if there is one."""
    return expires is not None and expires < dt.datetime.now(dt.UTC).date().isoformat()


def _compared(value: Any, other: Any) -> Any:
    """Return what is compared: of a name its key, as version 1 kept names as they came; of classes their number.

    But of classes that both sides name, the names.
    """
    if isinstance(value, tuple) and isinstance(other, int):
        return len(value)
    return name_key(value) if isinstance(value, str) else value


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
    return listed(value) if isinstance(value, tuple) else str(value)
