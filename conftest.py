"""What every test run shares: which modules are optional, and how many examples Hypothesis tries.

A module that needs a package that is not installed is skipped with the reason, doctests and test files alike. So every
file can be collected in an environment that has the core only.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent

OPTIONAL = {
    "Crypto",
    "PIL",
    "cryptography",
    "ddsketch",
    "flwr",
    "nvflare",
    "opendp",
    "pyarrow",
    "ray",
    "sklearn",
    "tdigest",
    "tensorboard",
    "torch",
}
"""What the extras and the paper install. Any other package that is missing is an error."""

settings.register_profile("full", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=10)  # `checks` in tests/contracts/tools.py looks at it
settings.load_profile("full")


def missing_package(file: Path) -> str | None:
    """Import a file, and return the optional package that it needs and that is not installed."""
    folder = next(ROOT / name for name in ("src", "paper/src", ".") if file.is_relative_to(ROOT / name))
    parts = file.relative_to(folder).with_suffix("").parts
    error: BaseException | None = None
    try:
        importlib.import_module(".".join(parts).removesuffix(".__init__"))
    except (Exception, pytest.skip.Exception) as caught:  # pytest imports it again and reports what it is
        error = caught
    while error is not None:
        name = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and name in OPTIONAL:
            return name
        error = error.__cause__ or error.__context__
    return None


def pytest_make_collect_report(collector: pytest.Collector) -> pytest.CollectReport | None:
    """Skip a file that needs what is not installed; pytest collects all others."""
    if not isinstance(collector, pytest.Module):
        return None
    package = missing_package(collector.path)
    if package is None:
        return None
    where = (str(collector.path), 1, f"Skipped: {package} is not installed")
    return pytest.CollectReport(collector.nodeid, "skipped", where, [])
