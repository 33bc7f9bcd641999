"""What a site does in the stages that are the same in every app, given its network and its rows."""

from __future__ import annotations

from collections.abc import Callable

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import nn

from fedconformal.engines.flower.client import evaluate_reply, keep_predictor, temperature_reply
from fedconformal.engines.flower.learning import linear_reply, outputs
from fedconformal.federated.clients import ClientData


def add_handlers(
    app: ClientApp, build_model: Callable[[], nn.Module], load_rows: Callable[[Context, str], ClientData]
) -> None:
    """Let a client app answer in the stages linear, temperature, evaluate and broadcast of `run_stages`.

    Training and calibration are the app's own. So are all of them for an app that does not call this, and decorates
    four functions like those below.

    Args:
        app: Flower's.
        build_model: makes the network.
        load_rows: reads the site's rows to "train", to fit the "temperature" or to "test".
    """

    @app.train("linear")
    def linear(msg: Message, context: Context) -> Message:
        return linear_reply(msg, context, build_model(), load_rows(context, "train"))

    @app.query("temperature")
    def temperature(msg: Message, context: Context) -> Message:
        return temperature_reply(msg, context, *outputs(msg, build_model(), load_rows(context, "temperature")))

    @app.evaluate()
    def evaluate(msg: Message, context: Context) -> Message:
        return evaluate_reply(msg, context, *outputs(msg, build_model(), load_rows(context, "test")))

    app.query("predictor")(keep_predictor)
