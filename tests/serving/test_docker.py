"""The Dockerfile's install lines work in an empty environment, and what it starts is a command that is there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from fedconformal.serving.metrics import WATCH

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "Dockerfile").read_text().splitlines()


def words(instruction: str) -> list[str]:
    (found,) = [line.removeprefix(f"{instruction} ") for line in LINES if line.startswith(f"{instruction} ")]
    return list(json.loads(found))


def test_everything_that_is_copied_is_there_and_not_ignored() -> None:
    copied = [place for line in LINES if line.startswith("COPY ") for place in line.split()[1:-1]]
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    assert set(copied) == kept
    assert all((ROOT / place).exists() for place in copied)


def test_the_server_has_the_options_that_it_is_started_with() -> None:
    compose = (ROOT / "deploy" / "compose.yaml").read_text()
    (command,) = re.findall(r"command: (\[.*\])", compose)
    more: list[str] = json.loads(command)
    program, name, *arguments = words("ENTRYPOINT") + words("CMD") + more
    assert (program, name) == ("fedconformal", "serve")
    source = (ROOT / "src/fedconformal/cli/serve.py").read_text()
    options = {one for one in arguments if one.startswith("--")}
    assert all(re.search(rf"\b{one[2:].replace('-', '_')}: ", source) for one in options)
    mounted = re.findall(r"\./([\w.]+):", compose)
    assert all((ROOT / "deploy" / name).exists() for name in mounted if name != "files")


def test_the_alert_rules_use_metrics_that_the_server_has() -> None:
    rules = (ROOT / "deploy" / "alerts.yml").read_text()
    shown = {f"fedconformal_watch_{name}" for name in WATCH}
    assert set(re.findall(r"fedconformal_\w+", rules)) <= shown


def test_the_image_installs_what_is_tested_and_checks_every_file() -> None:
    lock = (ROOT / "requirements-serve.txt").read_text()
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE))
    tested = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert {name: pin for name, pin in pins.items() if tested.get(name, pin) != pin} == {}, "run `make lock`"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = map(Requirement, [*project["dependencies"], *project["optional-dependencies"]["serve"], "hatchling"])
    assert [str(one) for one in wanted if not one.specifier.contains(pins[one.name])] == [], "run `make lock`"
    assert all("--hash=sha256:" in entry for entry in re.split(r"\n(?=[\w.-]+==)", lock)[1:])
    (image,) = [line for line in LINES if line.startswith("FROM ")]
    assert re.search(r":\d+\.\d+\.\d+-", image)
    assert any("--require-hashes" in line for line in LINES if line.startswith("RUN pip "))


@pytest.mark.slow
@pytest.mark.engine
def test_the_install_lines_give_a_server(tmp_path: Path) -> None:
    for place in ("pyproject.toml", "README.md", "LICENSE", "requirements-serve.txt"):
        shutil.copy(ROOT / place, tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV"))}
    made = venv.EnvBuilder().ensure_directories(tmp_path / "venv")
    venv.create(made.env_dir)
    about: dict[str, Any] = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True}
    pip = [sys.executable, "-m", "pip", "--python", made.env_exe, "--disable-pip-version-check"]
    lines = [line.removeprefix("RUN pip ") for line in LINES if line.startswith("RUN pip ")]
    assert len(lines) == 2
    for line in lines:
        done = subprocess.run([*pip, *shlex.split(line)], check=False, **about)
        if done.returncode and "No matching distribution" in done.stderr:
            pytest.skip(f"pip cannot find a package: {done.stderr.splitlines()[-1]}")
        assert done.returncode == 0, done.stderr
    check = "import fedconformal.serving.app, uvicorn, prometheus_client, onnxruntime"
    subprocess.run([made.env_exe, "-c", check], cwd=tmp_path, env=env, check=True)
    program = Path(made.bin_path) / "fedconformal"
    done = subprocess.run([program, "serve", "none.json"], check=False, **about)
    assert done.stderr.startswith("error: none.json: cannot be read")
