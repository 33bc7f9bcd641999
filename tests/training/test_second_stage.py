"""The end of TCT's second stage: the optimum of the weighted loss, or the result of the authors' own rounds."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedconformal.training.linear_stage import LocalDescent, Matrix
from fedconformal.training.pool import one_thread
from fedconformal.training.step import RoundState
from fedconformal.training.tct import TCT, LinearisedModel
from tests.training.test_tct import QUICK, THEIRS, clients, network


def standardised(model: nn.Module, rows: Tensor) -> Tensor:
    """The features of the linear model, written out once more."""
    assert isinstance(model, LinearisedModel)
    features = (model.features(rows) - model.mean) * model.scale
    constant = torch.full((len(rows), model.theta.shape[1] - features.shape[1]), 0.3)
    found: Tensor = torch.cat([features, constant], dim=1)
    return found


def gradient(model: nn.Module, shares: Tensor, ridge: float, loss: str) -> tuple[Tensor, Tensor]:
    """Let autograd find the gradient of the whole problem at the model's theta, and at zero."""
    assert isinstance(model, LinearisedModel)
    found = []
    for start in (model.theta, torch.zeros_like(model.theta)):
        theta = start.double().clone().requires_grad_()
        total = ridge / 2 * theta[:, : model.features.count].square().sum() / sum(len(y) for _, y in clients())
        for share, (x, y) in zip(shares / shares.sum(), clients(), strict=True):
            z = standardised(model, x).double() @ theta.T
            if loss == "squared":
                total = total + share * (z - nn.functional.one_hot(y, 3) + 1 / 3).square().sum(dim=1).mean() / 2
            else:
                total = total + share * nn.functional.cross_entropy(z, y)
        total.backward()
        assert theta.grad is not None
        found.append(theta.grad)
    return found[0], found[1]


@pytest.mark.parametrize("loss", ["cross-entropy", "squared"])
@pytest.mark.parametrize(("weighting", "shares"), [("examples", (20.0, 30.0, 25.0)), ("uniform", (1.0, 1.0, 1.0))])
@pytest.mark.parametrize("intercept", [True, False])
def test_lbfgs_ends_at_the_optimum_of_the_weighted_loss(
    loss: Any, weighting: Any, shares: tuple[float, ...], intercept: bool
) -> None:
    settings = QUICK | {"rounds": 0, "linear_rounds": 60, "loss": loss, "weighting": weighting}
    states: list[RoundState] = []
    trained = TCT(**settings, intercept=intercept, ridge=2.0).fit(network(), clients(), on_round=states.append)
    assert len(states) < 60
    there, at_zero = gradient(trained, torch.tensor(shares), 2.0, loss)
    assert float(there.norm()) < 3e-3 * float(at_zero.norm())
    other = torch.tensor([1.0, 1.0, 1.0] if weighting == "examples" else [20.0, 30.0, 25.0])
    assert float(gradient(trained, other, 2.0, loss)[0].norm()) > 3e-3 * float(at_zero.norm())


@pytest.mark.parametrize(("weighting", "shares"), [("examples", (20.0, 30.0, 25.0)), ("uniform", (1.0, 1.0, 1.0))])
def test_scaffold_moves_by_the_weighted_mean_of_what_sites_do(weighting: Any, shares: tuple[float, ...]) -> None:
    settings = QUICK | THEIRS | {"rounds": 0, "weighting": weighting, "step": 2.0}
    trained = TCT(**settings).fit(network(), clients())
    assert isinstance(trained, LinearisedModel)
    with one_thread():  # as the engine does
        _scaffold_again(trained, shares)


def _scaffold_again(trained: LinearisedModel, shares: tuple[float, ...]) -> None:
    parts = [(Matrix(standardised(trained, x)), y) for x, y in clients()]
    theta, control = torch.zeros(2, *trained.theta.shape)
    kept = [torch.zeros(3, len(y)) for _, y in parts]
    for _ in range(3):
        total, ends = torch.zeros_like(theta, dtype=torch.float64), []
        for k, (matrix, y) in enumerate(parts):
            gram = torch.empty(len(y), len(y))
            matrix.gram(gram)
            local = LocalDescent(features=matrix, gram=gram, y=y, steps=20, rate=2.0, loss="cross-entropy")
            correction = matrix.combine(kept[k]) - control
            kept[k], _ = local.run(theta, control, kept[k])
            total += shares[k] * matrix.combine(kept[k]).double()
            ends.append(theta - 2.0 * 20 * (matrix.combine(kept[k]) - correction))
        control = (total / sum(shares)).float()
        theta = theta - 2.0 * 20 * control
        mean = sum(share * end for share, end in zip(shares, ends, strict=True)) / sum(shares)
        assert torch.allclose(theta, mean, atol=1e-5)  # the corrections cancel
    assert torch.equal(trained.theta, theta)  # bit for bit, so the authors' way is what it was


def test_classes_of_unequal_size_need_an_intercept() -> None:
    """Features that say nothing: then the best logits are the logarithms of the classes' shares."""
    x = torch.randn(100, 6, generator=torch.Generator().manual_seed(1))
    rows = [(x[:90], torch.zeros(90, dtype=torch.long)), (x[90:], torch.ones(10, dtype=torch.long))]
    settings = QUICK | {"rounds": 0, "linear_rounds": 30, "coordinates": 5, "ridge": 1e4}
    with_one = TCT(**settings).fit(network(2), rows)(x).softmax(dim=1).mean(dim=0)
    without = TCT(**settings, intercept=False).fit(network(2), rows)(x).softmax(dim=1).mean(dim=0)
    assert torch.allclose(with_one, torch.tensor([0.9, 0.1]), atol=0.01)
    assert torch.allclose(without, torch.tensor([0.5, 0.5]), atol=0.05)
