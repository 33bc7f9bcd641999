"""A Flower site with a policy: what must not leave does not, and the server learns which line is in the way."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message

import fedconformal as fc
from fedconformal.engines.flower import Federation, InProcessGrid, calibrate, calibrate_by_sums
from fedconformal.engines.flower.records import fingerprint, question_in
from fedconformal.errors import InputError
from fedconformal.federated.sums import SumsStep
from fedconformal.federated.watch import watch
from fedconformal.monitoring.messages import write_periods
from fedconformal.privacy import Ledger, read_ledger, write_ledger
from fedconformal.privacy.policy import VARIABLE
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.messages import letter_of
from tests.engines.flower.tools import MODEL, ask_for, calibrating_app, step_of
from tests.monitoring.streams import PREDICTOR, messages

pytestmark = [
    pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning"),
    pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning"),
]


class Grid(InProcessGrid):
    """Keeps what the sites said when they failed, in full."""

    def __init__(self, sites: int | list[dict[str, str]]) -> None:
        super().__init__(calibrating_app(), sites)
        self.said: list[str] = []

    def deliver(self, message: Message) -> Message:
        reply = super().deliver(message)
        if reply.has_error():
            self.said.append((reply.error.reason or "").strip().splitlines()[-1].removeprefix("fedconformal.errors."))
        return reply


def refused(carried: Grid, run: Callable[..., Any], model: ArrayRecord = MODEL) -> str:
    """Return why the sites refuse, which is one and the same reason; the server names the policy and the line too."""
    with pytest.raises(InputError, match="InputError: the site's policy"):
        run(Federation(carried), model, alpha=0.3)
    (why,) = set(carried.said)
    return why


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "policy.toml"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('kinds = ["ranks"]', "this is of the kind sums"),
        ("least_sites = 5", "this is over 4"),
        ('ledger = "mandatory"', "no ledger is given to enter this in"),
        ("least_rows = 41", "this site has fewer"),
    ],
)
def test_sums(line: str, why: str) -> None:
    Path("policy.toml").write_text(line, "utf-8")
    assert refused(Grid(4), calibrate_by_sums) == f"InputError: the site's policy: {line}, and {why}"


def test_the_node_config_names_the_policy_of_one_site() -> None:
    Path("policy.toml").write_text("", "utf-8")
    Path("strict.toml").write_text("sums_only = true", "utf-8")
    carried = Grid([{}, {"policy": "strict.toml"}, {}])
    certificate = calibrate(Federation(carried), MODEL, alpha=0.3).certificate
    assert carried.said == ["InputError: the site's policy: sums_only = true, and this is of the kind ranks"]
    assert certificate.left_out is not None
    assert ["sums_only = true" in one.reason for one in certificate.left_out] == [True]


@pytest.mark.parametrize(
    ("line", "epsilon", "config", "why"),
    [
        ("largest_epsilon = 0.5", 0.5, {}, None),
        ("largest_epsilon = 0.5", 0.6, {}, "this spends 0.6"),
        ('ledger = "mandatory"', 0.6, {}, "no ledger is given to enter this in"),
        ('ledger = "mandatory"', 0.6, {"ledger": "ledger.json"}, None),
    ],
)
def test_an_invitation_that_asks_for_noise(line: str, epsilon: float, config: dict[str, str], why: str | None) -> None:
    Path("policy.toml").write_text(line, "utf-8")
    write_ledger(Path("ledger.json"), Ledger(budget=1.0))
    carried = Grid([config])
    _, invitation = invite(fc.Mixture(), 0.1, epsilon=epsilon)
    asked = step_of(invitation, ask_for(MODEL, kind="exact"), MODEL)
    assert carried.deliver(Message(asked, 2, "query.calibrate")).has_error() == (why is not None)
    assert carried.said == ([] if why is None else [f"InputError: the site's policy: {line}, and {why}"])
    assert read_ledger(Path("ledger.json")).entries == []  # nothing has left so far


class Watched(Grid):
    """Notes how many releases the ledger knows before each kind of message comes."""

    def __init__(self, sites: list[dict[str, str]]) -> None:
        super().__init__(sites)
        self.entries: dict[bytes, set[int]] = {}

    def deliver(self, message: Message) -> Message:
        letter = letter_of(question_in(message, SumsStep).message)
        self.entries.setdefault(letter, set()).add(len(read_ledger(Path("ledger.json")).entries))
        return super().deliver(message)


def test_a_noisy_sum_is_paid_for_with_the_answer() -> None:
    """Not before, and not only once the site signs: others may open its answer without it."""
    Path("policy.toml").write_text("", "utf-8")
    write_ledger(Path("ledger.json"), Ledger(budget=1.0))
    carried = Watched([{"ledger": "ledger.json"}, {}, {}])
    calibrate_by_sums(Federation(carried), MODEL, alpha=0.3, epsilon=1.0)
    assert carried.entries.pop(b"I") == carried.entries.pop(b"R") == {0}
    assert 0 in carried.entries.pop(b"Q")
    assert carried.entries.keys() >= {b"C", b"U"}
    assert set.union(*carried.entries.values()) == {1}


@pytest.mark.parametrize("run", [calibrate, calibrate_by_sums])
def test_patients_are_counted_by_their_ids(run: Callable[..., Any]) -> None:
    line = "least_patients = 20"
    Path("policy.toml").write_text(line, "utf-8")
    assert run(Federation(Grid([{"patients": "20"}] * 4)), MODEL, alpha=0.3).certificate.left_out is None
    why = {"19": "this site has fewer", None: "these rows have no ids to count"}
    for patients, reason in why.items():
        config = {} if patients is None else {"patients": patients}
        assert refused(Grid([config] * 4), run) == f"InputError: the site's policy: {line}, and {reason}"


@pytest.mark.parametrize("run", [calibrate, calibrate_by_sums])
def test_a_policy_pins_the_model(run: Callable[..., Any]) -> None:
    """A coordinator that sends another model than the sites agreed on reads nothing, whatever it calls it."""
    line = f'models = ["{fingerprint(MODEL)}"]'
    Path("policy.toml").write_text(line, "utf-8")
    assert run(Federation(Grid(4)), MODEL, alpha=0.3).certificate.left_out is None
    other = ArrayRecord({"weights": Array(2 * np.eye(4, dtype=np.float32))})
    why = f"InputError: the site's policy: {line}, and this is of the model {fingerprint(other)}"
    assert refused(Grid(4), run, other) == why


class Forbidding(InProcessGrid):
    """Delivers every message twice: under a policy that allows nothing of it, which must refuse, and under none."""

    kinds: ClassVar[set[str]] = set()

    def deliver(self, message: Message) -> Message:
        kind = message.metadata.message_type
        with suppress(InputError, KeyError):
            kind += f" {letter_of(question_in(message, SumsStep).message).decode()}"
        Path("policy.toml").write_text('kinds = ["noisy"]', "utf-8")
        reply = super().deliver(message)
        refused = reply.has_error() and "the site's policy: kinds = " in str(reply.error.reason)
        assert refused or kind == "query.broadcast", kind  # which is answered with nothing
        self.kinds.add(kind)
        Path("policy.toml").write_text("", "utf-8")
        return super().deliver(message)


def test_every_message_of_an_app_asks_the_policy_first(tmp_path: Path) -> None:
    """Messages of a whole run, of masked sums and of a watch."""
    from fedconformal.engines.flower.stages import run_stages
    from fedconformal.engines.flower.template.client_app import app
    from fedconformal.engines.flower.template.task import build_model

    Path("site-0.fcw").write_bytes(write_periods(messages("site-0", [0.1] * 4)))
    nodes: Any = [{"watch": "site-0.fcw"}, {}, {}]
    config = {"method": "tct", "rounds": 1, "linear-rounds": 1, "coordinates": 9, "output": str(tmp_path)}
    run_stages(Forbidding(app, nodes), config, build_model())
    saved = {"from-stage": "calibrate", "saved-model": str(tmp_path / "model.npz"), "privacy": "sums"}
    run_stages(Forbidding(app, nodes), config | saved, build_model())
    watch(Federation(Forbidding(app, nodes[:1]), min_sites=1), PREDICTOR.hex())
    steps = (f"calibrate {letter}" for letter in "IRQCU")
    questions = ("temperature", "calibrate", "evaluate", "watch", "broadcast", *steps)
    assert Forbidding.kinds == {"train", "train.linear", *(f"query.{question}" for question in questions)}
