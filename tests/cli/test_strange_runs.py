"""train --resume in a directory of strange files: one line that names the file, and nothing is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.command import Command

pytest.importorskip("torch", reason="training needs torch")
pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")

from fedconformal.training.config import Config
from fedconformal.training.run import train

DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one round."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(Config.from_dict({"dataset": "digits", "rounds": 1, "workers": 1, "model": "logistic"}), folder)
    return folder


def text(content: str | bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


def settings(**changed: Any) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        about = json.loads(path.read_text())
        about["config"] |= changed
        path.write_text(json.dumps(about))

    return write


def arrays(**changed: Any) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        with np.load(path) as found:
            kept = dict(found)
        kept |= {f"tensor.{name}" if name == "weights" else name: value for name, value in changed.items()}
        np.savez(path, **kept)

    return write


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


STRANGE: list[tuple[str, Callable[[Path], object], str]] = [
    ("config.json", text('{"config": ' + DEEP), "is not the config.json of a run"),
    ("config.json", text('{"config": [["dataset", "digits"]]}'), "is not the config.json of a run"),
    ("config.json", text(b"\xff\xfe\x00"), "is not the config.json of a run"),
    ("config.json", settings(dataset=[1]), "dataset: expected `str`, got `array`"),
    ("config.json", settings(method={"a": 1}), "no trainer is called"),
    ("config.json", settings(rate=float("nan")), "rate: expected `float` > 0.0"),
    ("config.json", settings(novelty=1), "novelty is no setting"),
    ("checkpoint.npz", cut, "cannot be read"),
    ("checkpoint.npz", arrays(weights=np.array(["a"])), "is no checkpoint"),
    ("checkpoint.npz", arrays(weights=np.zeros(3, dtype=">f4")), "is no checkpoint"),
    ("checkpoint.npz", arrays(weights=np.full(3, np.nan, dtype=np.float32)), "is no checkpoint"),
    ("checkpoint.npz", arrays(weights=np.zeros(3, dtype=np.float32)), "resume: the state is not from this model"),
    ("checkpoint.npz", arrays(round=np.array(-1)), "but the run has 1"),
    ("checkpoint.npz", arrays(round=np.array(2**62)), "but the run has 1"),
    ("checkpoint.npz", arrays(round=np.array(True)), "is no checkpoint"),
    ("metrics.jsonl", text('{"round": 1}\n{"round": "1"}\n'), "has a line that is not of a round"),
]


def test_strange_files(made: Path, here: Path, command: Command) -> None:
    for name, change, problem in STRANGE:
        folder = Path(shutil.copytree(made, "run"))
        change(folder / name)
        command.refuses(f"{folder / name}: ", "train", "--resume", "-o", folder)
        assert problem in command("train", "--resume", "-o", folder).err
        shutil.rmtree("run")
    shutil.copytree(made, "run")
    assert "accuracy" in command.ok("train", "--resume", "-o", "run").out
