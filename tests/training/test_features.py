"""Gradient features against one backward pass a row, and the head and coordinates that a seed draws."""

import copy

import pytest
import torch
from torch import Tensor, nn

from fedconformal.errors import InputError
from fedconformal.training import features as module
from fedconformal.training import models
from fedconformal.training.features import GradientFeatures, draw_coordinates, one_output


def one_by_one(network: nn.Module, x: Tensor) -> Tensor:
    network = copy.deepcopy(network).eval().requires_grad_(True)
    rows = []
    for row in x:
        network.zero_grad()
        network(row[None]).sum().backward()
        rows.append(torch.cat([w.grad.flatten() for w in network.parameters() if w.grad is not None]))
    together: Tensor = torch.stack(rows)
    return together


class Odd(nn.Module):
    """A layer used twice, two layers that share a weight, a bare parameter and an operation in place."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.twice, self.tied, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 5)
        self.tied.weight = self.twice.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.tied(self.twice(self.twice(x * self.scale).relu_())))
        return out


@pytest.mark.parametrize(("name", "count"), [("mlp", 7), ("lenet", 400), ("resnet14", 400), ("odd", 10**9)])
def test_against_one_row_at_a_time(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    shape = (6,) if name == "odd" else (1, 14, 14)
    network = one_output(Odd() if name == "odd" else models.build(name, shape=shape, classes=4), seed=1)
    coordinates = draw_coordinates(network, count, seed=2)
    monkeypatch.setattr(module, "BATCH", 2)  # so that three rows are two passes
    x = torch.randn(3, *shape)
    expected = one_by_one(network, x)[:, coordinates]
    found = GradientFeatures(network, coordinates)(x)
    assert found.shape == (3, min(count, sum(w.numel() for w in network.parameters())))
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


def test_rows_do_not_mix() -> None:
    network = one_output(models.build("resnet14", shape=(1, 8, 8), classes=3), seed=0)
    features = GradientFeatures(network, draw_coordinates(network, 50, seed=0)).train()
    x = torch.randn(4, 1, 8, 8)
    assert torch.allclose(features(x)[2:], features(x[2:]), rtol=1e-4, atol=1e-5)


def test_the_seed_decides_head_and_coordinates() -> None:
    model = models.build("mlp", shape=(5,), classes=3)
    before = torch.random.get_rng_state()
    heads = [one_output(model, seed).state_dict()["fc3.weight"] for seed in (1, 1, 2)]
    drawn = [draw_coordinates(model, 40, seed) for seed in (1, 1, 2)]
    for one, same, other in (heads, drawn):
        assert torch.equal(one, same)
        assert not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert (drawn[0].diff() > 0).all()
    assert model.state_dict()["fc3.weight"].shape == (3, 128)


def test_the_head_is_where_the_model_says_or_last() -> None:
    first = nn.Sequential(nn.Linear(3, 2), nn.Linear(1, 4))
    first.head_name = "0"  # type: ignore[assignment]
    assert one_output(first, 0)(torch.zeros(1, 3)).shape == (1, 4)
    plain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Identity())
    assert one_output(plain, 0)(torch.zeros(1, 3)).shape == (1, 1)
    assert one_output(nn.Linear(3, 2), 0)(torch.zeros(1, 3)).shape == (1, 1)


def test_a_model_without_a_linear_layer() -> None:
    with pytest.raises(InputError, match="Conv2d: has no last linear layer; name it in"):
        one_output(nn.Conv2d(1, 2, 3), 0)
