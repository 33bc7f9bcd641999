"""Spec strings: `"raps"` or `"raps:penalty=0.1,free_ranks=2"` names a score, guarantee, loss or summary kind.

A comma starts a new parameter only before the name of one, so lists need no brackets: `mixture:weights=0.7,0.3`. A
value without a name belongs to the first parameter: `robust:2`, `by-group:pac:failure=0.05`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fedconformal._base import registry
from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError

T = TypeVar("T")
MAX_DEPTH = 4
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
NUMBERS = re.compile(r"[\[{+\-.\d]")
EXPECTED = {bool: "true or false", int: "a whole number", float: "a number"}


@dataclass(frozen=True)
class Spec(Generic[T]):
    """A class and the values of its parameters; a nested spec string is a `Spec` too."""

    cls: type[T]
    values: Mapping[str, Any]

    def build(self) -> T:
        """Create the instance."""
        return self.cls(**{key: one.build() if isinstance(one, Spec) else one for key, one in self.values.items()})


def build(spec: str | T, base: Callable[..., T]) -> T:
    """Create a score, guarantee or loss from a spec string; an instance is returned as it is.

    >>> from fedconformal import Guarantee, Score
    >>> build("raps:penalty=0.1,free_ranks=2", Score)
    RAPS(randomized=False, random_state=0, penalty=0.1, free_ranks=2)
    >>> build("by-group:pac:failure=0.1", Guarantee)
    ByGroup(guarantee=PAC(failure=0.1))
    """
    if isinstance(spec, str):
        return parse(spec, base).build()
    if not isinstance(spec, base):  # type: ignore[arg-type]
        noun, some = registry.noun_of(base), min(registry.members(base))
        expected = f"expected a name such as {some!r} or a {base.__name__}"
        raise InputError(f"{noun} is {abbreviate(spec)}, {expected}", param=registry.param_of(base))
    return spec


def parse(spec: str, base: Callable[..., T], *, maker: str = "", depth: int = 0) -> Spec[T]:
    """Parse a spec string; `maker` is the method that takes the parameters, if it is not the class itself."""
    name, colon, text = spec.strip().partition(":")
    cls: Any = registry.find(name, base)
    noun, param = registry.noun_of(base), registry.param_of(base)
    hints, required = _parameters(getattr(cls, maker) if maker else cls)
    there = f"{name} has the parameters {', '.join(hints)}" if hints else f"{name} has no parameters"
    values: dict[str, Any] = {}
    for part in re.split(rf",(?=(?:{'|'.join(hints)})=)", text) if colon else ():
        key, equals, value = part.partition("=")
        if not values and hints and not (equals and key.isidentifier()):
            key, value = next(iter(hints)), part
        if key not in hints or key in values or depth > MAX_DEPTH:
            raise InputError(f"{noun} {abbreviate(spec)}: {abbreviate(key)} is out of place; {there}", param=param)
        try:
            values[key] = _read(value.strip(), hints[key], depth)
        except (KeyError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            problem = f"{key} is {abbreviate(repr(value))}, expected {_expected(hints[key])}"
            raise InputError(f"{noun} {name}: {problem}; {there}", param=param) from None
    if missing := [key for key in required if key not in values]:
        raise InputError(f"{noun} {name} needs {missing[0]}, as in {name}:{missing[0]}=VALUE", param=param)
    return Spec(cls, values)


@cache
def _parameters(made: Callable[..., Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the types of the parameters of a class, or of a method's keywords, and those without a default."""
    whole = isinstance(made, type)
    try:
        hints = get_type_hints(made)
    except NameError:  # types that another package imports for a type checker only
        hints = {}
    own = [
        one
        for one in inspect.signature(made).parameters.values()
        if (one.kind is one.KEYWORD_ONLY and one.name != "alpha") or (whole and one.kind is one.POSITIONAL_OR_KEYWORD)
    ]
    return {one.name: hints.get(one.name, Any) for one in own}, [one.name for one in own if one.default is one.empty]


def _kinds(hint: Any) -> tuple[Any, ...]:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(kind for kind in kinds if kind is not NoneType)


def _read(text: str, hint: Any, depth: int) -> Any:
    """Read a value by its type."""
    kinds = _kinds(hint)
    choices = {str(one): one for kind in kinds if get_origin(kind) is Literal for one in get_args(kind)}
    lists = [kind for kind in kinds if get_origin(kind) in (tuple, list, Sequence, Mapping)]
    if nested := [kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)]:
        return parse(text, nested[0], depth=depth + 1)
    if lists and (str not in kinds or NUMBERS.match(text) or "=" in text):
        return _read_list(text, lists[0])
    if str in kinds or text in choices:
        return choices.get(text, text)
    if bool in kinds:
        return BOOLEANS[text.lower()]
    if int in kinds and (float not in kinds or text.lstrip("+-").isdigit()):
        return int(text)
    return float(text) if float in kinds else json.loads(text)


def _read_list(text: str, kind: Any) -> tuple[Any, ...]:
    """Read numbers, NAME=NUMBER or NAME=LOW:HIGH with commas between them, or JSON."""
    if text[:1] in ("[", "{"):
        return tuple(json.loads(text, object_pairs_hook=tuple))
    if "=" in text:
        pairs = [part.rpartition("=") for part in text.split(",")]
        named = [(name.strip(), tuple(map(float, value.split(":")))) for name, _, value in pairs]
        if not all(name for name, _ in named):
            raise ValueError(text)
        return tuple((name, one if len(one) > 1 else one[0]) for name, one in named)
    numbers = tuple(map(float, text.split(",")))
    sizes = get_args(kind)
    if get_origin(kind) is tuple and ... not in sizes and len(numbers) != len(sizes):
        raise ValueError(text)
    return numbers


def _expected(hint: Any) -> str:
    kinds = _kinds(hint)
    choices = ", ".join(str(one) for kind in kinds if get_origin(kind) is Literal for one in get_args(kind))
    words = [choices, *(word for kind, word in EXPECTED.items() if kind in kinds)]
    words += ["numbers such as 0.1,0.5"] if any(get_origin(kind) in (tuple, list, Sequence) for kind in kinds) else []
    words += ["numbers by name such as a=0.7,b=0.1:0.3"] if any(get_origin(kind) is Mapping for kind in kinds) else []
    return " or ".join(filter(None, words)) or "JSON"
