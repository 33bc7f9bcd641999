"""Budgets belong to rows, whatever these are called; and a ledger is locked by whoever is alive."""

from __future__ import annotations

import stat
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy import Ledger, read_ledger, write_ledger
from fedconformal.privacy.ledger import ChargedRows, rows_of, spending
from tests.contracts.tools import refused

SCORES = np.random.default_rng(0).random(50)
A, B, C = (ChargedRows(name, name) for name in "abc")


def rows(site: str, scores: np.ndarray = SCORES, kind: str = "exact") -> ChargedRows:
    return rows_of([fc.Summary.of_scores(scores, kind=kind, site=site)])[0]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.json"
    write_ledger(path, Ledger(budget=1.0))
    return path


def test_two_names_of_the_same_rows_share_a_budget() -> None:
    spent = Ledger(budget=1.5).spend([rows("a")], 1.0, "threshold")
    with refused("'b' has spent 1 of 1.5; 1 more is over its budget"):
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
    other = fc.Summary.of_scores(SCORES, kind="exact", site="a", score=fc.LAC(), model="m", temperature=2.0)
    assert rows_of([other])[0].digest == rows("a").digest
    assert rows("a", SCORES[1:]).digest != rows("a").digest
    first, second = (fc.Summary.of_scores(SCORES, kind="exact", site=site) for site in "ab")
    pooled = rows_of([fc.pool([first, second])])
    assert [one.site for one in pooled] == ["a", "b"]
    Ledger(budget=1.0).spend(pooled, 1.0, "each row of a pool is charged once")


def test_the_ledger_adds_up_and_refuses(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ledger = Ledger(budget=0.3)
    for _ in range(3):
        ledger = ledger.spend([A, B], 0.1, "threshold")  # three times 0.1 is 0.3, not more
    write_ledger(path, ledger)
    again = read_ledger(path)
    assert again == ledger
    assert again.spent(A) == again.spent(B) == Fraction(3, 10)
    with refused("'b' has spent 0.3 of 0.3; 0.001 more is over its budget"):
        again.spend([C, B], 0.001, "threshold")
    assert again.spend([C], 0.3, "threshold").spent(C) == Fraction(3, 10)
    with refused("'a' has spent 0 of 1; 1.5 more is over its budget"):
        Ledger(budget=1.0).spend([A, B, A], 0.75, "threshold")
    for bad in (b"", b"{}", b'{"budget": -1, "entries": []}', b'{"budget": 1, "entries": [{"data": "a"}]}', b"\xff"):
        path.write_bytes(bad)
        with refused("not a privacy ledger", "ledger.json"):
            read_ledger(path)


def test_a_release_that_fails_is_not_entered(book: Path) -> None:
    with spending(book, [A], 0.5, "first"):
        assert not read_ledger(book).entries
    with pytest.raises(ArithmeticError), spending(book, [A], 0.5, "a release that was never made"):
        raise ArithmeticError
    assert [entry.purpose for entry in read_ledger(book).entries] == ["first"]


def test_one_lock_whatever_the_path(book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder/link.json").symlink_to(book)
    Path("elsewhere").symlink_to(tmp_path)
    names = ("ledger.json", "folder/../ledger.json", "folder/link.json", "elsewhere/ledger.json")
    places = [book, *map(Path, names)]
    for place in places:
        with spending(place, [A], 0.1, "first"):
            for other in places:
                with refused("is in use by another release; wait"), spending(other, [A], 0.1, "second"):
                    pass
    assert len(read_ledger(book).entries) == len(places)


def test_a_second_name_is_no_second_budget(book: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.hardlink_to(book)
    for path in (book, other):
        with refused("has a second name, a hard link"), spending(path, [A], 1.0, "threshold"):
            pass


def test_a_ledger_is_its_owner_s(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    path.write_text('{"budget": 1}')
    with spending(path, [A], 0.1, "threshold"):
        pass
    assert {stat.S_IMODE(found.stat().st_mode) for found in tmp_path.iterdir()} == {0o600}
