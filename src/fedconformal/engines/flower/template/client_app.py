"""Client app: training and calibration at a site; the other stages are the same in every app."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedconformal.engines.flower import calibrate_reply
from fedconformal.engines.flower.training import add_handlers, outputs, train_reply

from .task import CLASSES, build_model, load_rows

app = ClientApp()
add_handlers(app, build_model, load_rows, CLASSES)  # temperature, evaluation, the predictor


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train the model on the site's rows."""
    return train_reply(msg, context, build_model(), load_rows(context, "train"))


@app.query("calibrate")
def calibrate(msg: Message, context: Context) -> Message:
    """Summarise the scores of rows that were not used for fitting."""
    logits, labels = outputs(msg, build_model(), load_rows(context, "calibrate"))
    return calibrate_reply(msg, context, logits, labels, classes=CLASSES)
