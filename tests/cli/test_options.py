"""Options that follow from fields: their names, their panels, and those that several have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest
import typer

from fedconformal.cli.options import GUARANTEES, KINDS, SCORES, Family, taking
from tests.contracts.tools import refused


@dataclass(frozen=True, kw_only=True)
class Animal:
    """What a command chooses from."""

    name: ClassVar[str]


@dataclass(frozen=True, kw_only=True)
class Cat(Animal):
    """One.

    Attributes:
        lives: how many.
        output: a name that the command has already.
        tame: off for a wild one.
    """

    name = "cat"
    lives: int = 9
    output: str = "mew"
    tame: bool = True


@dataclass(frozen=True, kw_only=True)
class Dog(Animal):
    """Another, whose lives are of another type."""

    name = "dog"
    lives: tuple[float, float]
    friend: Cat | None = None


ANIMALS: Family[Animal] = Family(option="animal", base=Animal, metavars={"lives": "N"})
made: list[Any] = []


@taking(ANIMALS)
def choose(
    animal: Annotated[str, typer.Option(help="Which:")] = "cat",
    output: Annotated[str, typer.Option(help="Where.")] = "here",
    **given: Any,
) -> None:
    """Choose an animal."""
    made.append((ANIMALS.chosen(animal, given), output))


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("fedconformal._base.registry._import_modules", lambda _: None)
    app = typer.Typer()
    app.command(cls=vars(choose)["command"])(choose)
    return typer.main.get_command(app)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], Cat()),
        (["--lives", "7"], Cat(lives=7)),
        (["--animal-output", "purr", "--output", "there"], Cat(output="purr")),
        (["--no-tame"], Cat(tame=False)),
        (["--tame"], Cat()),
        (["--animal", "dog", "--lives", "1,2"], Dog(lives=(1.0, 2.0))),
    ],
)
def test_values(command: Any, arguments: list[str], expected: Animal) -> None:
    command.main(arguments, standalone_mode=False)
    assert made[-1] == (expected, "there" if "there" in arguments else "here")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--animal", "dog"], "--animal dog needs --lives N"),
        (["--animal", "dog", "--lives", "7"], "--lives is '7', expected two numbers"),
        (["--animal", "dog", "--animal-output", "x"], "--animal-output does not go with --animal dog; it is for cat"),
        (["--animal", "cow"], "no animal is called 'cow'; there are cat, dog"),
    ],
)
def test_refusals(command: Any, arguments: list[str], problem: str) -> None:
    with refused(problem):
        command.main(arguments, standalone_mode=False)


def test_help(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "Which: cat, dog." in shown
    assert "With --animal cat, dog" in shown
    assert "How many. [default: (9)]" in shown
    assert "friend" not in shown  # an animal of its own has no option


def test_every_parameter_of_ours_has_a_help() -> None:
    for family in (SCORES, KINDS, GUARANTEES):
        for name, parameters in family.members().items():
            assert all(one.help for one in parameters.values()), f"{name}: add its Attributes to the docstring"
