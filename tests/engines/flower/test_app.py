"""The app that `flower init` writes: trained, calibrated and evaluated in this process."""

import json
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")

import msgspec
import numpy as np
from flwr.app import Context, Message, RecordDict

import fedconformal as fc
from fedconformal.calibration.temperature import fit_temperature
from fedconformal.cli.flower import Result, show_result
from fedconformal.engines.flower import InProcessGrid, training
from fedconformal.engines.flower.in_process import App, make_app
from fedconformal.engines.flower.stages import read_model, run_stages
from fedconformal.engines.flower.template.client_app import app as client_app
from fedconformal.engines.flower.template.task import CLASSES, build_model, load_rows
from fedconformal.errors import InputError
from fedconformal.evaluation import full_sets
from fedconformal.summaries.batch import SummaryBatch
from fedconformal.training import TCT, FedAvg, FedProx, Trainer
from tests.engines.flower.tools import Backwards, Faulty

SITES = 4
LOCAL: dict[str, Any] = {"rate": 0.05, "workers": 1, "device": "cpu"}
SECOND: dict[str, Any] = {"rounds": 1, "coordinates": 500, **LOCAL}
THEIRS: dict[str, Any] = {"solver": "scaffold", "steps": 50, "intercept": False, "weighting": "uniform"}
TRAINERS: dict[str, Trainer] = {
    "fedavg": FedAvg(rounds=2, **LOCAL),
    "fedprox": FedProx(rounds=2, mu=0.5, **LOCAL),
    "tct": TCT(linear_rounds=3, **SECOND),
    "tct-scaffold": TCT(linear_rounds=2, **SECOND, **THEIRS),
}


def context(site: int, sites: int = SITES) -> Context:
    config: dict[str, Any] = {"partition-id": site, "num-partitions": sites}
    return Context(run_id=1, node_id=site, node_config=config, state=RecordDict(), run_config={})


def config_of(method: str, output: Path, **more: Any) -> dict[str, Any]:
    trainer = TRAINERS[method]
    names = {"rounds", "rate", "mu", "weighting", "linear_rounds", "coordinates", "solver", "intercept", "steps"}
    settings = {name.replace("_", "-"): getattr(trainer, name) for name in names & set(vars(trainer))}
    return {"method": trainer.name, "score": "lac", "output": str(output), **settings, **more}


def run(config: dict[str, Any], grid: InProcessGrid | None = None, model: Any = None) -> dict[str, Any]:
    run_stages(grid or InProcessGrid(client_app, SITES), config, model or build_model(), CLASSES)
    found: dict[str, Any] = json.loads((Path(config["output"]) / "result.json").read_text())
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, dict[str, Any]]]:
    """Run a method from its first stage to the last, once for all tests."""

    @cache
    def ran(method: str) -> tuple[Path, dict[str, Any]]:
        folder = tmp_path_factory.mktemp(method)
        return folder, run(config_of(method, folder))

    return ran


Whole = Callable[[str], tuple[Path, dict[str, Any]]]


@pytest.mark.parametrize("method", TRAINERS)
def test_it_is_what_training_and_files_give(method: str, whole: Whole) -> None:
    folder, found = whole(method)
    trained = TRAINERS[method].fit(build_model(), [load_rows(context(k), "train") for k in range(SITES)])
    arrays, temperature = read_model(folder / "model.npz")
    expected = training.arrays_of(trained)
    assert list(arrays) == list(expected)
    assert all(np.array_equal(arrays[name].numpy(), expected[name].numpy()) for name in arrays)

    def logits(part: str) -> list[tuple[Any, Any]]:
        rows = [load_rows(context(k), part) for k in range(SITES)]
        with torch.no_grad():
            return [(trained(one.inputs()).numpy(), one.y.numpy()) for one in rows]

    apart = logits("temperature")
    assert temperature == pytest.approx(fit_temperature([z for z, _ in apart], [y for _, y in apart]).value, rel=1e-6)
    score = fc.LAC()
    probs = [(fc.softmax(z, temperature=temperature), y) for z, y in logits("calibrate")]
    summaries = [fc.summarize(p, y, score=score, alpha=0.1, site=f"{k}") for k, (p, y) in enumerate(probs)]
    assert found["threshold"] == fc.calibrate(summaries, alpha=0.1).threshold
    predictor = fc.load(folder / "predictor.json")
    assert predictor.certificate.class_names == list(CLASSES)
    assert (
        fc.verify(predictor, SummaryBatch.from_bytes(path.read_bytes() for path in (folder / "sites").iterdir())) == []
    )
    site = found["evaluation"]["by_site"]["site-1"]
    test, labels = logits("test")[1]
    evaluation = predictor.evaluate(fc.softmax(test, temperature=temperature), labels).overall
    assert (site["rows"], site["coverage"]) == (len(labels), evaluation.coverage)
    assert site["mean_size"] == pytest.approx(evaluation.mean_size)


def test_every_stage_says_who_took_part_and_what_crossed_the_wire(whole: Whole) -> None:
    _, found = whole("tct")
    stages = {stage["stage"]: stage for stage in found["participants"]}
    assert list(stages) == ["train", "linear", "temperature", "calibrate", "evaluate", "broadcast"]
    for stage in stages.values():
        assert set(stage["took_part"]) == {f"site-{k}" for k in range(SITES)}
        assert stage["refused"] == []
        assert stage["bytes"]["per_site_received"] * SITES == pytest.approx(stage["bytes"]["received"], abs=SITES)
    assert (stages["train"]["exchanges"], stages["linear"]["exchanges"]) == (1, 2 + 3)
    network = 4 * sum(weight.numel() for weight in build_model().parameters())
    assert network < stages["train"]["bytes"]["per_site_sent"] < network + 2000
    vectors = 4 * (4 * 2 * 500 + 3 * 10 * 501)  # mean and scale but for the first step, theta in every round
    assert network + vectors < stages["linear"]["bytes"]["per_site_sent"] < network + vectors + 5000  # it goes out once
    assert stages["calibrate"]["bytes"]["per_site_received"] < 2000


def test_the_same_again_and_whoever_answers_first(whole: Whole, tmp_path: Path) -> None:
    _, first = whole("fedavg")
    again = run(config_of("fedavg", tmp_path / "b"), Backwards(client_app, SITES))
    other = run(config_of("fedavg", tmp_path / "c", seed=1))
    assert first["certificate"] == again["certificate"]
    assert first["model"] == again["model"] != other["model"]


@pytest.mark.parametrize("stage", ["temperature", "calibrate"])
def test_a_run_goes_on_from_any_stage(stage: str, whole: Whole, tmp_path: Path) -> None:
    folder, found = whole("fedavg")
    again = run(config_of("fedavg", tmp_path, **{"from-stage": stage, "saved-model": str(folder / "model.npz")}))
    assert again["certificate"] == found["certificate"]
    assert again["participants"][0]["stage"] == stage


def test_sums_round_the_threshold_of_exact_summaries_up(whole: Whole, tmp_path: Path) -> None:
    folder, _ = whole("fedavg")
    more = {"from-stage": "calibrate", "saved-model": str(folder / "model.npz")}
    exact = run(config_of("fedavg", tmp_path / "exact", kind="exact", **more))
    sums = run(config_of("fedavg", tmp_path / "sums", privacy="sums", **more))
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "exact" / "sites").iterdir()} == {0}  # its owner's only
    assert sums["threshold"] >= exact["threshold"]
    assert sums["evaluation"]["overall"]["coverage"] >= exact["evaluation"]["overall"]["coverage"]
    assert sums["certificate"]["privacy"]["mode"] == "sums"
    assert list((tmp_path / "sums" / "sites").iterdir()) == []
    stage = sums["participants"][0]
    assert (stage["stage"], stage["exchanges"] <= 20) == ("calibrate", True)
    weights = sum(weight.numel() for weight in build_model().parameters())
    assert stage["bytes"]["per_site_sent"] < 4 * weights + 10_000  # the model goes out once


def test_a_saved_model_that_is_not_this_one(whole: Whole, tmp_path: Path) -> None:
    folder, _ = whole("fedavg")
    arrays, _ = read_model(folder / "model.npz")
    with pytest.raises(InputError, match="weights: are"):
        training.load_model(torch.nn.Linear(2, 3), arrays)
    np.savez(tmp_path / "other.npz", x=np.zeros(2))
    with pytest.raises(InputError, match=r"is not the model\.npz of a run"):
        read_model(tmp_path / "other.npz")


def test_a_model_that_is_not_finite_is_not_trained(tmp_path: Path) -> None:
    broken = build_model()
    torch.nn.init.constant_(next(broken.parameters()), torch.nan)
    with pytest.raises(InputError, match=r"model: fc1\.weight holds a value that is not finite"):
        run(config_of("fedavg", tmp_path), model=broken)


def test_a_site_lost_in_a_stage_is_in_the_report_and_the_promise_covers_all_that_calibrated(tmp_path: Path) -> None:
    lost = {"train": 0, "train.linear": 0, "query.temperature": 1, "query.calibrate": 2, "query.evaluate": 3}

    def fail(reply: Message) -> None:
        if lost[reply.metadata.message_type] == reply.metadata.src_node_id - 2:
            raise OSError("gone")

    app: Any = Faulty(client_app, dict.fromkeys(range(SITES), fail))
    lost["query.broadcast"] = -1
    found = run(config_of("tct", tmp_path), InProcessGrid(app, SITES))
    gone = "failed: OSError: gone"
    assert found["certificate"]["left_out"] == [{"site": "site-2", "reason": gone}]
    assert [one["sites"] for one in found["certificate"]["summaries"]] == [["site-0"], ["site-1"], ["site-3"]]
    refused = [(stage["stage"], one["reason"]) for stage in found["participants"] for one in stage["refused"]]
    assert refused == [(kind.rpartition(".")[2], gone) for kind in lost if kind != "query.broadcast"]


def test_a_site_that_lost_its_state_gets_the_network_again_and_catches_up(whole: Whole, tmp_path: Path) -> None:
    steps: list[str] = []

    def restart(message: Message, context: Context) -> Message:
        if context.node_config["partition-id"] == 1 and message.metadata.message_type == "train.linear":
            steps.append("sent" if "arrays" in message.content else "kept")
            if len(steps) == 2:  # which is the step "prepare"
                context.state.clear()
        return client_app(message, context)

    found = run(config_of("tct", tmp_path), InProcessGrid(restart, SITES))  # type: ignore[arg-type]
    assert steps == ["sent", "kept", "sent", "kept", "kept"]
    (stage,) = [stage for stage in found["participants"] if stage["stage"] == "linear"]
    (refused,) = stage["refused"]
    assert refused["reason"] == "failed: InputError: this site does not have the network that is asked about"
    assert found["model"] == whole("tct")[1]["model"]


def test_features_that_are_too_many_to_keep_are_computed_again(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "MOST_KEPT", 0)
    assert run(config_of("tct-scaffold", tmp_path))["model"] == whole("tct-scaffold")[1]["model"]


def test_the_second_stage_starts_from_a_saved_model(whole: Whole, tmp_path: Path) -> None:
    run(config_of("fedavg", tmp_path / "first", rounds=1))
    saved = {"saved-model": str(tmp_path / "first" / "model.npz")}
    assert run(config_of("tct", tmp_path / "second", rounds=0, **saved))["model"] == whole("tct")[1]["model"]


def test_parameters_may_have_the_names_of_the_linear_model() -> None:
    own = torch.nn.ParameterDict({name: torch.ones(2, 2) for name in ("theta", "mean", "scale")})
    assert training.load_model(own, training.arrays_of(own)) is own


def test_sites_keep_the_predictor_and_may_have_rows_of_their_own(whole: Whole, tmp_path: Path) -> None:
    nodes: list[dict[str, Any]] = []
    for k in range(SITES):
        folder = tmp_path / f"site-{k}"
        folder.mkdir()
        parts = {part: load_rows(context(k), part) for part in ("train", "temperature", "calibrate", "test")}
        arrays = {f"{part}_{name}": getattr(rows, name).numpy() for part, rows in parts.items() for name in "xy"}
        np.savez(folder / "rows.npz", **arrays)
        nodes.append({"data": str(folder), "predictor": str(folder / "predictor.json")})
    found = run(config_of("fedavg", tmp_path / "own"), InProcessGrid(client_app, nodes))
    assert found["certificate"] == whole("fedavg")[1]["certificate"]
    for k in range(SITES):
        kept = fc.load(tmp_path / f"site-{k}" / "predictor.json")
        assert kept.certificate.to_dict() == found["certificate"]


def test_rows_of_its_own_that_lack_a_part_are_said_to(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", train_x=np.zeros((2, 1, 8, 8), np.uint8), train_y=np.arange(2))
    alone = context(0)
    alone.node_config["data"] = str(tmp_path)
    assert load_rows(alone, "train").n == 2
    with pytest.raises(InputError, match="holds no calibrate_x; it needs x and y of train, temperature,"):
        load_rows(alone, "calibrate")


def test_a_new_app_needs_nothing_more_and_has_the_settings_that_can_be_changed(tmp_path: Path) -> None:
    make_app(tmp_path)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == []  # what it needs is installed already; an index may not have it
    assert App.read(tmp_path, {"rounds": 1}).config["rounds"] == 1
    with pytest.raises(InputError, match=r"rouns is not in \[tool.flwr.app.config\]"):
        App.read(tmp_path, {"rouns": 1})


def test_full_sets_are_counted_and_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(config_of("fedavg", tmp_path, rounds=1, rate=1e-6, alpha=0.03))  # it learns next to nothing
    arrays, temperature = read_model(tmp_path / "model.npz")
    predictor, network = fc.load(tmp_path / "predictor.json"), training.load_model(build_model(), arrays)
    rows = load_rows(context(1), "test")
    with torch.no_grad():
        sets = predictor.predict_set(fc.softmax(network(rows.inputs()).numpy(), temperature=temperature))
    by_site, overall = found["evaluation"]["by_site"], found["evaluation"]["overall"]
    assert by_site["site-1"]["full_sets"] == full_sets(sets)
    assert overall["full_sets"] == sum(one["full_sets"] for one in by_site.values()) > 0
    assert "does not tell the labels of these rows apart" in found["evaluation"]["why_uninformative"]
    show_result(msgspec.convert(found, Result))
    assert f"{overall['full_sets']} of {overall['rows']} sets hold every label" in capsys.readouterr().out
