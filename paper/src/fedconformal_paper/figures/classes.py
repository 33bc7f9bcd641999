"""Numbers of images by class, and the clients of the classes.

PathMNIST's and TissueMNIST's images may not be at hand; then the labels of the held-out rows of any logits stand in.
"""

from __future__ import annotations

import csv
from collections import Counter

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal._base.files import read_npz
from fedconformal._base.registry import find
from fedconformal.errors import InputError
from fedconformal.report.charts import Bar, Bars
from fedconformal.training.data.sets.source import DataSource
from fedconformal_paper.clients import GROUPS
from fedconformal_paper.figures.plot import Plot, figure
from fedconformal_paper.numbers import METHODS, TITLES
from fedconformal_paper.setup import Setup

SAMPLED = "images (10,000 a client train, as in the authors' scripts)"
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
    plot.bars([(i, i + 1, count) for i, count in enumerate(counts)], f"{sum(counts):,} images together")
    return figure(plot)


def skin_rate(setup: Setup) -> str:
    """fig:skin-rate: images of each Fitzpatrick skin type."""
    counts = _column(setup, "fitzpatrick_scale")
    totals = Counter({int(float(kind)): count for kind, count in counts.items() if kind})
    kinds = sorted(totals, key=lambda kind: kind if kind > 0 else 99)
    bars = [Bar(f"type {kind}" if kind > 0 else "not known", totals[kind], f"{totals[kind]:,}") for kind in kinds]
    return figure(Bars(title="Fitzpatrick17k: images of each Fitzpatrick skin type", bars=bars))


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
    client = {label: f"client {k}" for k, group in enumerate(GROUPS[dataset]) for label in group}
    names = find(dataset, DataSource).classes
    counts = np.bincount(labels, minlength=len(client)).tolist()
    bars = [Bar(name, counts[i], f"{counts[i]:,} images", client[i]) for i, name in enumerate(names)]
    return figure(Bars(title=f"{TITLES[dataset]}: {len(labels):,} {what}, by class and client", bars=bars, width=680))


def _labels(setup: Setup, dataset: str) -> tuple[Integers, str]:
    try:
        part = f"subsets/{dataset}.npz"
        subset = (setup.data_directory / part).exists()
        arrays = read_npz(setup.data_file(part if subset else f"{dataset}.npz"))
        parts = [arrays[f"{part}_labels"] for part in ("train", "val", "test") if f"{part}_labels" in arrays]
        return np.concatenate([part.reshape(-1) for part in parts]).astype(np.int64), SAMPLED if subset else "images"
    except InputError:
        for method in METHODS:
            answers = setup.read(dataset, method)
            if answers is not None:
                return answers.labels, "held-out images (they stand in for all)"
        raise


def _column(setup: Setup, name: str) -> Counter[str]:
    path = setup.data_file(SKIN_FILE)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        if name not in (reader.fieldnames or ()):
            raise InputError(f"{path}: has no column {name!r}")
        return Counter(row[name] for row in reader)
