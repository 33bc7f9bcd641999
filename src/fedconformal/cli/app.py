"""The table of commands, and the exit code and message of one that fails."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from fedconformal._version import __version__
from fedconformal.cli.console import EscapingFormatter, logger, tell
from fedconformal.errors import (
    ClassCountsWarning,
    HeavySiteWarning,
    InfeasibleWarning,
    InputError,
    SuspiciousInputWarning,
)

COMMANDS = {
    "summarize": "summarize",
    "sql": "site",
    "page": "site",
    "sign": "verify",
    "calibrate": "calibrate",
    "predict": "predict",
    "evaluate": "evaluate",
    "verify": "verify",
    "show": "show",
    "plan": "calibrate",
    "report": "evaluate",
    "serve": "serve",
    "monitor": "monitor",
    "train": "train",
    "demo": "demo",
    "policy": "site",
    "flower": "flower",
}
"""The module of each command, in the order of --help."""
NO_PAPER = " It is a package of its own: run `pip install ./paper` in a copy of the repository."


class Command(TyperCommand):
    """A command with help in plain text, which takes fewer lines than help in boxes."""

    def get_help(self, ctx: Any) -> str:
        """Return the help; typer 0.20 escapes its brackets for boxes."""
        return super().get_help(ctx).replace(r"\[", "[")


class Commands(TyperGroup):
    """All commands; the module of a command is imported when the command is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, including those of other packages such as fedconformal-paper."""
        return [*COMMANDS, *sorted(_plugins())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import one command."""
        if cmd_name in COMMANDS:
            module = importlib.import_module(f"fedconformal.cli.{COMMANDS[cmd_name]}")
            return _built(cmd_name, getattr(module, cmd_name))
        plugin = _plugins().get(cmd_name)
        return None if plugin is None else _built(cmd_name, plugin.load())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command; an unknown name is refused with the one that was probably meant."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            close = get_close_matches(args[0], self.list_commands(ctx), n=1)
            advice = NO_PAPER if args[0] == "paper" else "".join(f" Did you mean {name!r}?" for name in close)
            ctx.fail(f"No such command {args[0]!r}.{advice}")
        return super().resolve_command(ctx, args)


def _plugins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group="fedconformal.commands")}


@cache
def _built(name: str, command: Any) -> Any:
    """Make one command from its function, or a group from its own app."""
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    if isinstance(command, typer.Typer):
        for one in command.registered_commands:
            one.cls = Command
        alone.add_typer(command, name=name)
    else:
        alone.command(name, cls=Command)(command)
    return typer.main.get_group(alone).commands[name]


app = typer.Typer(
    name="fedconformal",
    cls=Commands,
    help="Prediction sets that hold the truth with probability 1 - alpha, calibrated across sites that share no data.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

SAME_NAME = (
    "alpha classes dataset drop encoding guarantee labels limit loss onnx positive predictions resume risk rows score "
    "site skip_missing summary"
)
OPTIONS = {name: f"--{name.replace('_', '-')}" for name in SAME_NAME.split()} | {
    "logits": "--from logits",
    "not-logits": "--from probs",
    "by_class": "summarize --by-class",
    "column": "FILE:COLUMN",
    "groups": "summarize --groups",
    "ids": "--id",
    "kind": "summarize --kind",
    "onnx_gives": "--onnx FILE:logits",
    "output": "-o",
    "privacy": "summarize --epsilon",
    "settings": "--set",
}
"""The option for a `param` or a `code` of an error."""

INTERRUPTED, NOT_READ = 130, 141
"""Exit codes of shells after Ctrl-C and after a closed pipe, such as before `| head -1`."""

# Newer releases of typer carry their own copy of click; its base error is reached through a public name.
UsageProblem: Any = typer.BadParameter.__mro__[2]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedconformal {__version__}")
        raise typer.Exit


@app.callback()
def options(
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Show results and errors only.")] = False,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Set the level of messages."""
    logger.setLevel(logging.ERROR if quiet else logging.WARNING)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 0 done, 1 the answer is no, 2 bad use or bad input."""
    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter("%(levelname)s: %(message)s"))
    logger.handlers = [handler]
    with warnings.catch_warnings():
        for kind in (InfeasibleWarning, ClassCountsWarning, HeavySiteWarning, SuspiciousInputWarning):
            warnings.simplefilter("always", kind)
        seen: set[str] = set()
        warnings.showwarning = lambda message, *_args, **_kwargs: _warn_once(str(message), seen)
        try:
            command = typer.main.get_command(app)
            code = command.main(list(arguments) or ["--help"], "fedconformal", standalone_mode=False)
        except InputError as error:
            return _fail(with_option(error))
        except UsageProblem as error:
            where = "fedconformal" if error.ctx is None else error.ctx.command_path
            return _fail(f"{error.format_message()} (see {where} --help)")
        except OSError as error:
            return _fail(f"{error.filename or 'stdout'}: {error.strerror}; choose another place")
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        except SystemExit as end:
            if not isinstance(end.__context__, BrokenPipeError):
                raise
            code = NOT_READ  # the exit code of typer is 1, which means "no" here
        finally:  # restore the logger of the calling program
            logger.handlers = []
            logger.setLevel(logging.NOTSET)
    if code == INTERRUPTED:  # typer may have caught it first
        tell("stopped")
    return code if isinstance(code, int) else 0


def with_option(error: InputError) -> str:
    """Return the message of an error, and the option that takes the parameter that it names.

    >>> with_option(InputError("no dataset is named", param="dataset"))
    'no dataset is named (--dataset)'
    """
    message, option = str(error), OPTIONS.get(error.code) or OPTIONS.get(error.param or "")
    return message if option is None or option in message else f"{message} ({option})"


def _warn_once(message: str, seen: set[str]) -> None:
    if message not in seen:
        seen.add(message)
        logger.warning("%s", message)


def _fail(message: str) -> int:
    tell(f"error: {' '.join(message.split())}")
    return 2
