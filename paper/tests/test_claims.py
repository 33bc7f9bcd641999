"""The table of claims: judged by the largest cut, in words, with whatever runs there are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fedconformal_paper import numbers
from fedconformal_paper.claims import Claim, claims
from fedconformal_paper.evidence import Evidence
from fedconformal_paper.figures.answer import MODEL, WIDTH, answer, lines
from fedconformal_paper.record import Record
from fedconformal_paper.results import record_of
from fedconformal_paper.runs import Run, largest, read_runs

from fedconformal.errors import InputError

ROOT = Path(__file__).parents[2]
Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write down a run as scripts/results.py does."""

    def write(name: str, size: float, halves: float | None = 0.9, **settings: Any) -> None:
        sets = {"0.9": {"size": size + 1, "coverage": 0.95}}
        given = {"dataset": "cifar10", "partition": "overlap", "classes_per_client": 2, "model": "lenet", **settings}
        found = {
            "name": name,
            "settings": given,
            "defaults": {"rounds": 20, "epochs": 1},
            "accuracy": 0.5,
            "sets": sets,
            "halves": halves and {"0.9": {"size": size, "coverage": halves}},
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(found))

    return write


def judged(folder: Path) -> list[Claim]:
    return [c for c in claims(Evidence(record=Record(), runs=read_runs(folder))) if c.verdict != "not tried"]


def test_nothing_is_judged_without_evidence(tmp_path: Path, write: Write) -> None:
    assert judged(tmp_path) == []
    write("a", 3.4, method="tct")
    assert [claim.paper for claim in judged(tmp_path)] == ["0.90 to 0.91"]  # coverage; TCT alone shows nothing


@pytest.mark.parametrize(
    ("tct", "fedavg", "verdict"),
    [
        (1.3, 3.8, "yes"),
        (3.4, 5.5, "yes, but our TCT and FedAvg sets are larger"),
        (3.4, 4.0, "yes, but our TCT sets are larger"),
        (1.3, 2.0, "yes, but our FedAvg sets are smaller"),
        (3.4, 3.0, "no"),
    ],
)
def test_sizes_agree_within_a_quarter_either_way(
    tmp_path: Path, write: Write, tct: float, fedavg: float, verdict: str
) -> None:
    write("tct", tct, method="tct")
    write("fedavg", fedavg, method="fedavg")
    assert judged(tmp_path)[1].verdict == verdict


def test_models_are_compared_within_a_network_and_a_way(tmp_path: Path, write: Write) -> None:
    write("lenet-tct", 3.4, method="tct", rounds=100)
    write("lenet-fedavg", 5.5, method="fedavg", rounds=100)
    write("lenet-central", 1.4, method="central")
    write("resnet-tct", 4.1, method="tct", model="resnet14", epochs=5, augment="flip-crop", weighting="uniform")
    write("resnet-fedavg", 3.72, method="fedavg", model="resnet14")
    write("resnet-lbfgs", 1.29, method="tct", model="resnet14", solver="lbfgs")
    write("resnet-ablation", 1.1, method="tct", model="resnet14", solver="lbfgs", intercept=False)
    authors, ours = judged(tmp_path)[1:]
    assert (authors.says, authors.ours) == ("CIFAR-10: TCT smaller than FedAvg, the authors' way", "4.1 and 3.72")
    assert (authors.verdict, authors.cut) == ("no", "ResNet-14, 20 x 5 + 0 rounds; FedAvg: 20 rounds")
    assert (ours.says, ours.ours) == ("CIFAR-10: TCT smaller than FedAvg, our way", "1.29 and 3.72")
    assert ours.cut == "ResNet-14, 20 + 0 rounds, not augmented, sites by rows; FedAvg: 20 rounds"
    write("resnet-central", 1.2, method="central", model="resnet14", rounds=30)
    assert judged(tmp_path)[-1].verdict == "yes"
    write("resnet-central", 0.9, method="central", model="resnet14", rounds=30)
    assert judged(tmp_path)[-1].verdict == "no: 1.4 times as large"


def test_the_authors_way_stands_for_tct_among_equal_runs(tmp_path: Path, write: Write) -> None:
    for name, solver in (("a", "lbfgs"), ("b", "scaffold"), ("c", "lbfgs")):
        write(name, 2.0, method="tct", solver=solver)
    main = largest(read_runs(tmp_path), "cifar10_tct")
    assert main is not None
    assert main.name == "b"


def test_one_split_is_never_compared_with_ten(tmp_path: Path, write: Write) -> None:
    write("tct", 1.3, method="tct", halves=None)
    write("fedavg", 3.8, method="fedavg")
    (claim,) = [one for one in judged(tmp_path) if "FedAvg" in one.says]
    assert claim.ours == "2.3 and 4.8"
    assert claim.cut.endswith("; one split")


@pytest.mark.parametrize("dataset", ["fashionmnist", "cifar10", "cifar100", "tissuemnist", "fitzpatrick17k"])
@pytest.mark.parametrize("method", ["fedavg", "fedprox", "tct", "central"])
def test_the_papers_settings_are_those_of_the_preset(dataset: str, method: str) -> None:
    from fedconformal.training.config import paper_settings

    wanted = numbers.settings(dataset, method)
    given = paper_settings({"dataset": dataset, "method": method})
    assert given.items() <= wanted.items()
    default = {"model"} if dataset != "tissuemnist" else set()  # grey images, whose default network is LeNet
    assert set(wanted) - set(given) == default
    assert numbers.deviations({**given, "model": wanted["model"], "method": method}, dataset) == []


def test_every_run_states_every_deviation() -> None:
    text = (ROOT / "docs" / "training-results.md").read_text().partition("## Deviations from")[2]
    common = text.partition("- all runs: ")[2].partition("\n")[0]
    for run in read_runs(ROOT / "results"):
        if run.dataset in numbers.FULL_RESULTS:
            (line,) = [one for one in text.splitlines() if run.name in one[2:].partition(":")[0].split(", ")]
            assert [one for one in run.differs if one not in line and one not in common] == []


def test_the_sweep_is_judged_as_one(tmp_path: Path, write: Write) -> None:
    for n, fedavg, tct in ((2, 5.5, 3.4), (3, 4.3, 3.1), (4, 3.3, 2.9), (10, 2.7, 2.7)):
        write(f"{n}-fedavg", fedavg - 1, method="fedavg", classes_per_client=n)
        write(f"{n}-tct", tct - 1, method="tct", classes_per_client=n)
    assert judged(tmp_path)[-1].verdict == "yes, but our FedAvg sets are larger"
    write("3-fedavg", 6.0, method="fedavg", classes_per_client=3)
    assert judged(tmp_path)[-1].verdict == "no"
    (tmp_path / "3-fedavg.json").unlink()
    assert "classes a client" not in judged(tmp_path)[-1].says


@pytest.mark.parametrize(
    ("superclasses", "verdict"), [(40.0, "yes"), (20.0, "no: 1.1 times as large, not 2.7"), (12.0, "no: 0.7")]
)
def test_both_maps_of_classes_are_compared_at_the_same_cut(
    tmp_path: Path, write: Write, superclasses: float, verdict: str
) -> None:
    cifar100 = {"dataset": "cifar100", "method": "fedavg", "partition": "classes", "model": "resnet14"}
    write("superclasses", superclasses, **cifar100)
    write("consecutive", 17.9, **cifar100, groups=[[0]])
    record = Record.read(record_of(ROOT / "docs" / "results.md"))

    def compared() -> list[str]:
        found = claims(Evidence(record=record, runs=read_runs(tmp_path)))
        return [claim.verdict for claim in found if "superclasses" in claim.says]

    assert compared()[0].startswith(verdict)
    (run,) = [run for run in read_runs(tmp_path) if run.name == "consecutive"]
    assert (run.logits, "consecutive classes a client" in run.differs) == ("cifar100_fedavg_consecutive", True)
    write("consecutive", 17.9, **cifar100, groups=[[0]], rounds=30)
    assert not compared()  # at another cut


def test_a_run_from_others_weights_is_compared_with_others(tmp_path: Path, write: Write) -> None:
    full = Record.read(record_of(ROOT / "docs" / "results.md"))
    cifar100 = {"dataset": "cifar100", "partition": "classes", "model": "resnet14"}
    write("tct", 7.2, **cifar100, method="tct", weights="w.pth")
    write("fedavg", 80.0, **cifar100, method="fedavg", rounds=5)
    found = claims(Evidence(record=full, runs=read_runs(tmp_path)))
    (claim,) = [one for one in found if one.says == "CIFAR-100: TCT smaller than FedAvg, the authors' way"]
    assert claim.ours == "7.2 and 47.5"


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
