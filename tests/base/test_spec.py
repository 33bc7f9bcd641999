"""Spec strings: names with parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

import fedconformal as fc
from fedconformal._base import registry
from fedconformal._base.registry import Spec, build, parse
from fedconformal.losses import Loss
from fedconformal.scores import AnyScore
from fedconformal.summaries import Summary
from tests.contracts.tools import refused

import_modules = registry._import_modules.__wrapped__  # without its cache


@dataclass(frozen=True, kw_only=True)
class Animal:
    """A base class."""

    name: ClassVar[str]


@dataclass(frozen=True, kw_only=True)
class Cat(Animal):
    """Parameters of many types."""

    name = "cat"
    lives: int = 9
    mode: Literal["fast", 2] = "fast"
    number: int | float = 0
    tame: bool | None = None
    ends: tuple[float, float] | None = None
    sizes: Sequence[float] | str = ()
    anything: Any = None


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedconformal._base import registry

    plain = registry._import_modules
    monkeypatch.setattr(registry, "_import_modules", lambda package: plain(package) if "fedc" in package else None)


@pytest.mark.parametrize(
    ("spec", "base", "expected"),
    [
        ("lac", fc.Score, fc.LAC()),
        (fc.LAC(), fc.Score, fc.LAC()),
        ("raps:penalty=0.1,free_ranks=2", fc.Score, fc.RAPS(penalty=0.1, free_ranks=2)),
        (" signed:lower=0.25 ", AnyScore, fc.Signed(lower=0.25)),
        ("mixture:weights=uniform", fc.Guarantee, fc.Mixture(weights="uniform")),
        ("mixture:weights=0.7,0.3", fc.Guarantee, fc.Mixture(weights=(0.7, 0.3))),
        ("robust:2", fc.Guarantee, fc.Robust(liars=2)),
        ("one-site:3", fc.Guarantee, fc.OneSite(site="3")),
        ("one-site:site=a=b", fc.Guarantee, fc.OneSite(site="a=b")),
        ("by-group", fc.Guarantee, fc.ByGroup()),
        ("by-group:pac:failure=0.1", fc.Guarantee, fc.ByGroup(fc.PAC(failure=0.1))),
        ("by-group:by-class:every-site", fc.Guarantee, fc.ByGroup(fc.ByClass(fc.EverySite()))),
        ("worst-case:box=0.1,0.5", fc.Guarantee, fc.WorstCase(box=(0.1, 0.5))),
        ("prevalence:shares=a=0.1:0.2,b=0.8", fc.Guarantee, fc.Prevalence(shares={"a": (0.1, 0.2), "b": 0.8})),
        ('prevalence:shares={"a": 0.2, "b,c": 0.8}', fc.Guarantee, fc.Prevalence(shares={"a": 0.2, "b,c": 0.8})),
        ("selective-error:limit=0.1", Loss, fc.SelectiveError(limit=0.1)),
        ("cat:lives=-3,mode=2,number=3", Animal, Cat(lives=-3, mode=2, number=3)),
        ("cat:number=2.5,tame=no,sizes=1", Animal, Cat(number=2.5, tame=False, sizes=(1.0,))),
        ("cat:sizes=rows,anything=[1]", Animal, Cat(sizes="rows", anything=[1])),
    ],
    ids=str,
)
def test_instances(spec: Any, base: Any, expected: Any) -> None:
    assert build(spec, base) == expected


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("dog", "no animal is called 'dog'; there are cat"),
        ("cat:claws=3", "claws is out of place; cat has the parameters lives, mode,"),
        ("cat:lives=1,lives=2", "lives is out of place"),
        ("cat:lives=1.5", "lives is '1.5', expected a whole number"),
        ("cat:lives=" + "9" * 5000, "expected a whole number"),
        ("cat:lives=", "lives is '', expected a whole number"),
        ("cat:mode=slow", "expected fast, 2"),
        ("cat:tame=maybe", "expected true or false"),
        ("cat:ends=0.5", "expected numbers such as 0.1,0.5"),
        ("cat:number=x", "expected a whole number or a number"),
        ("cat:anything={a}", "expected JSON"),
        ("cat:anything=" + "[" * 10**5, "expected JSON"),
    ],
)
def test_refusals(spec: str, problem: str) -> None:
    with refused(problem, param="animal"):
        build(spec, Animal)


def test_other_objects_are_refused() -> None:
    with refused(param="guarantee"):
        build(3, fc.Guarantee)  # type: ignore[arg-type]


def test_required_parameters_and_depth() -> None:
    with refused(param="guarantee"):
        build("robust", fc.Guarantee)
    with refused("out of place"):
        build("by-class:" * 9 + "mixture", fc.Guarantee)


def test_kinds_take_the_keywords_of_their_maker() -> None:
    assert parse("ranks", Summary, maker="build").values == {}
    with refused("alpha", param="kind"):
        parse("ranks:alpha=1", Summary, maker="build")


def test_a_plug_in_that_fails_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "fails_on_import.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("mine", "fails_on_import:Score", "fedconformal.scores")
    monkeypatch.setattr(registry, "entry_points", lambda **_: [entry])
    import_modules("fedconformal.scores")
    assert "mine of fails_on_import:Score cannot be imported and is left out: division by zero" in caplog.text


def test_types_that_cannot_be_resolved_are_json() -> None:
    other = make_dataclass("Other", [("size", "Unknown", 3)], bases=(Animal,), namespace={"name": "other"}, frozen=True)
    assert parse("other:size=[1]", Animal) == Spec(other, {"size": [1]})
