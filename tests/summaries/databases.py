"""Databases to run a query on: DuckDB in this process, Spark beside it, PostgreSQL as a server of its own."""

from __future__ import annotations

import csv
import io
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

Columns = Mapping[str, Sequence[Any]]
"""A table: numbers or texts a column, None where there is no value."""


class Database(Protocol):
    """A database that runs a query on a table called rows."""

    def __call__(self, table: Columns, query: str) -> bytes:
        """Return the result as CSV."""


class DuckDB:
    def __init__(self) -> None:
        import duckdb

        self.connection = duckdb.connect()

    def __call__(self, table: Columns, query: str) -> bytes:
        import pyarrow as pa

        self.connection.register("rows", pa.table(dict(table)))
        found = self.connection.execute(query)
        return written([name for name, *_ in found.description or ()], found.fetchall())


class Spark:
    """Spark on this machine; sqlglot translates the query, as docs/sql.md does."""

    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", 1)
        for setting in ("spark.driver.host", "spark.driver.bindAddress"):
            builder = builder.config(setting, "127.0.0.1")
        self.session = builder.config("spark.ui.enabled", False).config("spark.log.level", "ERROR").getOrCreate()

    def __call__(self, table: Columns, query: str) -> bytes:
        import sqlglot

        rows = list(zip(*table.values(), strict=True))
        self.session.createDataFrame(rows, list(table)).createOrReplaceTempView("rows")
        found = self.session.sql(sqlglot.transpile(query, read="duckdb", write="spark")[0])
        return written(found.columns, found.collect())


def written(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """Write a result as most programs do."""
    file = io.StringIO()
    lines = csv.writer(file)
    lines.writerow(names)
    lines.writerows(rows)
    return file.getvalue().encode()


class PostgreSQL:
    def __init__(self, programs: Path, folder: Path, port: int) -> None:
        self._command = [str(programs / "psql"), "-h", str(folder), "-p", str(port), "-U", "nobody", "postgres"]
        self._command += ["-X", "-q", "-v", "ON_ERROR_STOP=1", "--csv"]

    def __call__(self, table: Columns, query: str, before: str = "") -> bytes:
        types = ["text" if _is_text(values) else "double precision" for values in table.values()]
        names = ['"' + name.replace('"', '""') + '"' for name in table]
        made = f"CREATE TEMP TABLE rows ({', '.join(f'{n} {t}' for n, t in zip(names, types, strict=True))});\n"
        cells = "".join("\t".join(map(_cell, row)) + "\n" for row in zip(*table.values(), strict=True))
        script = f"{made}COPY rows FROM STDIN;\n{cells}\\.\n{before}{query};\n"
        done = subprocess.run(self._command, input=script.encode(), capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        return done.stdout


def _is_text(values: Sequence[Any]) -> bool:
    return any(isinstance(value, str) for value in values)


def _cell(value: Any) -> str:
    return "\\N" if value is None else value.replace("\\", "\\\\") if isinstance(value, str) else repr(value)


@contextmanager
def postgresql() -> Iterator[PostgreSQL | str]:
    """Start a server on a socket of its own, as a user that is not root; or say why there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    path = shutil.which("initdb")
    if not found and path is None:
        yield "PostgreSQL is not installed"
        return
    programs = found[-1].parent if found else Path(str(path)).parent
    user: dict[str, Any] = {"user": "nobody"} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if user:
        os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **user}
    data, control = folder / "data", programs / "pg_ctl"
    try:
        subprocess.run([programs / "initdb", "-A", "trust", "-U", "nobody", "--no-sync", data], check=True, **quiet)
        settings = f"-p {port} -c listen_addresses= -k {folder} -c fsync=off"
        subprocess.run([control, "-D", data, "-w", "-o", settings, "start"], check=True, **quiet)
        try:
            yield PostgreSQL(programs, folder, port)
        finally:
            subprocess.run([control, "-D", data, "-m", "immediate", "stop"], check=False, **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
