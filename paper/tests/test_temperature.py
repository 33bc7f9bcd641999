"""The clients' temperatures are those that make the labels most likely, and their plain mean is used."""

import numpy as np
import pytest
from fedconformal_paper.clients import GROUPS
from fedconformal_paper.temperature import LEAST, MOST, Temperatures, shifted
from scipy.optimize import minimize_scalar

from fedconformal._base.arrays import Integers, softmax


def rows(
    temperature: float, seed: int = 0, count: int = 400
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float32]], Integers]:
    rng = np.random.default_rng(seed)
    logits = (3 * rng.normal(size=(count, 5))).astype(np.float32)
    probs = softmax(logits, temperature=temperature)
    labels = np.array([rng.choice(5, p=p) for p in probs])
    return shifted(logits), labels


def best(logits: np.ndarray[tuple[int, int], np.dtype[np.float32]], labels: Integers) -> float:
    def loss(temperature: float) -> float:
        return -float(np.log(softmax(logits, temperature=temperature)[np.arange(len(labels)), labels]).sum())

    return float(minimize_scalar(loss, bounds=(LEAST, MOST), method="bounded", options={"xatol": 1e-6}).x)


def test_it_is_the_mean_of_each_clients_best() -> None:
    (first, some), (second, others) = rows(0.6), rows(2.5, seed=1)
    logits, labels = np.concatenate([first, second]), np.concatenate([some, others])
    clients = np.repeat([0, 1], 400)
    find = Temperatures.of(logits, labels, clients)
    half = np.arange(0, 800, 2)
    wanted = (best(first[::2], some[::2]) + best(second[::2], others[::2])) / 2
    assert find.mean(logits[half], half) == pytest.approx(wanted, rel=1e-3)


def test_a_client_that_is_always_right_is_held() -> None:
    logits = shifted(np.array([[3, 0], [2, 0]], dtype=np.float32))
    both = np.array([0, 1])
    assert Temperatures.of(logits, np.array([0, 0]), np.array([0, 0])).mean(logits, both) == LEAST
    assert Temperatures.of(logits, np.array([1, 1]), np.array([0, 0])).mean(logits, both) == MOST


def test_every_class_has_one_site() -> None:
    for groups in GROUPS.values():
        held = sorted(label for group in groups for label in group)
        assert held == list(range(len(held)))
    assert len(GROUPS["cifar100"]) == 20
