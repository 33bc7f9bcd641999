"""One real deployment on loopback, with TLS and node keys, and what can go wrong with it."""

import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch")
pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")

import fedconformal as fc
from fedconformal.engines.flower import run_in_process
from fedconformal.engines.flower.in_process import App, make_app
from fedconformal.errors import InputError
from scripts.deployment import LocalDeployment
from scripts.superlink import deploy
from tests.engines.flower.test_engines import PATIENCE, left_running, wait_until

pytestmark = pytest.mark.slow

SITES = 3
SLOW = """

def slow(context: Context) -> None:
    import time
    from pathlib import Path

    marked = Path(str(context.node_config.get("data", "nowhere"))) / "slow"
    if marked.exists():
        marked.rename(marked.with_name("begun"))
        time.sleep(600)
"""


def make_slow(package: Path) -> None:
    """Let a site that is told so take its time when it is asked to calibrate."""
    task, client = package / "task.py", package / "client_app.py"
    task.write_text(task.read_text() + SLOW)
    text = client.read_text().replace("build_model, load_rows\n", "build_model, load_rows, slow\n")
    client.write_text(text.replace("    return calibrate_reply", "    slow(context)\n    return calibrate_reply"))


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDeployment]:
    folder = tmp_path_factory.mktemp("deployment")
    make_app(folder / "app")
    make_slow(folder / "app" / "conformal_app")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDCONFORMAL_TEST", str(folder))
        with LocalDeployment(folder, SITES) as running:
            yield running
        assert left_running(str(folder)) == []


def app_of(deployment: LocalDeployment, output: str, **more: Any) -> App:
    settings = {"rounds": 1, "epochs": 1, "temperature": False, "min-sites": 2, "timeout": 200.0}
    return App.read(deployment.folder / "app", settings | {"output": str(deployment.folder / output)} | more)


def result_of(app: App) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(app.config["output"]) / "result.json").read_text())
    return found


class Background:
    """A run that goes on while the test does something to it."""

    def __init__(self, deployment: LocalDeployment, app: App) -> None:
        self.app = app
        self.errors: list[InputError] = []
        self._thread = threading.Thread(target=self._go, args=(deployment,))
        self._thread.start()

    def _go(self, deployment: LocalDeployment) -> None:
        try:
            deploy(self.app, deployment.address, deployment.ca)
        except InputError as error:
            self.errors.append(error)

    @property
    def goes_on(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        self._thread.join(PATIENCE)
        assert not self.goes_on


def calibrating(deployment: LocalDeployment, output: str, **more: Any) -> Background:
    """Start a run, and wait until site 1 is asleep in the middle of calibrating."""
    (deployment.data(1) / "slow").touch()
    run = Background(deployment, app_of(deployment, output, **more))
    begun = deployment.data(1) / "begun"
    wait_until(lambda: begun.exists() or not run.goes_on)
    assert run.goes_on, run.errors
    begun.unlink()
    return run


@pytest.fixture(scope="module")
def broken(deployment: LocalDeployment) -> Background:
    """A run whose SuperLink is killed while it calibrates; then all is started again."""
    run = calibrating(deployment, "broken")
    deployment.stop("link")
    run.wait()
    deployment.start_link()
    for site in range(SITES):  # one is still asleep in what nobody waits for any more
        deployment.stop(f"node-{site}")
        deployment.start_node(site)
    return run


@pytest.fixture(scope="module")
def again(deployment: LocalDeployment, broken: Background) -> dict[str, Any]:
    """The same run, from the stage in which it broke and the model that it left."""
    saved = str(Path(broken.app.config["output"]) / "model.npz")
    app = app_of(deployment, "again", **{"from-stage": "calibrate", "saved-model": saved, "min-sites": SITES})
    deploy(app, deployment.address, deployment.ca)
    return result_of(app)


@pytest.fixture(scope="module")
def killed(deployment: LocalDeployment, again: dict[str, Any]) -> Background:  # after all else
    """A run in which a node is killed while it calibrates; it takes Flower most of a minute to notice."""
    run = calibrating(deployment, "killed")
    deployment.stop("node-1")
    return run


def test_a_run_whose_link_is_killed_gives_no_certificate(broken: Background) -> None:
    (error,) = broken.errors
    assert "the run ended without a result" in str(error)
    assert not (Path(broken.app.config["output"]) / "predictor.json").exists()


def test_calibrated_again_it_has_the_same_threshold_to_the_last_bit(
    deployment: LocalDeployment, again: dict[str, Any]
) -> None:
    app = app_of(deployment, "here")
    client, server = app.load()
    run_in_process(server, client, SITES, run_config=app.config)
    here = result_of(app)
    assert again["certificate"] == here["certificate"]
    # A node is told the name of its registered key, and answers under it; nodes in one process have no keys.
    told, answered = len("site" + "name" + "site-0"), len("site-0")
    for stage, alone in zip(again["participants"], here["participants"][1:], strict=True):
        assert {**stage, "bytes": None} == {**alone, "bytes": None}
        messages = SITES * stage["exchanges"]
        assert stage["bytes"]["sent"] == alone["bytes"]["sent"] + told * messages
        assert stage["bytes"]["received"] == alone["bytes"]["received"] + answered * messages


def test_every_site_has_its_own_rows_and_keeps_the_predictor(
    deployment: LocalDeployment, again: dict[str, Any]
) -> None:
    for site in range(SITES):
        assert stat.S_IMODE(deployment.data(site).stat().st_mode) == 0o700
        assert fc.load(deployment.data(site) / "predictor.json").certificate.to_dict() == again["certificate"]


def test_sums_give_the_threshold_of_one_process(deployment: LocalDeployment, again: dict[str, Any]) -> None:
    saved = {"saved-model": str(deployment.folder / "again" / "model.npz"), "from-stage": "calibrate"}
    there, here = (app_of(deployment, name, privacy="sums", **saved) for name in ("sums-there", "sums-here"))
    deploy(there, deployment.address, deployment.ca)
    client, server = here.load()
    run_in_process(server, client, SITES, run_config=here.config)
    found, expected = result_of(there), result_of(here)
    assert found["threshold"] == expected["threshold"]
    stage = found["participants"][0]
    assert stage["took_part"] == {f"site-{k}": stage["exchanges"] for k in range(SITES)}
    assert found["certificate"]["privacy"]["dropped"] == []


def test_a_node_killed_while_it_calibrates_is_named(killed: Background) -> None:
    killed.wait()
    assert killed.errors == []
    certificate = result_of(killed.app)["certificate"]
    (left_out,) = certificate["left_out"]
    assert left_out["site"] == "site-1"
    assert left_out["reason"] == "is not connected any more"
    assert len(certificate["summaries"]) == SITES - 1
    assert [one["sites"] for one in certificate["summaries"]] == [["site-0"], ["site-2"]]
