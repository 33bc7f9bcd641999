"""Database of a watch: one SQLite file, its schema, transactions and error messages.

The write-ahead log is fully synchronised: a committed transaction survives a kill and a power failure, and any other is
rolled back. Deleted rows are overwritten. The file is readable by its owner only. Files are untrusted: before use the
schema is compared with the expected one, and pages and types are checked.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError, StoreError

APPLICATION = 0x46435721
SECONDS = 5.0
"""Timeout while another process writes."""
AT_ONCE = 50_000
"""Maximum number of keys in one query."""
LONGEST = 2**28
"""Maximum size of a value in bytes."""
CHECK_SECONDS, STEPS = 60.0, 100_000
"""Timeout of the check of a file, and steps of the database engine between two checks of the clock."""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE streams (
    rate REAL NOT NULL, false_alarm REAL NOT NULL, failure REAL NOT NULL, known INTEGER NOT NULL, misses REAL NOT NULL,
    waiting INTEGER NOT NULL, alarm_at INTEGER, number INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL,
    sizes REAL NOT NULL, alarm_day INTEGER, UNIQUE (kind, name)) STRICT;
CREATE TABLE tallies (
    stream INTEGER, day INTEGER, known INTEGER NOT NULL, misses REAL NOT NULL, waiting INTEGER NOT NULL,
    sizes REAL NOT NULL, PRIMARY KEY (stream, day)) STRICT, WITHOUT ROWID;
CREATE TABLE rows (
    id TEXT PRIMARY KEY, time REAL NOT NULL, streams TEXT NOT NULL, held BLOB, outcome REAL,
    digest BLOB)
    STRICT, WITHOUT ROWID;
CREATE TABLE early (id TEXT PRIMARY KEY, time REAL NOT NULL, outcome REAL NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE detector (
    number INTEGER PRIMARY KEY, seed INTEGER NOT NULL, rows INTEGER NOT NULL, bets BLOB NOT NULL, alarm_day INTEGER)
    STRICT;
CREATE TABLE scores (first INTEGER PRIMARY KEY, scores BLOB NOT NULL) STRICT;
"""
NEW_STREAM = "INSERT INTO streams VALUES (?, ?, ?, 0, 0, 0, NULL, (SELECT count(*) FROM streams), ?, ?, 0, NULL)"

DAMAGED = "is damaged; continue with a backup, and keep this file"
WORDS = {
    "SQLITE_BUSY": "is in use by another process; try again later",
    "SQLITE_LOCKED": "is in use by another process; try again later",
    "SQLITE_FULL": "cannot be written, as the disk is full; make room and try again",
    "SQLITE_NOTADB": "is not the file of a watch; monitor start makes one",
    "SQLITE_CORRUPT": DAMAGED,
    "SQLITE_TOOBIG": DAMAGED,
    "SQLITE_INTERRUPT": DAMAGED,
    "SQLITE_READONLY": "cannot be written; change the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "cannot be opened; check its folder and its permissions",
}


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Convert database errors to one line with the file's name but not its folder; the transaction has no effect."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        known = next((words for start, words in WORDS.items() if name.startswith(start)), None)
        raise StoreError(f"{path.name}: {known or f'cannot be used ({abbreviate(str(error))})'}") from None
    except InputError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, msgspec.MsgspecError) as error:  # values of the file
        raise StoreError(f"{path.name}: {DAMAGED}") from error


def create(
    path: Path,
    meta: dict[str, bytes],
    streams: Iterable[Sequence[Any]],
    fill: Callable[[sqlite3.Connection], None] | None = None,
) -> sqlite3.Connection:
    """Create a file with these settings and the additions of `fill`; an existing file is refused."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        raise InputError("exists already, and is not overwritten; choose another name", where=path) from None
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror}); choose another folder", where=path) from None
    try:
        with store_errors(path):
            connection = _connected(path)
            with transaction(connection):
                for statement in TABLES.split(";"):
                    connection.execute(statement.strip())
                connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
                connection.executemany(NEW_STREAM, streams)
                if fill is not None:
                    fill(connection)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
    except BaseException:
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            name.unlink(missing_ok=True)
        raise
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """Open the file of a watch; other files are refused."""
    if not path.is_file():
        raise InputError("there is no such file; monitor start makes one", where=path)
    with store_errors(path):
        return _connected(path, check=True)


def _connected(path: Path, *, check: bool = False) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, timeout=SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        connection.execute("PRAGMA trusted_schema = OFF")
        if check:
            _check(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file with another schema, damaged pages or values of another type."""
    end = time.monotonic() + CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, STEPS)
    (kind,) = connection.execute("PRAGMA application_id").fetchone()
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(TABLES)
        expected = _schema(memory)
    if kind != APPLICATION or _schema(connection) != expected:
        raise InputError("is not the file of a watch; monitor start makes one", where=path)
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise StoreError(f"{path.name}: {DAMAGED}")
    connection.set_progress_handler(None, 0)


def _schema(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name LIMIT 99").fetchall()


@contextmanager
def transaction(connection: sqlite3.Connection, *, write: bool = True) -> Iterator[None]:
    """Run statements atomically; other processes meanwhile read the previous state."""
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # a full disk may have ended it already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def looked_up(connection: sqlite3.Connection, query: str, keys: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Run a query with keys as a JSON list, in batches."""
    for start in range(0, len(keys), AT_ONCE):
        yield from connection.execute(query, (msgspec.json.encode(keys[start : start + AT_ONCE]).decode(),))
