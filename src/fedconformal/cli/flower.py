"""fedconformal flower: create a Flower app, and run one in this process."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from fedconformal._base.names import plural
from fedconformal.certificates.certificate import Certificate
from fedconformal.certificates.text import full_set_count, privacy_claim, sentence
from fedconformal.cli.console import print_result, say, table, tracking, write
from fedconformal.cli.options import Json
from fedconformal.cli.train import setting
from fedconformal.errors import InputError, requires_extra


class Result(msgspec.Struct):
    """The result.json of a run."""

    threshold: Any
    certificate: Certificate
    evaluation: dict[str, Any]
    participants: list[dict[str, Any]]
    output: str


flower = typer.Typer(name="flower", help="Make a Flower app, and run one in this process.")


@flower.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The app's directory, empty or not there yet.")],
    json: Json = False,
) -> None:
    """Make a Flower app, on digits. Its task.py is yours to change."""
    with requires_extra("flower"):
        from fedconformal.engines.flower.in_process import make_app

    made = [str(path) for path in make_app(folder)]
    print_result({"files": made}, *made, "Next:", f"$ cd {folder}", "$ fedconformal flower run", json=json)


@flower.command()
def run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The app's directory.")] = Path(),
    nodes: Annotated[int, typer.Option(help="How many sites.", min=1)] = 5,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Directory of the results.", show_default="the app's")
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
    """Run an app in this process. For simulation and deployment, use `flwr run`."""
    with requires_extra("flower"):
        from fedconformal.engines.flower.in_process import App, run_in_process

    overrides = dict(map(setting, more or ()))
    where = output or folder / str(App.read(folder, overrides).config.get("output", "fedconformal-run"))
    app = App.read(folder, {**overrides, "output": str(where.resolve())})
    least = app.config.get("min-sites")  # a key of other apps too, with values of any type
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
        try:
            run_in_process(server, client, nodes, run_config=app.config, progress=progress)
        except InputError as error:  # keys of the run config are no options of this command
            raise InputError(str(error), param="settings" if error.param in app.config else None) from None
    outcome = _result(where)
    if json:
        write((where / "result.json").read_text("utf-8"))
    else:
        show_result(outcome)


def _result(output: Path) -> Result:
    try:
        return msgspec.json.decode((output / "result.json").read_bytes(), type=Result)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{output}: the run wrote no result.json ({error}); does its server app use it?") from None


def show_result(result: Result) -> None:
    """Print the promise, the coverage at the sites and the messages of each stage."""
    about, overall = result.certificate, result.evaluation["overall"]
    say(sentence(about), f"threshold {about.limit_text}, {about.status} from {about.scores} scores")
    if about.privacy is not None:
        say(f"from sums only, in {plural(about.privacy['rounds'], 'round')}: {privacy_claim(about.privacy)}")
        for entry in about.privacy["dropped"]:
            say(f"{entry['site']} dropped out {entry['when']} (the promise still covers it): {entry['reason']}")
    for left in about.left_out or ():
        say(f"The promise does not cover {left.site}: {left.reason}")
    numbers = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in overall.items())
    say(f"on the sites' test rows: {numbers}")
    if overall["full_sets"]:
        rows = sum(entry["rows"] for entry in result.evaluation["by_site"].values())
        say(full_set_count(int(overall["full_sets"]), int(rows)))
    if result.evaluation["why_uninformative"]:
        say(f"Sets say little: {result.evaluation['why_uninformative']}")
    say("")
    rows = []
    for entry in result.participants:
        counts = (len(entry["took_part"]), len(entry["refused"]), entry["exchanges"])
        sizes = (entry["bytes"]["per_site_sent"], entry["bytes"]["per_site_received"])
        rows.append((entry["stage"], *(f"{count:,}" for count in (*counts, *sizes))))
    table(("stage", "sites", "refused", "messages a site", "bytes to a site", "bytes from a site"), rows)
    for entry in result.participants:
        for refused in entry["refused"]:
            say(f"refused in {entry['stage']}: {refused['site']}: {refused['reason']}")
    say("", f"Everything is in {result.output}")
