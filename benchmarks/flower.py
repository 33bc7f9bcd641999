"""Cost of the in-process engine: rounds of trivial training, and one calibration message to very many sites.

    python benchmarks/flower.py [--clients 10000] [--turns 9]

The first table has 10 clients and 20 rounds, with a model of one array and with one of four; the plain loop does the
same arithmetic without messages. Most of the difference is how Flower writes and reads an array. The second has
clients that answer with a summary made beforehand: Flower's own message handling alone (make a message, hand it to the
client app, make the reply) against the whole calibration (the same, and every summary read, checked and used).
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import logging
import os

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}

import numpy as np
from common import best, in_a_fresh_process, interleaved, memory, save, table
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

import fedconformal as fc
from fedconformal.engines.flower import Federation, InProcessGrid, calibrate
from fedconformal.engines.flower.records import content_of, fingerprint, reply
from fedconformal.federated.questions import ScoreQuestion

CLIENTS, ROUNDS = 10, 20
Shapes = tuple[tuple[int, ...], ...]
ONE: Shapes = ((64, 128),)
FOUR: Shapes = ((64, 128), (128,), (128, 10), (10,))
TINY = ArrayRecord({"w": Array(np.zeros(1, np.float32))})

logging.getLogger("flwr").setLevel(logging.ERROR)


def plain_rounds(shapes: Shapes) -> None:
    """Move all weights by one at every client and average."""
    weights = [np.zeros(shape, np.float32) for shape in shapes]
    for _ in range(ROUNDS):
        totals = [np.zeros(shape) for shape in shapes]
        for _ in range(CLIENTS):
            for total, weight in zip(totals, weights, strict=True):
                np.add(total, weight + 1, out=total)
        weights = [(total / CLIENTS).astype(np.float32) for total in totals]


def flower_rounds(shapes: Shapes) -> None:
    """Do the same with messages."""
    app = ClientApp()

    @app.train()
    def train(msg: Message, context: Context) -> Message:  # noqa: ARG001
        arrays = {name: Array(array.numpy() + 1) for name, array in msg.content.array_records["arrays"].items()}
        metrics = MetricRecord({"num-examples": 1, "loss": 0.0})
        return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=msg)

    grid = InProcessGrid(app, CLIENTS)
    model = ArrayRecord({f"w{i}": Array(np.zeros(shape, np.float32)) for i, shape in enumerate(shapes)})
    FedAvg(fraction_evaluate=0.0).start(grid, model, num_rounds=ROUNDS)


def many(clients: int) -> tuple[InProcessGrid, list[fc.Summary]]:
    """Make sites that have their summary at hand."""
    rng = np.random.default_rng(0)
    summaries = [
        fc.Summary.of_scores(rng.random(50), score=fc.LAC(), model=fingerprint(TINY), temperature=1.0, site=f"site-{k}")
        for k in range(clients)
    ]
    for summary in summaries:
        summary.to_bytes()
    app = ClientApp()

    @app.query("calibrate")
    def answer(msg: Message, context: Context) -> Message:
        return reply(msg, context, summaries[int(context.node_config["partition-id"])].to_bytes())

    return InProcessGrid(app, clients), summaries


def handling(grid: InProcessGrid) -> None:
    """Send one message to every site and take the replies as they are."""
    question = ScoreQuestion.about(fingerprint(TINY), alpha=0.1)
    content = content_of(question, TINY)
    messages = [Message(content, node, "query.calibrate", ttl=60) for node in grid.get_node_ids()]
    list(grid.send_and_receive(messages))


def peak(clients: int) -> None:
    """Print how much memory a calibration takes, beyond what is there before it."""
    grid, _ = many(clients)
    before = memory("VmRSS")
    calibrate(Federation(grid), TINY)
    print(memory("VmHWM") - before)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--peak", type=int)
    options = parser.parse_args()
    if options.peak:
        peak(options.peak)
        return
    rounds = best(
        interleaved(
            {
                "plain loop, one array": lambda: plain_rounds(ONE),
                "in process, one array": lambda: flower_rounds(ONE),
                "plain loop, four arrays": lambda: plain_rounds(FOUR),
                "in process, four arrays": lambda: flower_rounds(FOUR),
            },
            options.turns,
        )
    )
    limits = [3 * rounds[f"plain loop, {arrays}"] + 0.2 for arrays in ("one array", "four arrays")]
    print(f"\n{CLIENTS} clients x {ROUNDS} trivial rounds; wanted are at most {limits[0]:.3f} and {limits[1]:.3f} s")
    table(["engine", "seconds"], [[name, seconds] for name, seconds in rounds.items()])
    grid, _ = many(options.clients)
    contenders = {
        "Flower's message handling alone": lambda: handling(grid),
        "calibration": lambda: calibrate(Federation(grid), TINY),
    }
    messages = best(interleaved(contenders, options.turns))
    ratio = messages["calibration"] / messages["Flower's message handling alone"]
    print(f"\none message to each of {options.clients} sites; ratio {ratio:.2f}")
    table(["work", "seconds"], [[name, seconds] for name, seconds in messages.items()])
    peaks = {n: in_a_fresh_process("flower.py", "--peak", str(n)) for n in (options.clients // 4, options.clients)}
    print()
    table(["sites", "MB of a calibration"], [[str(n), float(megabytes)] for n, megabytes in peaks.items()])
    save("flower", {"rounds": rounds, "messages": messages, "ratio": ratio, "peaks": peaks})


if __name__ == "__main__":
    main()
