"""A run can be killed at any moment and goes on to the same bits; what it writes is whole or not there."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")

from fedconformal._base.files import read_npz
from fedconformal.errors import InputError
from fedconformal.training.config import Config
from fedconformal.training.data import load
from fedconformal.training.outputs import Result
from fedconformal.training.run import read_checkpoint, read_settings, train
from tests.contracts.tools import refused

SAME = ("checkpoint.npz", "logits.npz")


def config(**more: Any) -> Config:
    return Config.from_dict({"dataset": "digits", "rounds": 4, "workers": 1, **more})


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def same(a: Path, b: Path) -> bool:
    return all((a / name).read_bytes() == (b / name).read_bytes() for name in SAME)


def test_tct_starts_from_a_kept_round_of_fedavg(tmp_path: Path) -> None:
    tct = {"method": "tct", "rounds": 2, "linear_rounds": 2, "coordinates": 50}
    train(config(**tct), tmp_path / "whole")
    train(config(keep=[2]), tmp_path / "fedavg")
    kept = tmp_path / "fedavg" / "checkpoint-2.npz"
    train(config(**tct, first_stage=str(kept)), tmp_path / "second")
    assert same(tmp_path / "whole", tmp_path / "second")
    with pytest.raises(InputError, match=r"checkpoint-2.npz: is of fedavg, round 2; expected fedavg, round 3"):
        train(config(**{**tct, "rounds": 3}, first_stage=str(kept)), tmp_path / "wrong")
    with pytest.raises(InputError, match=r"nowhere.npz: no such file"):
        train(config(**tct, first_stage=str(tmp_path / "nowhere.npz")), tmp_path / "absent")
    with pytest.raises(InputError, match="first_stage is for tct, not for fedavg"):
        train(config(first_stage=str(kept)), tmp_path / "other")


def test_what_a_run_leaves(tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    result = train(config(method="central"), tmp_path, progress=lambda *now: told.append(now))
    assert isinstance(result, Result)
    about = json.loads((tmp_path / "config.json").read_text())
    assert about["config"]["seed"] == 0
    assert about["config"]["rate"] == 0.01
    assert {"fedconformal", "torch", "numpy", "python"} <= set(about["versions"])
    assert [line["round"] for line in lines(tmp_path)] == [1, 2, 3, 4]
    assert lines(tmp_path)[0]["loss"] > lines(tmp_path)[3]["loss"]
    assert json.loads((tmp_path / "result.json").read_text())["accuracy"] == result.accuracy
    assert told
    arrays, digits = read_npz(tmp_path / "logits.npz"), load("digits")
    assert arrays["names"].tolist() == [f"site-{k}" for k in range(10)]
    assert float(arrays["temperature"]) == result.temperature
    for part in ("val", "temp", "test"):
        assert len(arrays[f"{part}_logits"]) == len(arrays[f"{part}_labels"]) == len(arrays[f"{part}_clients"])
        assert np.array_equal(arrays[f"{part}_labels"], arrays[f"{part}_clients"])  # one class a site
    assert len(arrays["val_labels"]) + len(arrays["temp_labels"]) == len(digits.val)
    assert np.array_equal(arrays["test_labels"], digits.test.y)
    assert result.accuracy == np.mean(arrays["test_logits"].argmax(axis=1) == digits.test.y)


def test_without_a_temperature_all_rows_calibrate(tmp_path: Path) -> None:
    result = train(config(rounds=1, temperature="none"), tmp_path)
    assert isinstance(result, Result)
    arrays = read_npz(tmp_path / "logits.npz")
    assert result.temperature == 1.0
    assert len(arrays["temp_labels"]) == 0
    assert np.array_equal(arrays["val_labels"], load("digits").val.y)


KILLED = """
import json, sys
from pathlib import Path
from fedconformal.training.config import Config
from fedconformal.training.run import train

if __name__ == "__main__":
    train(Config.from_dict(json.loads(sys.argv[1])), Path(sys.argv[2]))
"""


def check_resumed(settings: Config, run: Path, whole: Path) -> None:
    """The run goes on to the same bits and metrics as one that nothing interrupted."""
    assert not (run / "logits.npz").exists()
    train(settings, run, resume=True)
    train(settings, whole)
    assert same(run, whole)
    total = settings.trainer.total_rounds
    assert [line["round"] for line in lines(run)] == list(range(1, total + 1))
    assert [{**line, "seconds": 0} for line in lines(run)] == [{**line, "seconds": 0} for line in lines(whole)]


def test_killed_and_resumed_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    program, run, settings = tmp_path / "program.py", tmp_path / "killed", config(rounds=20)
    program.write_text(KILLED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    given = json.dumps(settings.to_dict())
    started = subprocess.Popen([sys.executable, str(program), given, str(run)], env=environment)
    while started.poll() is None:
        if (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").read_text().count("\n") >= 3:
            started.kill()
            break
        time.sleep(0.01)
    started.wait()
    stopped = read_checkpoint(run / "checkpoint.npz")
    assert stopped is not None
    assert 2 <= stopped.round < 20
    check_resumed(settings, run, tmp_path / "whole")


SMALL_TCT = {"method": "tct", "rounds": 2, "linear_rounds": 5, "coordinates": 200, "steps": 20}


@pytest.mark.parametrize(
    ("more", "stage", "after"),
    [
        ({"method": "fedprox"}, "fedprox", 2),
        ({"method": "central"}, "central", 2),
        (SMALL_TCT | {"ridge": 1e-6}, "tct", 4),
        (SMALL_TCT | {"solver": "scaffold"}, "tct", 4),
    ],
)
def test_interrupted_and_resumed_is_the_same_bit_for_bit(
    more: dict[str, Any], stage: str, after: int, tmp_path: Path
) -> None:
    def interrupt(done: int, _total: int, text: str) -> None:
        if "round" in text and done == after:
            raise KeyboardInterrupt

    settings, run = config(**more), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(settings, run, progress=interrupt)
    stopped = read_checkpoint(run / "checkpoint.npz")
    assert stopped is not None
    assert (stopped.stage, stopped.round) == (stage, after)
    check_resumed(settings, run, tmp_path / "whole")


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    train(config(), tmp_path)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"round": 5, "lo')
    train(config(), tmp_path, resume=True)
    assert [line["round"] for line in lines(tmp_path)] == [1, 2, 3, 4]


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/run: cannot be created \(Not a directory\)$"):
        train(config(), tmp_path / "file" / "run")
    run = tmp_path / "run"
    train(config(rounds=1), run)
    with pytest.raises(InputError, match="run: already holds a run; continue it with resume=True or choose"):
        train(config(rounds=1), run)
    with pytest.raises(InputError, match="run: seed is 0 in the run and 1 now; resume=True needs the same settings"):
        train(config(rounds=1, seed=1), run, resume=True)
    train(config(rounds=1, workers=None), run, resume=True)  # workers change nothing


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one round."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(config(rounds=1, model="logistic"), folder)
    return folder


def text(content: str | bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


def settings(**changed: Any) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        about = json.loads(path.read_text())
        path.write_text(json.dumps({**about, "config": about["config"] | changed}))

    return write


def arrays(**changed: Any) -> Callable[[Path], object]:
    return lambda path: np.savez(path, **(read_npz(path) | changed))


def tensor(weights: Any) -> Callable[[Path], object]:
    return arrays(**{"tensor.weights": weights})


STRANGE: list[tuple[str, Callable[[Path], object], str]] = [
    ("config.json", text('{"config": ' + "[" * 100_000), "is not the config.json of a run"),
    ("config.json", text('{"config": [["dataset", "digits"]]}'), "is not the config.json of a run"),
    ("config.json", text(b"\xff\xfe\x00"), "is not the config.json of a run"),
    ("config.json", settings(dataset=[1]), "dataset: expected `str`, got `array`"),
    ("config.json", settings(method={"a": 1}), "no trainer is called"),
    ("config.json", settings(rate=float("nan")), "rate: expected `float` > 0.0"),
    ("config.json", settings(novelty=1), "novelty is no setting"),
    ("checkpoint.npz", text(b"half of it"), "cannot be read"),
    ("checkpoint.npz", lambda path: path.write_bytes(path.read_bytes()[:-30]), "cannot be read"),
    ("checkpoint.npz", np.savez, "is no checkpoint"),
    ("checkpoint.npz", tensor(np.array(["a"])), "is no checkpoint"),
    ("checkpoint.npz", tensor(np.zeros(3, dtype=">f4")), "is no checkpoint"),
    ("checkpoint.npz", tensor(np.full(3, np.nan, dtype=np.float32)), "is no checkpoint"),
    ("checkpoint.npz", tensor(np.zeros(3, dtype=np.float32)), "resume: the state is not from this model"),
    ("checkpoint.npz", arrays(round=np.array(-1)), "but the run has 1"),
    ("checkpoint.npz", arrays(round=np.array(2**62)), "but the run has 1"),
    ("checkpoint.npz", arrays(round=np.array(True)), "is no checkpoint"),
    ("checkpoint.npz", arrays(round=np.array([1, 2])), "is no checkpoint"),
    ("checkpoint.npz", arrays(round=np.array("one")), "is no checkpoint"),
    ("checkpoint.npz", arrays(stage=np.array(2)), "is no checkpoint"),
    ("metrics.jsonl", text('{"round": 1}\n{"round": "1"}\n'), "has a line that is not of a round"),
    ("metrics.jsonl", text("[1]\n"), "has a line that is not of a round"),
    ("metrics.jsonl", text("half\n"), "has a line that is not of a round"),
]


def test_strange_files_are_named_and_nothing_is_written(made: Path, tmp_path: Path) -> None:
    for number, (name, change, problem) in enumerate(STRANGE):
        run = Path(shutil.copytree(made, tmp_path / str(number)))
        change(run / name)
        before = {path: path.read_bytes() for path in run.iterdir()}
        with refused(f"{run / name}: ", problem):
            train(read_settings(run) or config(), run, resume=True)
        assert {path: path.read_bytes() for path in run.iterdir()} == before


@pytest.mark.parametrize("name", ["fedavg", "tct"])
def test_a_run_of_an_earlier_version_goes_on_to_the_same_weights(name: str, tmp_path: Path) -> None:
    """Both runs of `checkpoints/` were written by the version that trains the paper's models."""
    stored = Path(__file__).parent / "checkpoints" / name
    shutil.copytree(stored, tmp_path, dirs_exist_ok=True)
    settings = read_settings(tmp_path)
    assert settings is not None
    train(settings, tmp_path, resume=True)
    found, expected = read_npz(tmp_path / "checkpoint.npz"), read_npz(stored / "after.npz")
    assert list(found) == list(expected)
    for key, array in expected.items():
        assert np.array_equal(found[key], array) if array.dtype.kind in "Ui" else np.allclose(found[key], array, 1e-5)
