"""fedconformal sql, page and policy: for sites with a database, without an installation, or with rules of their own."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from fedconformal._base.files import write_bytes
from fedconformal.cli.console import print_result
from fedconformal.cli.options import Alpha, Json, Page, check_output, split
from fedconformal.errors import InputError
from fedconformal.privacy.policy import EXAMPLE, VARIABLE, read_policy
from fedconformal.summaries.sql import column_of, lac_of, residual_of, statement


def sql(
    table: Annotated[str, typer.Option("--table", metavar="NAME", help="The table, such as scans or clinic.scans.")],
    classes: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Score with lac: columns of the classes, in order.")
    ] = None,
    predictions: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Score with residual: the predictions.")
    ] = None,
    scores: Annotated[str | None, typer.Option(metavar="COLUMN", help="A column of scores.")] = None,
    labels: Annotated[str, typer.Option(metavar="COLUMN", help="The true class, or the true number.")] = "label",
    alpha: Alpha = "0.1",
    json: Json = False,
) -> None:
    """Print an SQL query (DuckDB, PostgreSQL) for summarize to read."""
    if sum(one is not None for one in (classes, predictions, scores)) != 1:
        raise InputError("give --classes A,B,... or --predictions COLUMN or --scores COLUMN; one of them")
    if classes is not None:
        rows = lac_of(split(classes), labels)
    else:
        rows = column_of(scores) if scores is not None else residual_of(predictions or "", labels)
    text = f"-- Run this query, then: fedconformal summarize result.csv -o site.fcs\n{statement(table, rows, alpha)};"
    print_result({"query": text}, *text.splitlines(), json=json)


def page(output: Page = Path("summarize.html"), json: Json = False) -> None:
    """Write an HTML page that summarises a table in a browser."""
    check_output(output, ending=".html")
    data = resources.files("fedconformal.cli").joinpath("page.html").read_bytes()
    write_bytes(output, data)
    digest = hashlib.sha256(data).hexdigest()
    said = f"wrote {output}: open it in a browser at the site; it sends nothing"
    print_result({"output": output, "sha256": digest}, said, f"SHA-256 {digest}", json=json)


policy = typer.Typer(help="Rules on what may leave a site.")


@policy.command()
def check(
    path: Annotated[Path, typer.Argument(metavar="POLICY", help="A site's policy (.toml).")], json: Json = False
) -> None:
    """Explain a policy in words, or report its errors."""
    found = read_policy(path)
    words = found.in_words()
    print_result({"policy": found, "words": words}, *words, json=json)


@policy.command()
def new(
    path: Annotated[Path, typer.Argument(metavar="POLICY", help="The file to write (.toml).")] = Path("policy.toml"),
    json: Json = False,
) -> None:
    """Write a policy to change: every key, with a comment on each."""
    check_output(path, ending=".toml")
    if path.exists():
        raise InputError(f"{path}: exists; change it, or name another file")
    write_bytes(path, EXAMPLE.encode())
    words = f"wrote {path}; the site's commands and engines read it if {VARIABLE} names it"
    print_result({"policy": path}, words, json=json)
