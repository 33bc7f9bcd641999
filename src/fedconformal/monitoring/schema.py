"""The file of a watch: one SQLite database, its tables, and what is said when it cannot be used.

A write-ahead log with full synchronisation: what a transaction has committed survives a kill and a power cut, and what
it has not leaves no trace. Deleted rows are overwritten. The file is readable by its owner only.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedconformal._base.names import shown
from fedconformal.errors import InputError, StoreError

APPLICATION = 0x46435721
"""Which SQLite file this is, next to all others."""
VERSION = 1
SECONDS = 5.0
"""How long to wait while another process writes."""
AT_ONCE = 50_000
"""Values in one statement."""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE counts (what TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE streams (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, rate REAL, false_alarm REAL NOT NULL,
    failure REAL NOT NULL, known INTEGER NOT NULL, misses REAL NOT NULL, waiting INTEGER NOT NULL,
    sizes REAL NOT NULL, alarm_at INTEGER, alarm_day INTEGER, UNIQUE (kind, name));
CREATE TABLE tallies (
    stream INTEGER, day INTEGER, known INTEGER NOT NULL, misses REAL NOT NULL, waiting INTEGER NOT NULL,
    sizes REAL NOT NULL, PRIMARY KEY (stream, day)) WITHOUT ROWID;
CREATE TABLE cells (number INTEGER PRIMARY KEY, streams TEXT NOT NULL UNIQUE);
CREATE TABLE rows (
    id TEXT PRIMARY KEY, time REAL NOT NULL, cell INTEGER NOT NULL, held BLOB, outcome REAL) WITHOUT ROWID;
CREATE TABLE early (id TEXT PRIMARY KEY, time REAL NOT NULL, outcome REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE detectors (
    name TEXT PRIMARY KEY, seed INTEGER NOT NULL, rows INTEGER NOT NULL, bets BLOB NOT NULL, alarm_day INTEGER,
    since_day INTEGER) WITHOUT ROWID;
CREATE TABLE scores (detector TEXT, first INTEGER, day INTEGER, scores BLOB NOT NULL, PRIMARY KEY (detector, first))
    WITHOUT ROWID;
CREATE TABLE evidence (detector TEXT, day INTEGER, log_e REAL NOT NULL, PRIMARY KEY (detector, day)) WITHOUT ROWID;
"""

NEW_STREAM = "INSERT INTO streams VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0, 0, NULL, NULL)"

WORDS = {
    "SQLITE_BUSY": "is in use by another process; try again later",
    "SQLITE_LOCKED": "is in use by another process; try again later",
    "SQLITE_FULL": "cannot be written, as the disk is full; make room and try again",
    "SQLITE_NOTADB": "is not the file of a watch; monitor start makes one",
    "SQLITE_CORRUPT": "is damaged; go on with a copy of it, and keep this one",
    "SQLITE_READONLY": "cannot be written; change the rights of the file and its folder",
    "SQLITE_CANTOPEN": "cannot be opened; look at its folder and its rights",
}


@contextmanager
def saying(path: Path) -> Iterator[None]:
    """Say in one line what is wrong with the file; nothing of the transaction has happened then.

    A server passes this on to its clients, so it has the name of the file and not the folder.
    """
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        known = next((words for start, words in WORDS.items() if name.startswith(start)), None)
        raise StoreError(f"{path.name}: {known or f'cannot be used ({shown(str(error))})'}") from None


def create(
    path: Path,
    meta: dict[str, bytes],
    streams: Iterable[Sequence[Any]],
    fill: Callable[[sqlite3.Connection], None],
) -> sqlite3.Connection:
    """Make a new file with these settings, and all that `fill` adds; one that is there already is refused."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        raise InputError("is there already, and a watch is never begun anew; choose another name", where=path) from None
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror}); choose another folder", where=path) from None
    try:
        with saying(path):
            connection = _connected(path)
            with transaction(connection):
                for statement in TABLES.split(";"):
                    connection.execute(statement)
                connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
                rows = [(number, *row) for number, row in enumerate(streams)]
                connection.executemany(NEW_STREAM, rows)
                fill(connection)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            name.unlink(missing_ok=True)
        raise
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """Open the file of a watch; any other file is refused."""
    if not path.is_file():
        raise InputError("there is no such file; monitor start makes one", where=path)
    with saying(path):
        return _connected(path, check=True)


def _connected(path: Path, *, check: bool = False) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, timeout=SECONDS, isolation_level=None, check_same_thread=False)
    try:
        if check:
            _check(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (kind,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if kind != APPLICATION:
        raise InputError("is not the file of a watch; monitor start makes one", where=path)
    if version > VERSION:
        raise InputError(f"is of version {version}, this release knows {VERSION}; use a newer fedconformal", where=path)


@contextmanager
def transaction(connection: sqlite3.Connection, *, write: bool = True) -> Iterator[None]:
    """Do all of it or nothing; others read the state before meanwhile."""
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # a full disk may have ended it already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def looked_up(connection: sqlite3.Connection, query: str, keys: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Run a query that takes keys as a JSON list, for some of them at a time."""
    for start in range(0, len(keys), AT_ONCE):
        some = json.dumps(keys[start : start + AT_ONCE], ensure_ascii=False)
        yield from connection.execute(query, (some,))
