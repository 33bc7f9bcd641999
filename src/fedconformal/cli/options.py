"""Options that several commands share: a parameter whose type is a dataclass stands for the options in its fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, TypeVar, cast, get_origin, get_type_hints

import typer

F = TypeVar("F", bound=Callable[..., None])

SPEC = "NAME[:KEY=VALUE,...]"

ScoreOption = Annotated[
    str | None,
    typer.Option(
        "--score",
        metavar=SPEC,
        help="The score, with its parameters: lac, aps, raps:penalty=0.001, saps, margin, topk; of numbers: residual, "
        "cqr, normalized, signed.",
        show_default="lac; of numbers residual",
    ),
]
GUARANTEES = (
    "mixture, mixture:weights=a=0.7,b=0.3, every-site, one-site:NAME, new-site, worst-case:box=LOW,HIGH, "
    "pac:failure=0.05, robust:liars=1, by-class:mixture, by-group:pac, ... (docs/guarantees.md)."
)


def expand_options(function: F) -> F:
    """Replace each dataclass parameter of a command by the options in its fields, for typer to read."""
    own = inspect.signature(function, eval_str=True)
    shared: dict[str, Any] = {
        one.name: one.annotation for one in own.parameters.values() if is_dataclass(one.annotation)
    }
    options = {name: _options_in(kind, own.parameters[name].kind) for name, kind in shared.items()}

    @wraps(function)
    def call(**given: Any) -> None:
        for name, kind in shared.items():
            given[name] = kind(**{one.name: given.pop(one.name) for one in options[name]})
        function(**given)

    expanded = [part for one in own.parameters.values() for part in options.get(one.name, [one])]
    vars(call).update(__signature__=own.replace(parameters=expanded))
    return cast(F, call)


def _options_in(kind: Any, place: Any) -> list[inspect.Parameter]:
    """Return the options of a dataclass: its fields that are annotated as such."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(one.name, place, default=one.default, annotation=hints[one.name])
        for one in fields(kind)
        if get_origin(hints[one.name]) is Annotated
    ]
