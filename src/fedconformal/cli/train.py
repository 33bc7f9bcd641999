"""fedconformal train: learn a model across the sites of a data set, in a directory from which it can go on."""

from __future__ import annotations

import shlex
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.extras import needing
from fedconformal.cli.console import logger, print_json, say, tracking
from fedconformal.cli.inputs import Json, check_outputs
from fedconformal.errors import InputError


class Preset(StrEnum):
    """Settings under one name."""

    paper = "paper"


def train(
    output: Annotated[Path, typer.Option("-o", "--output", help="The run's directory.")],
    config: Annotated[Path | None, typer.Option(help="A TOML file with settings.")] = None,
    preset: Annotated[Preset | None, typer.Option(help="The paper's settings.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the directory.")] = False,
    dataset: Annotated[str | None, typer.Option(help="digits, fashionmnist, cifar10, cifar100, ...")] = None,
    method: Annotated[str | None, typer.Option(help="fedavg, fedprox, tct or central.", show_default="fedavg")] = None,
    partition: Annotated[
        str | None, typer.Option(help="classes, overlap, iid, dirichlet or column.", show_default="classes")
    ] = None,
    clients: Annotated[int | None, typer.Option(help="iid, dirichlet: how many.", show_default="10")] = None,
    classes_per_client: Annotated[int | None, typer.Option(help="overlap: how many.", show_default="2")] = None,
    concentration: Annotated[float | None, typer.Option(help="dirichlet: how alike.", show_default="0.5")] = None,
    column: Annotated[str | None, typer.Option(help="column: whose values are the sites.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="logistic, mlp, lenet, resnet14 or efficientnet-b1.", show_default="what suits the rows"),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="A file of weights to start from.")] = None,
    rounds: Annotated[int | None, typer.Option(help="How often weights are exchanged.", show_default="20")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the rows in a round.", show_default="1")] = None,
    rate: Annotated[float | None, typer.Option(help="The step of SGD.", show_default="0.01")] = None,
    mu: Annotated[float | None, typer.Option(help="fedprox: the pull.", show_default="0.1")] = None,
    seed: Annotated[int | None, typer.Option(help="All that is random comes from it.", show_default="0")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.", show_default="auto")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes.", show_default="one a core")] = None,
    more: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any other setting, as in the TOML file.")
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write events for TensorBoard too.")] = False,
    json: Json = False,
) -> None:
    """Train a model across sites and write what it says of their calibration and test rows."""
    with needing("train"):
        from fedconformal.federated.config import Config, read_config
        from fedconformal.federated.config import preset as read_preset
        from fedconformal.federated.run import FILES, read_settings
        from fedconformal.federated.run import train as run

    options = {
        "dataset": dataset,
        "method": method,
        "partition": partition,
        "clients": clients,
        "classes_per_client": classes_per_client,
        "concentration": concentration,
        "column": column,
        "model": model,
        "weights": weights,
        "rounds": rounds,
        "epochs": epochs,
        "rate": rate,
        "mu": mu,
        "seed": seed,
        "device": device,
        "workers": workers,
    }
    given = {} if config is None else read_config(config)
    given |= {key: value for key, value in options.items() if value is not None} | dict(map(setting, more or ()))
    if preset is not None:
        given = read_preset(preset.value, given) | given
    settings = (read_settings(output) or {}) | given if resume else given
    start = Path(str(settings["weights"])) if settings.get("weights") else None
    check_outputs((output / name for name in FILES), config, start)
    with tracking("getting ready") as progress:
        result = run(Config.from_dict(settings), output, resume=resume, tensorboard=tensorboard, progress=progress)
    if result.at_bound:
        logger.warning("the temperature %g is at the end of its range; look at the accuracy", result.temperature)
    logits, summaries = (shlex.quote(str(output / name)) for name in ("logits.npz", "sites"))
    following = f"fedconformal summarize {logits} -o {summaries}"
    if json:
        print_json({"output": str(output), **result.to_dict(), "next": following})
        return
    say(f"accuracy {result.accuracy:.4f} on {result.rows['test']} test rows of {result.clients} clients")
    say(f"temperature {result.temperature:.4g}, from {result.rows['temperature']} rows kept apart")
    say(f"The run is in {output}. Next:", f"$ {following}")


def setting(text: str) -> tuple[str, Any]:
    """Read KEY=VALUE; a value that is not TOML is a plain word."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--set {text}: expected KEY=VALUE")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
