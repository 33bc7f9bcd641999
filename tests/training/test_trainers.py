"""The contract of every trainer, and the results of FedAvg, FedProx and Central."""

import copy
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from fedconformal.errors import InputError
from fedconformal.training import TCT, Central, ClientData, FedAvg, FedProx, Preprocess, RoundState, models, pool
from fedconformal.training.fedavg import balance, batches, client_seed
from fedconformal.training.pool import one_thread
from fedconformal.training.weights import weights_of
from tests.contracts.tools import refused
from tests.training.tasks import SmallNet, images, same

TRAINERS: list[type[FedAvg]] = [FedAvg, FedProx, Central]


@pytest.mark.parametrize("cls", TRAINERS)
class TestEveryTrainer:
    def test_the_model_and_the_random_state_stay_as_they_are(self, cls: type[FedAvg]) -> None:
        model, state, threads = SmallNet(), torch.get_rng_state(), torch.get_num_threads()
        trained = cls(rounds=1, workers=1).fit(model, images())
        assert same(model, SmallNet())
        assert model.training
        assert not trained.training
        assert not same(trained, model)
        assert torch.equal(state, torch.get_rng_state())
        assert torch.get_num_threads() == threads

    @pytest.mark.parametrize("after", [1, 3])
    def test_resumed_is_the_same_bit_for_bit(self, cls: type[FedAvg], after: int) -> None:
        states: list[RoundState] = []
        trainer = cls(rounds=3, workers=1)
        whole = trainer.fit(SmallNet(), images(), on_round=states.append)
        assert [state.round for state in states] == [1, 2, 3]
        assert same(trainer.fit(SmallNet(), images(), resume=states[after - 1]), whole)

    def test_it_learns(self, cls: type[FedAvg]) -> None:
        clients = images((200, 200))
        trained = cls(rounds=5, epochs=2, workers=1).fit(SmallNet(), clients)
        right = [(trained(client.inputs()).argmax(dim=1) == client.y).float().mean() for client in clients]
        assert min(right) > 0.9


def test_workers_that_start_in_the_middle_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "START_SECONDS", 1e-9)  # by default they start once a client was trained here
    monkeypatch.setattr(pool, "available_workers", lambda asked, _sites: asked or 2)
    preprocess = Preprocess(mean=(0.5,), std=(0.3,), augment="flip-crop-jitter-rotate")
    clients = [ClientData(name=c.name, x=c.x, y=c.y, preprocess=preprocess) for c in images()]
    here, middle = (FedProx(rounds=2, workers=number).fit(SmallNet(), clients) for number in (1, None))
    assert same(here, middle)


@pytest.mark.parametrize(
    ("make", "tiles"),
    [(SmallNet, 1), (lambda: models.build("lenet", shape=(1, 16, 16), classes=3), 2)],
    ids=["a user's model", "ours, channels last"],
)
def test_one_site_is_plain_sgd(make: Callable[[], Any], tiles: int) -> None:
    (small,) = images((150,))
    client = ClientData(name=small.name, x=small.x.tile(1, 1, tiles, tiles), y=small.y)
    trained = FedAvg(rounds=2, epochs=3, rate=0.05, workers=1, seed=7).fit(make(), [client])
    expected = make()
    with one_thread():
        for number in range(2):
            torch.manual_seed(client_seed(7, number, 0))
            optimizer = torch.optim.SGD(expected.parameters(), lr=0.05, momentum=0.9)
            for _ in range(3):
                for rows in batches(150, 64):
                    optimizer.zero_grad()
                    functional.cross_entropy(expected(client.inputs(rows)), client.y[rows]).backward()
                    optimizer.step()
    torch.testing.assert_close(weights_of(trained), weights_of(expected))


def test_balanced_rows_draw_every_class_alike() -> None:
    y = torch.tensor([0] * 900 + [1] * 90 + [2] * 10)
    drawn = y[torch.cat(batches(1000, 64, balance(y)))]
    assert torch.bincount(drawn).float().sub(1000 / 3).abs().max() < 70
    assert not same(*(FedAvg(rounds=1, workers=1, balanced=one).fit(SmallNet(), images()) for one in (False, True)))


@pytest.mark.parametrize(("weighting", "shares"), [("examples", (30, 10)), ("uniform", (1, 1))])
def test_weights_and_batchnorm_statistics_are_averaged(weighting: Any, shares: tuple[int, int]) -> None:
    clients = images((30, 10))
    alone: list[Any] = []
    for k, client in enumerate(clients):
        # The other client diverges and is refused, so only this one counts.
        broken = [ClientData(name=c.name, x=torch.full((c.n, 1, 8, 8), 1e38), y=c.y) for c in clients]
        broken[k] = ClientData(name=client.name, x=client.inputs(), y=client.y)
        alone.append(FedAvg(rounds=1, workers=1).fit(SmallNet(), broken))
    together = FedAvg(rounds=1, workers=1, weighting=weighting).fit(SmallNet(), clients)
    a, b = (model.state_dict() for model in alone)
    for name, value in together.state_dict().items():
        if name != "norm.num_batches_tracked":
            mean = (shares[0] * a[name].double() + shares[1] * b[name].double()) / sum(shares)
            assert torch.equal(value, mean.float()), name


def test_fedprox_adds_the_gradient_of_half_mu_times_the_squared_distance() -> None:
    (client,) = images((20,))
    model = SmallNet().eval()
    model.drop.p = 0.0
    trained = FedProx(mu=2.0, rounds=1, epochs=3, momentum=0.0, rate=0.1, workers=1).fit(model, [client])
    expected = copy.deepcopy(model).train()
    start = [p.detach().clone() for p in expected.parameters()]
    for _ in range(3):
        expected.zero_grad()
        distance = sum(((p - s) ** 2).sum() for p, s in zip(expected.parameters(), start, strict=True))
        (functional.cross_entropy(expected(client.inputs()), client.y) + 2.0 / 2 * distance).backward()
        with torch.no_grad():
            for weight in expected.parameters():
                assert weight.grad is not None
                weight.sub_(weight.grad, alpha=0.1)
    torch.testing.assert_close(weights_of(trained), weights_of(expected), rtol=1e-4, atol=1e-6)


def test_central_does_not_care_who_has_a_row() -> None:
    one, two = images((40,)), images((40,))
    parts = [ClientData(name=n, x=two[0].x[s], y=two[0].y[s]) for n, s in (("a", slice(25)), ("b", slice(25, 40)))]
    assert same(Central(rounds=2).fit(SmallNet(), one), Central(rounds=2).fit(SmallNet(), parts))


def test_a_client_that_diverges_is_refused_and_said(caplog: pytest.LogCaptureFixture) -> None:
    clients = images((30, 30))
    broken = ClientData(name="clinic-x", x=torch.full((8, 1, 8, 8), 1e38), y=torch.zeros(8, dtype=torch.int64))
    whole = [ClientData(name=c.name, x=c.inputs(), y=c.y) for c in clients]
    states: list[RoundState] = []
    with caplog.at_level(logging.WARNING):
        trained = FedAvg(rounds=1, workers=1).fit(SmallNet(), [*whole, broken], on_round=states.append)
    assert "round 1: the update of clinic-x is not finite; the round continues without it" in caplog.text
    assert states[0].metrics["refused"] == 1
    assert same(trained, FedAvg(rounds=1, workers=1).fit(SmallNet(), whole))
    with pytest.raises(InputError, match="round 1: no site's update is finite; try a smaller rate"):
        FedAvg(rounds=1, workers=1).fit(SmallNet(), [broken])


def test_frozen_weights_stay() -> None:
    model = SmallNet()
    model.conv.requires_grad_(requires_grad=False)
    before, after = (m.state_dict() for m in (model, FedAvg(rounds=1, workers=1).fit(model, images())))
    assert torch.equal(after["conv.weight"], before["conv.weight"])
    assert not torch.equal(after["head.weight"], before["head.weight"])


WRONG: dict[Any, dict[str, list[Any]]] = {
    FedProx: {
        "rounds": [0, "3", 2.5],
        "rate": [float("nan"), None],
        "momentum": [1.0],
        "weighting": ["rows"],
        "workers": [-1],
        "mu": [-0.1, "big"],
    },
    TCT: {"rounds": [-1], "linear_rounds": [0], "step": [0.0], "solver": ["newton"]},
}


@pytest.mark.parametrize(("cls", "name"), [(cls, name) for cls, settings in WRONG.items() for name in settings])
def test_wrong_settings(cls: Any, name: str) -> None:
    for value in WRONG[cls][name]:
        with refused(param=name):
            cls(**{name: value})


@pytest.mark.parametrize(
    ("model", "sites", "more", "message"),
    [
        (SmallNet(), 0, {}, "there are no clients"),
        (SmallNet().double(), 1, {}, r"the model has weights of torch.float64; call model.float\(\) first"),
        (torch.nn.ReLU(), 1, {}, "the model has no weights to train"),
        (SmallNet(), 1, {"resume": RoundState(round=1, stage="fedavg", tensors={})}, "the state is not from this mod"),
    ],
)
def test_what_cannot_be_trained(model: Any, sites: int, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FedAvg(rounds=1, workers=1).fit(model, images()[:sites], **more)


def test_an_unknown_device() -> None:
    with pytest.raises(InputError, match=r"device is 'quantum'; there are auto, .*cpu"):
        FedAvg(device="quantum").fit(SmallNet(), images())
