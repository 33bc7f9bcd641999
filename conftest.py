"""Shared by all test runs: optional modules, threads, and profiles of Hypothesis.

A test or doctest that needs a missing extra is skipped with the reason, so every file can be collected in an
environment that has the core only.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

ROOT = Path(__file__).parent

OPTIONAL = {
    "PIL",
    "cryptography",
    "ddsketch",
    "duckdb",
    "fedconformal_paper",
    "flwr",
    "nvflare",
    "onnx",
    "onnxruntime",
    "opendp",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "ray",
    "skl2onnx",
    "sphinx",
    "sklearn",
    "sqlglot",
    "starlette",
    "tdigest",
    "torch",
    "uvicorn",
}
"""What the extras and the paper install. Any other package that is missing is an error."""

# There is a test process for every core. More threads in each wait for one another: that doubles the processor time of
# what multiplies matrices. numpy and torch read this when they are imported, here and in what tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("full", deadline=None)
settings.register_profile("test", deadline=None, max_examples=25)  # `checks` in tests/contracts/tools.py follows
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("full")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs a command in this process."""
    from tests.cli.command import Command

    return Command(capsys)


def missing_package(error: BaseException | None) -> str | None:
    """Return the optional package that was not found, if that is where an error comes from."""
    error = getattr(error, "exc_info", (None, error))[1]  # a doctest keeps what happened in it
    while error is not None:
        name = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and name in OPTIONAL:
            return name
        error = error.__cause__ or error.__context__
    return None


def import_error(file: Path) -> BaseException | None:
    """Import a file; pytest does so too, but keeps what it has half imported."""
    folder = next(ROOT / name for name in ("src", "paper/src", ".") if file.is_relative_to(ROOT / name))
    parts = file.relative_to(folder).with_suffix("").parts
    name = ".".join(parts).removesuffix(".__init__")
    call = pytest.CallInfo.from_call(lambda: importlib.import_module(name), "collect", reraise=KeyboardInterrupt)
    return None if call.excinfo is None else call.excinfo.value


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for doctests in the packages only; the tests have none."""
    found = yield
    return [one for one in found if "src" in file_path.parts or not isinstance(one, DoctestModule)]


def pytest_make_collect_report(collector: pytest.Collector) -> pytest.CollectReport | None:
    """Skip a file that needs what is not installed; pytest collects all others."""
    package = missing_package(import_error(collector.path)) if isinstance(collector, pytest.Module) else None
    if package is None:
        return None
    where = (str(collector.path), 1, f"Skipped: {package} is not installed")
    return pytest.CollectReport(collector.nodeid, "skipped", where, [])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Skip a test that comes upon something that is not installed."""
    try:
        yield
    except Exception as error:
        package = missing_package(error)
        if package is None:
            raise
        pytest.skip(f"{package} is not installed")


pytest_runtest_setup = pytest_runtest_call  # a fixture may need it too


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no worker is left with it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("engine") is None)
