"""A small share of scripts/fuzz_watches.py, and what it has found."""

from __future__ import annotations

import msgspec
import pytest

from fedconformal.errors import InputError
from fedconformal.monitoring.messages import Period, Stream, Tally, read_periods, write_periods
from fedconformal.monitoring.monitor import Monitor
from scripts import fuzz_watches


@pytest.mark.long
def test_mutated_states_are_refused_or_sound() -> None:
    assert set(fuzz_watches.fuzz(count=2000, seed=0)) == {"refused", "period"}


def test_an_unsound_state_is_noticed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Monitor, "log_e_value", float("nan"))
    with pytest.raises(ArithmeticError, match="no evidence"):
        fuzz_watches.fuzz(count=500, seed=0)
    assert "--count 1" in capsys.readouterr().out


def test_sizes_too_large_for_a_whole_number_stay_a_number() -> None:
    stream = Stream(0.1, 0.05, 0.0, Tally(), Tally(known=1, sizes=1e308))
    period = Period(bytes(32), "a", 1, 2, (stream,))
    assert Period.from_bytes(period.to_bytes()) == period


def test_a_limit_that_no_site_would_send_is_refused() -> None:
    """tests/vectors/wire/periods.json has the other rules."""
    with pytest.raises(ValueError, match="limit is 1e-300"):
        msgspec.convert([bytes(32), "a", 1, 2, [(1e-300, 0.05, 0.0, [0, 0, 0, 0], [1, 0, 0, 0], "")]], Period)


def test_files_of_periods_that_end_early_are_refused() -> None:
    stream = Stream(0.1, 0.05, 0.0, Tally(), Tally(known=1))
    data = write_periods([Period(bytes(32), "a", 1, 2, (stream,))] * 2)
    for end in range(len(data)):
        if end != len(data) // 2:
            with pytest.raises(InputError, match="period"):
                read_periods(data[:end])
    with pytest.raises(InputError, match="within a message"):
        read_periods(data + b"\xff\xff\xff\xff" + data)
