"""Flower: an app that trains a linear model with FedAvg answers one more message; its server computes a predictor.

Run it with: python examples/on_flower.py (it needs the extra flower; all sites are in this process)
"""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal.engines.flower import Federation, InProcessGrid, calibrate, calibrate_reply

app = ClientApp()


def rows_of(site: int, part: int, rows: int = 200) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Make a site's rows: part 0 trains, part 1 calibrates, part 2 tests."""
    rng = np.random.default_rng([site, part])
    labels = rng.choice(3, size=rows, p=np.roll([0.6, 0.3, 0.1], site))
    return np.eye(3)[labels] + rng.normal(scale=0.7, size=(rows, 3)), labels


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Take twenty steps of gradient descent on the cross-entropy."""
    x, y = rows_of(int(context.node_config["partition-id"]), 0)
    weights = msg.content.array_records["arrays"]["weights"].numpy().copy()
    for _ in range(20):
        weights -= x.T @ (fc.softmax(x @ weights) - np.eye(3)[y]) / len(x)
    arrays, metrics = ArrayRecord({"weights": Array(weights)}), MetricRecord({"num-examples": len(x)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=msg)


@app.query("calibrate")
def answer(msg: Message, context: Context) -> Message:
    """Score rows that nothing was fitted to; only a summary of the scores is sent."""
    x, y = rows_of(int(context.node_config["partition-id"]), 1)
    return calibrate_reply(msg, context, x @ msg.content.array_records["arrays"]["weights"].numpy(), y)


def main() -> None:
    """Run the server app: train for three rounds, then calibrate once."""
    grid = InProcessGrid(app, 4)  # on a deployment, Flower hands the server app its grid
    federation = Federation(grid, min_sites=3)
    start = ArrayRecord({"weights": Array(np.zeros((3, 3)))})
    trained = FedAvg(fraction_evaluate=0.0).start(grid, initial_arrays=start, num_rounds=3).arrays
    calibrated = calibrate(federation, trained, alpha=0.1)
    print(calibrated.predictor.sentence())
    x, y = (np.concatenate(parts) for parts in zip(*(rows_of(site, 2, 500) for site in range(4)), strict=True))
    found = calibrated.predictor.evaluate(fc.softmax(x @ trained["weights"].numpy()), y)
    print(f"coverage {found.coverage:.3f}, {found.mean_size:.2f} labels per set")


if __name__ == "__main__":
    main()
