"""One real deployment on loopback, with TLS and node keys, and what can go wrong with it."""

import json
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")
pytest.importorskip("torch", reason="training needs torch")
pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")

import fedconformal as fc
from fedconformal.errors import InputError
from fedconformal.flower import run_in_process
from fedconformal.flower.app import App, make_app
from fedconformal.flower.certs import make_certs
from fedconformal.flower.engines import deploy
from fedconformal.flower.trial import Trial
from tests.flower.test_engines import left_running

SITES = 3
PATIENCE = 120
SLOW = """

def slow(context: Context) -> None:
    import time
    from pathlib import Path

    marked = Path(str(context.node_config["data"])) / "slow"
    if marked.exists():
        marked.rename(marked.with_name("begun"))
        time.sleep(600)
"""


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("trial")
    make_app(folder / "app")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDCONFORMAL_TEST", str(folder))
        with Trial(folder, SITES) as running:
            yield running
        assert left_running(str(folder)) == []


def app_of(trial: Trial, output: str, **more: Any) -> App:
    settings = {"rounds": 1, "epochs": 1, "temperature": False, "min-sites": 2, "timeout": 90.0}
    return App.read(trial.folder / "app", settings | {"output": str(trial.folder / output)} | more)


def result_of(app: App) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(app.config["output"]) / "result.json").read_text())
    return found


def run(trial: Trial, output: str, **more: Any) -> dict[str, Any]:
    app = app_of(trial, output, **more)
    deploy(app, trial.address, trial.ca)
    return result_of(app)


def wait_until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture(scope="module")
def first(trial: Trial) -> dict[str, Any]:
    return run(trial, "first", **{"min-sites": SITES})


def test_the_same_threshold_to_the_last_bit(trial: Trial, first: dict[str, Any]) -> None:
    app = app_of(trial, "here")
    client, server = app.load()
    run_in_process(server, client, SITES, run_config=app.config)
    here = result_of(app)
    assert first["certificate"] == here["certificate"]
    assert first["participants"] == here["participants"]


def test_every_site_has_its_own_rows_and_keeps_the_predictor(trial: Trial, first: dict[str, Any]) -> None:
    for site in range(SITES):
        assert stat.S_IMODE(trial.data(site).stat().st_mode) == 0o700
        assert fc.load(trial.data(site) / "predictor.json").certificate.to_dict() == first["certificate"]


def test_strangers_are_refused(trial: Trial, tmp_path: Path) -> None:
    make_certs(tmp_path / "other", 1)
    ca, other_ca = ["--root-certificates", str(trial.ca)], ["--root-certificates", str(tmp_path / "other" / "ca.crt")]
    own = ["--auth-supernode-private-key", str(trial.keys / "node-0")]
    strangers = {
        "unregistered": [*ca, "--auth-supernode-private-key", str(tmp_path / "other" / "node-0")],
        "no key": ca,
        "wrong authority": [*other_ca, *own],
        "plaintext": ["--insecure", "--max-retries", "1"],
    }
    processes = {name: trial.start_node(0, name=name, credentials=options) for name, options in strangers.items()}
    try:
        codes = {name: process.wait(PATIENCE) for name, process in processes.items()}
    finally:
        for name in processes:
            trial.stop(name)
    assert all(codes.values()), codes
    with pytest.raises(InputError, match="the run ended without a result"):
        deploy(app_of(trial, "stranger"), trial.address, None)
    with pytest.raises(InputError, match="the run ended without a result"):
        deploy(app_of(trial, "stranger"), trial.address, tmp_path / "other" / "ca.crt")
    assert not list((trial.folder).glob("stranger/*.json"))


def in_the_background(trial: Trial, app: App) -> tuple[threading.Thread, list[InputError]]:
    errors: list[InputError] = []

    def go() -> None:
        try:
            deploy(app, trial.address, trial.ca)
        except InputError as error:
            errors.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    return thread, errors


def make_slow(trial: Trial) -> None:
    """Let a site that is told so take its time when it is asked to calibrate."""
    package = trial.folder / "app" / "app"
    task, client = package / "task.py", package / "client_app.py"
    if "def slow" not in task.read_text():
        task.write_text(task.read_text() + SLOW)
        text = client.read_text().replace("import build_model, load_rows", "import build_model, load_rows, slow")
        client.write_text(text.replace("    return calibrate_reply", "    slow(context)\n    return calibrate_reply"))


def test_the_link_is_killed_and_calibration_run_again(trial: Trial, first: dict[str, Any]) -> None:
    make_slow(trial)
    (trial.data(1) / "slow").touch()
    thread, errors = in_the_background(trial, app_of(trial, "broken"))
    wait_until((trial.data(1) / "begun").exists)
    trial.stop("link")
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert "the run ended without a result" in str(errors[0])
    assert not (trial.folder / "broken" / "predictor.json").exists()
    (trial.data(1) / "begun").unlink()
    trial.start_link()
    for site in range(SITES):  # one is still asleep in what nobody waits for any more
        trial.stop(f"node-{site}")
        trial.start_node(site)
    saved = str(trial.folder / "broken" / "model.npz")
    again = run(trial, "again", **{"from-stage": "calibrate", "saved-model": saved, "min-sites": SITES})
    assert again["certificate"] == first["certificate"]


def test_a_node_killed_while_it_calibrates_is_named(trial: Trial, first: dict[str, Any]) -> None:
    make_slow(trial)
    (trial.data(1) / "slow").touch()
    app = app_of(trial, "killed")
    thread, errors = in_the_background(trial, app)
    wait_until((trial.data(1) / "begun").exists)
    trial.stop("node-1")
    thread.join(3 * PATIENCE)
    assert not thread.is_alive()
    assert errors == []
    certificate = result_of(app)["certificate"]
    (left_out,) = certificate["left_out"]
    assert left_out["site"] == "site-1"
    assert left_out["reason"].startswith(("failed:", "gave no answer"))
    assert certificate["clients"] == SITES - 1
    assert [one["sites"] for one in certificate["summaries"]] == [["site-0"], ["site-2"]]
