"""fedconformal train: train a model across the sites of a data set, in a directory from which a run can continue."""

from __future__ import annotations

import importlib
import shlex
import sys
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fedconformal._base.names import plural
from fedconformal.cli.console import logger, print_json, say, tracking
from fedconformal.cli.options import Json, check_output
from fedconformal.errors import InputError, requires_extra


def train(
    output: Annotated[Path, typer.Option("-o", "--output", help="The run's directory.")],
    config: Annotated[Path | None, typer.Option(help="A TOML file with settings.")] = None,
    preset: Annotated[Literal["paper"] | None, typer.Option(help="The paper's settings.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the directory.")] = False,
    dataset: Annotated[
        str | None, typer.Option(help="digits, fashionmnist, cifar10, ..., or your own function as package:function.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="fedavg, fedprox, tct or central.", show_default="fedavg")] = None,
    partition: Annotated[
        str | None, typer.Option(help="classes, overlap, dirichlet, iid or column.", show_default="classes")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="logistic, mlp, lenet, resnet14, efficientnet-b1, efficientnet-lite1, or your own as package:Net.",
            show_default="depends on the rows",
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other setting, such as rounds=20; repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Train a model across sites and write its outputs."""
    with requires_extra("train"):
        from fedconformal.training.config import Config, paper_settings, read_config
        from fedconformal.training.run import FILES, read_settings
        from fedconformal.training.run import train as run

    options = {"dataset": dataset, "method": method, "partition": partition, "model": model}
    typed = {key: value for key, value in options.items() if value is not None}
    named = ({} if config is None else read_config(config)) | typed | dict(map(setting, more or ()))
    if preset is not None:
        named = paper_settings(named) | named
    existing = read_settings(output) if resume else None
    settings = named if existing is None else existing.to_dict() | named
    own = {key: import_object(key, settings.get(key), typed.get(key)) for key in ("model", "dataset")}
    start = Path(str(settings["weights"])) if settings.get("weights") else None
    for name in FILES:
        check_output(output / name, config, start)
    with tracking("getting ready") as progress:
        dataset_of = own["dataset"]
        result = run(
            Config.from_dict(settings),
            output,
            resume=resume,
            progress=progress,
            network=own["model"],
            dataset=None if dataset_of is None else dataset_of(),
        )
    outputs, summaries = (shlex.quote(str(output / name)) for name in ("logits.npz", "sites"))
    following = f"fedconformal summarize {outputs} -o {summaries}"
    if result.temperature_at_bound:
        logger.warning("the temperature %g is at the end of its range; look at the accuracy", result.temperature)
    if json:
        print_json({"output": str(output), **asdict(result), "next": following})
        return
    sites = plural(result.clients, "site")
    say(f"accuracy {result.accuracy:.4f} on {result.rows['test']} test rows of {sites}")
    say(f"temperature {result.temperature:.4g}, from {result.rows['temperature']} held-out rows")
    say(f"The run is in {output}. Next:", f"$ {following}")


def import_object(key: str, value: Any, typed: str | None) -> Callable[[], Any] | None:
    """Import an object named package:name, which is accepted from an option but never from a file."""
    if not isinstance(value, str) or ":" not in value:
        return None
    option = f"--{key}"
    if value != typed:
        problem = f"{value} is code, which only the command line may name"
        raise InputError(f"{problem}; add {option} {value} if you trust it", param=key)
    module, _, name = value.partition(":")
    if str(Path.cwd()) not in sys.path:  # as for `python -m`
        sys.path.insert(0, str(Path.cwd()))
    try:
        target: Callable[[], Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{option} {value}: cannot be imported ({error})", param=key) from None
    return target


def setting(text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE; a value that is not TOML is a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--set {text}: expected KEY=VALUE")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
