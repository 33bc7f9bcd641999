"""The library speaks to who calls it from Python: options and commands are the command line's own words."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from fedconformal.cli.app import COMMANDS, OPTIONS, app
from tests.cli.command import Command

SOURCE = Path(__file__).parents[1] / "src" / "fedconformal"
MODULES = [
    path.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.rglob("*.py")) if SOURCE / "cli" not in path.parents
]
CLI: Any = typer.main.get_command(app)

# An option such as --from or -o, also one whose name is filled in; and a command such as `fedconformal show`.
OPTION = re.compile(r"(?<![\w-])(?:--(?:[a-z][a-z0-9-]*|$)|-[a-z]\b)")
COMMAND = re.compile(rf"\b(?:fedconformal (?:{'|'.join(COMMANDS)})|flower (?:init|run))\b")

TEXTS = {
    "report/charts.py": "style sheets have variables such as --s0",
}


def strings(source: str) -> Iterator[tuple[int, str]]:
    """List the strings of a module but its docstrings; what is filled in is an x."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr):  # a docstring, of a module, a class, a function or an attribute
            inside.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            inside |= set(map(id, node.values))
            parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


@cache
def strings_of(module: str) -> list[tuple[int, str]]:
    return list(strings((SOURCE / module).read_text()))


def faults(module: str, found: Iterable[tuple[int, str]]) -> list[str]:
    """Name every string that speaks of the command line."""
    if module in TEXTS:
        return []
    return [f"{module}:{line}: {text!r}" for line, text in found if OPTION.search(text) or COMMAND.search(text)]


def test_no_message_of_the_library_speaks_of_the_command_line() -> None:
    assert [fault for module in MODULES for fault in faults(module, strings_of(module))] == []


@pytest.mark.parametrize(
    "source",
    [
        'f"{path}: is there; choose another place with -o"',
        '"these are logits; say --from logits"',
        'f"{key} is needed; say --{key}"',
        '"make one" "; with summarize --privacy local"',
        '"make an app: fedconformal flower init DIR"',
        '"ask fedconformal show"',
    ],
)
def test_such_a_message_is_noticed(source: str) -> None:
    assert faults("files.py", strings(f"raise InputError({source})")) != []


def test_docstrings_may_speak_of_the_command_line() -> None:
    assert faults("files.py", strings('LIMIT = 1\n"""What `show --json` prints at most."""\n')) == []


@pytest.mark.parametrize("module", [*TEXTS])
def test_the_exceptions_are_needed(module: str) -> None:
    texts = [text for _, text in strings_of(module)]
    assert any(OPTION.search(text) or COMMAND.search(text) for text in texts)


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
