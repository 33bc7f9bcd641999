"""fedconformal flower: make a Flower app, and run one in this process."""

from __future__ import annotations

import json as json_module
import logging
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.names import plural
from fedconformal.certificates.text import full_set_count
from fedconformal.cli.console import print_json, print_result, say, table, tracking
from fedconformal.cli.options import Json
from fedconformal.cli.privacy import describe_privacy
from fedconformal.cli.sites import shares_in_words
from fedconformal.cli.train import setting
from fedconformal.errors import InputError, requires_extra


class Task(StrEnum):
    """What is predicted: a class, or a number."""

    classification = "classification"
    regression = "regression"


flower = typer.Typer(name="flower", help="Make a Flower app, and run one in this process.", no_args_is_help=True)


@flower.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The app's directory, empty or not there yet.")],
    task: Annotated[Task, typer.Option(help="What is predicted: a class, or a number.")] = Task.classification,
    json: Json = False,
) -> None:
    """Make a Flower app that trains and calibrates on digits, or on diabetes; its task.py is yours to change."""
    with requires_extra("flower"):
        from fedconformal.engines.flower.app import make_app

    made = [str(path) for path in make_app(folder, task.value)]
    print_result({"files": made}, *made, "Next:", f"$ cd {folder}", "$ fedconformal flower run", json=json)


@flower.command()
def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The app's directory.")] = Path(),
    nodes: Annotated[int, typer.Option(help="How many sites.", min=1)] = 5,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to put what comes out.", show_default="the app's")
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any key of the app's run config, such as privacy=sums, from-stage=calibrate, saved-model=model.npz.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run an app in this process; `flwr run` runs it in simulation or on a deployment."""
    with requires_extra("flower"):
        from fedconformal.engines.flower.app import App
        from fedconformal.engines.flower.in_process import run_in_process

    overrides: dict[str, Any] = dict(map(setting, more or ()))
    where = output or folder / str(App.read(folder, overrides).config.get("output", "fedconformal-run"))
    app = App.read(folder, {**overrides, "output": str(where.resolve())})
    least = app.config.get("min-sites")  # any app may have it, and only a run of ours reads it strictly
    if isinstance(least, int) and nodes < least:
        raise InputError(f"--nodes is {nodes}, and the app's min-sites {least}; change one of them")
    result = where / "result.json"
    try:
        result.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{result}: cannot be replaced ({error.strerror}); choose another output") from None
    with tracking("running") as progress:
        logging.getLogger("flwr").setLevel(logging.ERROR)
        client, server = app.load()
        run_in_process(server, client, nodes, run_config=app.config, progress=progress)
    found = _result(where)
    if json:
        print_json(found)
        return
    _show(found)


def _result(output: Path) -> dict[str, Any]:
    """Read what the run has written."""
    try:
        found: dict[str, Any] = json_module.loads((output / "result.json").read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{output}: the run wrote no result.json ({error}); does its server app use it?") from None
    return found


def _show(found: dict[str, Any]) -> None:
    certificate, overall = found["certificate"], found["evaluation"]["overall"]
    intervals = "mean_width" in overall or "infinite" in overall
    answers, promised = "Intervals" if intervals else "Sets", certificate["statement"]["promise"]
    scores = sum(sum(record["sizes"]) for record in certificate["summaries"])
    say(f"{answers} hold the truth with probability at least {1 - found['alpha']:.10g} {promised}.")
    say(f"threshold {found['threshold']}, {certificate['status']} from {scores} scores")
    claim = certificate.get("privacy")
    if claim is not None:
        words, *precision = describe_privacy(claim, finite=found["threshold"] != "inf")
        say(f"from sums only, in {plural(claim['rounds'], 'round')}: {words}", *precision)
        rows = {record["sites"][0]: record["sizes"][0] / scores for record in certificate["summaries"]}
        say(shares_in_words(rows))
        for one in claim["dropped"]:
            say(f"{one['site']} dropped out {one['when']} (the promise still covers it): {one['reason']}")
    for one in certificate.get("left_out", []):
        say(f"The promise does not cover {one['site']}: {one['reason']}")
    if overall:
        width = f"{overall['mean_width']:.4g} wide" if "mean_width" in overall else "some without an end"
        size = width if intervals else f"{overall['mean_size']:.2f} labels a set"
        say(f"coverage {overall['coverage']:.3f}, {size}, on the sites' test rows")
    if overall.get("full_sets"):
        rows = sum(one["rows"] for one in found["evaluation"]["by_site"].values())
        say(full_set_count(int(overall["full_sets"]), rows))
    if why := found["evaluation"].get("why_full"):
        say(f"{answers} say little: {why}")
    say("")
    table(
        ("stage", "sites", "refused", "messages a site", "bytes to a site", "bytes from a site"),
        [
            (
                one["stage"],
                str(len(one["took_part"])),
                str(len(one["refused"])),
                str(one["exchanges"]),
                f"{one['bytes']['per_site_sent']:,}",
                f"{one['bytes']['per_site_received']:,}",
            )
            for one in found["participants"]
        ],
    )
    for stage in found["participants"]:
        for one in stage["refused"]:
            say(f"refused in {stage['stage']}: {one['site']}: {one['reason']}")
    say("", f"Everything is in {found['output']}")
