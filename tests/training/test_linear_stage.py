"""The linear stage against its definition, written out a second time in weight space."""

import copy
import math
import pickle
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fedconformal.errors import InputError
from fedconformal.training.linear_site import FeatureStorage, allocate
from fedconformal.training.linear_stage import (
    LocalDescent,
    Loss,
    Matrix,
    Moments,
    largest_eigenvalue,
    mean_loss,
    merge,
    residual,
    scale_of,
)

CPU = torch.device("cpu")


def made(n: int = 30, p: int = 50, classes: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(n, p, generator=generator) / math.sqrt(p)
    return features, torch.randint(0, classes, (n,), generator=generator)


def gradient(features: Tensor, y: Tensor, theta: Tensor, loss: Loss) -> Tensor:
    """Let autograd work it out."""
    theta = theta.clone().requires_grad_()
    z = features @ theta.T
    if loss == "cross-entropy":
        value = torch.nn.functional.cross_entropy(z, y)
    else:
        target = torch.nn.functional.one_hot(y, len(theta)) - 1 / len(theta)
        value = (z - target).square().sum(dim=1).mean() / 2
    value.backward()
    found = theta.grad
    assert found is not None
    return found


def gram_of(features: Tensor) -> Tensor:
    out: Tensor = torch.empty(len(features), len(features))
    Matrix(features).gram(out)
    return out


@pytest.mark.parametrize("loss", ["cross-entropy", "squared"])
def test_steps_against_plain_descent(loss: Loss) -> None:
    features, y = made()
    generator = torch.Generator().manual_seed(1)
    theta, control = torch.randn(2, 4, 50, generator=generator)
    last = torch.randn(4, 30, generator=generator) / 30
    rate, steps = 1.0, 60
    local = LocalDescent(features=Matrix(features), gram=gram_of(features), y=y, steps=steps, rate=rate, loss=loss)
    now, before = local.run(theta, control, last)

    h, moved = last @ features - control, theta.clone()
    for _ in range(steps):
        moved = moved - rate * (gradient(features, y, moved, loss) - h)
    expected = (theta - moved) / (rate * steps) + h  # the mean gradient on the way
    assert torch.allclose(now @ features, expected, atol=1e-5)
    assert torch.allclose(theta - rate * steps * (now @ features - h), moved, atol=1e-4)
    assert math.isclose(before, mean_loss((features @ theta.T).T, y, loss), rel_tol=1e-5)


@pytest.mark.parametrize("loss", ["cross-entropy", "squared"])
def test_residual_is_the_gradient_over_logits(loss: Loss) -> None:
    features, y = made()
    theta = torch.randn(4, 50)
    found = residual((features @ theta.T).T, y, loss) @ features / len(y)
    assert torch.allclose(found, gradient(features, y, theta, loss), atol=1e-6)


def test_moments_merge_to_those_of_all_rows() -> None:
    x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1e4
    parts = [Moments(len(part), part.mean(0), part.var(0, correction=0)) for part in x.split([1, 60, 39])]
    rows, mean, variance = merge(parts)
    assert rows == 100
    assert torch.allclose(mean, x.mean(0))
    assert torch.allclose(variance, x.var(0, correction=0))


def test_constant_features_are_dropped_and_the_others_share_the_scale() -> None:
    x = torch.tensor([[1.0, 5.0, 0.0], [3.0, 5.0, 0.0], [5.0, 5.0, 1.0]])
    moments = Moments(3, x.mean(0).double(), x.var(0, correction=0).double())
    standard = (x - moments.mean.float()) * scale_of(moments)
    assert standard[:, 1].abs().max() == 0
    assert math.isclose(float((standard @ standard.T).trace()) / 3, 1.0, rel_tol=1e-6)


def test_the_largest_eigenvalue() -> None:
    gram = gram_of(made()[0])
    exact = float(torch.linalg.eigvalsh(gram).max()) / 30
    assert math.isclose(largest_eigenvalue(gram), exact, rel_tol=0.02)


def test_gram_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedconformal.training.linear_stage.GRAM_ROWS", 7)
    features, _ = made()
    assert torch.allclose(gram_of(features), features @ features.T, atol=1e-6)


def test_half_precision_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedconformal.training.linear_stage.BLOCK_BYTES", 4 * 50 * 8)
    features, _ = made()
    matrix = Matrix(torch.empty(30, 50, dtype=torch.float16))
    matrix.write(slice(0, 30), features)
    assert len(list(matrix.blocks())) == 4
    right = torch.randn(3, 50)
    assert torch.allclose(matrix.times(right), right @ features.T, atol=1e-2)
    assert torch.allclose(matrix.combine(right[:, :30]), right[:, :30] @ features, atol=1e-2)
    matrix.write(slice(0, 1), torch.full((1, 50), 1e9))
    assert matrix.tensor.isfinite().all()


@pytest.mark.parametrize("memory", [1.0, 1e-9])
def test_storage_in_memory_or_on_disk(tmp_path: Path, memory: float) -> None:
    storage = FeatureStorage([3, 9, 2], 4, memory=memory, folder=tmp_path, device=CPU, inner=True)
    on_disk = memory < 1
    assert [path.name for path in sorted(tmp_path.iterdir())] == (["features", "products"] if on_disk else [])
    for k, n in enumerate((3, 9, 2)):
        assert storage.matrix(k).half == on_disk
        storage.matrix(k).write(slice(0, n), torch.full((n, 4), float(k)))
        storage.gram(k).fill_(10.0 + k)
    again = copy.deepcopy(storage)  # every process maps a file itself
    assert (len(pickle.dumps(storage)) < 1000) == on_disk
    for k, n in enumerate((3, 9, 2)):
        assert (again.matrix(k).tensor == k).all()
        assert again.gram(k).tolist() == [[10.0 + k] * n] * n


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(InputError, match=r"no room for 0.0 GB of features \(No space left on device\)"):
        allocate(tmp_path / "numbers", 20)
