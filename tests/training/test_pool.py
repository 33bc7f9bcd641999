"""Any number of workers gives the same results in the same order, and whatever goes wrong, nothing is left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from fedconformal.errors import InputError
from fedconformal.training import ClientData, FedAvg
from fedconformal.training import pool as module
from fedconformal.training.pool import local_engine
from fedconformal.training.step import Step
from tests.training.tasks import Dies, Doubles, FailsAt

NAMES = [f"site-{k}" for k in range(6)]


def step(turn: float = 0.0, **numbers: float) -> Step:
    return Step("double", {"vector": torch.full((3,), turn)}, numbers)


@pytest.mark.parametrize("workers", [1, None])
def test_results_come_in_the_order_of_the_sites(workers: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.01)  # by default workers start once a site was trained here
    monkeypatch.setattr(module, "available_workers", lambda asked, _sites: asked or 2)
    with local_engine(Doubles(), NAMES, workers=workers) as ask:
        for turn in (1.0, 2.0):
            answers = [*ask(step(turn, at_0=0.1, at_3=0.05))]
            found = [(name, one.rows, dict(one.numbers), one.tensors["out"].tolist()) for name, one, _ in answers]
            assert found == [(NAMES[k], k, {"threads": 1}, [2 * turn + k] * 3) for k in range(6)]
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_names_the_site_and_ends_the_run(workers: int) -> None:
    clients = [ClientData(name=n, x=torch.full((2, 2), k), y=torch.tensor([0, 1])) for k, n in enumerate("abc")]
    with pytest.raises(InputError, match=r"^b: ArithmeticError: this row is cursed"):
        FedAvg(rounds=2, workers=workers).fit(FailsAt(1.0), clients)
    assert not multiprocessing.active_children()


def test_a_worker_that_dies_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(InputError, match=r"site-\d or a later site: its worker process ended"),
        local_engine(Dies(), NAMES, workers=2) as ask,
    ):
        list(ask(step(site=4)))
    assert not multiprocessing.active_children()


def test_a_model_that_cannot_be_sent() -> None:
    class Local(FailsAt):
        pass

    client = ClientData(name="a", x=torch.zeros(2, 2), y=torch.tensor([0, 1]))
    with pytest.raises(InputError, match="with the model in a module, or set workers=1"):
        FedAvg(workers=2).fit(Local(9.0), [client, client])


INTERRUPTED = """
import torch, multiprocessing, signal
from fedconformal.training.pool import local_engine
from fedconformal.training.step import Step
from tests.training.tasks import Doubles

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in what they start in the background
    step = Step("double", {"vector": torch.zeros(1)}, {"at_0": 0.5, "at_1": 0.5, "at_2": 60.0, "at_3": 60.0})
    with local_engine(Doubles(), ["a", "b", "c", "d"], workers=2) as ask:
        for name, _, _ in ask(step):
            if name == "b":
                print(*(child.pid for child in multiprocessing.active_children()), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("sent", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGKILL])
def test_no_process_outlives_the_run(sent: signal.Signals, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(INTERRUPTED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])}
    started = subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert started.stdout is not None
    children = [int(pid) for pid in started.stdout.readline().split()]
    assert len(children) == 2
    if sent == signal.SIGINT:
        os.killpg(started.pid, sent)  # as a terminal does: to everybody
    else:
        started.kill()
    _, said = started.communicate(timeout=60)
    if sent == signal.SIGINT:
        assert said.count("KeyboardInterrupt") == 1  # the workers say nothing
    for _ in range(300):
        if not any(Path(f"/proc/{pid}").exists() for pid in children):
            break
        time.sleep(0.1)
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
