"""The same app on Flower's simulation engine, and what is left running: nothing."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedconformal.engines.flower.in_process import App, make_app
from fedconformal.errors import InputError
from scripts.superlink import program, running, simulate
from tests.cli.command import Command

PATIENCE = 300


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new app, and a directory that every program we start has for its temporary files."""
    pytest.importorskip("torch", reason="training needs torch")
    pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")
    monkeypatch.setenv("FEDCONFORMAL_TEST", str(tmp_path))
    make_app(tmp_path / "app")
    return tmp_path / "app"


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what has to come true, but not for ever."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def left_running(mark: str) -> list[str]:
    """Return the programs that were started with this mark in their environment, other than this one."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                if f"FEDCONFORMAL_TEST={mark}".encode() in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_text())
            except OSError:  # it is gone, or not ours
                continue
    return found


def simulated(app: Path, output: Path, **settings: object) -> dict[str, Any]:
    """Run on Flower's simulation engine, and return the result."""
    pytest.importorskip("ray", reason="the simulation engine needs Ray")
    simulate(App.read(app, {"output": str(output), **settings}), nodes=3)
    found: dict[str, Any] = json.loads((output / "result.json").read_text())
    return found


@pytest.mark.slow
def test_simulation_gives_the_same_threshold_to_the_last_bit(app: Path, command: Command, tmp_path: Path) -> None:
    options = ("flower", "run", app, "--nodes", "3", "--set", "rounds=1", "--set", "epochs=1", "--json")
    here = command.ok(*options, "-o", tmp_path / "here").json
    there = simulated(app, tmp_path / "there", rounds=1, epochs=1)
    assert there["certificate"] == here["certificate"]
    assert there["temperature"] == here["temperature"]
    assert there["participants"] == here["participants"]
    assert left_running(str(tmp_path)) == []


@pytest.mark.slow
def test_a_new_app_runs_with_flower_alone(app: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the simulation engine needs Ray")
    home, log = tmp_path / "home", tmp_path / "log"
    config = "rounds=1 epochs=1 temperature=false"
    with running([program("flwr"), "run", str(app), "--stream", "--run-config", config], home, log) as process:
        assert process.wait(PATIENCE) == 0, log.read_text()
    result = json.loads((home / "fedconformal-run" / "result.json").read_text())  # where the SuperLink was started
    assert len(result["certificate"]["summaries"]) == 2
    assert "The sets hold the true label with probability at least 0.9" in log.read_text()
    assert str(home / "fedconformal-run") in log.read_text()
    assert left_running(str(tmp_path)) == []


def test_a_new_app_by_command(command: Command, tmp_path: Path) -> None:
    done = command.ok("flower", "init", tmp_path / "my-app")
    assert done.out.endswith("$ fedconformal flower run\n")
    assert (tmp_path / "my-app" / "conformal_app" / "client_app.py").is_file()
    again = command("flower", "init", tmp_path / "my-app")
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "is there already" in again.err


def test_a_run_that_fails_says_why(app: Path, command: Command, tmp_path: Path) -> None:
    done = command("flower", "run", app, "--nodes", "2", "--set", "min-sites=3", "--json")
    assert done.code == 2
    assert "--nodes is 2, and the app's min-sites 3" in done.err
    assert done.out == ""
    done = command("flower", "run", app, "--set", "score=lack")
    assert (done.code, "no score is called 'lack'" in done.err, done.err.endswith("(--set)\n")) == (2, True, True)


def test_no_result_of_an_earlier_run_is_shown(command: Command, tmp_path: Path) -> None:
    app = tmp_path / "says-nothing"
    make_app(app)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "result.json").write_text('{"threshold": 0.5}')
    server = next(app.glob("*/server_app.py"))
    server.write_text("from flwr.serverapp import ServerApp\n\napp = ServerApp()\n\n@app.main()\ndef main(*_): ...\n")
    done = command("flower", "run", app, "-o", tmp_path / "out", "--json")
    assert (done.code, done.out) == (2, "")
    assert "the run wrote no result.json" in done.err


def test_the_whole_run_with_commands_alone(app: Path, command: Command, tmp_path: Path) -> None:
    done = command.ok("flower", "run", app, "--nodes", "3", "--set", "rounds=1", "-o", tmp_path / "run")
    assert "The sets hold the true label with probability at least 0.9" in done.out
    assert "bytes from a site" in done.out
    model = tmp_path / "run" / "model.npz"
    saved = ("--set", "from-stage=calibrate", "--set", f"saved-model={model}")
    again = command.ok("flower", "run", app, "--nodes", "3", *saved, "--json")
    assert again.json["participants"][0]["stage"] == "calibrate"
    summaries = sorted((tmp_path / "run" / "sites").iterdir())
    command.ok("verify", tmp_path / "run" / "predictor.json", *summaries)


def test_an_app_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        App.read(tmp_path / "other")
    for text in ("[project]\nname = 'x'\n", "[project"):
        (tmp_path / "pyproject.toml").write_text(text)
        with pytest.raises(InputError, match="with clientapp and serverapp"):
            App.read(tmp_path)
    parts = "clientapp = 'nowhere:app'\nserverapp = 'nowhere:app'"
    (tmp_path / "pyproject.toml").write_text(f"[tool.flwr.app.components]\n{parts}\n")
    with pytest.raises(InputError, match="nowhere:app: cannot be imported"):
        App.read(tmp_path).load()
