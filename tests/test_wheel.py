"""The wheel works in an empty environment with core dependencies only."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine  # it has an environment of its own

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

PROGRAM = """
import importlib.util

import fedconformal as fc

probs, labels = [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]] * 10, [0, 1, 2] * 10
score = fc.LAC()
sites = [fc.summarize(score.evaluate(probs, labels), kind="exact", score=score) for _ in range(3)]
result = fc.calibrate([fc.Summary.from_bytes(site.to_bytes()) for site in sites], alpha=0.1)
print(round(result.threshold, 6), score.predict_set(probs, result.threshold).sum())
print([name for name in ("sklearn", "torch") if importlib.util.find_spec(name)])
"""


def attempt(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without this environment's own paths."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV"))}
    return subprocess.run(command, cwd=cwd, env=env, check=False, capture_output=True, text=True)


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command that has to succeed and return what it prints."""
    done = attempt(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an empty environment; its folder of scripts."""
    folder = tmp_path_factory.mktemp("environment")
    context = venv.EnvBuilder().ensure_directories(folder / "venv")
    venv.create(context.env_dir)
    pins = ROOT / "constraints.txt"
    options = ("install", "--no-compile", "--constraint", pins)  # of what is installed, little is imported
    done = attempt(*PIP, "--python", context.env_exe, *options, wheel, cwd=folder)
    if done.returncode:
        probe = attempt(*PIP, "download", "--retries=1", "--no-deps", "--dest", folder, "typer", cwd=folder)
        if probe.returncode:
            pytest.skip(f"pip cannot download from a package index: {probe.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(context.bin_path)


def test_types_licence_and_template_are_in_the_wheel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "fedconformal/py.typed" in names
    template = ("pyproject.template", "README.template", "client_app.py", "server_app.py", "task.py")
    assert {f"fedconformal/engines/flower/template/{name}" for name in template} <= set(names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"fedconformal"}


def test_the_version_is_printed(scripts: Path, wheel: Path, tmp_path: Path) -> None:
    assert wheel.name.split("-")[1] in run(scripts / "fedconformal", "--version", cwd=tmp_path)


def test_the_library_works_with_core_dependencies_only(scripts: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, "utf-8")
    assert run(scripts / "python", program, cwd=tmp_path).splitlines() == ["0.4 30", "[]"]


def test_the_command_line_works_with_core_dependencies_only(scripts: Path, tmp_path: Path) -> None:
    answer = run(scripts / "fedconformal", "plan", "--alpha", "0.1", "--sizes", "200,50,20", "--json", cwd=tmp_path)
    assert isinstance(json.loads(answer), dict)
