"""From training to sets with the commands alone."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command

TORCHLESS = """
import sys
sys.modules["torch"] = None
from fedconformal.cli.app import run
assert run(["-q", "train", "--help"]) == 0
sys.exit(run(["train", "--dataset", "digits", "--set", "rounds=3", "-o", sys.argv[1]]))
"""


def test_without_torch(tmp_path: Path) -> None:
    program = [sys.executable, "-c", TORCHLESS, str(tmp_path / "run")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: this needs torch: pip install 'fedconformal[train]'\n"
    assert not list(tmp_path.iterdir())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch", reason="training needs torch")
    pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")
    monkeypatch.chdir(tmp_path)
    return tmp_path


OWN = """
import numpy as np
from torch import nn
from fedconformal.training.data import Dataset, Rows

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))

def wards():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    x = (rng.normal(size=(300, 2)) + 3 * y[:, None]).astype(np.float32)
    parts = [Rows(x=x[i::3], y=y[i::3], columns={"ward": rng.choice(["a", "b"], 100)}) for i in range(3)]
    return Dataset(name="wards", classes=("no", "yes"), train=parts[0], val=parts[1], test=parts[2])
"""


def test_a_model_and_data_of_ones_own(here: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("clinic.py").write_text(OWN)
    own = ("--model", "clinic:Net", "--dataset", "clinic:wards")
    by_ward = ("--partition", "column", "--set", "column=ward", "--set", "epochs=9", "--set", "workers=1")
    assert "accuracy 0.9" in command.ok("train", *own, *by_ward, "-o", "run").out
    assert sorted(np.load("run/logits.npz")["names"]) == ["a", "b"]
    command.ok("train", *own, "--resume", "-o", "run")
    for words in (("--resume",), ("--resume", *own[:2]), ("--set", "model=clinic:Net", *own[2:], *by_ward)):
        assert "is code, which only the command line names" in command("train", *words, "-o", "run").err
    assert "cannot be imported" in command("train", "--model", "clinic:Nett", *own[2:], "-o", "other").err


def test_from_training_to_sets(here: Path, command: Command) -> None:
    done = command.ok("train", "--dataset", "digits", "--method", "central", "--set", "rounds=15", "-o", "run")
    assert "accuracy 0.9" in done.out
    assert "temperature" in done.out
    following = "fedconformal summarize run/logits.npz -o run/sites"
    assert done.out.endswith(f"$ {following}\n")
    command.ok(*following.split()[1:])
    sites = sorted(Path("run/sites").glob("*.fcs"))
    assert [site.name for site in sites] == [f"site-{k}.fcs" for k in range(10)]
    command.ok("calibrate", *sites, "--alpha", "0.1", "-o", "predictor.json")
    done = command.ok("calibrate", *sites, "--alpha", "0.1", "--guarantee", "new-site", "-o", "new.json")
    assert "nothing is promised: the model was trained on the sites that calibrated it" in done.out
    assert fc.load("new.json").certificate.status == "estimated"
    command.ok("verify", "new.json", *sites)
    result = command.ok("train", "--resume", "-o", "run", "--json").json
    assert result["next"] == following
    assert fc.load("predictor.json").certificate.provenance.temperature == result["temperature"]
    found = command.ok("evaluate", "predictor.json", "run/logits.npz", "--json").json
    assert found["overall"]["coverage"] > 0.85
    assert {group["name"] for group in found["by_site"]} == {f"site-{k}" for k in range(10)}


def test_options_go_before_the_file(here: Path, command: Command) -> None:
    Path("run.toml").write_text('dataset = "digits"\nrounds = 2\npartition = "iid"\nclients = 3\nmethod = "fedprox"\n')
    command.ok(
        "train", "--config", "run.toml", "--set", "rounds=1", "--set", "weighting=uniform", "--set", "mu=0.5", "-o", "x"
    )
    written = Path("x/config.json").read_text()
    for setting in ('"rounds": 1,', '"clients": 3', '"weighting": "uniform"', '"mu": 0.5'):
        assert setting in written


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "no dataset is named; add it to the settings (--dataset)"),
        (("--dataset", "digits", "--set", "rounds"), "--set rounds: expected KEY=VALUE"),
        (("--dataset", "digits", "--partition", "column"), "column is needed here; add it to the settings (--set)"),
    ],
)
def test_bad_options(here: Path, command: Command, options: tuple[str, ...], message: str) -> None:
    done = command("train", *options, "-o", "run")
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ({"names": np.array(["a"])}, "run.npz: names: expected a name for each site"),
        ({"temperature": np.array([1.0, 2.0])}, "run.npz: temperature is array([1., 2.]), expected a positive number"),
        ({"names": np.array(["a", "../b"])}, "run.npz: the site '../b' cannot be a file name"),
    ],
)
def test_a_run_with_wrong_names_or_temperature(
    tmp_path: Path, command: Command, array: dict[str, Any], message: str
) -> None:
    path = tmp_path / "run.npz"
    rows: dict[str, Any] = {
        "val_logits": np.eye(2) * 3 - 1,
        "val_labels": np.array([0, 1]),
        "val_clients": np.array([0, 1]),
    }
    np.savez(path, **rows, **array)
    done = command("summarize", path, "-o", tmp_path / "sites")
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "sites").exists()


def test_a_run_brings_its_names_and_its_temperature(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "run.npz"
    rows: dict[str, Any] = {
        "val_logits": np.eye(2) * 3 - 1,
        "val_labels": np.array([0, 1]),
        "val_clients": np.array([1, 0]),
    }
    np.savez(path, **rows, names=np.array(["va", "zurich"]), temperature=np.array(2.5))
    for options, temperature in (((), 2.5), (("--temperature", "4"), 4.0)):
        command.ok("summarize", path, "-o", tmp_path / "sites", *options)
        summary = fc.Summary.from_bytes((tmp_path / "sites" / "zurich.fcs").read_bytes())
        assert summary.sites == ("zurich",)
        assert summary.provenance.temperature == temperature


def test_a_regressor_from_training_to_intervals(here: Path, command: Command) -> None:
    given = ("--dataset", "diabetes", "--partition", "iid", "--set", "clients=2", "--set", "rounds=2")
    said = command.ok("train", *given, "--set", "loss=pinball", "--set", "quantiles=[0.1, 0.9]", "-o", here / "run").out
    assert "progression: mean absolute error" in said
    assert "predictions.npz" in said
    command.ok("summarize", here / "run" / "predictions.npz", "-o", here / "sites")
    command.ok("calibrate", *sorted((here / "sites").glob("*.fcs")), "-o", here / "p.json")
    found = command.ok("evaluate", here / "p.json", here / "run" / "predictions.npz", "--json").json
    assert [one["name"] for one in found["by_site"]] == ["site-0", "site-1"]
    assert found["overall"]["coverage"] > 0.75
