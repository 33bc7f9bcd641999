"""fedconformal paper: the paper's tables and figures, ours beside the paper's."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.files import write_bytes
from fedconformal.cli.console import logger, print_json, progress, say, table
from fedconformal.cli.options import Json
from fedconformal.errors import InputError
from fedconformal_paper.catalogue import FIGURES, TABLES, Entry, find
from fedconformal_paper.figures.plot import to_pdf
from fedconformal_paper.logits import LogitsFolder
from fedconformal_paper.numbers import METHODS
from fedconformal_paper.record import LOGITS
from fedconformal_paper.results import record_of, write_results
from fedconformal_paper.setup import DATASETS, Setup
from fedconformal_paper.theorem import UnifiedTheorem

paper = typer.Typer(help="Redo the paper's tables and figures, ours beside the paper's.")


class Partition(StrEnum):
    """Assignments of rows to clients."""

    classes = "classes"
    iid = "iid"
    one = "one"


class Kind(StrEnum):
    """Kinds of summaries of a client's scores."""

    tdigest = "tdigest"
    exact = "exact"
    ranks = "ranks"


Logits = Annotated[
    Path | None,
    typer.Option(
        help="Directory with <dataset>_<method>[_iid].npz, or training runs of that name.",
        show_default="$FEDCONFORMAL_DATA/logits",
    ),
]
Clients = Annotated[
    Partition | None,
    typer.Option("--partition", help="Clients of rows that name none.", show_default="the paper's class maps"),
]


@paper.command("list")
def list_all(json: Json = False) -> None:
    """Name every table and figure of the paper."""
    kinds: dict[str, list[Entry[Any]]] = {"tables": [*TABLES.values()], "figures": [*FIGURES.values()]}
    if json:
        found = {kind: [{"name": e.name, "about": e.about} for e in entries] for kind, entries in kinds.items()}
        print_json(found)
        return
    for kind, entries in kinds.items():
        say(kind)
        for entry in entries:
            say(f"  {entry.name:<32} {entry.about}")


@paper.command("table")
def make_table(
    name: Annotated[str, typer.Argument(help="The table's name; fedconformal paper list shows them.")],
    datasets: Annotated[str | None, typer.Option(help="Names with commas.", show_default="the paper's")] = None,
    logits: Logits = None,
    partition: Clients = None,
    kind: Annotated[Kind, typer.Option(help="How clients summarise their scores.")] = Kind.tdigest,
    train: Annotated[bool, typer.Option("--train", help="Train what is absent first; this takes days.")] = False,
    json: Json = False,
) -> None:
    """Print a table of the paper, ours beside the paper's."""
    entry = find(name, TABLES, "table")
    setup = _setup(logits, partition, datasets, kind, name)
    if train:
        _train_absent(setup)
    made = entry.make(setup)
    if json:
        print_json({"label": entry.label, **made.to_dict()})
        return
    say(f"{made.title} ({entry.label})", "")
    table(made.columns, made.cells())
    say("")
    for note in made.remarks():
        say(note)


@paper.command("figure")
def make_figure(
    name: Annotated[str, typer.Argument(help="The figure's name; fedconformal paper list shows them.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write it (.svg or .pdf).")],
    logits: Logits = None,
    partition: Clients = None,
) -> None:
    """Draw a figure of the paper."""
    if output.suffix not in (".svg", ".pdf"):
        raise InputError(f"{output}: expected a name that ends in .svg or .pdf")
    entry = find(name, FIGURES, "figure")
    setup = _setup(logits, partition, None, Kind.tdigest, name)
    drawn = entry.make(setup)
    write_bytes(output, to_pdf(drawn) if output.suffix == ".pdf" else drawn.encode())
    say(f"wrote {output}: {entry.about} ({entry.label})")
    for remark in setup.remarks():
        say(remark)


@paper.command("theorem")
def state_theorem(
    sizes: Annotated[str, typer.Option(help="Calibration rows of each client, with commas.")],
    alpha: Annotated[float, typer.Option(help="Miscoverage.")] = 0.1,
    delta: Annotated[float, typer.Option(help="Share of the test distribution that is an unknown mixture.")] = 0.0,
    epsilon: Annotated[float, typer.Option(help="Error of the quantile, as a share of all ranks.")] = 0.0,
    json: Json = False,
) -> None:
    """Show the ranks of the unified theorem and of Theorem 4.3."""
    try:
        counts = [int(size) for size in sizes.split(",")]
    except ValueError:
        raise InputError(f"{sizes!r}: expected whole numbers with commas", param="sizes") from None
    theorem = UnifiedTheorem(sizes=counts, delta=delta, epsilon=epsilon)
    rank, plain = theorem.rank(alpha), UnifiedTheorem(sizes=counts).rank(alpha)
    coverage = None if plain is None else float(theorem.coverage(plain))
    found = {"N": sum(counts), "K": len(counts), "rank": rank, "rank_of_theorem_4_3": plain, "its_coverage": coverage}
    if json:
        print_json(found)
        return
    for name, value in found.items():
        say(f"{name.replace('_', ' ')}: {'none, too few scores' if value is None else f'{value:.6g}'}")


@paper.command("results")
def write_page(
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the page (.md).")],
    logits: Logits = None,
    runs: Annotated[
        Path | None, typer.Option(help="Directory with the NAME.json of own runs, to judge claims by them too.")
    ] = None,
) -> None:
    """Write all tables and figures as Markdown pages.

    The answer comes first; the other pages and a record are in a folder of its name. What was measured before and
    cannot be measured now is kept from the record.
    """
    if output.suffix != ".md":
        raise InputError(f"{output}: expected a name that ends in .md")
    if logits is None and "FEDCONFORMAL_DATA" not in os.environ and record_of(output).exists():
        setup = Setup(logits=LogitsFolder(directory=Path(LOGITS)))  # nothing is there, so all is kept
    else:
        setup = _setup(logits, None, None, Kind.tdigest, "results")
    done = write_results(setup, output, runs=runs)
    say(f"wrote {output}; never made: {', '.join(done.absent) or 'nothing'}")
    for one in done.kept:
        say(f"kept from an earlier run, as its logits are not here: {one}")


def _setup(logits: Path | None, partition: Partition | None, datasets: str | None, kind: Kind, name: str) -> Setup:
    if logits is None:
        if "FEDCONFORMAL_DATA" not in os.environ:
            raise InputError("there are no logits to read; say --logits DIR, or set FEDCONFORMAL_DATA to where data is")
        logits = Path(os.environ["FEDCONFORMAL_DATA"]) / "logits"
    if not logits.is_dir():
        raise InputError(f"{logits}: is not a directory; say --logits DIR")

    def track(items: Sequence[Any]) -> Iterable[Any]:
        return progress(items, name, len(items))

    return Setup(
        logits=LogitsFolder(directory=logits, partition=None if partition is None else partition.value),
        datasets=DATASETS if datasets is None else tuple(part.strip() for part in datasets.split(",")),
        kind=kind.value,
        data=Path(os.environ["FEDCONFORMAL_DATA"]) if "FEDCONFORMAL_DATA" in os.environ else None,
        track=track,
    )


def _train_absent(setup: Setup) -> None:
    from fedconformal.cli.app import run

    for dataset in setup.datasets:
        for method in METHODS:
            if setup.logits.path(dataset, method) is None:
                command = setup.logits.command(dataset, method)
                logger.warning("%s", command)
                with contextlib.redirect_stdout(sys.stderr):  # what is asked for here is the table
                    failed = run(command.words)
                if failed:
                    raise InputError(f"this failed: {command}")
