"""Every figure is sound SVG with its axes named, and shows what it says."""

import math
import os
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fedconformal_paper.catalogue import FIGURES
from fedconformal_paper.figures import accuracy, quantiles
from fedconformal_paper.figures.plot import to_pdf
from fedconformal_paper.logits import LogitsFolder
from fedconformal_paper.setup import Setup
from fedconformal_paper.trials import trials

from fedconformal.errors import InputError
from fedconformal.scores import LAC
from paper.tests.conftest import write_logits

DRAWN = {"fig1", "appendix-compute-q-aht"}
ABSENT = {
    "fedavg": "cifar10_fedavg",
    "tct-vs-fedavg": "cifar10_tct",
    "loss-comparison-fitzpatrick": "fitz17k-disease_tct",
}


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    """Made-up logits and labels of the forms that the figures need."""
    data = tmp_path_factory.mktemp("data")
    logits = data / "logits"
    logits.mkdir()
    models = {"fedavg": 1.5, "fedavg_iid": 2.5, "fedprox": 1.5, "tct": 2.5, "tct_iid": 2.8}
    for method, sharp in models.items():
        write_logits(logits, f"cifar100_{method}", classes=100, rows=1000, sharp=sharp)
    write_logits(logits, "pathmnist_central", classes=9)
    write_logits(logits, "tissuemnist_central", classes=8)
    write_logits(logits, "dermamnist_central")
    held = dict(np.load(logits / "dermamnist_central.npz"))
    test = np.concatenate([held["val_labels"], held["test_labels"]])
    source = np.where(np.arange(len(test)) % 3, "clinic", "practice")
    np.savez(data / "dermamnist.npz", train_labels=np.arange(7)[:, None], test_labels=test[:, None], test_source=source)
    lines = ["label,fitzpatrick_scale", *(f"condition {i % 4},{i % 6 + 1}" for i in range(50)), "condition 0,-1"]
    (data / "fitzpatrick17k.csv").write_text("\n".join(lines))
    return Setup(logits=LogitsFolder(directory=logits), count=2, data=data)


@pytest.mark.parametrize("name", sorted(set(FIGURES) - set(ABSENT)))
def test_figures_are_sound(setup: Setup, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "TRIALS", 2)
    svg = FIGURES[name].make(setup)
    root = ET.fromstring(svg)  # noqa: S314
    assert root.attrib["role"] == "img"
    assert float(root.attrib["width"]) > 300
    text = " ".join(root.itertext())
    assert "nan" not in svg
    assert 'class="heading"' in svg or name in DRAWN
    if name not in DRAWN:
        assert any(unit in text for unit in ("coverage", "share of rows", "accuracy", "images", "labels a set"))


@pytest.mark.parametrize("name", ABSENT)
def test_what_is_absent_is_named_with_its_command(setup: Setup, name: str) -> None:
    with pytest.raises(InputError, match=f"has no {ABSENT[name]}; make it with: fedconformal train"):
        FIGURES[name].make(setup)


def as_run(folder: Path, name: str, classes: int) -> None:
    """Turn logits into a training run, which has clients."""
    write_logits(folder, name, classes=classes)
    arrays = dict(np.load(folder / f"{name}.npz"))
    (folder / f"{name}.npz").unlink()
    for part in ("val", "test"):
        arrays[f"{part}_clients"] = arrays[f"{part}_labels"] % 5
    (folder / name).mkdir()
    np.savez(folder / name / "logits.npz", **arrays)


def test_sweep_and_losses_are_drawn_once_the_runs_are_there(tmp_path: Path) -> None:
    for variant in ("", "_overlap3", "_overlap4", "_iid"):
        as_run(tmp_path, f"cifar10_tct{variant}", 10)
    for name in ("fitz17k-disease_tct", "fitz17k-disease_tct-squared"):
        as_run(tmp_path, name, 114)
    setup = Setup(logits=LogitsFolder(directory=tmp_path), count=2)
    sweep = FIGURES["tct-vs-fedavg"].make(setup)
    assert all(f"{k} classes" in sweep for k in ("2", "3", "4", "all"))
    losses = FIGURES["loss-comparison-fitzpatrick"].make(setup)
    assert losses.count("after: ECE") == 2
    assert "squared loss" in losses


def test_a_figure_tells_what_it_was_made_from_and_what_is_absent(tmp_path: Path) -> None:
    as_run(tmp_path, "cifar10_fedavg", 10)
    setup = Setup(logits=LogitsFolder(directory=tmp_path), count=2)
    sweep = FIGURES["fedavg"].make(setup)
    assert "2 classes" in sweep
    assert "3 classes" not in sweep
    there, *absent = setup.remarks()
    assert there == "cifar10_fedavg: others' logits, 600 rows"
    assert [line.partition(":")[0] for line in absent] == [
        f"cifar10_fedavg_{v}" for v in ("overlap3", "overlap4", "iid")
    ]
    assert all("make it with: fedconformal train --preset paper" in line for line in absent)


def test_real_sites_need_the_rows_of_the_logits(setup: Setup, tmp_path: Path) -> None:
    np.savez(tmp_path / "dermamnist.npz", test_labels=np.zeros((3, 1)), test_source=np.array(["a", "b", "c"]))
    with pytest.raises(InputError, match="not those of the logits"):
        FIGURES["derma-by-source"].make(replace(setup, data=tmp_path))
    assert "practice" in FIGURES["derma-by-source"].make(setup)


def test_a_figure_is_written_as_pdf(setup: Setup) -> None:
    drawn = FIGURES["conformal-score-compare"].make(setup)
    try:
        assert to_pdf(drawn).startswith(b"%PDF")
    except InputError as error:
        pytest.skip(str(error))


def test_known_quantiles_lie_on_the_exact_curve_and_others_off(setup: Setup) -> None:
    found = {name: trials.mean(axis=0) for name, trials in quantiles.coverage_of_each(setup)[1].items()}
    exact = found["exact"]
    assert np.abs(found["tdigest"] - exact).max() < 0.01
    assert (found["ranks"] >= exact).all()
    assert (found["ranks"] - exact).max() < 0.03


LOGITS = Path(os.environ.get("FEDCONFORMAL_DATA", "")) / "logits"


def test_mid_bucket_is_what_the_papers_package_says(setup: Setup) -> None:
    package = pytest.importorskip("ddsketch", reason="the paper's ddsketch is not installed")
    (trial,) = trials(setup.need("cifar100", "tct"), count=1)
    scores, owners = trial.calibration.scores(LAC()), trial.calibration.clients
    merged = package.DDSketch(quantiles.ACCURACY)
    for client in np.unique(owners):
        sketch = package.DDSketch(quantiles.ACCURACY)
        for score in scores[owners == client]:
            sketch.add(float(score))
        merged.merge(sketch)
    for alpha in (0.5, 0.3, 0.1):
        rank = math.ceil(round((1 - alpha) * (len(scores) + len(np.unique(owners))), 9))
        read = merged.get_quantile_value(rank / len(scores))
        assert quantiles.mid_bucket(trial, alpha) == pytest.approx(read, rel=1e-9)
