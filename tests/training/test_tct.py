"""Both stages together: the optimum of the pooled problem, resumed runs, workers, memory and bad input."""

import logging
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedconformal.errors import InputError
from fedconformal.training import models, pool
from fedconformal.training.fedavg import FedAvg
from fedconformal.training.step import RoundState
from fedconformal.training.tct import TCT, LinearisedModel
from fedconformal.training.weights import weights_of
from tests.training.tasks import same

QUICK: dict[str, Any] = {"rounds": 1, "linear_rounds": 3, "coordinates": 60, "steps": 20, "workers": 1}
THEIRS: dict[str, Any] = {"solver": "scaffold", "intercept": False, "weighting": "uniform"}
"""The second stage as the paper's authors do it."""
SOLVERS = ["lbfgs", "scaffold"]


def clients(sizes: tuple[int, ...] = (20, 30, 25)) -> list[tuple[Tensor, Tensor]]:
    """One class a client, and the class decides where the rows lie."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for label, n in enumerate(sizes):
        centre = torch.zeros(6)
        centre[label] = 3.0
        made.append((torch.randn(n, 6, generator=generator) + centre, torch.full((n,), label)))
    return made


def network(classes: int = 3) -> nn.Module:
    return models.build("mlp", shape=(6,), classes=classes)


def accuracy(model: nn.Module) -> float:
    x, y = (torch.cat(parts) for parts in zip(*clients((200, 200, 200)), strict=True))
    return float((model(x).argmax(dim=1) == y).float().mean())


def test_it_learns_from_one_class_a_client() -> None:
    model = network()
    before = weights_of(model)
    trained = TCT(rounds=2, linear_rounds=5, coordinates=500, steps=50, workers=1).fit(model, clients())
    assert isinstance(trained, LinearisedModel)
    assert accuracy(trained) > 0.9
    assert torch.equal(weights_of(model), before)
    assert not trained.training


def test_on_disk_in_half_precision_is_nearly_the_same() -> None:
    in_memory, on_disk = (TCT(**QUICK, memory=memory).fit(network(), clients()) for memory in (1.0, 1e-9))
    x = clients()[0][0]
    assert torch.allclose(in_memory(x), on_disk(x), atol=2e-2)
    assert not torch.equal(in_memory(x), on_disk(x))


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("solver", SOLVERS)
def test_resumed_is_the_same_bit_for_bit(solver: Any, after: int) -> None:
    states: list[RoundState] = []
    trainer = TCT(**QUICK, solver=solver)
    whole = trainer.fit(network(), clients(), on_round=states.append)
    assert [(state.round, state.stage) for state in states] == [(1, "fedavg"), (2, "tct"), (3, "tct"), (4, "tct")]
    assert trainer.total_rounds == 4
    again: list[RoundState] = []
    assert same(trainer.fit(network(), clients(), resume=states[after - 1], on_round=again.append), whole)
    assert [state.round for state in again] == list(range(after + 1, 5))


@pytest.mark.parametrize(("number", "solver"), [pytest.param(2, "lbfgs", marks=pytest.mark.slow), (None, "scaffold")])
def test_workers_from_the_start_or_the_middle_give_the_same(
    number: int | None, solver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "START_SECONDS", 1e-9)
    monkeypatch.setattr(pool, "available_workers", lambda asked, _sites: asked or 2)
    one, more = (
        TCT(**QUICK | {"rounds": 0, "workers": n}, solver=solver).fit(network(), clients()) for n in (1, number)
    )
    assert same(one, more)


def test_no_first_round_takes_the_weights_as_they_are() -> None:
    first = FedAvg(rounds=1, workers=1).fit(network(), clients())
    both = TCT(**QUICK).fit(network(), clients())
    assert same(TCT(**QUICK | {"rounds": 0}).fit(first, clients()), both)


def test_a_step_that_is_too_long_is_lowered(caplog: pytest.LogCaptureFixture) -> None:
    states: list[RoundState] = []
    with caplog.at_level(logging.WARNING):
        trained = TCT(**QUICK, solver="scaffold", step=1e6).fit(network(), clients(), on_round=states.append)
    assert "the step 1e+06 is not stable" in caplog.text
    assert states[-1].metrics["step"] < 1e3
    assert accuracy(trained) > 0.8


def test_a_network_that_is_not_finite() -> None:
    broken = network()
    nn.init.constant_(next(broken.parameters()), torch.nan)
    with pytest.raises(InputError, match="site-0: the network's gradients are not finite"):
        TCT(**QUICK | {"rounds": 0}).fit(broken, clients())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("other", [{"coordinates": 70}, {"intercept": False}, {"solver": None}])
def test_a_state_of_something_else(solver: Any, other: dict[str, Any]) -> None:
    states: list[RoundState] = []
    TCT(**QUICK, solver=solver).fit(network(), clients(), on_round=states.append)
    if "solver" in other:
        other = {"solver": next(one for one in SOLVERS if one != solver)}
    with pytest.raises(InputError, match="resume: the state is not from this model"):
        TCT(**QUICK | {"solver": solver} | other).fit(network(), clients(), resume=states[-1])


def test_the_optimum_ends_the_rounds() -> None:
    states: list[RoundState] = []
    settings = QUICK | {"linear_rounds": 200}
    trainer = TCT(**settings)
    first = trainer.fit(network(), clients(), on_round=states.append)
    assert len(states) < 100
    assert same(trainer.fit(network(), clients(), resume=states[-1]), first)
