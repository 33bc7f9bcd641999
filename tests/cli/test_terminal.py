"""Text from untrusted files is shown as it is: markup is not interpreted, and terminal commands are escaped."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.progress import Progress

import fedconformal as fc
from fedconformal.cli import console
from tests.cli.command import Command, Done
from tests.contracts.tools import changed

COMMANDS = ("\x1b[31m", "\x9b31m", "\u202e", "\x07", "\x1b]0;title\x07", "\u2066", "x\ry", "x\ny")
MARKUP = ("[/red]", "[bold]", "[red]x[/red]", ":hospital:", "[")


def harmless(done: Done) -> bool:
    """Whether everything that was printed can be."""
    return all(line.isprintable() for line in (done.out + done.err).split("\n"))


def as_shown(name: str) -> str:
    return repr(name)[1:-1] if name in COMMANDS else name


def test_clients(calibrated: Path, command: Command) -> None:
    """Markup in a client's name ended in a traceback, and commands reached the terminal."""
    count = len(np.load("test-labels.npy"))
    lines = [name for name in (*COMMANDS, *MARKUP) if not {"\n", "\r"} & set(name)]
    Path("clients.csv").write_text("".join(f"{lines[k % len(lines)]}\n" for k in range(count)), encoding="utf-8")
    names = [*COMMANDS, *MARKUP]
    np.save("clients.npy", np.array([names[k % len(names)] for k in range(count)]))
    for file, clients in (("clients.csv", lines), ("clients.npy", names)):
        options = ["predictor.json", "test-probs.npy", "test-labels.npy", "--sites", file]
        done = command.ok("evaluate", *options)
        assert harmless(done)
        assert [name for name in clients if f"\n{as_shown(name)} " not in done.out] == []
        found = command.ok("evaluate", *options, "--json").json["by_site"]
        assert {group["name"] for group in found} == set(clients)


def test_a_predictor_that_talks_to_the_terminal(calibrated: Path, command: Command) -> None:
    predictor = fc.load("predictor.json")
    for name in COMMANDS[::3]:
        said = {"caveat": f"All is well{name}.", "promise": f"to all{name}"}
        other = replace(predictor, certificate=changed(predictor.certificate, **said))
        other.save("other.json")
        for arguments in (
            ["predict", "other.json", "test-probs.npy", "-o", "sets.npz"],
            ["verify", "other.json", *(f"site-{k}.fcs" for k in range(3))],
            ["report", "other.json", "-o", "page.html"],
            ["evaluate", "other.json", "test-probs.npy", "test-labels.npy"],
        ):
            done = command(*arguments)
            assert done.code in (0, 1)
            assert harmless(done)
        assert f"All is well{as_shown(name)}." in done.out


def test_warnings_and_bars(calibrated: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("\x1b[31m.csv").write_text("0,1\n0.5,0.5\n")
    done = command("predict", "predictor.json", "\x1b[31m.csv", "-o", "x.npz")
    assert done.err.startswith("error: \\x1b[31m.csv: has 2 columns")
    assert harmless(done)
    seen = []
    monkeypatch.setattr(Progress, "update", lambda *_, description, **__: seen.append(description))
    with console.tracking("getting ready") as told:
        told(1, 2, "at [/red]\x1b[31m")
    assert seen == ["at [/red]\\x1b[31m"]


def test_a_bar_is_for_a_terminal_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.setenv(name, "1")
    assert list(console.progress([1, 2], "counting", 2)) == [1, 2]
    with console.tracking("counting") as told:
        told(1, 2, "counting")
    assert capsys.readouterr().err == ""


def test_output_that_nobody_reads_ends_quietly() -> None:
    """As before `| head -1`: no traceback, and not the exit code of "no"."""
    program = "import sys; from fedconformal.cli import main; sys.stdin.read(); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "plan", "--sizes", "200,50,20"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        process.stdout.close()  # before anything is written
        assert process.communicate("")[1] == ""
    assert process.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_an_error_and_no_answer() -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "fedconformal", "plan", "--sizes", "9"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: stdout: No space left on device; choose another place\n")
