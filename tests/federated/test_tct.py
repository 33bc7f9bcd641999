"""Both stages together: the optimum of the pooled problem, resumed runs, workers, memory and bad input."""

import logging
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs torch")

from torch import Tensor, nn  # noqa: E402

from fedconformal import models  # noqa: E402
from fedconformal.engines.local import pool  # noqa: E402
from fedconformal.engines.local.threads import one_thread  # noqa: E402
from fedconformal.errors import InputError  # noqa: E402
from fedconformal.federated.fedavg import FedAvg  # noqa: E402
from fedconformal.federated.linear_stage import LocalDescent  # noqa: E402
from fedconformal.federated.local import weights_of  # noqa: E402
from fedconformal.federated.matrices import Matrix  # noqa: E402
from fedconformal.federated.tct import TCT, LinearisedModel  # noqa: E402
from fedconformal.federated.trainer import RoundState  # noqa: E402

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


def same(a: nn.Module, b: nn.Module) -> bool:
    left, right = a.state_dict(), b.state_dict()
    return list(left) == list(right) and all(torch.equal(left[name], right[name]) for name in left)


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


def standardised(model: nn.Module, rows: Tensor) -> Tensor:
    """What the linear model multiplies with theta, written out once more."""
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


def test_spaces_agree() -> None:
    many = clients((150, 150, 150))  # with 60 coordinates these have n > 2p, with 200 not
    settings = QUICK | THEIRS | {"rounds": 0, "steps": 60}
    by_sample = TCT(**settings | {"coordinates": 200}).fit(network(), many)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedconformal.federated.matrices._products", lambda *_: 0)
        by_weight = TCT(**settings | {"coordinates": 200}).fit(network(), many)
    a, b = by_sample.state_dict()["theta"], by_weight.state_dict()["theta"]
    assert float((a - b).abs().max()) < 1e-4 * float(a.abs().max())


def test_on_disk_in_half_precision_is_nearly_the_same() -> None:
    in_memory, on_disk = (TCT(**QUICK, memory=memory).fit(network(), clients()) for memory in (1.0, 1e-9))
    x = clients()[0][0]
    assert torch.allclose(in_memory(x), on_disk(x), atol=2e-2)
    assert not torch.equal(in_memory(x), on_disk(x))


@pytest.mark.parametrize("after", [1, 2, 3, 4])
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


@pytest.mark.parametrize(("number", "solver"), [(2, "lbfgs"), (None, "scaffold")])
def test_workers_from_the_start_or_the_middle_give_the_same(
    number: int | None, solver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "START_SECONDS", 1e-9)
    monkeypatch.setattr(pool, "available_workers", lambda asked, _sites: asked or 2)
    one, more = (TCT(**QUICK | {"workers": n}, solver=solver).fit(network(), clients()) for n in (1, number))
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


def test_progress_ends_at_the_total() -> None:
    told: list[tuple[int, int, str]] = []
    TCT(**QUICK).fit(network(), clients(), progress=lambda *now: told.append(now))
    assert [done for done, _, _ in told] == list(range(1, told[-1][1] + 1))
    assert told[-1][2] == "tct, second stage: round 3 of 3"


def test_weights_can_be_loaded_into_a_fresh_module() -> None:
    trained = TCT(**QUICK).fit(network(), clients())
    fresh = TCT(**QUICK, seed=4).fit(network(), clients())
    x = clients()[1][0]
    assert not torch.allclose(fresh(x), trained(x))
    fresh.load_state_dict(trained.state_dict())
    assert torch.equal(fresh(x), trained(x))


def test_a_network_that_is_not_finite() -> None:
    broken = network()
    nn.init.constant_(next(broken.parameters()), torch.nan)
    with pytest.raises(InputError, match="client-0: the network's gradients are not finite"):
        TCT(**QUICK | {"rounds": 0}).fit(broken, clients())


def test_a_class_the_model_does_not_know() -> None:
    with pytest.raises(InputError, match="client-2: has the class 2, but the model gives 2 logits"):
        TCT(**QUICK | {"rounds": 0}).fit(network(classes=2), clients())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("other", [{"coordinates": 70}, {"intercept": False}, {"solver": None}])
def test_a_state_of_something_else(solver: Any, other: dict[str, Any]) -> None:
    states: list[RoundState] = []
    TCT(**QUICK, solver=solver).fit(network(), clients(), on_round=states.append)
    if "solver" in other:
        other = {"solver": next(one for one in SOLVERS if one != solver)}
    with pytest.raises(InputError, match="resume: the state is not from this model"):
        TCT(**QUICK | {"solver": solver} | other).fit(network(), clients(), resume=states[-1])


def test_the_optimum_ends_the_rounds_and_the_progress() -> None:
    told: list[tuple[int, int, str]] = []
    states: list[RoundState] = []
    settings = QUICK | {"linear_rounds": 200}
    trainer = TCT(**settings)
    first = trainer.fit(network(), clients(), progress=lambda *now: told.append(now), on_round=states.append)
    assert len(states) < 100
    assert told[-1][0] == told[-1][1]
    assert told[-1][2] == "tct, second stage: at the optimum"
    assert same(trainer.fit(network(), clients(), resume=states[-1]), first)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"rounds": -1}, "rounds is -1"),
        ({"rounds": 0, "batch": 0}, "batch is 0"),
        ({"linear_rounds": 0}, "linear_rounds is 0"),
        ({"coordinates": 0}, "coordinates is 0"),
        ({"steps": 0}, "steps is 0"),
        ({"scratch": "/nowhere/at/all"}, "scratch is /nowhere/at/all, which is no folder"),
        ({"step": 0.0}, "step is 0.0"),
        ({"memory": float("nan")}, "memory is nan"),
        ({"loss": "hinge"}, "loss is 'hinge'; there are cross-entropy and squared"),
        ({"solver": "newton"}, "solver is 'newton'; there are lbfgs and scaffold"),
        ({"ridge": 0.0}, "ridge is 0.0, expected a positive number"),
    ],
)
def test_bad_settings(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TCT(**QUICK | setting)
