"""Registry of plug-ins (scores, guarantees, losses, summary kinds) by name, and their spec strings.

`"raps:penalty=0.1,free_ranks=2"` is a spec string. A comma separates parameters only before a parameter name, so lists
need no brackets: `mixture:weights=0.7,0.3`. A value without a name belongs to the first parameter: `robust:2`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import pkgutil
import re
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, astuple, dataclass, fields, is_dataclass
from functools import cache
from importlib.metadata import entry_points
from types import UnionType
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError

T = TypeVar("T")
MAX_DEPTH = 4
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
EXPECTED = {bool: "true or false", int: "a whole number", float: "a number", tuple: "numbers such as 0.1,0.5"}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Plugin(ABC):
    """Base class of scores and losses: frozen dataclasses with a name, whose fields are their parameters."""

    name: ClassVar[str]

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return instances for the contract checks."""
        return (cls(),)

    @property
    def described(self) -> tuple[str, tuple[Any, ...]]:
        """Name and parameters in order, as encoded in a summary; `restore` is the inverse."""
        return self.name, astuple(self)

    def to_dict(self) -> dict[str, Any]:
        """Return name and parameters for JSON."""
        return {"name": self.name, **asdict(self)}


def members(base: Callable[..., T]) -> dict[str, type[T]]:
    """Return the named subclasses of `base`: built in, from entry points of other packages, and defined by users."""
    package = base.__module__.rpartition(".")[0]
    _import_modules(package)
    found: dict[str, type[T]] = {}
    pending: list[Any] = [base]
    while pending:
        for cls in pending.pop().__subclasses__():
            pending.append(cls)
            built_in = cls.__module__.startswith(f"{package}.")
            if isinstance(vars(cls).get("name"), str) and (built_in or cls.name not in found):
                found[cls.name] = cls
    return found


@cache
def _import_modules(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
    for entry in entry_points(group=package):
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 (code of other packages)
            logger.warning("%s of %s cannot be imported and is left out: %s", entry.name, entry.value, error)


def find(name: str, base: Callable[..., T], param: str | None = None) -> type[T]:
    """Return the subclass of `base` with this name; otherwise raise an `InputError` that lists the names."""
    known = members(base)
    if name not in known:
        raise InputError(
            f"no {noun_of(base)} is called {abbreviate(repr(name))}; there are {', '.join(sorted(known))}",
            param=param,
            code="unknown-name",
        )
    return known[name]


def noun_of(base: Callable[..., Any]) -> str:
    """Return the noun for the subclasses of `base`; its last word is the usual parameter name."""
    return str(getattr(base, "noun", base.__name__.lower()))


def rebuild(described: Mapping[str, Any], base: Callable[..., T], within: tuple[str, ...] = ()) -> T:
    """Rebuild a score, a guarantee or a partition from name and parameters in a file; they may be nested."""
    parameters = dict(described)
    name = parameters.pop("name", None)
    cls: Any = find(str(name), base)
    known = {field.name for field in fields(cls)}
    needed = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}
    if needed <= set(parameters) <= known:
        for key, value in parameters.items():
            if isinstance(value, Mapping):
                if value.get("name") in (name, *within):  # bounds the depth of the recursion
                    raise InputError("is nested in itself", where=name)
                parameters[key] = rebuild(value, base, (str(name), *within))
        built: Any = cls(**parameters)
        known = set(built.to_dict()) - {"name"} if hasattr(built, "to_dict") else known
        if set(parameters) == known:
            rebuilt: T = built
            return rebuilt
    raise InputError(f"has the parameters {sorted(parameters)}, expected {sorted(known)}", where=name)


def restore(name: str, parameters: Sequence[Any], base: Callable[..., T]) -> T:
    """Rebuild a score or a loss from its name and its parameters in order, as encoded in a summary."""
    cls: Any = find(name, base)
    names = [field.name for field in fields(cls)]
    if len(names) != len(parameters):
        raise InputError(f"has {len(parameters)} parameters, expected {len(names)}", where=name)
    built: T = cls(**dict(zip(names, parameters, strict=True)))
    return built


@dataclass(frozen=True)
class Spec(Generic[T]):
    """A parsed spec string: a class and the values of its parameters, of which some may be a `Spec`."""

    cls: type[T]
    values: Mapping[str, Any]

    def build(self) -> T:
        """Create the instance."""
        return self.cls(**{key: v.build() if isinstance(v, Spec) else v for key, v in self.values.items()})


def build(spec: str | T, base: Callable[..., T]) -> T:
    """Create a score, guarantee or loss from a spec string; an instance is returned unchanged.

    >>> from fedconformal import Guarantee
    >>> build("by-group:pac:failure=0.1", Guarantee)
    ByGroup(guarantee=PAC(failure=0.1))
    """
    if isinstance(spec, str):
        return parse(spec, base).build()
    if not isinstance(spec, base):  # type: ignore[arg-type]
        expected = f"expected a name such as {min(members(base))!r}, or an instance"
        raise InputError(f"{noun_of(base)} is {abbreviate(spec)}, {expected}", param=noun_of(base).split()[-1])
    return spec


def parse(spec: str, base: Callable[..., T], *, maker: str = "", depth: int = 0) -> Spec[T]:
    """Parse a spec string; `maker` names the method that takes the parameters, by default the constructor."""
    name, colon, text = spec.strip().partition(":")
    noun = noun_of(base)
    param = noun.split()[-1]
    cls: Any = find(name, base, param)
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
        except InputError:
            raise
        except (KeyError, ValueError, RecursionError):
            problem = f"{key} is {abbreviate(repr(value))}, expected {_expected(hints[key])}"
            raise InputError(f"{noun} {name}: {problem}; {there}", param=param) from None
    if missing := [key for key in required if key not in values]:
        raise InputError(f"{noun} {name} needs {missing[0]}, as in {name}:{missing[0]}=VALUE", param=param)
    return Spec(cls, values)


@cache
def _parameters(maker: Callable[..., Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the types of a class's parameters, or of a method's keywords, and the required names."""
    try:
        hints = get_type_hints(maker)
    except NameError:  # types imported under TYPE_CHECKING by another package
        hints = {}
    kinds = [inspect.Parameter.KEYWORD_ONLY, *([inspect.Parameter.POSITIONAL_OR_KEYWORD] * isinstance(maker, type))]
    own = [p for p in inspect.signature(maker).parameters.values() if p.kind in kinds and p.name != "alpha"]
    return {p.name: hints.get(p.name, Any) for p in own}, [p.name for p in own if p.default is p.empty]


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _choices(kinds: Sequence[Any]) -> dict[str, Any]:
    return {str(choice): choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)}


def _read(text: str, hint: Any, depth: int) -> Any:
    kinds, choices = _kinds(hint), _choices(_kinds(hint))
    lists = [kind for kind in kinds if get_origin(kind) in (tuple, list, Sequence, Mapping)]
    if nested := [kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)]:
        return parse(text, nested[0], depth=depth + 1)
    if lists and (str not in kinds or re.match(r"[\[{+\-.\d]", text) or "=" in text):
        return _read_list(text, lists[0])
    if str in kinds or text in choices:
        return choices.get(text, text)
    if bool in kinds:
        return BOOLEANS[text.lower()]
    if int in kinds and (float not in kinds or text.lstrip("+-").isdigit()):
        return int(text)
    return float(text) if float in kinds else json.loads(text)


def _read_list(text: str, kind: Any) -> tuple[Any, ...]:
    """Parse comma-separated numbers, NAME=NUMBER or NAME=LOW:HIGH, or JSON."""
    if text[:1] in ("[", "{"):
        return tuple(json.loads(text, object_pairs_hook=tuple))
    if "=" in text:
        pairs = [part.rpartition("=") for part in text.split(",")]
        named = [(name.strip(), tuple(map(float, value.split(":")))) for name, _, value in pairs]
        if not all(name for name, _ in named):
            raise ValueError(text)
        return tuple((name, values if len(values) > 1 else values[0]) for name, values in named)
    numbers = tuple(map(float, text.split(",")))
    sizes = get_args(kind)
    if get_origin(kind) is tuple and ... not in sizes and len(numbers) != len(sizes):
        raise ValueError(text)
    return numbers


def _expected(hint: Any) -> str:
    kinds = _kinds(hint)
    origins = {get_origin(kind) for kind in kinds}
    accepted = {*kinds, *([tuple] if origins & {tuple, list, Sequence} else [])}
    words = [", ".join(_choices(kinds)), *(word for kind, word in EXPECTED.items() if kind in accepted)]
    words += ["numbers by name such as a=0.7,b=0.1:0.3"] if Mapping in origins else []
    return " or ".join(filter(None, words)) or "JSON"
