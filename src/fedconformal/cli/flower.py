"""fedconformal flower: make a Flower app, and run one in this process."""

from __future__ import annotations

import json as json_module
import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.files import read_bytes, write_bytes
from fedconformal._base.names import plural
from fedconformal.certificates.text import full_set_count
from fedconformal.cli.console import print_json, print_result, say, table, tracking
from fedconformal.cli.differential import describe_privacy, precise
from fedconformal.cli.inputs import Json
from fedconformal.cli.regression import Task
from fedconformal.cli.sites import shares_in_words
from fedconformal.cli.train import setting
from fedconformal.errors import InputError, prefix_errors, requires_extra
from fedconformal.privacy.signatures import new_key, public_key

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
def key(
    path: Annotated[Path, typer.Argument(metavar="KEY", help="Where the private key is, or is to be; never send it.")],
    json: Json = False,
) -> None:
    """At a site: make the key by which the other sites of a sums session know it, or show its public part."""
    made = not path.exists()
    if made:
        write_bytes(path, new_key(), private=True)
    with prefix_errors(path):
        public = public_key(read_bytes(path))
    print_result(
        {"key": str(path), "public_key": public},
        *([f"wrote {path}: keep it for every session, and never send it"] if made else []),
        f'public key: {public}; send it to the other sites, for KEYS: {{"site": "hex", ...}}',
        json=json,
    )


@flower.command()
def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The app's directory.")] = Path(),
    nodes: Annotated[int, typer.Option(help="How many sites.", min=1)] = 5,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to put what comes out.", show_default="the app's")
    ] = None,
    from_stage: Annotated[
        str | None, typer.Option(help="Begin at linear, temperature, calibrate, evaluate or broadcast.")
    ] = None,
    privacy: Annotated[
        str | None, typer.Option(help="sums: the server sees only sums over the sites when it calibrates.")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="The model.npz of an earlier run, to begin with.")] = None,
    more: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any key of the app's run config.")
    ] = None,
    json: Json = False,
) -> None:
    """Run an app in this process; `flwr run` runs it in simulation or on a deployment."""
    with requires_extra("flower"):
        from fedconformal.engines.flower.app import App
        from fedconformal.engines.flower.in_process import run_in_process

    overrides: dict[str, Any] = dict(map(setting, more or ()))
    if from_stage is not None:
        overrides["from-stage"] = from_stage
    if privacy is not None:
        overrides["privacy"] = privacy
    if model is not None:
        overrides["saved-model"] = str(model.resolve())
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
        what = describe_privacy(claim) if "epsilon" in claim else claim["claim"]
        say(f"from sums only, in {plural(claim['rounds'], 'round')}: {what}")
        say(*precise(claim, finite=found["threshold"] != "inf"))
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
