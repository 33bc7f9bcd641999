"""Rows are normalised with sums over clients; augmentation moves images about and changes nothing else."""

from typing import Any

import pytest
import torch

from fedconformal.errors import InputError
from fedconformal.training import Preprocess, normalise
from fedconformal.training import preprocess as module


def pictures(n: int = 40, channels: int = 3, side: int = 12) -> Any:
    return torch.randint(
        0, 256, (n, channels, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


def test_federated_sums_give_the_pooled_mean_and_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 1000)
    x = pictures()
    found = normalise([x[:7], x[7:8], x[8:]])
    pooled = x.double() / 255
    assert torch.allclose(torch.tensor(found.mean, dtype=torch.float64), pooled.mean(dim=(0, 2, 3)))
    assert torch.allclose(torch.tensor(found.std, dtype=torch.float64), pooled.std(dim=(0, 2, 3), correction=0))
    ready = found(x)
    assert torch.allclose(ready.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(ready.std(dim=(0, 2, 3), correction=0), torch.ones(3), atol=1e-5)


def test_a_column_that_never_changes_stays_finite() -> None:
    assert normalise([torch.ones(5, 2)]).std == (1.0, 1.0)


def test_flipped_or_not() -> None:
    x = pictures().float()
    flipped = module._flip(x)
    same = (flipped == x).flatten(1).all(dim=1)
    mirrored = (flipped == x.flip(3)).flatten(1).all(dim=1)
    assert (same | mirrored).all()
    assert 0 < int(same.sum()) < len(x)


def test_a_crop_moves_the_image_by_a_few_pixels() -> None:
    x = torch.zeros(200, 2, 12, 12)
    x[:, :, 6, 6] = 1
    places = module._crop(x)[:, 0].flatten(1).argmax(dim=1)
    down, right = places // 12 - 6, places % 12 - 6
    assert set(down.tolist()) == set(right.tolist()) == {-2, -1, 0, 1, 2}  # a fifth of the width
    assert torch.equal(module._crop(x)[:, 0].sum(dim=(1, 2)), torch.ones(200))


def test_jitter_and_rotation_keep_the_range() -> None:
    x = pictures().float() / 255
    jittered = module._jitter(x)
    assert jittered.min() >= 0
    assert jittered.max() <= 1
    assert not torch.equal(jittered, x)
    turned = module._rotate(x)
    assert turned.shape == x.shape
    assert turned.min() >= 0
    assert turned.max() <= 1 + 1e-6


def test_rotation_turns_by_at_most_so_many_degrees(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(4, 1, 9, 9)
    monkeypatch.setattr(module, "ROTATION", 0.0)
    torch.testing.assert_close(module._rotate(x), x)
    monkeypatch.setattr(module, "ROTATION", 90.0)
    monkeypatch.setattr(torch, "rand", torch.ones)  # every angle at its end
    turned = module._rotate(x)
    torch.testing.assert_close(turned, x.rot90(1, (2, 3)), atol=1e-4, rtol=1e-4)


def test_tables_and_evaluation_are_not_augmented() -> None:
    augmenting = Preprocess(augment="flip-crop-jitter-rotate")
    table = torch.rand(5, 3)
    assert torch.equal(augmenting.training(table), table)
    x = pictures()
    assert torch.equal(augmenting(x), Preprocess()(x))
    assert not torch.equal(augmenting.training(x), Preprocess()(x))


def test_wrong_settings() -> None:
    with pytest.raises(InputError, match="one mean and one positive std"):
        Preprocess(mean=(0.5,), std=(0.0,))
    with pytest.raises(InputError, match="2 means were given for rows of shape"):
        Preprocess(mean=(0.5, 0.5), std=(1.0, 1.0))(pictures())
