"""Models and data of a user's own: summaries of all sites in one call, and slips that are named."""

from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.errors import InputError
from tests.contracts.tools import refused

torch = pytest.importorskip("torch", reason="training needs torch")

from torch import nn  # noqa: E402

from fedconformal.training import TCT, FedAvg, FedProx, as_clients  # noqa: E402

TRAINERS = [FedAvg(rounds=1, workers=1), TCT(rounds=0, linear_rounds=1, coordinates=4, workers=1)]


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


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 2, 3], "labels are 1 to 3, expected 0 to 2; subtract 1"),
        ([0, 1, 3], "site-0: has the class 3, but the model gives 3 logits"),
    ],
)
def test_labels_that_are_not_from_zero(trainer: Any, labels: list[int], message: str) -> None:
    with refused(message):
        trainer.fit(nn.Linear(3, 3), [(torch.eye(3), labels)])


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda one: one.name)
def test_a_model_that_ends_in_softmax(trainer: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Softmax(dim=1))
    with refused("the model returns probabilities, expected logits; leave out its last softmax"):
        trainer.fit(model, [rows(0)])
    with refused("the model returns probabilities, expected logits"):
        fc.summarize_sites(model, [rows(0)])


def test_a_model_with_outputs_of_another_shape() -> None:
    with refused("the model's outputs have shape (3, 1, 3), expected (rows, classes)"):
        FedAvg(workers=1).fit(nn.Sequential(nn.Linear(3, 3), nn.Unflatten(1, (1, 3))), [(np.eye(3), [0, 1, 2])])


def test_a_model_for_rows_of_another_shape() -> None:
    with refused("site-0: the model fails on rows of shape (3,) and float32 (RuntimeError: mat1", param="model"):
        FedAvg(workers=1).fit(nn.Linear(5, 3), [rows(0)])


def test_items_that_are_dictionaries() -> None:
    items = [{"image": torch.zeros(3), "label": 0}] * 2
    with refused("site-0: its items are dictionaries (image, label); give pairs, as [(item['image'], item['label'])"):
        as_clients([items])


@pytest.mark.parametrize(
    ("settings", "param"),
    [({"rounds": "3"}, "rounds"), ({"rounds": 2.5}, "rounds"), ({"rate": None}, "rate"), ({"mu": "big"}, "mu")],
)
def test_settings_of_another_type(settings: dict[str, Any], param: str) -> None:
    with pytest.raises(InputError) as caught:
        FedProx(**settings)
    assert caught.value.param == param


def test_numbers_of_numpy_are_numbers() -> None:
    assert FedAvg(rounds=np.int64(3), rate=np.float32(0.5)).rounds == 3  # type: ignore[arg-type]


def test_a_server_step_of_ones_own_in_a_loop() -> None:
    """Rounds of one are the rounds of a whole run, when round and seed agree."""
    sites = [rows(k) for k in range(3)]
    model: Any = nn.Linear(3, 3)
    for number in range(2):
        chosen = np.random.default_rng(number).choice(3, 2, replace=False)
        trained = FedAvg(rounds=1, seed=number, workers=1).fit(model, [sites[k] for k in chosen])
        with torch.no_grad():
            for old, new in zip(model.parameters(), trained.parameters(), strict=True):
                old.add_(new - old, alpha=0.5)
    assert all(weight.isfinite().all() for weight in model.parameters())
