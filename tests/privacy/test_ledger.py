"""Budgets belong to rows, whatever these are called; and a ledger is locked by whoever is alive."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy import Ledger, ledger, read_ledger, write_ledger
from fedconformal.privacy.ledger import ChargedRows, rows_of, spending
from fedconformal.summaries import Provenance
from tests.contracts.tools import refused

SCORES = np.random.default_rng(0).random(50)
A = ChargedRows("a", "0")


def rows(site: str, scores: np.ndarray = SCORES, kind: str = "exact") -> ChargedRows:
    return rows_of([fc.Summary.of_scores(scores, kind=kind, site=site)])[0]


def test_two_names_of_the_same_rows_share_a_budget() -> None:
    spent = Ledger(budget=1.5).spend([rows("a")], 1.0, "threshold")
    with refused("'b', which has the rows of 'a', has spent 1 of 1.5; 1 more is over its budget"):
        spent.spend([rows("b")], 1.0, "threshold")
    assert spent.spend([rows("b", SCORES + 1)], 1.0, "threshold").spent(rows("b", SCORES + 1)) == 1
    with refused("'a' has spent 0 of 1.5; 2 more is over its budget"):
        Ledger(budget=1.5).spend([rows("a"), rows("b")], 1.0, "both in one release")


def test_one_changed_row_is_no_new_budget() -> None:
    spent = Ledger(budget=1.5).spend([rows("a")], 1.0, "threshold")
    with refused("'a' has spent 1 of 1.5; 1 more is over its budget"):
        spent.spend([rows(" a", np.append(SCORES, 0.5))], 1.0, "threshold")


def test_rows_are_their_scores() -> None:
    """The digest knows neither names nor kinds nor the order of the rows."""
    assert rows("a").digest == rows("b").digest == rows("a", SCORES[::-1]).digest == rows("a", kind="ranks").digest
    assert len(rows("a").digest) == 64
    other = fc.Summary.of_scores(SCORES, kind="exact", site="a", score=fc.LAC(), model="m", temperature=2.0)
    assert other.provenance != Provenance()
    assert rows_of([other])[0].digest == rows("a").digest
    assert rows("a", SCORES[1:]).digest != rows("a").digest
    first, second = (fc.Summary.of_scores(SCORES, kind="exact", site=site) for site in "ab")
    pooled = rows_of([fc.pool([first, second])])
    assert [one.site for one in pooled] == ["a", "b"]
    Ledger(budget=1.0).spend(pooled, 1.0, "each row of a pool is charged once")


def test_one_lock_whatever_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    write_ledger(tmp_path / "ledger.json", Ledger(budget=1.0))
    Path("folder/link.json").symlink_to(tmp_path / "ledger.json")
    Path("elsewhere").symlink_to(tmp_path)
    places: list[Path | str] = [
        tmp_path / "ledger.json",
        "ledger.json",
        "folder/../ledger.json",
        "folder/link.json",
        "elsewhere/ledger.json",
    ]
    for place in map(Path, places):
        with spending(place, [A], 0.1, "first"):
            for other in map(Path, places):
                with refused("is in use by another release; wait"), spending(other, [A], 0.1, "second"):
                    pass
    assert len(read_ledger(Path("ledger.json")).entries) == len(places)


def test_a_second_name_is_no_second_budget(tmp_path: Path) -> None:
    one, other = tmp_path / "ledger.json", tmp_path / "other.json"
    write_ledger(one, Ledger(budget=1.0))
    other.hardlink_to(one)
    for path in (one, other):
        with refused("has a second name, a hard link"), spending(path, [A], 1.0, "threshold"):
            pass
    other.unlink()
    with spending(one, [A], 1.0, "threshold"):
        pass


HOLD = """
import sys, time
from pathlib import Path
from fedconformal.privacy.ledger import ChargedRows, spending
with spending(Path(sys.argv[1]), [ChargedRows("a", "0")], 0.1, "first"):
    print("locked", flush=True)
    time.sleep(600)
"""


def test_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    write_ledger(path, Ledger(budget=1.0))
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with refused("is in use by another release"), spending(path, [A], 0.1, "second"):
            pass
        other.send_signal(signal.SIGKILL)
    with spending(path, [A], 0.1, "third"):
        pass
    assert [entry.purpose for entry in read_ledger(path).entries] == ["third"]  # what was never released costs nothing


def test_where_nothing_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.json"
    write_ledger(path, Ledger(budget=1.0))

    def fail(handle: int, *, wait: bool) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(ledger, "_lock", fail)
    with refused("cannot be locked (No locks available); keep it on a local disk"), spending(path, [A], 0.1, "x"):
        pass
    with refused("cannot be read"), spending(tmp_path / "none.json", [A], 0.1, "x"):
        pass
    assert sorted(found.name for found in tmp_path.iterdir()) == ["ledger.json", "ledger.json.lock"]


def test_a_ledger_is_its_owner_s(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    before = os.umask(0)
    try:
        path.write_text('{"budget": 1}')
        with spending(path, [rows("a")], 0.1, "threshold"):
            pass
    finally:
        os.umask(before)
    for found in tmp_path.iterdir():
        assert stat.S_IMODE(found.stat().st_mode) == 0o600
