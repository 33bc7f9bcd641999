"""The page's modules under node, many questions in one process."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

WEB = Path(__file__).parents[2] / "web"
NODE = shutil.which("node")

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")


def answers(questions: list[dict[str, Any]], folder: Path) -> list[Any]:
    """Return what the modules answer."""
    path = folder / "questions.json"
    path.write_text(json.dumps(questions), "utf-8")
    found: list[Any] = json.loads(node("tools/answers.js", path))
    return found


def node(*arguments: str | Path) -> str:
    """Run node in the folder of the modules, and return what it prints."""
    assert NODE
    done = subprocess.run([NODE, *arguments], cwd=WEB, check=False, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, (done.stdout[-4000:], done.stderr[-4000:])
    return done.stdout
