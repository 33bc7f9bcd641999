"""Data flows one way, and so do imports: a part of the package uses only itself and what stands before it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "fedconformal"
SOURCE = Path(__file__).parents[1] / "src" / PACKAGE

# From left to right; parts on one line may not use each other. A new part has to be placed here.
LAYERS = (
    ("_version",),
    ("errors", "chunks"),
    ("validation", "registry"),
    ("npy",),
    ("tables",),
    ("files",),
    ("data",),
    ("models",),
    ("training",),
    ("scores",),
    ("summaries",),
    ("guarantees",),
    ("wording",),
    ("certificate", "curve"),
    ("search",),
    ("calibration", "leave_one_out"),
    ("evaluation",),
    ("predictor",),
    ("classifier", "pilot"),
    ("privacy",),
    ("planning", "verification"),
    ("exchange",),
    ("flower", "nvflare"),
    ("report",),
    ("paper",),
    ("cli",),
    ("__main__",),
)

# Who may import these at all; everybody else stays free of them.
RESERVED = {
    "flwr": {"flower"},
    "nvflare": {"nvflare"},
    "torch": {"data", "flower", "models", "paper", "training"},
    "torchvision": {"data", "models"},
    "rich": {"cli"},
    "typer": {"cli"},
}

# Slow to load, or an extra: imported inside the function that needs it.
LATE = {"PIL", "altair", "datasets", "scipy", "sklearn"}


class Import(NamedTuple):
    """One imported name, spelled out in full."""

    name: str
    line: int
    in_function: bool


def imports(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[Import]:
    """List every import of a module, also those inside functions and under `if TYPE_CHECKING`."""
    pending: list[tuple[ast.AST, bool]] = [(tree, False)]
    while pending:
        node, in_function = pending.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, in_function)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: None if is_package else -1]
                here = parents[: len(parents) - node.level + 1]
                base = ".".join([*here, base] if base else here)
            for alias in node.names:
                yield Import(f"{base}.{alias.name}", node.lineno, in_function)
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        pending += [(child, inside) for child in ast.iter_child_nodes(node)]


def fault(part: str, found: Import, parts: set[str]) -> str | None:
    """Say what is wrong with an import by this part of the package, or None."""
    root, *rest = found.name.split(".")
    if root != PACKAGE:
        if part not in RESERVED.get(root, {part}):
            return f"{part} must not import {root}"
        return None if found.in_function or root not in LATE else f"{root} must be imported inside a function"
    if not rest or rest[0] not in parts:
        return f"{found.name} must be imported from the module that defines it"
    level = {name: i for i, layer in enumerate(LAYERS) for name in layer}
    if rest[0] == part or level.get(rest[0], -1) < level[part]:
        return None
    return f"{part} must not import {rest[0]}, which does not stand to its left"


def faults(source: Path) -> list[str]:
    """Check a whole package tree and list what breaks the rules."""
    parts = {path.stem for path in source.iterdir() if path.suffix == ".py" or any(path.rglob("*.py"))}
    parts.discard("__init__")
    placed = {name for layer in LAYERS for name in layer}
    found = [f"{part} has no place in LAYERS" for part in sorted(parts - placed)]
    for path in sorted(source.rglob("*.py")):
        inner = path.relative_to(source).with_suffix("").parts
        if inner[0] in placed:  # the top __init__ may import anything
            is_package = inner[-1] == "__init__"
            module = ".".join([PACKAGE, *(inner[:-1] if is_package else inner)])
            found += [
                f"{path.relative_to(source).as_posix()}:{one.line}: {wrong}"
                for one in imports(ast.parse(path.read_text("utf-8")), module, is_package=is_package)
                if (wrong := fault(inner[0], one, parts))
            ]
    return found


def test_imports_go_one_way() -> None:
    found = faults(SOURCE)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "code", "expected"),
    [
        ("scores/lac.py", "from fedconformal.summaries import wire", "scores must not import summaries"),
        ("scores/lac.py", "from ..summaries.wire import pack", "scores must not import summaries"),
        ("scores/__init__.py", "from .. import summaries", "scores must not import summaries"),
        ("scores/__init__.py", "def f():\n    import fedconformal.cli", "scores must not import cli"),
        ("predictor.py", "if TYPE_CHECKING:\n    from .cli import main", "predictor must not import cli"),
        ("planning.py", "from fedconformal import report", "planning must not import report"),
        ("summaries/wire.py", "from fedconformal import LAC", "fedconformal.LAC must be imported from"),
        ("summaries/wire.py", "import fedconformal", "fedconformal must be imported from"),
        ("summaries/wire.py", "import torch.nn", "summaries must not import torch"),
        ("report/page.py", "def f():\n    from rich.table import Table", "report must not import rich"),
        ("report/page.py", "class A:\n    import scipy.stats", "scipy must be imported inside a function"),
        ("cli/plan.py", "import sklearn.datasets", "sklearn must be imported inside a function"),
        ("novelty.py", "import math", "novelty has no place in LAYERS"),
        ("novelty/__init__.py", "import math", "novelty has no place in LAYERS"),
    ],
)
def test_a_violation_is_reported(tmp_path: Path, path: str, code: str, expected: str) -> None:
    plant(tmp_path, {path: code})
    (found,) = faults(tmp_path)
    assert expected in found


def test_what_is_allowed_is_not_reported(tmp_path: Path) -> None:
    fine = {
        "scores/lac.py": "import numpy as np\nfrom . import base\nfrom ..validation import as_scores",
        "summaries/wire.py": "from fedconformal.scores.base import Score\nfrom fedconformal import errors",
        "evaluation/stats.py": "async def f():\n    from scipy import stats",
        "cli/plan.py": "import typer, rich.table\nfrom fedconformal import planning, report",
        "__init__.py": "from fedconformal.cli import main\nimport scipy",
    }
    plant(tmp_path, fine)
    assert faults(tmp_path) == []


def plant(root: Path, files: dict[str, str]) -> None:
    """Write a small tree with every part that is known, then these files."""
    for layer in LAYERS:
        for part in layer:
            (root / part).mkdir()
            (root / part / "__init__.py").touch()
    for path, code in files.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(code, "utf-8")
