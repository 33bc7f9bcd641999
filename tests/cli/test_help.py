"""Every command of the program, and of its groups, shows its help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from fedconformal.cli.app import app
from tests.cli.command import Command


def commands(group: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Walk through a group of commands and its subgroups."""
    for name in group.list_commands(None):
        yield (*above, name)
        member = group.get_command(None, name)
        if hasattr(member, "list_commands"):
            yield from commands(member, (*above, name))


def test_every_command_shows_its_help_on_one_screen(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(), *commands(typer.main.get_command(app))]
    assert ("calibrate",) in found
    assert ("monitor", "status") in found
    monkeypatch.setenv("COLUMNS", "80")
    for words in found:
        shown = command.ok(*words, "--help").out
        assert f"Usage: {' '.join(('fedconformal', *words))} " in shown
        assert len(shown.strip().splitlines()) <= 40, words
        assert "\\[" not in shown
        assert "..." not in shown.partition("Commands:")[2], "a sentence is cut"
