"""What scores were made from, and what for: summaries go together only where this agrees.

Score, model and temperature are in every summary. The rest is what version 2 of the format adds; a summary that says
nothing of it is written as version 1. Where one summary says something and another says nothing, they go together; but
an id of the calibration that only some give is accepted beside version 1 alone, which cannot give one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedconformal._base.arrays import as_alpha, as_temperature
from fedconformal._base.names import as_name, check_name, listed, name_key
from fedconformal.errors import InputError
from fedconformal.scores import AnyScore
from fedconformal.summaries.wire import MAX_CLASSES, About

SAME = ("score", "model", "temperature")
"""Summaries differ in these also if one of them says nothing."""

OF_CALIBRATION = ("alpha", "expires")
"""Summaries that are for one calibration differ in these also if one of them says nothing."""

Classes = int | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What scores were made from; summaries go together only when this agrees.

    `classes` is the number of classes, or their names in order. `precision` is "float32" if probabilities were rounded
    to it before they were scored. `estimated` says that no theorem covers how the scores were made. `calibration` is
    the id of the one calibration that the summary is for, at `alpha`; `expires` is the last day to use it.

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

    def __post_init__(self) -> None:
        if self.score is not None and not isinstance(self.score, AnyScore):
            raise InputError(f"score is {self.score!r:.80}, expected a score such as fedconformal.LAC()")
        if self.precision not in (None, "float32"):
            raise InputError(f"precision is {self.precision!r:.40}, expected 'float32' or None")
        if not isinstance(self.estimated, bool):
            raise InputError(f"estimated is {self.estimated!r:.40}, expected True or False")
        checked: dict[str, Any] = {
            "model": None if self.model is None else check_name(self.model, "model fingerprint"),
            "temperature": None if self.temperature is None else as_temperature(self.temperature),
            "classes": None if self.classes is None else as_classes(self.classes),
            "calibration": None if self.calibration is None else as_name(self.calibration, "calibration id"),
            "alpha": None if self.alpha is None else repr(float(as_alpha(self.alpha))),
            "expires": None if self.expires is None else as_day(self.expires),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def difference(self, other: Origin) -> str | None:
        """Name the first thing that differs, or None."""
        compared = [*SAME]
        if self.classes is not None and other.classes is not None:
            compared.append("classes")
        if self.calibration != other.calibration and not (self.silent or other.silent):
            compared.append("calibration")
        if self.calibration is not None and other.calibration is not None:
            compared += OF_CALIBRATION
        for name in compared:
            mine, theirs = getattr(self, name), getattr(other, name)
            if _compared(mine, theirs) != _compared(theirs, mine):
                return f"{name} {_apart(mine, theirs)} against {_apart(theirs, mine)}"
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
            calibration=self.calibration or other.calibration,
            alpha=self.alpha or other.alpha,
            expires=days[0] if days else None,
        )

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
    first, *rest = dict.fromkeys(origins)
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
    if isinstance(mine, tuple) and isinstance(theirs, tuple) and _text(mine) == _text(theirs):
        return _text(tuple(one for one, other in zip(mine, theirs, strict=True) if one != other))
    return _text(mine)


def _text(value: Any) -> str:
    return listed(value) if isinstance(value, tuple) else str(value)
