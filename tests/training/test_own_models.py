"""Models and data of a user's own: summaries of all sites in one call, and slips that are named."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedconformal as fc
from fedconformal.training import FedAvg
from tests.contracts.tools import refused


def rows(seed: int, n: int = 40) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=generator)
    return torch.randn(n, 3, generator=generator) + 3 * nn.functional.one_hot(y, 3), y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.last = nn.Dropout(0.5), nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.last(self.drop(x))


def test_summaries_of_all_sites_are_those_made_by_hand() -> None:
    model, sites = Net(), {"north": rows(0), "south": rows(1)}
    found = fc.summarize_sites(model, sites, "aps", temperature=2.0, alpha=0.1)
    assert model.training
    for summary, (name, (x, y)) in zip(found, sites.items(), strict=True):
        probs = fc.softmax(model.eval()(x).detach().numpy(), temperature=2.0)
        expected = fc.summarize(probs, y.numpy(), score="aps", alpha=0.1, site=name, temperature=2.0)
        assert summary.to_bytes() == expected.to_bytes()
    assert fc.calibrate(found, alpha=0.1).certificate.provenance.temperature == 2.0


SOFTMAX = nn.Sequential(nn.Linear(3, 3), nn.Softmax(dim=1))


@pytest.mark.parametrize(
    ("model", "labels", "message"),
    [
        (nn.Linear(3, 3), [1, 2, 3], "site-0: has the class 3, but the model gives 3 logits, of classes from 0"),
        (SOFTMAX, [0, 1, 2], "the model returns probabilities, expected logits; leave out its last softmax"),
        (nn.Sequential(nn.Linear(3, 3), nn.Unflatten(1, (1, 3))), [0, 1, 2], "outputs have shape (3, 1, 3)"),
        (nn.Linear(5, 3), [0, 1, 2], "site-0: the model fails on rows of shape (3,) and float32 (RuntimeError: mat1"),
    ],
)
def test_models_and_labels_that_do_not_fit(model: nn.Module, labels: list[int], message: str) -> None:
    for call in (FedAvg(workers=1).fit, fc.summarize_sites):
        with refused(message):
            call(model, [(torch.eye(3), labels)])


def test_numbers_of_numpy_are_numbers() -> None:
    assert FedAvg(rounds=np.int64(3), rate=np.float32(0.5)).rounds == 3  # type: ignore[arg-type]
