"""Gradient features against one backward pass a row, for every network and for layers nobody thought of."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="training needs torch")

from torch import Tensor, nn  # noqa: E402

from fedconformal.errors import InputError  # noqa: E402
from fedconformal.training import features as module  # noqa: E402
from fedconformal.training import models  # noqa: E402
from fedconformal.training.features import GradientFeatures, draw_coordinates, one_output  # noqa: E402
from fedconformal.training.models.efficientnet import MBConv, Stage  # noqa: E402


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
    """A layer used twice, a bare parameter, a transposed convolution and an operation in place."""

    def __init__(self) -> None:
        super().__init__()
        self.turned = nn.ConvTranspose2d(1, 2, 3)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.twice = nn.Linear(128, 128)
        self.last = nn.Linear(128, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = (self.turned(x) * self.scale).relu_().flatten(1)
        out: Tensor = self.last(self.twice(self.twice(x).tanh()))
        return out


class Tied(nn.Module):
    """Two layers that share one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 5)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.second(self.first(x).tanh()))
        return out


GROUPS = nn.Sequential(MBConv(4, Stage(2, 3, 1, 4, 1), 1, 0.5), nn.Flatten(), nn.Linear(100, 3))
"""What EfficientNet is made of: channels convolved by themselves, then weighed."""


@pytest.mark.parametrize("count", [7, 400, 10**9])
@pytest.mark.parametrize("name", ["logistic", "mlp", "lenet", "resnet14", "odd", "groups", "tied"])
def test_against_one_row_at_a_time(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    shape = {"odd": (1, 6, 6), "groups": (4, 5, 5), "tied": (6,)}.get(name, (1, 14, 14))
    own: dict[str, nn.Module] = {"odd": Odd(), "groups": GROUPS, "tied": Tied()}
    model = own.get(name) or models.build(name, shape=shape, classes=4)
    network = one_output(model, seed=1)
    coordinates = draw_coordinates(network, count, seed=2)
    monkeypatch.setattr(module, "BATCH", 2)  # so that three rows are two passes
    x = torch.randn(3, *shape)
    expected = one_by_one(network, x)[:, coordinates]
    features = GradientFeatures(network, coordinates)
    found = features(x)
    assert features._by_layer == (name not in ("odd", "tied"))
    assert found.shape == (3, min(count, sum(w.numel() for w in network.parameters())))
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


class InPlace(nn.Module):
    """Known layers only, but what they gave is changed afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.first(x).relu_())
        return out


class Twice(InPlace):
    """A known layer that is used twice."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.first(x) * self.first(x + 1))
        return out


@pytest.mark.parametrize(
    "model", [InPlace(), Twice(), nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))]
)
def test_known_layers_in_unusual_use(model: nn.Module) -> None:
    network, x = one_output(model, seed=0), torch.randn(5, 3)
    features = GradientFeatures(network, draw_coordinates(network, 100, seed=0))
    assert torch.allclose(features(x), one_by_one(network, x), atol=1e-6)
    assert not features._by_layer


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
