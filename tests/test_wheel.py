"""Distributions: twine accepts them, and the wheel works in an empty environment with core dependencies only."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
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
sites = [fc.summarize(probs, labels, kind="exact", score=score) for _ in range(3)]
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
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and the wheel from it."""
    folder = tmp_path_factory.mktemp("published")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(published: Path) -> Path:
    (path,) = published.glob("*.whl")
    return path


def install(wheel: Path, python: Path, folder: Path) -> None:
    """Install the wheel and what it needs, for this interpreter."""
    pins = ROOT / "constraints.txt"
    options = ("install", "--no-compile", "--constraint", pins)  # of what is installed, little is imported
    done = attempt(*PIP, "--python", python, *options, wheel, cwd=folder)
    if done.returncode:
        probe = attempt(*PIP, "download", "--retries=1", "--no-deps", "--dest", folder, "typer", cwd=folder)
        if probe.returncode:
            pytest.skip(f"pip cannot download from a package index: {probe.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr


def interpreter(version: str) -> Path | None:
    """Find an interpreter of this version: on the path, or one that pyenv has built."""
    found = [shutil.which(f"python{version}")]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found += sorted(map(str, versions.glob(f"{version}.*/bin/python")))
    works = [path for path in found if path and attempt(path, "-c", "import venv", cwd=ROOT).returncode == 0]
    return Path(works[-1]) if works else None


def test_twine_accepts_what_is_published(published: Path) -> None:
    if importlib.util.find_spec("twine") is None:
        pytest.skip("twine is not installed")
    run(sys.executable, "-m", "twine", "check", "--strict", *published.iterdir(), cwd=published)


def test_the_metadata_say_what_a_stranger_needs(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (path,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    found = Parser().parsestr(archive.read(path).decode())
    versions = [line.rpartition(" ")[2] for line in found.get_all("Classifier", []) if re.search(r"3\.\d+$", line)]
    assert versions[0] == str(found["Requires-Python"]).removeprefix(">=")
    assert (found["License-Expression"], found["Description-Content-Type"]) == ("Apache-2.0", "text/markdown")
    assert "Typing :: Typed" in found.get_all("Classifier", [])
    cited = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"version: {found['Version']}\n" in cited
    assert f"abstract: {found['Summary']}\n" in cited
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert changes.startswith(f"# Changelog\n\n## {found['Version']} (")


def test_the_source_distribution_has_the_tests_and_the_pages(published: Path) -> None:
    (path,) = published.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"Makefile", "constraints.txt", "docs/conf.py", "docs/index.md", "tests/test_wheel.py", "SECURITY.md"}
    assert wanted <= names
    assert not [name for name in names if name.startswith((".venv", "build/", "dist/"))]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_the_wheel_works_on_every_python_at_hand(version: str, wheel: Path, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    run(python, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    (scripts,) = [path for name in ("bin", "Scripts") if (path := tmp_path / "venv" / name).is_dir()]
    install(wheel, scripts / "python", tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM, "utf-8")
    assert run(scripts / "python", "program.py", cwd=tmp_path).splitlines() == ["0.4375 30", "[]"]
    command = scripts / "fedconformal"
    assert wheel.name.split("-")[1] in run(command, "--version", cwd=tmp_path)
    answer = run(command, "plan", "--alpha", "0.1", "--sizes", "200,50", "--json", cwd=tmp_path)
    assert isinstance(json.loads(answer), dict)


def test_types_licence_and_template_are_in_the_wheel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "fedconformal/py.typed" in names
    template = ("app.toml", "README.md", "client_app.py", "server_app.py", "task.py")
    assert {f"fedconformal/engines/flower/template/{name}" for name in template} <= set(names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"fedconformal"}
