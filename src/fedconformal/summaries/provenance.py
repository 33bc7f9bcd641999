"""Provenance of scores: summaries are combined only if score, model and calibration agree."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from typing import Any

import msgspec
import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha, as_temperature, is_number
from fedconformal._base.classes import as_class_names
from fedconformal._base.names import abbreviate, as_name, join_names
from fedconformal.errors import InputError
from fedconformal.losses.loss import as_grid
from fedconformal.scores import AnyScore
from fedconformal.summaries.format import ENCODER, MAX_CLASSES, NOT_CANONICAL, ProvenanceHeader

SAME = ("score", "model", "temperature", "precision", "loss", "bound", "grid", "rising", "calibration")
"""Fields that must be equal in all summaries of a calibration, including missing values."""
MAX_GRID = 2**14
MOST_BOUND = 10**6
Classes = int | tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Origin of the scores of a summary, and the calibration they may be used for.

    Parameters
    ----------
    score, model, temperature
        The score, a fingerprint of the model, and the temperature that divided its logits.
    classes
        Number of classes, or their names in order.
    precision
        "float32" if outputs were rounded to it before scoring.
    estimated
        True if no theorem covers the computation of the scores.
    calibration, alpha, expires
        Identifier of the only calibration that may use the summary, its alpha, and the last day of use.
    loss, bound, grid, rising
        For loss curves: name and parameters of the loss, the largest loss, the thresholds as bytes, and whether losses
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
        for name, check in CHECKS.items():
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, check(value))
        curves = self.grid is not None
        if curves != (self.bound is not None) or (not curves and (self.loss is not None or self.rising)):
            raise InputError("provenance: loss curves have thresholds and a bound; state both")
        try:
            msgspec.convert(msgspec.structs.asdict(self.to_header()), ProvenanceHeader)
        except msgspec.ValidationError as error:
            raise InputError(f"provenance: {abbreviate(str(error), 200)}") from None

    @classmethod
    def from_header(cls, header: ProvenanceHeader) -> Provenance:
        """Validate the provenance of a message."""
        values = {name: getattr(header, name) for name in ProvenanceHeader.__struct_fields__}
        score = None if header.score is None else registry.restore(*header.score, AnyScore)
        provenance = cls(**values | {"score": score})
        if ENCODER.encode(provenance.to_header()) != ENCODER.encode(ProvenanceHeader(**values)):
            raise InputError(NOT_CANONICAL)
        return provenance

    def to_header(self) -> ProvenanceHeader:
        """Return the fields of the wire format."""
        values = {name: getattr(self, name) for name in ProvenanceHeader.__struct_fields__}
        if self.score is not None:
            values["score"] = self.score.described
        return ProvenanceHeader(**values)

    def difference(self, other: Provenance) -> str | None:
        """Describe the first field that prevents a combination; None if the two can be combined."""
        if (self.grid is None) != (other.grid is None):
            return "losses against scores" if other.grid is None else "scores against losses"
        compared = [*SAME]
        if self.classes is not None and other.classes is not None:
            compared.append("classes")
        if self.calibration is not None:
            compared += ["alpha", "expires"]
        for name in compared:
            mine, theirs = getattr(self, name), getattr(other, name)
            if name == "classes" and int in (type(mine), type(theirs)):
                mine, theirs = number_of(mine), number_of(theirs)
            if mine != theirs:
                return f"{name} {_text(mine, theirs)} against {_text(theirs, mine)}"
        return None

    def combine(self, other: Provenance) -> Provenance:
        """Return the provenance of the combination of two summaries."""
        if other == self:
            return self
        named = [each.classes for each in (self, other) if isinstance(each.classes, tuple)]
        days = sorted(each.expires for each in (self, other) if each.expires is not None)
        return replace(
            self,
            classes=named[0] if named else self.classes or other.classes,
            estimated=self.estimated or other.estimated,
            trained=self.trained or other.trained,
            expires=days[0] if days else None,
        )

    def check_use(self, alpha: Fraction | None, label: Callable[[], str], *, expired: bool = False) -> None:
        """Refuse scores for another alpha or, unless `expired`, expired ones; `label` names the summary in errors."""
        if self.alpha is not None and alpha is not None and as_alpha(self.alpha) != alpha:
            raise InputError(
                f"{label()} was summarised for a calibration at alpha {self.alpha}, not at {float(alpha):g}; "
                "calibrate at that alpha, or ask the sites again"
            )
        if not expired and has_expired(self.expires):
            raise InputError(f"the summary of {label()} expired on {self.expires}; ask the site for a new one")


def combine_provenances(provenances: Iterable[Provenance], names: Sequence[str] = ()) -> Provenance:
    """Return the provenance of the combination of all summaries; an error names two that differ."""
    distinct: dict[Provenance, int] = {}
    for i, provenance in enumerate(provenances):
        distinct.setdefault(provenance, i)
    combined, *rest = distinct
    for provenance in rest:
        if combined.difference(provenance):
            other, difference = next((k, why) for p, k in distinct.items() if (why := p.difference(provenance)))
            mine, theirs = (names[k] if names else f"summary {k + 1}" for k in (other, distinct[provenance]))
            same = "loss, bound, grid, model" if provenance.grid else "score, model, temperature, classes, precision"
            raise InputError(
                f"{mine} and {theirs} do not go together: {difference}; "
                f"summarise all sites with the same {same} and calibration"
            )
        combined = combined.combine(provenance)
    return combined


def number_of(classes: int | Sequence[str]) -> int:
    """Return the number of classes."""
    return classes if isinstance(classes, int) else len(classes)


def as_classes(classes: Any) -> Classes:
    """Validate the number of classes, or their names in order."""
    if isinstance(classes, int) and not isinstance(classes, bool):
        if not 1 <= classes <= MAX_CLASSES:
            raise InputError(f"classes is {classes}, expected a number from 1 to {MAX_CLASSES}")
        return classes
    classes = classes.tolist() if hasattr(classes, "tolist") else classes
    if not isinstance(classes, Sequence):
        raise InputError(f"classes is {classes!r:.60}, expected their number, or their names in order")
    return as_class_names(classes)


def as_day(day: Any) -> str:
    """Validate a date in ISO format, such as 2027-06-30."""
    try:
        date = dt.date.fromisoformat(day).isoformat()
    except (ValueError, TypeError):
        date = None
    if date != day or date is None:
        raise InputError(f"expires is {day!r:.40}, expected a day such as 2027-06-30")
    return date


def grid_bytes(grid: Any) -> bytes:
    """Validate the thresholds of loss curves, finite and strictly increasing; as bytes, they compare quickly."""
    if isinstance(grid, bytes):
        if len(grid) % 8:
            raise InputError("thresholds: the grid is not one of numbers")
        grid = np.frombuffer(grid, dtype="<f8")
    values = as_grid(grid)
    if len(values) > MAX_GRID:
        raise InputError(f"thresholds: {len(values)} numbers are too many, expected up to {MAX_GRID}")
    return (values + 0.0).astype("<f8").tobytes()  # -0.0 becomes 0.0


def as_bound(bound: Any) -> float:
    """Validate the largest loss of a row."""
    if not is_number(bound) or not 1 / MOST_BOUND <= bound <= MOST_BOUND:
        raise InputError(f"bound is {abbreviate(bound)}, expected a number from 1e-06 to 1e+06; rescale the losses")
    return float(bound)


def _as_loss(loss: Any) -> tuple[str, tuple[bool | int | float, ...]]:
    try:
        name, parameters = msgspec.convert(loss, tuple[str, tuple[bool | int | float, ...]])
    except msgspec.ValidationError:
        raise InputError(f"loss is {abbreviate(loss)}, expected its name and its parameters") from None
    return as_name(name, "loss"), parameters


def has_expired(expires: str | None) -> bool:
    """Whether the last day of use, if any, has passed."""
    return expires is not None and expires < dt.datetime.now(dt.UTC).date().isoformat()


def _text(value: Any, other: Any) -> str:
    """Format a value; for two lists, the entries that differ."""
    if isinstance(value, bytes) and isinstance(other, bytes):
        value, other = (tuple(np.frombuffer(grid, dtype="<f8").tolist()) for grid in (value, other))
    if isinstance(value, tuple) and isinstance(other, tuple):
        return join_names([str(v) for v, w in zip_longest(value, other) if v not in (None, w)]) or "no more"
    return str(value)


CHECKS: dict[str, Callable[[Any], Any]] = {
    "model": partial(as_name, what="model fingerprint"),
    "temperature": as_temperature,
    "classes": as_classes,
    "calibration": partial(as_name, what="calibration id"),
    "alpha": lambda alpha: repr(float(as_alpha(alpha))),
    "expires": as_day,
    "loss": _as_loss,
    "bound": as_bound,
    "grid": grid_bytes,
}
UNKNOWN = Provenance()
