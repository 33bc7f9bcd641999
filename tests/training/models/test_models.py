"""The networks: shapes, names and numbers of weights, and files of weights."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedconformal._base.registry import members
from fedconformal.errors import InputError
from fedconformal.training import models
from fedconformal.training.models import Network

IMAGES = [(1, 28, 28), (3, 32, 32)]
CHECKPOINT = Path("checkpoints", "cifar100_fedavg_resnet14_round100.pth")


@pytest.mark.parametrize("shape", [*IMAGES, (5,)])
@pytest.mark.parametrize("name", members(Network))
def test_one_logit_a_class_from_the_named_head(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) == 1 and name not in ("logistic", "mlp"):
        with pytest.raises(InputError, match="take mlp or logistic"):
            models.build(name, shape=shape, classes=4)
        return
    network = models.build(name, shape=shape, classes=4).eval()
    assert network(torch.zeros(2, *shape)).shape == (2, 4)
    head = network.get_submodule(network.head_name)
    assert isinstance(head, torch.nn.Linear)
    assert head.out_features == 4
    assert [*network.named_modules()][-1][1] is head


@pytest.mark.parametrize(
    ("name", "shape", "classes", "weights"),
    [
        ("efficientnet-b1", (3, 32, 32), 1000, 7_794_184),
        ("efficientnet-lite1", (3, 32, 32), 1000, 5_416_680),
        ("lenet", (1, 28, 28), 10, 61_706),
        ("resnet14", (3, 32, 32), 100, 178_356),
        ("logistic", (13,), 5, 70),
    ],
)
def test_the_number_of_weights(name: str, shape: tuple[int, ...], classes: int, weights: int) -> None:
    network = models.build(name, shape=shape, classes=classes)
    assert sum(weight.numel() for weight in network.parameters()) == weights


def test_the_names_of_imagenet_weights() -> None:
    state = models.build("efficientnet-b1", shape=(3, 32, 32), classes=1000).state_dict()
    known = {
        "features.0.0.weight": (32, 3, 3, 3),
        "features.0.1.running_mean": (32,),
        "features.1.0.block.1.fc1.weight": (8, 32, 1, 1),
        "features.2.0.block.3.0.weight": (24, 96, 1, 1),
        "features.6.4.block.1.0.weight": (1152, 1, 5, 5),
        "features.7.1.block.3.1.running_var": (320,),
        "features.8.0.weight": (1280, 320, 1, 1),
        "features.8.1.num_batches_tracked": (),
        "classifier.1.weight": (1000, 1280),
        "classifier.1.bias": (1000,),
    }
    assert {name: tuple(state[name].shape) for name in known} == known
    assert len(state) == 69 * 6 + 23 * 4 + 2  # convolutions with their norms, squeezes, the head


def test_the_seed_and_nothing_else_decides() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    one, same, other = (models.build("mlp", shape=(3,), classes=2, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one.state_dict()["fc1.weight"], same.state_dict()["fc1.weight"])
    assert not torch.equal(one.state_dict()["fc1.weight"], other.state_dict()["fc1.weight"])


def test_a_shortcut_without_weights() -> None:
    block = models.networks.Block(2, 4, 2).eval()
    torch.nn.init.zeros_(block.bn2.weight)
    x = torch.rand(1, 2, 4, 4)
    out = block(x)
    assert torch.equal(out[:, 1:3], x[:, :, ::2, ::2])
    assert out[:, [0, 3]].abs().max() == 0


def test_examples_skip_blocks_only_in_training() -> None:
    stage = models.efficientnet.Stage(1, 3, 1, 8, 1)
    block = models.efficientnet.MBConv(8, stage, 1, 0.5)
    x = torch.rand(64, 8, 4, 4)
    torch.manual_seed(0)
    skipped = (block(x) == x).flatten(1).all(1).float().mean()
    assert 0.2 < skipped < 0.8
    assert not (block.eval()(x) == x).flatten(1).all(1).any()


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("lenet", (1, 8, 8), "lenet"),
        ("lenet", (1, 28, 28, 1), "lenet"),
        ("resnet", (3, 32, 32), "no network is called 'resnet'; there are efficientnet-b1, efficientnet-lite1, lenet"),
    ],
)
def test_networks_that_cannot_be_built(name: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        models.build(name, shape=shape, classes=2)


def test_weights_come_back(tmp_path: Path) -> None:
    one, other = (models.build("mlp", shape=(3,), classes=2, seed=seed) for seed in (0, 1))
    torch.save(one.state_dict(), tmp_path / "plain.pt")
    torch.save({"epoch": 3, "state_dict": one.state_dict()}, tmp_path / "wrapped.pt")
    for file in ("plain.pt", "wrapped.pt"):
        fresh = models.build("mlp", shape=(3,), classes=2, seed=9)
        models.load_weights(fresh, tmp_path / file)
        assert all(map(torch.equal, fresh.parameters(), one.parameters()))
        assert not torch.equal(fresh.state_dict()["fc1.weight"], other.state_dict()["fc1.weight"])


def test_the_last_layer_stays_where_the_file_has_other_classes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained, network = (models.build("lenet", shape=(1, 28, 28), classes=n, seed=n) for n in (10, 4))
    drawn = network.state_dict()["fc3.weight"].clone()
    torch.save(trained.state_dict(), tmp_path / "ten.pt")
    models.load_weights(network, tmp_path / "ten.pt")
    assert torch.equal(network.state_dict()["fc2.weight"], trained.state_dict()["fc2.weight"])
    assert torch.equal(network.state_dict()["fc3.weight"], drawn)
    assert "fc3.weight is for another number of classes than 4 and is not used" in caplog.text


def _other(name: str, columns: int = 3) -> Any:
    return models.build(name, shape=(columns,), classes=2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda: _other("mlp", 5).state_dict(), r"does not fit the model .*fc1.weight"),
        (
            lambda: _other("logistic").state_dict(),
            r'does not fit the model .*"fc1.weight", "fc1.bias".* "linear.weight"',
        ),
        (lambda: [1, 2], "holds no weights by name"),
        (lambda: _other("mlp"), r"cannot be read \(not a state_dict"),  # a whole module is code
        (b"", r"cannot be read \(not a state_dict"),
        (b"PK\x03\x04", r"cannot be read \(not a state_dict"),
        (None, "No such file"),
    ],
)
def test_files_of_other_weights_are_refused(content: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        torch.save(content(), path)
    with pytest.raises(InputError, match=message):
        models.load_weights(_other("mlp"), path)


def test_the_published_checkpoint() -> None:
    folder = Path(os.environ.get("FEDCONFORMAL_DATA", "absent"))
    if not (folder / CHECKPOINT).exists() or not (folder / "cifar100.npz").exists():
        pytest.skip("FEDCONFORMAL_DATA holds no CIFAR-100 and no checkpoint of it")
    network = models.build("resnet14", shape=(3, 32, 32), classes=100).eval()
    models.load_weights(network, folder / CHECKPOINT)
    with np.load(folder / "cifar100.npz") as data:
        images, labels = data["test_images"][:1000], data["test_labels"][:1000]
    mean, std = torch.tensor([0.5071, 0.4865, 0.4409]), torch.tensor([0.2673, 0.2564, 0.2762])
    x = (torch.from_numpy(images) / 255 - mean) / std
    with torch.no_grad():
        right = network(x.permute(0, 3, 1, 2)).argmax(1) == torch.from_numpy(labels.astype(np.int64))
    assert math.isclose(float(right.float().mean()), 0.17, abs_tol=0.03)
