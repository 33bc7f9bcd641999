"""From training to sets with the commands alone."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.cli import demo
from tests.cli.command import Command


@pytest.fixture(autouse=True)
def libraries() -> None:
    pytest.importorskip("torch", reason="training needs torch")
    pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")


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
        assert "is code, which only the command line may name" in command("train", *words, "-o", "run").err
    assert "cannot be imported" in command("train", "--model", "clinic:Nett", *own[2:], "-o", "other").err


def test_from_training_to_sets(here: Path, command: Command) -> None:
    done = command.ok("train", "--dataset", "digits", "--method", "central", "--set", "rounds=15", "-o", "run")
    assert "accuracy 0.9" in done.out
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
    sets = ("--set", "rounds=1", "--set", "weighting=uniform", "--set", "mu=0.5")
    command.ok("train", "--config", "run.toml", *sets, "-o", "x")
    written = Path("x/config.json").read_text()
    for setting in ('"rounds": 1,', '"clients": 3', '"weighting": "uniform"', '"mu": 0.5'):
        assert setting in written


def test_bad_options(here: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = ("train", "--dataset", "digits", "-o", "run")
    command.refuses("no dataset is named; add it to the settings (--dataset)", "train", "-o", "run")
    command.refuses("--set rounds: expected KEY=VALUE", *digits, "--set", "rounds")
    for name in [name for name in sys.modules if name.startswith("fedconformal.training")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    command.refuses("this needs torch: pip install 'fedconformal[train]'", *digits)


def test_a_run_brings_its_names_and_its_temperature(here: Path, command: Command) -> None:
    rows: dict[str, Any] = {"val_logits": np.eye(2) * 3 - 1, "val_labels": [0, 1], "val_clients": [1, 0]}
    np.savez("run.npz", **rows, names=np.array(["va", "zurich"]), temperature=np.array(2.5))
    for options, temperature in (((), 2.5), (("--temperature", "4"), 4.0)):
        command.ok("summarize", "run.npz", "-o", "sites", *options)
        summary = fc.Summary.from_bytes(Path("sites/zurich.fcs").read_bytes())
        assert summary.sites == ("zurich",)
        assert summary.provenance.temperature == temperature


@pytest.mark.long
def test_the_demo_runs_from_end_to_end_and_leaves_a_report(
    here: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setattr(demo, "SETTINGS", ("rounds=2", "epochs=1", "linear_rounds=5", "coordinates=500", "workers=1"))
    assert command.ok("demo", "--json").json["report"] == "fedconformal-demo/report.html"
    assert Path("fedconformal-demo/summarize.html").exists()
    page, predictor = Path("fedconformal-demo/report.html").read_text(), fc.load("fedconformal-demo/predictor.json")
    assert predictor.sentence() in page
    assert all(f"site-{site}" in page for site in range(10))
    Path("taken").touch()
    command.refuses("taken: is a file; name a directory with -o", "demo", "-o", "taken")
    monkeypatch.setitem(sys.modules, "torch", None)
    command.refuses("the demo needs torch and scikit-learn: pip install 'fedconformal[demo]'", "demo")
