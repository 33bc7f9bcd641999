"""A small share of scripts/fuzz.py, which runs a million cases."""

from __future__ import annotations

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base import registry
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.summary import Summary
from scripts import fuzz


def test_mutated_summaries_are_refused_or_sound() -> None:
    outcomes = fuzz.fuzz(count=4000, seed=0)
    started = {fc.Summary.from_bytes(data).name for data in fuzz.starting_points().values()}
    assert set(outcomes) == {"refused", "together", *started}
    assert outcomes["together"] > 20
    assert started >= {*registry.members(Summary), "exact by class", "ranks by class", "losses"}


def test_a_case_can_be_run_alone() -> None:
    starts = list(fuzz.starting_points().values())
    assert fuzz.case(7, 1, starts) == fuzz.case(7, 1, starts) != fuzz.case(8, 1, starts)


def test_a_crash_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def crash(data: bytes) -> fc.Summary:
        raise ValueError("an error that users should never see")

    monkeypatch.setattr(fc.Summary, "from_bytes", crash)
    with pytest.raises(ValueError, match="never see"):
        fuzz.fuzz(count=3, seed=5, first=2)
    assert "--seed 5 --first 2 --count 1" in capsys.readouterr().out


def test_a_hang_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def hang(data: bytes) -> fc.Summary:
        while True:
            pass

    monkeypatch.setattr(fuzz, "SECONDS", 1)
    monkeypatch.setattr(fc.Summary, "from_bytes", hang)
    with pytest.raises(TimeoutError, match="no answer"):
        fuzz.fuzz(count=1, seed=5)
    assert "--seed 5 --first 0 --count 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0], "lower above upper"),
        ([0, 1, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1], "not monotone"),
        ([0, 0, 0, 0, 0, 1], [0, 1, 0, 1, 1, 1], "not monotone"),
        ([1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1], "not bracketed"),
        ([0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1], "not bracketed"),
        ([0, 0, 0, 0, 0, 1], [0, 0, 0, 1, 1, 1], "wider than the stated gap"),
    ],
)
def test_unsound_bounds_are_noticed(
    monkeypatch: pytest.MonkeyPatch, lower: list[int], upper: list[int], message: str
) -> None:
    data = fc.Summary.of_scores([0.5], kind="exact").to_bytes()
    bounds = np.array(lower), np.array(upper)  # at -inf, 0, just below 0.5, 0.5, just above, inf
    monkeypatch.setattr(ExactSummary, "bounds", lambda *_: bounds)
    with pytest.raises(ArithmeticError, match=message):
        fuzz.check(data)


def test_other_bytes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    summary = fc.Summary.of_scores([0.5], kind="exact")
    monkeypatch.setattr(fc.Summary, "from_bytes", lambda _: summary)
    with pytest.raises(ArithmeticError, match="other bytes"):
        fuzz.check(summary.to_bytes() + b"x")
