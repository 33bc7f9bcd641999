"""All commands together, and what happens when one fails."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from itertools import pairwise
from typing import Annotated, Any

import typer

from fedconformal._base.names import harmless
from fedconformal._version import __version__
from fedconformal.cli import (
    calibrate,
    demo,
    evaluate,
    page,
    plan,
    policy,
    predict,
    report,
    serve,
    show,
    sign,
    summarize,
    summarize_losses,
    sums,
    train,
    verify,
)
from fedconformal.cli.advice import advised
from fedconformal.cli.console import LOGGED, logger, stderr
from fedconformal.cli.flower import flower
from fedconformal.errors import (
    ClassCountsWarning,
    HeavySiteWarning,
    InfeasibleWarning,
    InputError,
    VersionWarning,
)

app = typer.Typer(
    name="fedconformal",
    help="Prediction sets that hold the truth with probability 1 - alpha, calibrated across sites that share no data.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for command in (
    summarize,
    summarize_losses,
    sign,
    calibrate,
    predict,
    evaluate,
    verify,
    show,
    plan,
    page,
    report,
    serve,
    train,
    demo,
):
    function = getattr(command, command.__name__.rpartition(".")[2])
    app.command(cls=getattr(function, "command", None))(function)
app.add_typer(sums.sums, name="sums")
app.add_typer(policy.policy, name="policy")
app.add_typer(flower)
for found in sorted(entry_points(group="fedconformal.commands"), key=lambda entry: entry.name):
    app.add_typer(found.load(), name=found.name)  # of other packages, such as fedconformal-paper

INTERRUPTED = 130
"""How shells number a command that Ctrl-C has ended."""

# Newer releases of typer carry their own copy of click; its base error is reached through a public name.
UsageProblem: Any = typer.BadParameter.__mro__[2]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedconformal {__version__}")
        raise typer.Exit


@app.callback()
def options(
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Say what is being done.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but results and errors.")] = False,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Set how much is said."""
    logger.setLevel(logging.DEBUG if verbose else logging.ERROR if quiet else logging.WARNING)


@cache
def _commands() -> Any:
    """Build all commands from their functions, which takes longer than running most of them."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 0 done, 1 the answer is no, 2 bad use or bad input."""
    handler = logging.StreamHandler()
    handler.setFormatter(LOGGED)
    logger.handlers = [handler]
    with warnings.catch_warnings():
        for kind in (InfeasibleWarning, ClassCountsWarning, HeavySiteWarning, VersionWarning):
            warnings.simplefilter("always", kind)
        said: set[str] = set()
        warnings.showwarning = lambda message, *_args, **_kwargs: _warn_once(str(message), said)
        try:
            _check_flags(arguments)
            code = _commands().main(list(arguments) or ["--help"], "fedconformal", standalone_mode=False)
        except InputError as error:
            return _fail(advised(str(error)))
        except UsageProblem as error:
            message = error.format_message() or "Name one of these commands."
            return _fail(f"{message} (fedconformal --help shows what there is)")
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        finally:  # leave the logger as a program that calls this found it
            logger.handlers = []
            logger.setLevel(logging.NOTSET)
    if code == INTERRUPTED:  # typer may have seen it first
        stderr.print("stopped")
    return code if isinstance(code, int) else 0


def _check_flags(arguments: Sequence[str]) -> None:
    """Refuse a value after --json, which would be taken for a file."""
    for one, following in pairwise(arguments):
        if one == "--json" and following.lower() in ("true", "false", "1", "0", "yes", "no"):
            raise InputError(f"--json takes no value; leave out {following!r}, or leave out both for text")


def _warn_once(message: str, said: set[str]) -> None:
    if message not in said:
        said.add(message)
        logger.warning("%s", message)


def _fail(message: str) -> int:
    stderr.print(f"error: {harmless(' '.join(message.split()))}")
    return 2
