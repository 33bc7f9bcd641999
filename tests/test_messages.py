"""Errors of the library name a parameter; the command line adds its own option."""

from pathlib import Path
from typing import Any

import pytest
import typer

from fedconformal.cli.app import OPTIONS, app
from tests.cli.command import Command

CLI: Any = typer.main.get_command(app)


def options(command: Any) -> set[str]:
    """List the options of a command and of those below it."""
    found = {name for parameter in command.params for name in parameter.opts}
    below = command.list_commands(None) if hasattr(command, "list_commands") else ()
    return found.union(*(options(command.get_command(None, name)) for name in below))


def test_every_option_of_an_error_exists() -> None:
    assert {word for option in OPTIONS.values() for word in option.split() if word.startswith("-")} <= options(CLI)


def test_the_command_line_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = Command(capsys)
    Path("logits.csv").write_text("3.0,-1.0\n")
    Path("labels.csv").write_text("0\n")
    rows = ("summarize", "logits.csv", "labels.csv")
    assert command(*rows, "-o", "a.fcs").err.endswith("(--from logits)\n")
    for name in ("a.fcs", "b.fcs"):
        command.ok(*rows, "--from", "logits", "--site", "clinic", "-o", name)
    assert command("calibrate", "a.fcs", "b.fcs", "-o", "p.json").err.endswith("by its own name (--site)\n")
    wrong = command("calibrate", "a.fcs", "--guarantee", "by-class", "-o", "p.json")
    assert wrong.err.endswith("(summarize --by-class)\n")
