"""A site that goes wrong is refused with a reason, the run goes on, and the certificate names the site."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedconformal.engines.flower import Federation, InProcessGrid, calibrate
from fedconformal.engines.flower.records import site_of
from fedconformal.errors import InputError
from tests.engines.flower.tools import MODEL, Moving, calibrating_app, grid

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning")
SITES = 6
BAD = 2


def fail(reply: Message) -> None:
    raise RuntimeError("out of memory")


def metrics(**values: Any) -> Callable[[Message], None]:
    found = {name.replace("_", "-"): value for name, value in values.items()}
    return lambda reply: reply.content.metric_records["metrics"].update(found)


def records(**more: Any) -> Callable[[Message], None]:
    def fault(reply: Message) -> None:
        for key, record in more.items():
            reply.content[key] = record

    return fault


CALIBRATION_FAULTS: dict[str, tuple[Callable[[Message], Any], str]] = {
    "one more record": (records(arrays=ArrayRecord()), "holds the records"),
    "no name": (records(site=ConfigRecord({"partition-id": 2})), "does not identify its sender"),
    "a name to fool readers": (records(site=ConfigRecord({"partition-id": 2, "name": "a\nb"})), "the site's name is"),
}


@pytest.mark.parametrize("name", CALIBRATION_FAULTS)
def test_a_reply_that_flower_can_carry_and_nobody_can_use_is_refused(name: str) -> None:
    """Faults of a summary itself are in tests/federated; these are faults of the message around it."""
    fault, reason = CALIBRATION_FAULTS[name]
    federation = Federation(grid(SITES, {BAD: fault}))
    certificate = calibrate(federation, MODEL).certificate
    (left_out,) = certificate.left_out or []
    assert left_out.site in {"site-2", "node-4"}
    assert reason in left_out.reason
    (stage,) = federation.stages
    assert [*stage.refused] == [(left_out.site, left_out.reason)]
    assert set(stage.took_part) == {f"site-{k}" for k in range(SITES) if k != BAD}


class Twice(InProcessGrid):
    """A grid on which every message from one node arrives twice."""

    def pull_messages(self, message_ids: Any) -> Any:
        replies = list(super().pull_messages(message_ids))
        return [*replies, *(reply for reply in replies if reply.metadata.src_node_id == 2 + BAD)]


def test_a_site_that_answers_twice_counts_once() -> None:
    certificate = calibrate(Federation(Twice(calibrating_app(), SITES)), MODEL).certificate
    assert (certificate.sites, certificate.left_out) == (SITES, None)


def test_two_nodes_that_are_the_same_site_count_once() -> None:
    nodes = [{"partition-id": k} for k in (0, 1, 1, 2)]
    certificate = calibrate(Federation(InProcessGrid(calibrating_app(), nodes)), MODEL).certificate
    assert certificate.sites == 3
    (left_out,) = certificate.left_out or []
    assert left_out.site == "node-4"
    assert left_out.reason == "site-1 has answered from another node"


class Losing(Moving):
    """A grid that loses the answers of one node."""

    def pull_messages(self, message_ids: Any) -> Any:
        return [reply for reply in super().pull_messages(message_ids) if reply.metadata.src_node_id != 2 + BAD]


def test_a_site_that_does_not_answer_and_then_is_gone() -> None:
    lossy = Losing(calibrating_app(), SITES)
    federation = Federation(lossy, timeout=0.2)
    (left_out,) = calibrate(federation, MODEL).certificate.left_out or []
    assert (left_out.site, left_out.reason) == ("node-4", "timeout: gave no answer within 0.2 s")
    lossy.away = {2 + BAD}
    (left_out,) = calibrate(federation, MODEL).certificate.left_out or []
    assert left_out.reason == "is not connected any more"


def test_an_answer_to_nothing_is_none() -> None:
    def unasked(reply: Message) -> None:
        reply.metadata.__dict__["_reply_to_message_id"] = "message-77"

    certificate = calibrate(Federation(grid(SITES, {BAD: unasked})), MODEL).certificate
    (left_out,) = certificate.left_out or []
    assert (certificate.sites, left_out.site) == (SITES - 1, "node-4")


# Training


def training_app() -> ClientApp:
    """Every site answers with its own number in all weights, and counts for as many rows, plus one."""
    app = ClientApp()

    @app.train()
    def train(msg: Message, context: Any) -> Message:
        k = int(context.node_config["partition-id"])
        arrays = ArrayRecord({"w": Array(np.full((2, 3), k, np.float32)), "steps": Array(np.array([99]))})
        found = MetricRecord({"num-examples": k + 1, "loss": float(k)})
        return Message(RecordDict({"arrays": arrays, "metrics": found}), reply_to=msg)

    return app


START = ArrayRecord({"w": Array(np.zeros((2, 3), np.float32)), "steps": Array(np.array([7]))})


def weights(array: Any) -> Callable[[Message], None]:
    def fault(reply: Message) -> None:
        reply.content.array_records["arrays"]["w"] = Array(array)

    return fault


def header(text: bytes) -> Callable[[Message], None]:
    """Send an array whose header is this."""

    def fault(reply: Message) -> None:
        data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
        reply.content.array_records["arrays"]["w"] = Array(
            dtype="float32", shape=(2, 3), stype="numpy.ndarray", data=data
        )

    return fault


def bomb(reply: Message) -> None:
    """Say that there are many terabytes to come."""
    was = reply.content.array_records["arrays"]["w"]
    data = was.data.replace(b"(2, 3), ", b"(9999999999999, 3), ").replace(b" " * 11 + b"\n", b"\n")
    reply.content.array_records["arrays"]["w"] = Array(dtype="float32", shape=(2, 3), stype=was.stype, data=data)


def more_arrays(reply: Message) -> None:
    reply.content.array_records["arrays"]["more"] = Array(np.zeros(1))


TRAINING_FAULTS: dict[str, tuple[Callable[[Message], Any], str]] = {
    "raises": (fail, "failed: RuntimeError: out of memory"),
    "NaN": (weights(np.full((2, 3), np.nan, np.float32)), "w holds a value that is not finite"),
    "wrong shape": (weights(np.zeros((3, 2), np.float32)), "w is float32 (3, 2), expected float32 (2, 3)"),
    "wrong type": (weights(np.zeros((2, 3))), "w is float64 (2, 3), expected float32 (2, 3)"),
    "a header that is too deep": (header(b"{'descr':" + b"-" * 5000 + b"1}"), "w cannot be read"),
    "too large to be true": (bomb, "w is shorter or longer than its header states"),
    "a missing key": (lambda reply: reply.content.array_records["arrays"].pop("w"), "weights: are ['steps']"),
    "an extra key": (more_arrays, "weights: are"),
    "NaN metric": (metrics(loss=float("nan")), "loss is nan"),
    "negative": (metrics(num_examples=-1e9), "num-examples is -1000000000"),
    "a fraction": (metrics(num_examples=0.5), "num-examples is 0.5"),
    "an extra metric": (metrics(more=1.0), "metrics: are"),
    "an extra record": (records(more=MetricRecord({"a": 1})), "holds the records"),
}


def average(faulty: InProcessGrid, rounds: int = 2) -> tuple[Any, Federation]:
    """Train from START, and return the weights."""
    from fedconformal.engines.flower.rounds import ask_rounds, weights_in
    from fedconformal.training import FedAvg

    federation, settings = Federation(faulty), FedAvg(rounds=rounds)
    asked = ask_rounds(federation, START, settings)
    return settings.run(asked, weights_in(START), lambda _: None), federation


@pytest.mark.parametrize("name", TRAINING_FAULTS)
def test_faulty_weights_are_left_out_of_the_mean(name: str) -> None:
    fault, reason = TRAINING_FAULTS[name]
    found, federation = average(grid(4, {BAD: fault}, training_app()))
    expected = np.float32((0 * 1 + 1 * 2 + 3 * 4) / (1 + 2 + 4))
    assert np.array_equal(found["w"].numpy(), np.full((2, 3), expected))
    assert [*found] == ["w"]  # whole numbers are not averaged
    (stage,) = federation.stages
    assert stage.exchanges == 2
    assert [(site, reason in why) for site, why in stage.refused] == [("node-4", True)]
    assert set(stage.took_part.values()) == {2}


@pytest.mark.parametrize("instead", [RecordDict, sys.exit], ids=["dict", "exit"])
def test_a_client_that_returns_no_message_is_refused(instead: Callable[[], Any]) -> None:
    inner = calibrating_app()

    def app(message: Message, context: Context) -> Any:
        return instead() if site_of(context).partition == 1 else inner(message, context)

    result = calibrate(Federation(InProcessGrid(app, 4)), MODEL)  # type: ignore[arg-type]
    assert result.certificate.sites == 3
    assert result.certificate.left_out is not None
    assert [one.site for one in result.certificate.left_out] == ["node-3"]


def test_what_a_client_does_to_its_message_is_nobody_elses_matter() -> None:
    inner, seen = training_app(), []

    def app(message: Message, context: Context) -> Message:
        seen.append(message.content.array_records["arrays"]["w"].numpy().tolist())
        message.content.array_records["arrays"]["w"] = Array(np.ones((2, 3), np.float32) * 7)
        message.content.pop("config")
        return inner(message, context)

    average(InProcessGrid(app, 3), rounds=1)  # type: ignore[arg-type]
    assert seen == [np.zeros((2, 3)).tolist()] * 3


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"timeout": "soon"}, "timeout: expected `float`, got `str`"),
        ({"alpha": 1.5}, "alpha"),
        ({"kind": "small"}, "no summary kind is called 'small'"),
        ({"guarantee": "one-site"}, "guarantee one-site needs site"),
        ({"privacy": "little"}, "there are none, sums"),
        ({"from-stage": "tea"}, "from-stage: invalid enum value 'tea'; there are train"),
        ({"from-stage": "calibrate"}, "from-stage calibrate needs a model"),
        ({"method": "central"}, "method is central; on Flower there are fedavg, fedprox and tct"),
        ({"guarantee": "new-site", "privacy": "sums"}, "new-site needs every site's own counts"),
        ({"score": "cqr"}, "score cqr is for numbers, and a run trains a classifier"),
        ({"epsilon": 9.0}, "epsilon is 9, which goes with privacy sums"),
    ],
)
def test_settings_are_checked_before_anything_is_trained(config: dict[str, Any], message: str) -> None:
    from fedconformal.engines.flower.stages import RunConfig

    with pytest.raises(InputError) as error:
        RunConfig.of(config)
    assert message in str(error.value)


def test_too_few_scores() -> None:
    with pytest.raises(InputError, match="the sites sent 120 scores, at least 121 are needed"):
        calibrate(Federation(grid(3)), MODEL, min_scores=121)
    assert calibrate(Federation(grid(3)), MODEL, min_scores=120).certificate.scores == 120


def test_too_few_nodes_end_in_bounded_time() -> None:
    with pytest.raises(InputError, match=r"2 nodes are connected after 0\.1 s, at least 3 are needed"):
        Federation(grid(2), min_sites=3).wait(0.1)


def test_a_site_that_keeps_a_model_of_its_own_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    app = calibrating_app()

    def personal(message: Message, context: Context) -> Message:
        if site_of(context).partition == 1:  # as Flower's examples keep the last layer at the site
            context.state["head"] = MODEL
        return app(message, context)

    calibrate(Federation(InProcessGrid(personal, 3)), MODEL)  # type: ignore[arg-type]
    (warning,) = [record.getMessage() for record in caplog.records if record.name.endswith("flower.client")]
    assert "keeps arrays of its own (head), and its scores carry the fingerprint of the global model" in warning
