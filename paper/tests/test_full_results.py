"""The largest table: its numbers follow from the logits, and what is absent says how to make it."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from fedconformal_paper import numbers
from fedconformal_paper.full_results import full_results, measure
from fedconformal_paper.logits import LogitsFolder
from fedconformal_paper.relative_inefficiency import relative_inefficiency
from fedconformal_paper.setup import Setup
from fedconformal_paper.trials import trials

from fedconformal.errors import InputError
from fedconformal.scores import LAC, RAPS


def setup(directory: Path, *datasets: str, kind: str = "exact") -> Setup:
    return Setup(logits=LogitsFolder(directory=directory), datasets=datasets, kind=kind)


def test_ours_stands_beside_the_papers(logits: Path) -> None:
    table = full_results(setup(logits, "dermamnist"))
    rows = {(row[1], row[2]): row for row in table.rows}
    assert len(rows) == 2 * 3
    central, federated = rows["central", 0.9], rows["FedAvg", 0.9]
    assert (central[3], central[5]) == (0.90, 1.7)
    assert abs(central[4].mean - 0.9) < 0.03
    assert central[6].mean < federated[6].mean  # the central logits know more
    assert central[4].sd > 0
    assert central[-1] == "others' logits, 600 rows"


def test_what_is_absent_has_a_command_and_no_row(logits: Path) -> None:
    table = full_results(setup(logits, "dermamnist"))
    assert {row[1] for row in table.rows} == {"FedAvg", "central"}
    assert [part.name for part in table.absent] == ["dermamnist FedProx", "dermamnist TCT"]
    out = logits / "dermamnist_tct"
    assert table.absent[1].command == (f"fedconformal train --preset paper --dataset dermamnist --method tct -o {out}")
    said = table.remarks()[-1]
    assert said.startswith("Not here: dermamnist with FedProx, TCT.")
    assert said.endswith("--dataset DATASET --method METHOD -o {}`.".format(logits / "DATASET_METHOD"))


def test_own_runs_stand_beside_the_logits_of_others(logits: Path) -> None:
    arrays = dict(np.load(logits / "dermamnist_fedavg.npz"))
    for name in ("dermamnist_fedavg", "dermamnist_fedavg.resnet", "dermamnist_tct.again"):
        (logits / name).mkdir()
        np.savez(logits / name / "logits.npz", **arrays)
    table = full_results(setup(logits, "dermamnist"))
    shown = list(dict.fromkeys(row[1] for row in table.rows))
    assert shown == ["FedAvg", "FedAvg (run of our own)", "FedAvg (run resnet)", "TCT (run again)", "central"]
    assert [part.name for part in table.absent] == ["dermamnist FedProx"]  # a run with a label fills the place
    ratios = relative_inefficiency(setup(logits, "dermamnist"))
    assert {row[1] for row in ratios.rows} == {"FedAvg"}  # all other tables use what has no label


def test_a_run_tells_its_rounds_and_uses_all_held_out_rows(logits: Path) -> None:
    run = logits / "dermamnist_fedprox"
    run.mkdir()
    arrays = dict(np.load(logits / "dermamnist_fedavg.npz"))
    arrays |= {f"temp_{name}": arrays[f"val_{name}"] for name in ("logits", "labels")}
    for part in ("val", "temp", "test"):
        arrays[f"{part}_clients"] = arrays[f"{part}_labels"] % 2
    np.savez(run / "logits.npz", names=np.array(["south", "north"]), **arrays)
    settings = {**numbers.settings("dermamnist", "fedavg"), "rounds": 20, "augment": "none"}
    (run / "config.json").write_text(json.dumps({"config": settings, "versions": {}}))
    answers = LogitsFolder(directory=logits).read("dermamnist", "fedprox")
    assert answers
    assert answers.differs == (
        f"own run, 750 rows, accuracy {answers.accuracy:.2f}, rounds 20 (paper 200), augment none (paper flip-crop)"
    )
    assert set(answers.clients) == {0, 1}
    assert answers.sites == ("north", "south")


def test_the_rank_counts_every_site(logits: Path) -> None:
    answers = LogitsFolder(directory=logits).read("dermamnist", "fedavg")
    assert answers
    for trial in trials(answers, count=3):
        scores = np.sort(trial.calibration.scores(RAPS()))
        rank = math.ceil(0.9 * (len(scores) + 3))
        assert trial.thresholds(RAPS(), [0.1], kind="exact") == [scores[rank - 1]]


def test_halves_do_not_meet_and_differ(logits: Path) -> None:
    answers = LogitsFolder(directory=logits).read("dermamnist", "fedavg")
    assert answers
    first, second = trials(answers, count=2)
    assert sorted([*first.calibration.index, *first.test.index]) == list(range(600))
    assert set(first.calibration.index) != set(second.calibration.index)


def test_no_trial_is_infeasible_in_silence(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "dermamnist_central.npz", val_logits=rng.normal(size=(20, 7)), val_labels=rng.integers(0, 7, 20)
    )
    answers = LogitsFolder(directory=tmp_path).read("dermamnist", "central")
    assert answers
    for kind in ("tdigest", "exact"):
        (trial,) = trials(answers, count=1)
        assert trial.thresholds(LAC(), [0.01], kind=kind) == [math.inf]


def test_bad_files_are_named(tmp_path: Path) -> None:
    source = LogitsFolder(directory=tmp_path)
    np.savez(tmp_path / "mnist_tct.npz", val_logits=np.zeros((2, 10)))
    with pytest.raises(InputError, match=r"mnist_tct.npz: has no val_labels"):
        source.read("mnist", "tct")
    np.savez(tmp_path / "mnist_fedavg.npz", val_logits=np.zeros((2, 3)), val_labels=[0, 1])
    with pytest.raises(InputError, match="has 3 classes, not those of mnist"):
        source.read("mnist", "fedavg")
    np.savez(tmp_path / "mnist_central.npz", val_logits=np.full((2, 10), np.nan), val_labels=[0, 1])
    with pytest.raises(InputError, match="not finite"):
        source.read("mnist", "central")
    with pytest.raises(InputError, match="no data set here"):
        setup(tmp_path, "imagenet")


SUPPLIED = Path(os.environ.get("FEDCONFORMAL_DATA", "")) / "logits"
BARS = [
    ("cifar100", "central", (5.0, 2.4, 1.5), 0.15),
    ("cifar100", "tct", (7.2, 3.2, 1.65), 0.2),
    ("dermamnist", "central", (1.73, 1.25, 1.04), 0.05),
    ("tissuemnist", "central", (2.96, 2.06, 1.51), 0.05),
]


@pytest.mark.skipif(not (SUPPLIED / "cifar100_tct.npz").exists(), reason="FEDCONFORMAL_DATA has no logits")
@pytest.mark.parametrize(("dataset", "method", "sizes", "within"), BARS)
def test_sizes_on_real_logits(dataset: str, method: str, sizes: tuple[float, ...], within: float) -> None:
    answers = LogitsFolder(directory=SUPPLIED).read(dataset, method)
    assert answers
    coverage, found = measure(answers, (0.9, 0.8, 0.7))
    assert np.abs(found.mean(axis=0) - sizes).max() <= within
    assert (coverage.mean(axis=0) >= np.array([0.9, 0.8, 0.7]) - 0.01).all()
