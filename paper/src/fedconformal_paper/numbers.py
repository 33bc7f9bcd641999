"""Numbers printed in the paper, by the label of the table, for comparison with ours.

Lu, Yu, Karimireddy, Jordan and Raskar, "Federated conformal predictors for distributed uncertainty quantification",
2023. Nothing here is computed; numbers that do not follow from the paper's own tables are marked where they are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

COVERAGES = (0.9, 0.8, 0.7)
METHODS = {"fedavg": "FedAvg", "fedprox": "FedProx", "tct": "TCT", "central": "central"}
TITLES = {
    "fashionmnist": "FashionMNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "dermamnist": "DermaMNIST",
    "pathmnist": "PathMNIST",
    "tissuemnist": "TissueMNIST",
    "fitz17k-disease": "Fitzpatrick17k by disease",
    "fitz17k-skin": "Fitzpatrick17k by skin type",
}
NETWORKS = {"lenet": "LeNet", "resnet14": "ResNet-14", "efficientnet-b1": "EfficientNet-B1", "mlp": "MLP"}
FITZPATRICK = ("fitz17k-disease", "fitz17k-skin", "fitzpatrick17k")


def network(dataset: str) -> str:
    """Return the network that the paper trains on a data set."""
    if dataset in FITZPATRICK:
        return "efficientnet-b1"
    return "lenet" if dataset == "fashionmnist" else "resnet14"


def settings(dataset: str, method: str) -> dict[str, Any]:
    """Return the paper's training settings (App. F); a test compares them with the preset of `fedconformal train`."""
    found: dict[str, Any] = {"model": network(dataset), "rounds": 200, "epochs": 5, "augment": "flip-crop"}
    found |= {"weighting": "uniform", "temperature": "mean", "rate": 0.01, "momentum": 0.9, "batch": 64}
    if dataset in FITZPATRICK:
        found |= {"rate": 0.001, "augment": "flip-crop-jitter-rotate", "balanced": True}
    if method == "central":
        found["epochs"] = 1
    if method == "fedprox":
        found["mu"] = 0.1
    if method == "tct":
        found |= {"rounds": 100, "linear_rounds": 100, "coordinates": 100_000, "solver": "scaffold", "intercept": False}
        found |= {"steps": 500, "step": 10.0}
    return found


def deviations(given: Mapping[str, Any], dataset: str) -> list[str]:
    """Return the deviations of a run's settings from the paper's.

    >>> deviations({**settings("cifar10", "fedavg"), "method": "fedavg", "augment": "none"}, "cifar10")
    ['augment none (paper flip-crop)']
    """
    wanted = settings(dataset, str(given["method"]))
    if given["method"] == "central":
        del wanted["weighting"]
    if given.get("solver") == "lbfgs":  # which has no local steps
        del wanted["steps"], wanted["step"]
    found = {"solver": "scaffold", "intercept": False} | {
        key: value for key, value in given.items() if value is not None
    }
    differ = [
        f"{key.replace('_', ' ')} {found.get(key, 'not stated')} (paper {value})"
        for key, value in wanted.items()
        if found.get(key, value if key == "model" else None) != value
    ]
    return differ + ([f"ridge {found['ridge']} (paper none)"] if found.get("solver") == "lbfgs" else [])


class Cell(NamedTuple):
    """Coverage and mean set size, as printed."""

    coverage: float
    size: float


def _cells(*values: float) -> tuple[Cell, ...]:
    return tuple(Cell(*pair) for pair in zip(values[::2], values[1::2], strict=True))


FULL_RESULTS: dict[str, dict[str, tuple[Cell, ...]]] = {
    "fashionmnist": {
        "fedavg": _cells(0.90, 3.2, 0.80, 2.2, 0.70, 1.3),
        "fedprox": _cells(0.90, 2.2, 0.80, 1.5, 0.70, 1.2),
        "tct": _cells(0.91, 1.2, 0.89, 1.1, 0.89, 1.0),
        "central": _cells(0.90, 1.1, 0.88, 1.0, 0.88, 1.0),
    },
    "cifar10": {
        "fedavg": _cells(0.90, 3.8, 0.80, 2.5, 0.70, 1.8),
        "fedprox": _cells(0.90, 3.5, 0.80, 2.3, 0.70, 1.6),
        "tct": _cells(0.90, 1.3, 0.82, 1.0, 0.82, 1.0),
        "central": _cells(0.90, 1.1, 0.88, 1.0, 0.88, 1.0),
    },
    "cifar100": {
        "fedavg": _cells(0.90, 17.3, 0.80, 9.2, 0.70, 5.4),
        "fedprox": _cells(0.90, 17.9, 0.80, 9.9, 0.70, 6.1),
        "tct": _cells(0.90, 5.6, 0.80, 2.8, 0.70, 1.6),
        "central": _cells(0.90, 4.8, 0.80, 2.4, 0.70, 1.4),
    },
    "dermamnist": {
        "fedavg": _cells(0.90, 3.1, 0.81, 2.1, 0.73, 1.5),
        "fedprox": _cells(0.90, 3.2, 0.80, 2.2, 0.71, 1.5),
        "tct": _cells(0.90, 2.4, 0.81, 1.3, 0.74, 1.0),
        "central": _cells(0.90, 1.7, 0.81, 1.2, 0.75, 1.0),
    },
    "pathmnist": {
        "fedavg": _cells(0.90, 3.2, 0.80, 2.5, 0.70, 2.0),
        "fedprox": _cells(0.90, 2.8, 0.80, 2.0, 0.70, 1.5),
        "tct": _cells(0.90, 1.2, 0.84, 1.0, 0.84, 1.0),
        "central": _cells(0.90, 1.0, 0.89, 1.0, 0.89, 1.0),
    },
    "tissuemnist": {
        "fedavg": _cells(0.90, 5.3, 0.80, 4.2, 0.70, 3.3),
        "fedprox": _cells(0.90, 5.2, 0.80, 4.1, 0.70, 3.3),
        "tct": _cells(0.90, 2.7, 0.80, 1.8, 0.70, 1.3),
        "central": _cells(0.90, 3.0, 0.80, 2.0, 0.70, 1.5),
    },
    "fitz17k-disease": {
        "fedavg": _cells(0.91, 24.9, 0.79, 8.6, 0.69, 3.8),
        "fedprox": _cells(0.91, 25.6, 0.80, 8.7, 0.69, 3.8),
        "tct": _cells(0.91, 20.0, 0.80, 6.0, 0.70, 2.8),
        "central": _cells(0.90, 16.1, 0.81, 6.1, 0.71, 2.7),
    },
    "fitz17k-skin": {
        "fedavg": _cells(0.91, 22.8, 0.81, 9.2, 0.69, 4.1),
        "fedprox": _cells(0.91, 22.6, 0.81, 9.7, 0.72, 4.5),
        "tct": _cells(0.91, 21.3, 0.80, 7.4, 0.70, 3.2),
        "central": _cells(0.90, 18.2, 0.80, 6.3, 0.70, 2.6),
    },
}
"""tab:full-results, at coverage .90, .80 and .70."""

RELATIVE_INEFFICIENCY: dict[str, dict[str, tuple[float, float]]] = {
    "fashionmnist": {"fedavg": (8.6, 8.0), "fedprox": (9.3, 7.2), "tct": (1.1, 1.0)},
    "cifar10": {"fedavg": (3.5, 2.5), "fedprox": (3.2, 2.3), "tct": (1.2, 1.0)},
    "cifar100": {"fedavg": (3.8, 4.1), "fedprox": (3.8, 4.2), "tct": (1.2, 1.2)},
    "dermamnist": {"fedavg": (3.1, 2.1), "fedprox": (3.2, 2.2), "tct": (2.4, 1.3)},
    "pathmnist": {"fedavg": (3.2, 2.5), "fedprox": (2.8, 2.0), "tct": (1.2, 1.0)},
    "tissuemnist": {"fedavg": (1.8, 2.0), "fedprox": (1.8, 2.0), "tct": (0.9, 0.9)},
    "fitz17k-skin": {"fedavg": (1.3, 1.5), "fedprox": (1.3, 1.4), "tct": (1.2, 1.2)},
    "fitz17k-disease": {"fedavg": (2.3, 3.1), "fedprox": (2.2, 2.7), "tct": (1.3, 1.3)},
}
"""tab:relative-inefficiency, at coverage .90 and .80."""

SCORE_COMPARE: dict[str, tuple[float, float, float]] = {
    "fedavg": (13.2, 13.3, 7.7),
    "fedprox": (12.9, 14.2, 8.1),
    "tct": (3.2, 7.6, 2.4),
}
"""tab:cifar-efficiency-score-compare: mean sizes with LAC, APS and RAPS."""

SIZE_CONDITIONAL: dict[str, dict[str, tuple[Cell, ...]]] = {
    "cifar100": {
        "lac": _cells(0.97, 2.0, 0.93, 4.5, 0.86, 6.9, 0.81, 10.1),
        "aps": _cells(0.96, 2.1, 0.97, 8.4, 0.97, 19.3, 0.96, 37.6),
        "raps": _cells(0.94, 1.3, 0.92, 3.8, 0.89, 8.3, 0.88, 18.6),
    },
    "fitz17k-disease": {
        "lac": _cells(0.96, 2.5, 0.89, 9.7, 0.86, 20.7, 0.84, 37.8),
        "aps": _cells(0.94, 7.0, 0.97, 45.6, 0.97, 74.5, 0.97, 89.5),
        "raps": _cells(0.92, 1.2, 0.87, 10.2, 0.90, 32.8, 0.92, 56.9),
    },
}
"""tab:size-conditional-coverage: the quarters of rows with the smallest to the largest sets."""

COMPARE_LOSS: dict[str, tuple[float, float, float, float]] = {
    "cross-entropy": (0.61, 6.5, 18.0, 8.3),
    "squared": (0.58, 12.1, 78.8, 22.5),
}
"""tab:tct-compare-loss: accuracy, and mean sizes with LAC, APS and RAPS."""

SWEEP_FEDAVG = (3.8, 2.3, 1.4, 1.0)
"""fig:fedavg at coverage .90, with 2, 3, 4 and 10 classes a client, read off the plot of data-hetero.ipynb."""
