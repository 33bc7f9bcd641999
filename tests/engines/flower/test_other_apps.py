"""Apps of somebody else's: they say less than ours, do more to what they are sent, and fail in other ways."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedconformal.engines.flower import (
    CheckedFedAvg,
    Federation,
    InProcessGrid,
    calibrate,
    calibrate_reply,
)
from fedconformal.engines.flower.records import site_of
from fedconformal.errors import InputError
from tests.engines.flower.tools import MODEL, calibrating_app, site_logits

START = ArrayRecord({"w": Array(np.zeros(3, np.float32))})


def plain_app() -> ClientApp:
    """What Flower's own templates make, with the one handler that docs/flower.md adds."""
    app = ClientApp()

    @app.train()
    def train(msg: Message, context: Context) -> Message:
        me = int(context.node_config["partition-id"])
        arrays = ArrayRecord({"w": Array(np.full(3, me, np.float32))})
        metrics = MetricRecord({"train_loss": 0.5, "num-examples": 10})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=msg)

    @app.query("calibrate")
    def answer(msg: Message, context: Context) -> Message:
        return calibrate_reply(msg, context, *site_logits(int(context.node_config["partition-id"])))

    return app


def test_a_plain_app_is_trained_and_calibrated_as_the_docs_say() -> None:
    here = InProcessGrid(plain_app(), 4)
    federation = Federation(here, min_sites=3, timeout=600)
    result = CheckedFedAvg(federation).start(here, initial_arrays=START, num_rounds=2)
    assert result.arrays["w"].numpy().tolist() == [1.5] * 3
    assert result.train_metrics_clientapp[2]["train_loss"] == 0.5
    calibrated = calibrate(federation, result.arrays, alpha=0.1)
    assert calibrated.certificate.sites == 4
    assert calibrated.certificate.left_out is None


def test_a_mean_that_is_too_large_ends_the_run() -> None:
    start = ArrayRecord({"w": Array(np.zeros(3))})
    app = ClientApp()

    @app.train()
    def train(msg: Message, context: Context) -> Message:
        arrays = ArrayRecord({"w": Array(np.full(3, 1e308))})
        return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 10})}), reply_to=msg)

    here = InProcessGrid(app, 3)
    with pytest.raises(InputError, match="the mean of w is too large for float64"):
        CheckedFedAvg(Federation(here)).start(here, initial_arrays=start, num_rounds=1)


class Quits:
    """What a client may do instead of answering."""

    def __call__(self) -> Any:
        raise SystemExit(3)


@pytest.mark.parametrize(
    "instead", [lambda: None, lambda: "done", RecordDict, Quits()], ids=["None", "str", "dict", "exit"]
)
def test_a_client_that_returns_no_message_is_refused(instead: Callable[[], Any]) -> None:
    inner = calibrating_app()

    def app(message: Message, context: Context) -> Any:
        return instead() if site_of(context).partition == 1 else inner(message, context)

    result = calibrate(Federation(InProcessGrid(app, 4)), MODEL)  # type: ignore[arg-type]
    assert result.certificate.sites == 3
    assert result.certificate.left_out is not None
    assert [one.site for one in result.certificate.left_out] == ["node-3"]


def test_what_a_client_does_to_its_message_is_nobody_elses_matter() -> None:
    app, seen = ClientApp(), []

    @app.train()
    def train(msg: Message, context: Context) -> Message:
        seen.append(msg.content.array_records["arrays"]["w"].numpy().tolist())
        msg.content.array_records["arrays"]["w"] = Array(np.ones(3, np.float32) * 7)
        msg.content.pop("config")
        arrays = ArrayRecord({"w": Array(np.ones(3, np.float32))})
        return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})}), reply_to=msg)

    here = InProcessGrid(app, 3)
    CheckedFedAvg(Federation(here)).start(here, initial_arrays=START, num_rounds=1)
    assert seen == [[0.0, 0.0, 0.0]] * 3


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"timeout": "soon"}, "timeout: expected `float`, got `str`"),
        ({"temperature": "maybe"}, "temperature: expected `bool`, got `str`"),
        ({"alpha": 1.5}, "alpha"),
        ({"score": "best"}, "no score is called 'best'"),
        ({"guarantee": "all"}, "no guarantee is called 'all'"),
        ({"kind": "small"}, "no summary kind is called 'small'"),
        ({"score": "raps:penalty=high"}, "penalty is 'high', expected a number"),
        ({"guarantee": "one-site"}, "guarantee one-site needs site"),
        ({"privacy": "little"}, "there are none, sums"),
        ({"guarantee": "new-site", "privacy": "sums"}, "new-site promises nothing of a model that was trained on"),
    ],
)
def test_settings_are_checked_before_anything_is_trained(config: dict[str, Any], message: str) -> None:
    pytest.importorskip("torch", reason="training needs torch")
    from fedconformal.engines.flower.run_config import RunConfig

    with pytest.raises(InputError) as error:
        RunConfig.of(config)
    assert message in str(error.value)
