"""The parameters of a score, a summary or a guarantee: name, type, default and help, all from its own class.

So a new one needs no table elsewhere: the command line makes its options from this, and the config of a run is read
with it. The help is the line of the parameter in the `Attributes:` (or `Args:`) section of the docstring.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fedconformal._base.names import shown
from fedconformal.errors import InputError

T = TypeVar("T")

SECTION = re.compile(r"^(?:Attributes|Args):\n((?:[ ]{4}.*\n?)+)", re.MULTILINE)
ENTRY = re.compile(r"^[ ]{4}(\w+): (.*(?:\n[ ]{5,}.*)*)", re.MULTILINE)
WHOLE = re.compile(r"\s*[-+]?\d+\s*")
METAVARS = {int: "INTEGER", float: "FLOAT", str: "TEXT"}
COUNTS = {2: "two ", 3: "three ", 4: "four "}
TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

NEEDED = inspect.Parameter.empty
"""The default of a parameter that has none."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter.

    Attributes:
        name: as in Python.
        hint: its type.
        default: NEEDED if it has to be given.
        help: one sentence, or nothing.
        kinds: the types that it may have, without None.
        choices: the values that it may have, if the type lists them.
        length: how many numbers it is made of, 0 for any number of them; None if it is no sequence.
        named: whether it is made of numbers that have names.
        metavar: what stands for a value in --help.
    """

    name: str
    hint: Any = str
    default: Any = NEEDED
    help: str = ""
    kinds: tuple[Any, ...] = field(init=False)
    choices: tuple[Any, ...] = field(init=False)
    length: int | None = field(init=False)
    named: bool = field(init=False)
    metavar: str = field(init=False)

    def __post_init__(self) -> None:
        """Work out what the type says."""
        kinds = _united(self.hint)
        choices = tuple(one for kind in kinds if get_origin(kind) is Literal for one in get_args(kind))
        length = next((found for found in map(_length, kinds) if found is not None), None)
        named = any(get_origin(kind) is Mapping and float in _united(get_args(kind)[1]) for kind in kinds)
        if choices:
            metavar = "|".join(map(str, choices))
        elif length is not None:
            metavar = ",".join(["FLOAT"] * length) or "FLOAT,..."
        elif named:
            metavar = "NAME=FLOAT,..."
        else:
            metavar = next((METAVARS[kind] for kind in kinds if kind in METAVARS), "JSON")
        vars(self).update(kinds=kinds, choices=choices, length=length, named=named, metavar=metavar)

    def read(self, text: Any, option: str) -> Any:
        """Read a value as it was typed after an option; what is no text is a value already.

        >>> Parameter(name="box", hint=tuple[float, float] | None).read("0.1,0.5", "--box")
        (0.1, 0.5)
        >>> Parameter(name="weights", hint=str | Sequence[float]).read("uniform", "--weights")
        'uniform'
        >>> Parameter(name="shares", hint=Mapping[str, float]).read("rare=0.05:0.2,usual=0.8", "--shares")
        (('rare', (0.05, 0.2)), ('usual', 0.8))
        >>> Parameter(name="rounds", hint=int).read("few", "--rounds")
        Traceback (most recent call last):
        fedconformal.errors.InputError: --rounds is 'few', expected a whole number
        """
        try:
            if not isinstance(text, str):
                return text
            return _named(text) if self.named else self._read(text)
        except ValueError:
            raise InputError(f"{option} is {shown(repr(text))}, expected {self._expected()}") from None

    def _read(self, text: str) -> Any:
        for choice in self.choices:
            if text == str(choice):
                return choice
        if bool in self.kinds and text.lower() in TRUTH:
            return TRUTH[text.lower()]
        if self.length is not None and (str not in self.kinds or "," in text or is_number(text)):
            return self._numbers(text)
        if str in self.kinds:
            return text
        if int in self.kinds or float in self.kinds:
            whole = int in self.kinds and (float not in self.kinds or WHOLE.fullmatch(text))
            return int(text) if whole else float(text)
        if self.choices or bool in self.kinds:
            raise ValueError(text)
        return json.loads(text)

    def _numbers(self, text: str) -> Any:
        if text.lstrip().startswith("["):
            return json.loads(text)
        if float in self.kinds and "," not in text:
            return float(text)
        numbers = tuple(map(float, text.split(",")))
        if self.length and len(numbers) != self.length:
            raise ValueError(text)
        return numbers

    def _expected(self) -> str:
        words = {
            ", ".join(map(str, self.choices)): self.choices,
            "true or false": bool in self.kinds,
            "a number": float in self.kinds,
            "a whole number": int in self.kinds and float not in self.kinds,
            f"{COUNTS.get(self.length or 0, '')}numbers such as 0.1,0.5": self.length is not None,
            "numbers by name such as a=0.7,b=0.1:0.3": self.named,
            "a word": str in self.kinds,
        }
        return " or ".join(word for word, fits in words.items() if fits) or "JSON"


def _named(text: str) -> tuple[tuple[str, Any], ...]:
    """Read NAME=NUMBER,... or NAME=LOW:HIGH,...; or JSON, if a name has a comma in it."""
    if text.lstrip().startswith("{"):
        return tuple(json.loads(text, object_pairs_hook=list))
    found = []
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        numbers = tuple(map(float, value.split(":")))
        if not name.strip() or len(numbers) > 2:
            raise ValueError(text)
        found.append((name.strip(), numbers if len(numbers) > 1 else numbers[0]))
    return tuple(found)


def is_number(text: str) -> bool:
    """Whether text can be read as a number, inf and nan included."""
    try:
        float(text)
    except ValueError:
        return False
    return True


@cache
def parameters_of(made: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters of a dataclass, or the keywords that a function has beside `alpha`.

    >>> from fedconformal import RAPS
    >>> penalty = parameters_of(RAPS)["penalty"]
    >>> penalty.metavar, penalty.default, penalty.help
    ('FLOAT', 0.001, 'the price of a rank.')
    """
    words = _help(made)
    try:
        hints = get_type_hints(made)
    except NameError:  # of another package, with types that are there for a type checker only
        hints = {}
    defaults: dict[str, Any]
    if isinstance(made, type) and is_dataclass(made):
        defaults = {one.name: one.default for one in fields(made)}
        defaults |= {one.name: one.default_factory() for one in fields(made) if one.default_factory is not MISSING}
    else:
        keywords = inspect.signature(made).parameters.values()
        defaults = {one.name: one.default for one in keywords if one.kind is one.KEYWORD_ONLY and one.name != "alpha"}
    return {
        name: Parameter(
            name=name,
            hint=hints.get(name, Any),
            default=NEEDED if default is MISSING else default,
            help=words.get(name, ""),
        )
        for name, default in defaults.items()
    }


def from_settings(cls: Callable[..., T], settings: Mapping[str, Any], prefix: str) -> T:
    """Build an object from those settings whose names begin with a prefix; the others are not its own.

    >>> from fedconformal import RAPS
    >>> from_settings(RAPS, {"score": "raps", "score-free-ranks": 2, "rounds": 3}, "score-").free_ranks
    2
    """
    own = {prefix + name.replace("_", "-"): one for name, one in parameters_of(cls).items()}
    given = {key: value for key, value in settings.items() if key.startswith(prefix)}
    for key in given:
        if key not in own:
            raise InputError(f"{key} is no parameter of {cls.__name__}; there are {', '.join(own) or 'none'}")
    for key, parameter in own.items():
        if parameter.default is NEEDED and key not in given:
            raise InputError(f"{key} is missing; {cls.__name__} needs it")
    return cls(**{own[key].name: own[key].read(value, key) for key, value in given.items()})


def _help(made: Any) -> dict[str, str]:
    """Return the line of each parameter, also from the classes that this one derives from."""
    found: dict[str, str] = {}
    for one in reversed(made.__mro__ if isinstance(made, type) else (made,)):
        section = SECTION.search(inspect.cleandoc(one.__doc__ or "") + "\n")
        found |= {name: " ".join(text.split()) for name, text in ENTRY.findall(section[1] if section else "")}
    return found


def _united(hint: Any) -> tuple[Any, ...]:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(kind for kind in kinds if kind is not NoneType)


def _length(kind: Any) -> int | None:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is tuple and ... not in parts:
        return len(parts) if all({int, float} & set(_united(part)) for part in parts) else None
    return 0 if origin in (tuple, list, Sequence) and parts[0] in (int, float) else None
