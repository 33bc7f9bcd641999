"""What a class says of its parameters, and how their values are read from text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from typing import Any, Literal

import pytest

import fedconformal as fc
from fedconformal._base.parameters import NEEDED, Parameter, from_settings, parameters_of
from tests.contracts.tools import refused


@dataclass(frozen=True, kw_only=True)
class Base:
    """A class to derive from.

    Attributes:
        rounds: how often,
            in two lines.
        mode: what to do.

    >>> "mode: this is no attribute"
    'mode: this is no attribute'
    """

    rounds: int
    mode: Literal["fast", "slow"] = "fast"


@dataclass(frozen=True, kw_only=True)
class Derived(Base):
    """One more.

    Attributes:
        mode: how to do it.
    """

    names: tuple[str, ...] = field(default_factory=lambda: ("a",))


def test_a_dataclass_says_it_all() -> None:
    found = parameters_of(Derived)
    assert list(found) == ["rounds", "mode", "names"]
    assert [one.help for one in found.values()] == ["how often, in two lines.", "how to do it.", ""]
    assert [one.default for one in found.values()] == [NEEDED, "fast", ("a",)]
    assert [one.metavar for one in found.values()] == ["INTEGER", "fast|slow", "JSON"]


def test_types_that_cannot_be_found_are_json() -> None:
    other = make_dataclass("Other", [("size", "Unknown", field(default=3))])
    (found,) = parameters_of(other).values()
    assert (found.metavar, found.read("[1]", "--size")) == ("JSON", [1])


def test_the_keywords_of_a_function() -> None:
    def of_scores(scores: list[float], *, alpha: float = 0.1, points: int = 100, **about: Any) -> None:
        raise NotImplementedError

    of_scores.__doc__ = "Summarise.\n\n    Args:\n        points: how many.\n"
    found = parameters_of(of_scores)
    assert [(one.name, one.default, one.help) for one in found.values()] == [("points", 100, "how many.")]


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (int, "3", 3),
        (int | None, "-3", -3),
        (float, "3", 3.0),
        (float | None, "1e-3", 0.001),
        (int | float, "3", 3),
        (int | float, "3.5", 3.5),
        (str, "3", "3"),
        (str | int, "3", "3"),
        (bool, "yes", True),
        (bool | None, "False", False),
        (Literal["a", 2], "2", 2),
        (tuple[float, float], "0.1,0.5", (0.1, 0.5)),
        (tuple[float | Sequence[float], float] | None, "[[0.1, 0.2], 0.5]", [[0.1, 0.2], 0.5]),
        (tuple[float, ...], "1,2,3", (1.0, 2.0, 3.0)),
        (Sequence[float] | float, "1", 1.0),
        (Sequence[float] | float, "1,2", (1.0, 2.0)),
        (str | Sequence[float], "uniform", "uniform"),
        (str | Sequence[float], "1", (1.0,)),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (tuple[Sequence[Sequence[float]], Sequence[float]], "[[[1, 0]], [0.5]]", [[[1, 0]], [0.5]]),
        (Any, "[1]", [1]),
    ],
    ids=repr,
)
def test_values_are_read_by_their_type(hint: Any, text: str, value: Any) -> None:
    found = Parameter(name="it", hint=hint).read(text, "--it")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("hint", "text", "expected"),
    [
        (int, "3.5", "a whole number"),
        (int, "", "a whole number"),
        (float | None, "x", "a number"),
        (bool, "maybe", "true or false"),
        (Literal["a", "b"], "c", "a, b"),
        (tuple[float, float], "0.5", "two numbers such as 0.1,0.5"),
        (tuple[float, float], "a,b", "two numbers such as 0.1,0.5"),
        (tuple[float, ...], "1,,2", "numbers such as 0.1,0.5"),
        (str | Sequence[float], "a,b", "numbers such as 0.1,0.5 or a word"),
        (dict[str, int], "{a}", "JSON"),
        (int, "9" * 5000, "a whole number"),
    ],
    ids=repr,
)
def test_other_text_is_refused(hint: Any, text: str, expected: str) -> None:
    with refused("--it is '", f", expected {expected}"):
        Parameter(name="it", hint=hint).read(text, "--it")


def test_settings() -> None:
    assert from_settings(fc.RAPS, {"score-penalty": 0.5, "penalty": 1.0, "score": "raps"}, "score-") == fc.RAPS(
        penalty=0.5
    )
    with refused("score-penalty is no parameter of LAC; there are none"):
        from_settings(fc.LAC, {"score-penalty": 0.5}, "score-")
    with refused("guarantee-site is missing; OneSite needs it"):
        from_settings(fc.OneSite, {}, "guarantee-")
