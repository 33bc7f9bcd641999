"""A small Flower app without torch, and a client app that goes wrong where it is told to."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo

from fedconformal._base.arrays import Floats, Integers
from fedconformal.engines.flower import InProcessGrid, calibrate_reply
from fedconformal.engines.flower.records import ANSWER, content_of, fingerprint, site_of
from fedconformal.federated.questions import ScoreQuestion
from fedconformal.federated.sums import SumsStep

CLASSES = 4
MODEL = ArrayRecord({"weights": Array(np.eye(CLASSES, dtype=np.float32))})

Fault = Callable[[Message], Any]


def site_logits(site: int, rows: int = 40) -> tuple[Floats, Integers]:
    """Logits and labels of one site."""
    rng = np.random.default_rng(site)
    labels = rng.integers(0, CLASSES, rows)
    return rng.normal(size=(rows, CLASSES)) + 2 * np.eye(CLASSES)[labels], labels


def ask_for(model: ArrayRecord, **settings: Any) -> ScoreQuestion:
    """Return a question for scores of a model."""
    return ScoreQuestion(model=fingerprint(model), **settings)


def step_of(message: bytes, scores: ScoreQuestion | None = None, model: ArrayRecord | None = None) -> RecordDict:
    """Return the content of a message of a sums session."""
    return content_of(SumsStep(message=message, scores=scores), model)  # type: ignore[arg-type]


def data_of(reply: Message) -> bytes:
    """Return the data of an answer."""
    data = reply.content.config_records[ANSWER]["data"]
    assert isinstance(data, bytes)
    return data


def set_data(reply: Message, data: Any) -> None:
    """Change the data of an answer."""
    reply.content.config_records[ANSWER]["data"] = data


def calibrating_app(rows: int = 40) -> ClientApp:
    """Return an app of somebody else's that has learned to calibrate; `patients` in a node config is their number."""
    app = ClientApp()

    @app.query("calibrate")
    def calibrate(msg: Message, context: Context) -> Message:
        logits, labels = site_logits(site_of(context).partition, rows)
        patients = context.node_config.get("patients")
        ids = None if patients is None else np.arange(len(labels)) % int(str(patients))
        return calibrate_reply(msg, context, logits, labels, ids=ids)

    return app


class Faulty:
    """A client app whose replies are changed at some sites, told by partition."""

    def __init__(self, app: Any, faults: Mapping[int, Fault]) -> None:
        self._app = app
        self._faults = faults

    def __call__(self, message: Message, context: Context) -> Message:
        reply: Message = self._app(message, context)
        fault = self._faults.get(site_of(context).partition)
        if fault is not None:
            fault(reply)
        return reply


class Backwards(InProcessGrid):
    """A grid on which the last site answers first."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return list(super().pull_messages(message_ids))[::-1]


class Moving(InProcessGrid):
    """A grid on which nodes come and go, and some are registered with a name."""

    def __init__(self, app: Any, nodes: Any, *, names: dict[int, str] | None = None) -> None:
        super().__init__(app, nodes)
        self.away: set[int] = set()
        self.names = names or {}

    def get_node_ids(self) -> list[int]:
        return [node for node in super().get_node_ids() if node not in self.away]

    def get_nodes(self) -> Any:
        return [NodeInfo(node_id=node, name=self.names.get(node)) for node in self.get_node_ids()]


def grid(sites: int, faults: Mapping[int, Fault] | None = None, app: Any = None) -> InProcessGrid:
    """Return a grid of sites, some of them faulty."""
    return InProcessGrid(Faulty(app or calibrating_app(), faults or {}), sites)  # type: ignore[arg-type]
