"""The server's side of L-BFGS: on quadratics whose optimum is known, and on answers that do not fit."""

from typing import Any

import pytest
import torch
from torch import Tensor

from fedconformal.errors import InputError
from fedconformal.training.lbfgs import LBFGS, dot
from fedconformal.training.step import RoundState

GENERATOR = torch.Generator().manual_seed(3)
BENT = torch.logspace(0, 3, 12)
"""Curvatures that are far apart, on which plain descent would take thousands of rounds."""
AIM = torch.randn(1, 12, generator=GENERATOR)


def quadratic(at: Tensor, aim: Tensor = AIM) -> tuple[Tensor, float]:
    apart = at - aim
    return BENT * apart, float((BENT * apart.square()).double().sum() / 2)


def solver(**more: Any) -> LBFGS:
    return LBFGS(theta=torch.zeros(1, 12), penalty=torch.full((12,), 0.5), **more)


def point(one: LBFGS) -> Tensor:
    question = one.question()
    assert (question.what, list(question.tensors), dict(question.numbers)) == ("gradient", ["theta"], {})
    return question.tensors["theta"]


def solve(one: LBFGS, aim: Tensor, rows: int) -> None:
    for _ in range(200):
        if one.done:
            return
        one.learn(*quadratic(point(one), aim), rows=rows)
    pytest.fail("it is not at the optimum after 200 rounds")


def test_it_ends_at_the_optimum_with_the_ridge() -> None:
    one = solver()
    solve(one, AIM, rows=5)
    assert torch.allclose(one.theta, BENT * AIM / (BENT + 0.5), atol=1e-3)


def test_a_step_that_is_too_long_is_shortened_to_the_minimum_of_the_parabola() -> None:
    one = solver()
    one.learn(*quadratic(point(one)), rows=5)
    first, step = one.loss, point(one) - one.theta
    one.learn(*quadratic(point(one)), rows=5)  # the largest curvature is 1000, so a whole step goes far too far
    assert (one.loss, one.length) == (first, 0.1)
    assert torch.allclose(point(one) - one.theta, 0.1 * step)
    flat = LBFGS(theta=torch.zeros(1, 1), penalty=torch.zeros(1))
    flat.learn(torch.tensor([[-4.0]]), 1.0, rows=1)
    flat.learn(torch.tensor([[0.0]]), 1.0 + 16, rows=1)  # with slope -16 at 0 the parabola is lowest at 1/4
    assert flat.length == 0.25


def test_other_sites_have_another_problem() -> None:
    one = solver()
    for _ in range(8):
        one.learn(*quadratic(point(one)), rows=5)
    assert one.pairs
    gradient, loss = quadratic(at := point(one), AIM + 10)
    one.learn(gradient, loss, rows=4)
    assert not one.pairs
    assert torch.equal(one.theta, at)
    assert (one.rows, one.length) == (4, 1.0)
    solve(one, AIM + 10, rows=4)
    assert torch.allclose(one.theta, BENT * (AIM + 10) / (BENT + 0.5), atol=1e-2)


def test_it_goes_on_from_its_state() -> None:
    one, other = solver(), solver()
    for _ in range(15):
        one.learn(*quadratic(point(one)), rows=5)
        other.resume(RoundState(round=1, stage="tct", tensors=one.state()))
        assert torch.equal(point(one), point(other))
    assert len(one.pairs) == 10


@pytest.mark.parametrize(
    "change",
    [{"theta": torch.zeros(1, 11)}, {"pairs": torch.zeros(11, 2, 1, 12)}, {"search": torch.zeros(2)}, {"search": None}],
)
def test_a_state_of_something_else(change: dict[str, Any]) -> None:
    one = solver()
    one.learn(*quadratic(point(one)), rows=5)
    state: dict[str, Any] = {**one.state(), **change}
    tensors = {name: tensor for name, tensor in state.items() if tensor is not None}
    with pytest.raises(InputError, match="resume: the state is not from this model"):
        solver().resume(RoundState(round=1, stage="tct", tensors=tensors))


def test_inner_products_are_in_double_precision() -> None:
    assert dot(torch.tensor([1e8, 1.0]), torch.tensor([1e8, 1.0])) == 1e16 + 1
