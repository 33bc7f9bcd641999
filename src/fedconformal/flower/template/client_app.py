"""What a site does with each kind of message."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedconformal.flower import calibrate_reply, evaluate_reply, keep_predictor, temperature_reply
from fedconformal.flower.learning import outputs, train_reply
from fedconformal.flower.linear import linear_reply

from .task import build_model, load_rows

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train the model on the site's rows."""
    return train_reply(msg, context, build_model(), load_rows(context, "train"))


@app.train("linear")
def linear(msg: Message, context: Context) -> Message:
    """Take part in TCT's second stage."""
    return linear_reply(msg, context, build_model(), load_rows(context, "train"))


@app.query("temperature")
def temperature(msg: Message, context: Context) -> Message:
    """Say how likely the labels are at some temperatures."""
    return temperature_reply(msg, context, *outputs(msg, build_model(), load_rows(context, "temperature")))


@app.query("calibrate")
def calibrate(msg: Message, context: Context) -> Message:
    """Summarise the scores of rows that nothing was fitted to."""
    return calibrate_reply(msg, context, *outputs(msg, build_model(), load_rows(context, "calibrate")))


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Say how often the sets hold the label."""
    return evaluate_reply(msg, context, *outputs(msg, build_model(), load_rows(context, "test")))


@app.query("predictor")
def predictor(msg: Message, context: Context) -> Message:
    """Keep the predictor."""
    return keep_predictor(msg, context)
