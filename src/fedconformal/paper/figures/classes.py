"""How many images each class has, and which client holds it.

PathMNIST's and TissueMNIST's images may not be at hand; then the labels of the held-out rows of any logits stand in.
"""

from __future__ import annotations

import csv
from collections import Counter

import numpy as np

from fedconformal.errors import InputError
from fedconformal.files import read_npz
from fedconformal.paper.clients import GROUPS
from fedconformal.paper.numbers import METHODS
from fedconformal.paper.setup import Setup
from fedconformal.report.plot import Plot
from fedconformal.validation import Integers

SKIN_FILE = "fitzpatrick17k.csv"


def skin_class_dist(setup: Setup) -> str:
    """fig:skin-class-dist: images of each of the 114 skin conditions, the most frequent first."""
    counts = sorted(_column(setup, "label").values(), reverse=True)
    plot = Plot(
        title=f"Images of each of {len(counts)} conditions in Fitzpatrick17k",
        x=(0, len(counts)),
        y=(0, max(counts) * 1.05),
        x_label="condition, the most frequent first",
        y_label="images",
        width=640,
    )
    plot.bars([(i, i + 1, count) for i, count in enumerate(counts)], f"{sum(counts):,} images")
    return plot.svg(alone=True)


def skin_rate(setup: Setup) -> str:
    """fig:skin-rate: images of each Fitzpatrick skin type."""
    counts = _column(setup, "fitzpatrick_scale")
    kinds = sorted((int(float(kind)) for kind in counts if kind), key=lambda kind: kind if kind > 0 else 99)
    totals = Counter({int(float(kind)): count for kind, count in counts.items() if kind})
    names = [str(kind) if kind > 0 else "not known" for kind in kinds]
    counted = [totals[kind] for kind in kinds]
    return _bars(counted, names, "Fitzpatrick skin type", "Images of each skin type", ["images"] * len(kinds))


def derma(setup: Setup) -> str:
    """fig:derma: classes of DermaMNIST and the client that holds each."""
    return _partition(setup, "dermamnist")


def path(setup: Setup) -> str:
    """fig:path: classes of PathMNIST and the client that holds each."""
    return _partition(setup, "pathmnist")


def tissue(setup: Setup) -> str:
    """fig:tissue: classes of TissueMNIST and the client that holds each."""
    return _partition(setup, "tissuemnist")


def _partition(setup: Setup, dataset: str) -> str:
    labels, what = _labels(setup, dataset)
    groups = GROUPS[dataset]
    client = {label: f"client {k + 1}" for k, group in enumerate(groups) for label in group}
    counts = np.bincount(labels, minlength=len(client)).tolist()
    title = f"{dataset}: {len(labels):,} {what}"
    return _bars(counts, [str(i) for i in range(len(counts))], "class", title, [client[i] for i in range(len(counts))])


def _labels(setup: Setup, dataset: str) -> tuple[Integers, str]:
    try:
        arrays = read_npz(setup.data_file(f"{dataset}.npz"))
        parts = [arrays[f"{part}_labels"] for part in ("train", "val", "test") if f"{part}_labels" in arrays]
        return np.concatenate([part.reshape(-1) for part in parts]).astype(np.int64), "images"
    except InputError:
        for method in METHODS:
            answers = setup.source.read(dataset, method)
            if answers is not None:
                return answers.labels, "held-out images (stand in for all)"
        raise


def _bars(counts: list[int], names: list[str], x_label: str, title: str, series: list[str]) -> str:
    plot = Plot(
        title=title,
        x=(-0.5, len(counts) - 0.5),
        y=(0, max(counts) * 1.05),
        x_label=f"{x_label} ({title})" if series[0].startswith("client") else x_label,
        y_label="images",
        x_names=names,
        width=560,
    )
    for i, (count, name) in enumerate(zip(counts, series, strict=True)):
        plot.bars([(i - 0.4, i + 0.4, count)], name)
    return plot.svg(alone=True)


def _column(setup: Setup, name: str) -> Counter[str]:
    path = setup.data_file(SKIN_FILE)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        if name not in (reader.fieldnames or ()):
            raise InputError(f"{path}: has no column {name!r}")
        return Counter(row[name] for row in reader)
