"""TCT's two costs: gradient features against one backward pass a row, and the linear stage against its plain loop.

    python benchmarks/tct.py [features] [linear] [--rounds 10]

One thread throughout. Features are timed in turn, the fastest round counts. The linear stage is timed as a whole (inner
products and ten rounds of 500 steps) at one client. The plain loop in weight space takes too long for that, so between
our rounds some of its steps are timed, and their mean stands for all: every step costs the same. What else goes on on
the machine then slows both down alike. That both give the same theta is checked on as many steps.
"""

from __future__ import annotations

import argparse
import copy
import time
from typing import Any

import torch
from common import best, interleaved, ratios, save, table
from torch import Tensor, nn

from fedconformal.training import models
from fedconformal.training.features import GradientFeatures, draw_coordinates, one_output
from fedconformal.training.linear_stage import LocalDescent, Matrix, residual

ROUNDS = 7
STEPS = 500
TIMED_STEPS = 3
"""Of the plain loop, before every round of ours."""
CLASSES = 10
RATE = 10.0


def one_by_one(network: nn.Module, x: Tensor, coordinates: Tensor, out: Tensor) -> None:
    """Take one backward pass a row."""
    for i in range(len(x)):
        network.zero_grad()
        network(x[i : i + 1]).sum().backward()
        out[i] = torch.cat([w.grad.flatten() for w in network.parameters() if w.grad is not None])[coordinates]


def features(name: str, shape: tuple[int, ...], rows: int, count: int) -> dict[str, Any]:
    """Compare the features of a batch with a loop."""
    network = one_output(models.build(name, shape=shape, classes=CLASSES), seed=0)
    coordinates = draw_coordinates(network, count, seed=0)
    batched = GradientFeatures(copy.deepcopy(network), coordinates)
    network.eval()
    x = torch.randn(rows, *shape, generator=torch.Generator().manual_seed(0))
    ours, theirs = torch.empty(rows, count), torch.empty(rows, count)
    taken = interleaved(
        {"loop": lambda: one_by_one(network, x, coordinates, theirs), "batched": lambda: ours.copy_(batched(x))}, ROUNDS
    )
    return {
        "network": name,
        "rows": rows,
        "coordinates": count,
        "ms_a_row": {who: 1e3 * seconds / rows for who, seconds in best(taken).items()},
        "speedup": 1 / ratios(taken, "loop")["batched"],
        "wanted": {"lenet": 5, "resnet14": 2}[name],
        "largest_difference": float((ours - theirs).abs().max() / theirs.abs().max()),
    }


def plain_steps(x: Tensor, y: Tensor, theta: Tensor, h: Tensor, steps: int) -> Tensor:
    """Descend in weight space: two passes over the features a step."""
    theta = theta.clone()
    for _ in range(steps):
        r = residual(theta @ x.T, y, "cross-entropy")
        theta -= RATE * (r @ x / len(y) - h)
    return theta


def plain_seconds(x: Tensor, y: Tensor, theta: Tensor) -> float:
    """Time one plain step."""
    start = time.perf_counter()
    plain_steps(x, y, theta, torch.zeros_like(theta), TIMED_STEPS)
    return (time.perf_counter() - start) / TIMED_STEPS


def linear_stage(rows: int, columns: int, rounds: int) -> dict[str, Any]:
    """Compare ten rounds of one client with the plain loop."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, columns, generator=generator).mul_(columns**-0.5)
    y = torch.randint(0, CLASSES, (rows,), generator=generator)
    theta = torch.zeros(CLASSES, columns)
    matrix, gram = Matrix(x), torch.empty(rows, rows)

    start = time.perf_counter()
    matrix.gram(gram)
    products = time.perf_counter() - start
    control, last, now = torch.zeros_like(theta), torch.zeros(CLASSES, rows), theta
    # Of several clients each has its own gradient and a common mean; here half of its own stands for the mean.
    local = LocalDescent(features=matrix, gram=gram, y=y, steps=STEPS, rate=RATE, loss="cross-entropy")
    a_step, ours = [], products
    for _ in range(rounds):
        a_step.append(plain_seconds(x, y, now))
        start = time.perf_counter()
        last, _ = local.run(now, control, last)
        control = matrix.combine(last) / 2
        now = now - RATE * STEPS * control
        ours += time.perf_counter() - start

    short = LocalDescent(features=matrix, gram=gram, y=y, steps=TIMED_STEPS, rate=RATE, loss="cross-entropy")
    found, _ = short.run(now, control, last)
    h = matrix.combine(last) - control
    expected = plain_steps(x, y, now, h, TIMED_STEPS)
    got = now - RATE * TIMED_STEPS * (matrix.combine(found) - h)
    plain = sum(a_step) / len(a_step) * STEPS * rounds
    return {
        "rows": rows,
        "coordinates": columns,
        "classes": CLASSES,
        "rounds": rounds,
        "steps": STEPS,
        "seconds": {"ours": ours, "of which inner products": products, "plain, extrapolated": plain},
        "plain_seconds_a_step": a_step,
        "plain_steps_timed": len(a_step) * TIMED_STEPS,
        "speedup": plain / ours,
        "wanted": 12 if rows > 2000 else 25,
        "largest_difference": float((got - expected).abs().max() / expected.abs().max()),
    }


def main() -> None:
    """Print tables and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="features|linear")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    if not set(options.parts) <= {"features", "linear"}:
        parser.error("there are features and linear")
    torch.set_num_threads(1)
    if options.parts != ["linear"]:
        show_features([features("lenet", (1, 28, 28), 512, 60_000), features("resnet14", (3, 32, 32), 96, 10_000)])
    if options.parts != ["features"]:
        show_linear_stage([linear_stage(n, 60_000, options.rounds) for n in (2000, 6000)])


def show_features(rows: list[dict[str, Any]]) -> None:
    """Print and write what was measured."""
    table(
        ["network", "loop ms a row", "batched ms", "speedup", "wanted", "difference"],
        [
            [row["network"], *row["ms_a_row"].values(), row["speedup"], row["wanted"], row["largest_difference"]]
            for row in rows
        ],
    )
    save("tct_features", {"threads": 1, "rows": rows})


def show_linear_stage(rows: list[dict[str, Any]]) -> None:
    """Print and write what was measured."""
    table(
        ["rows", "plain s", "ours s", "inner products s", "speedup", "wanted", "difference"],
        [
            [
                row["rows"],
                row["seconds"]["plain, extrapolated"],
                row["seconds"]["ours"],
                row["seconds"]["of which inner products"],
                row["speedup"],
                row["wanted"],
                row["largest_difference"],
            ]
            for row in rows
        ],
    )
    save("tct_linear", {"threads": 1, "rows": rows})


if __name__ == "__main__":
    main()
