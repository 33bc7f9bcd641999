"""The table of claims: judged by the largest cut, in words, with whatever runs there are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fedconformal_paper.claims import Claim, claims
from fedconformal_paper.evidence import Evidence
from fedconformal_paper.figures.answer import MODEL, WIDTH, answer, lines
from fedconformal_paper.record import Record
from fedconformal_paper.results import record_of
from fedconformal_paper.runs import Run, read_runs

from fedconformal.errors import InputError

ROOT = Path(__file__).parents[2]
Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write down a run as scripts/results.py does."""

    def write(name: str, size: float, **settings: Any) -> None:
        sets = {"0.9": {"size": size, "coverage": 0.9}}
        given = {"dataset": "cifar10", "partition": "overlap", "classes_per_client": 2, "model": "lenet", **settings}
        found = {
            "name": name,
            "settings": given,
            "defaults": {"rounds": 20, "epochs": 1},
            "accuracy": 0.5,
            "sets": sets,
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(found))

    return write


def judged(folder: Path) -> list[Claim]:
    return [c for c in claims(Evidence(record=Record(), runs=read_runs(folder))) if c.verdict != "not tried"]


def test_nothing_is_judged_without_evidence(tmp_path: Path, write: Write) -> None:
    assert judged(tmp_path) == []
    write("a", 3.4, method="tct")
    assert [claim.paper for claim in judged(tmp_path)] == ["0.90 to 0.91"]  # coverage; TCT alone shows nothing


def test_a_verdict_says_what_is_larger(tmp_path: Path, write: Write) -> None:
    write("tct", 3.4, method="tct")
    for size, verdict in (
        (5.5, "yes, but our sets are larger"),
        (4.0, "yes, but our TCT sets are larger"),
        (3.0, "no"),
    ):
        write("fedavg", size, method="fedavg")
        assert judged(tmp_path)[1].verdict == verdict
    write("tct", 1.3, method="tct")
    assert judged(tmp_path)[1][1:4] == ("1.3 and 3.8", "1.3 and 3", "yes")


def test_a_larger_network_comes_first_and_is_compared_with_its_own_kind(tmp_path: Path, write: Write) -> None:
    write("lenet-tct", 3.4, method="tct", rounds=100)
    write("lenet-fedavg", 5.5, method="fedavg", rounds=100)
    write("resnet-tct", 1.31, method="tct", model="resnet14")
    write("resnet-fedavg", 3.72, method="fedavg", model="resnet14")
    (claim,) = judged(tmp_path)[1:]
    assert claim.ours == "1.31 and 3.72"
    assert claim.cut == "ResNet-14, 20 + 0 rounds; FedAvg: 20 rounds"
    write("resnet-tct", 1.31, method="tct", model="resnet14", epochs=5)
    assert judged(tmp_path)[1].cut == "ResNet-14, 20 + 0 rounds of 5 epochs; FedAvg: 20 rounds"
    write("resnet-lbfgs", 1.29, method="tct", model="resnet14", solver="lbfgs")
    ours, authors = judged(tmp_path)[1:]
    assert (ours.says, ours.ours) == ("CIFAR-10: TCT smaller than FedAvg, our second stage", "1.29 and 3.72")
    assert (authors.says, authors.ours) == ("TCT smaller than FedAvg, authors' way: CIFAR-10", "1.31 and 3.72")
    assert (authors.paper, authors.verdict) == ("1.3 and 3.8", "yes")
    write("resnet-tct", 4.0, method="tct", model="resnet14")
    assert judged(tmp_path)[-1].verdict == "no"
    for name, size, about in (("scaffold", 1.2, {}), ("lbfgs", 1.1, {"solver": "lbfgs"})):
        write(f"fashion-{name}", size, method="tct", dataset="fashionmnist", partition="classes", **about)
    write("fashion-fedavg", 3.0, method="fedavg", dataset="fashionmnist", partition="classes")
    assert judged(tmp_path)[-1].paper == "1.2 and 3.2; 1.3 and 3.8"
    assert judged(tmp_path)[-1].verdict == "yes, but not for CIFAR-10"


def test_tct_is_compared_with_a_central_model_of_its_own_network(tmp_path: Path, write: Write) -> None:
    write("tct", 1.5, method="tct", model="resnet14", solver="lbfgs")
    write("lenet", 1.4, method="central")
    assert not [claim for claim in judged(tmp_path) if "central" in claim.says]
    write("central", 1.2, method="central", model="resnet14", rounds=30)
    (claim,) = [claim for claim in judged(tmp_path) if "central" in claim.says]
    assert claim.says == "TCT almost as small as central: CIFAR-10"
    assert claim[1:] == ("1.3 and 1.1", "1.5 and 1.2", "yes", "ResNet-14, 20 + 0 rounds, central 30 rounds")
    write("central", 1.0, method="central", model="resnet14", rounds=30)
    assert judged(tmp_path)[-1].verdict == "no: CIFAR-10 1.5 times as large"
    write("fashion", 1.2, method="tct", dataset="fashionmnist", partition="classes", solver="lbfgs")
    write("fashion-central", 1.1, method="central", dataset="fashionmnist", partition="classes")
    claim = judged(tmp_path)[-1]
    assert (claim.paper, claim.ours) == ("1.2 and 1.1; 1.3 and 1.1", "1.2 and 1.1; 1.5 and 1")
    assert claim.verdict == "yes, but CIFAR-10 1.5 times as large"


def test_the_sweep_is_judged_as_one(tmp_path: Path, write: Write) -> None:
    for n, fedavg, tct in ((2, 5.5, 3.4), (3, 4.3, 3.1), (4, 3.3, 2.9), (10, 2.7, 2.7)):
        write(f"{n}-fedavg", fedavg, method="fedavg", classes_per_client=n)
        write(f"{n}-tct", tct, method="tct", classes_per_client=n)
    assert judged(tmp_path)[-1].verdict == "yes"
    write("3-fedavg", 6.0, method="fedavg", classes_per_client=3)
    assert judged(tmp_path)[-1].verdict == "no"
    (tmp_path / "3-fedavg.json").unlink()
    assert "classes a client" not in judged(tmp_path)[-1].says


def test_a_file_that_is_no_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(InputError, match=r"a\.json: is not what scripts/results.py writes"):
        Run.read(tmp_path / "a.json")


def test_the_figure_shows_every_model_once_and_fits(tmp_path: Path) -> None:
    evidence = Evidence(record=Record.read(record_of(ROOT / "docs" / "results.md")), runs=read_runs(ROOT / "results"))
    shown = lines(evidence)
    assert {line.dataset for line in shown} >= {"fashionmnist", "cifar10", "cifar100", "dermamnist"}
    assert {line.method for line in shown} == {"fedavg", "tct", "central"}
    assert len({line[:2] for line in shown}) == len(shown)
    drawn = answer(shown)
    assert drawn.count('class="ring') == len(shown) + 1  # and one in the legend
    widest = max(len(line.model) for line in shown)
    assert MODEL + 6.7 * widest <= WIDTH, "a text on the right may be cut off"
