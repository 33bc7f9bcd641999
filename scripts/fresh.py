"""Install the wheel without pins, as users do, and use it: the newest versions, then the lowest that pyproject allows.

    python scripts/fresh.py PYTEST_ARGUMENTS     # the tests to run in both environments
    python scripts/fresh.py --floors [all]       # print the lowest versions, for `make audit`; all: of every extra

In an environment with nothing but what the README's own line installs, the README runs first. Needs uv, build and
hatchling beside this Python (the extra dev has them).
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
UV = Path(sys.executable).with_name("uv")
EXTRAS = ("sklearn", "parquet", "secure", "dp", "serve")
"""Installed extras: the small ones. `make test` covers the engines and torch."""
NOT_FOR_USERS = {"dev", "docs"}
TOOLS = ("httpx", "hypothesis", "mpmath", "pytest", "pytest-xdist", "skl2onnx")
"""Further packages that the tests import."""
PIP_SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
"""Settings of pip that uv reads from environment variables instead."""


def environment() -> dict[str, str]:
    """Return the variables for what is started: no paths of this Python, no pins, and pip's settings for uv too."""
    hidden = ("PYTHON", "COV", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT", "UV_CONSTRAINT")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True)
    found = re.findall(r"^(?:global|:env:)\.([\w-]+)='(.*)'$", listed.stdout, re.MULTILINE)
    settings = {PIP_SETTINGS[key]: value for key, value in found if key in PIP_SETTINGS}
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **settings, **kept}  # as pip: the best of all indexes


def run(*command: str | Path) -> None:
    """Run a command that has to succeed."""
    print("$", *command, flush=True)
    subprocess.run(command, cwd=ROOT, env=environment(), check=True)


def output(*command: str | Path) -> str:
    """Return what a command prints that has to succeed."""
    return subprocess.run(command, cwd=ROOT, env=environment(), check=True, stdout=subprocess.PIPE, text=True).stdout


def floors(extras: tuple[str, ...]) -> str:
    """Return pins of the lowest versions that pyproject allows, of those that have a wheel for this Python."""
    wanted = [word for extra in extras for word in ("--extra", extra)]
    options = ("--quiet", "--no-build", "--no-header", "--no-annotate", "--resolution", "lowest-direct")
    return output(UV, "pip", "compile", *options, "--python", sys.executable, *wanted, "pyproject.toml")


def all_extras() -> tuple[str, ...]:
    """Return the names of all extras for users; one that pins a package may hide the floor of another."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return tuple(sorted(set(project["optional-dependencies"]) - NOT_FOR_USERS))


def install_line() -> str:
    """Return the extras that the README installs above its first block of Python."""
    above = (ROOT / "README.md").read_text("utf-8").partition("```python")[0]
    return re.findall(r'pip install "\.\[(.*?)\]"', above)[-1]


def new_python(folder: Path) -> Path:
    """Make an empty environment and return its Python."""
    made = venv.EnvBuilder(with_pip=True)
    made.create(folder)
    return Path(made.ensure_directories(folder).env_exe)


def use(python: Path, tests: list[str]) -> dict[str, str]:
    """Run the tests; return the versions of all that is installed."""
    run(python, "-m", "pip", "check")
    run(python.with_name("fedconformal"), "--version")
    run(python, "-m", "pytest", "-p", "no:cacheprovider", *tests)
    return dict(line.split("==") for line in output(python, "-m", "pip", "freeze").splitlines() if "==" in line)


def main(tests: list[str]) -> None:
    """Use the wheel in both environments, and print the versions."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", place, ROOT)
        (wheel,) = place.glob("*.whl")

        newest = new_python(place / "newest")
        pip = (newest, "-m", "pip", "install", "--quiet")
        run(*pip, f"{wheel}[{install_line()}]")
        run(newest, "-m", "tests.readme")
        run(*pip, f"{wheel}[{','.join(EXTRAS)}]", *TOOLS)
        high = use(newest, tests)

        lowest, pins = new_python(place / "lowest"), place / "floors.txt"
        pins.write_text(floors(EXTRAS))
        uv = (UV, "pip", "install", "--quiet", "--python", lowest)
        run(*uv, "--no-deps", "--requirements", pins, wheel)
        run(lowest, "-m", "tests.readme")
        run(*uv, "--constraints", pins, *TOOLS)
        low = use(lowest, tests)
    for name in sorted({*high, *low}, key=str.lower):
        print(f"{name:24} {high.get(name, '-'):16} {low.get(name, '-')}")
    print(f"the newest and the lowest versions pass, in {time.monotonic() - start:.0f} seconds")


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["--floors"]:
            print(floors(all_extras() if sys.argv[2:] == ["all"] else EXTRAS), end="")
        else:
            main(sys.argv[1:])
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: this failed: {' '.join(map(str, error.cmd))}")
