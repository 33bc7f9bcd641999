"""A FedAvg round of LeNet clients: our workers against the plain loop over clients with torch's default threads.

    python benchmarks/training.py [--rows 60000] [--rounds 3]

The plain loop is what one writes first: for each client a copy of the model, a DataLoader of its rows, torch's SGD,
and the mean of the state dicts. It has the same batches, steps and arithmetic to do. Both are timed in turn, and the
fastest round of each counts. The second table cuts the same rows into 10, 100 and 1000 clients.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from common import best, save, table
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from fedconformal.training import ClientData, FedAvg, Preprocess, data, models

CLIENTS = (10, 100, 1000)
BATCH = 64
THREADS = torch.get_num_threads()
MEAN, STD = 0.2860, 0.3530


def sites(rows: int, clients: int) -> list[ClientData]:
    """Deal FashionMNIST's training rows out, or made ones if it is not here."""
    try:
        train = data.load("fashionmnist", download=False).train
        x, y = torch.tensor(train.x[:rows]), torch.tensor(train.y[:rows])
    except ValueError as problem:
        print(f"{problem}\nmade images are used instead: as many, as large")
        x, y = torch.randint(0, 256, (rows, 1, 28, 28), dtype=torch.uint8), torch.randint(0, 10, (rows,))
    parts = zip(x.tensor_split(clients), y.tensor_split(clients), strict=True)
    preprocess = Preprocess(mean=(MEAN,), std=(STD,))
    return [ClientData(name=f"site-{k}", x=a, y=b, preprocess=preprocess) for k, (a, b) in enumerate(parts)]


def plain_round(model: nn.Module, clients: list[TensorDataset]) -> nn.Module:
    """Train a copy of the model at each client, one after another, and return the mean."""
    states = []
    for client in clients:
        local = copy.deepcopy(model).train()
        optimizer = torch.optim.SGD(local.parameters(), lr=0.01, momentum=0.9)
        for x, y in DataLoader(client, batch_size=BATCH, shuffle=True):
            optimizer.zero_grad()
            functional.cross_entropy(local(x), y).backward()
            optimizer.step()
        states.append(local.state_dict())
    made = copy.deepcopy(model)
    made.load_state_dict({name: torch.stack([s[name] for s in states]).mean(dim=0) for name in states[0]})
    return made


class Rounds:
    """Our rounds, one at a time, with the workers kept: `fit` is paused after each."""

    def __init__(self, model: nn.Module, clients: list[ClientData], workers: int, rounds: int) -> None:
        self.taken: list[float] = []
        self.model, self.clients = model, clients
        self.trainer = FedAvg(rounds=rounds, workers=workers)

    @contextmanager
    def between(self, other: Any) -> Iterator[None]:
        """Time our rounds, and let something else run between them while the workers idle."""
        start = time.perf_counter()

        def on_round(_state: object) -> None:
            nonlocal start
            self.taken.append(time.perf_counter() - start)
            other()
            start = time.perf_counter()

        self.trainer.fit(self.model, self.clients, on_round=on_round)
        yield


def timed(call: Any, into: list[float]) -> None:
    """Run something with torch's default threads and note how long it took."""
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    start = time.perf_counter()
    call()
    into.append(time.perf_counter() - start)
    torch.set_num_threads(threads)


def against_the_plain_loop(rows: int, rounds: int) -> dict[str, Any]:
    """Images a second of both, and the ratio."""
    clients, model = sites(rows, 10), models.build("lenet", shape=(1, 28, 28), classes=10)
    datasets = [TensorDataset(client.inputs(), client.y) for client in clients]
    plain: list[float] = []
    ours = Rounds(model, clients, workers=2, rounds=rounds + 1)
    with ours.between(lambda: timed(lambda: plain_round(model, datasets), plain)):
        taken = {"plain loop": plain, "two workers": ours.taken[1:]}  # the first round starts the workers
    fastest = best(taken)
    speed = {name: rows / seconds for name, seconds in fastest.items()}
    return {"images_a_second": speed, "ratio": speed["two workers"] / speed["plain loop"], "seconds": taken}


def cost_of_many_clients(rows: int, rounds: int) -> dict[str, Any]:
    """Seconds of a round with the same rows cut into more and more clients."""
    model = models.build("lenet", shape=(1, 28, 28), classes=10)
    seconds = {}
    for count in CLIENTS:
        ours = Rounds(model, sites(rows, count), workers=2, rounds=rounds + 1)
        with ours.between(lambda: None):
            seconds[str(count)] = min(ours.taken[1:])
    return {"seconds": seconds, "against_10": {k: s / seconds["10"] for k, s in seconds.items()}}


def main() -> None:
    """Print both tables and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"A FedAvg round, LeNet, {options.rows} images, 10 clients; wanted: at least 1.6x\n")
    loop = against_the_plain_loop(options.rows, options.rounds)
    table(["", "images/s"], [[name, speed] for name, speed in loop["images_a_second"].items()])
    print(f"\nratio {loop['ratio']:.2f}\n\nThe same rows cut into more clients; wanted: near flat\n")
    many = cost_of_many_clients(options.rows, options.rounds)
    table(["clients", "seconds", "against 10"], [[k, s, many["against_10"][k]] for k, s in many["seconds"].items()])
    save("training", {"rows": options.rows, "plain_loop": loop, "clients": many})


if __name__ == "__main__":
    main()
