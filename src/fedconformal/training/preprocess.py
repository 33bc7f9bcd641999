"""Preprocessing: bytes to numbers, normalisation, and augmentation in training.

Images are stored as bytes until they are batched, in a quarter of the memory. The mean and standard deviation of every
channel are computed from sums over the sites, so no row leaves its site.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from fedconformal.errors import InputError

Augmentation = Literal["none", "flip-crop", "flip-crop-jitter-rotate"]

PADDING = 4
"""Maximum shift of a crop in pixels; at most a fifth of the shorter side."""
JITTER = 0.2
"""Brightness, contrast and saturation are scaled by 1 - JITTER to 1 + JITTER."""
ROTATION = 15.0
"""Maximum rotation in degrees, in either direction."""
CHUNK = 2**22


@dataclass(frozen=True, kw_only=True)
class Preprocess:
    """Scale bytes to [0, 1], normalise each channel (or column), and augment images while training.

    Parameters
    ----------
    mean, std
        One number per channel; empty for no normalisation.
    augment
        "none", "flip-crop" or "flip-crop-jitter-rotate".

    Examples
    --------
    >>> half = Preprocess(mean=(0.5,), std=(0.25,))
    >>> half(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
    tensor([[[[-2.,  2.]]]])
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    augment: Augmentation = "none"

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not all(s > 0 and math.isfinite(s) for s in self.std):
            raise InputError("preprocess: give one mean and one positive std for every channel")
        if self.augment not in get_args(Augmentation):
            raise InputError(f"augment is {self.augment!r}; there are {', '.join(get_args(Augmentation))}")

    def __call__(self, x: Tensor) -> Tensor:
        """Return normalised float32 rows."""
        return self._normalised(_scaled(x))

    def training(self, x: Tensor) -> Tensor:
        """Return normalised rows with augmentation drawn from torch's generator; tables are not augmented."""
        x = _scaled(x)
        if self.augment != "none" and x.ndim == 4:
            x = _crop(_flip(x))
            if self.augment == "flip-crop-jitter-rotate":
                x = _rotate(_jitter(x))
        return self._normalised(x)

    def _normalised(self, x: Tensor) -> Tensor:
        if not self.mean:
            return x
        if len(self.mean) not in (1, x.shape[1]):
            raise InputError(f"preprocess: {len(self.mean)} means were given for rows of shape {tuple(x.shape[1:])}")
        shape = (1, -1) + (1,) * (x.ndim - 2)
        scale = 1 / torch.tensor(self.std, device=x.device).view(shape)
        return torch.addcmul(-torch.tensor(self.mean, device=x.device).view(shape) * scale, x, scale)


def normalise(clients: Iterable[Tensor], augment: Augmentation = "none") -> Preprocess:
    """Compute mean and standard deviation of every channel, or column, from each site's counts and sums.

    Parameters
    ----------
    clients
        The rows of each site.
    augment
        As in `Preprocess`.

    Returns
    -------
    Preprocess

    Examples
    --------
    >>> normalise([torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [7.0]])]).mean
    (4.0,)
    """
    count, total, squares = 0, torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for x in clients:
        axes = (0, *range(2, x.ndim))
        for part in x.split(max(1, CHUNK // max(1, x[0].numel()))):
            values = part.double() / (255 if x.dtype == torch.uint8 else 1)
            count += values.numel() // values.shape[1]
            total = total + values.sum(dim=axes)
            squares = squares + values.square().sum(dim=axes)
    mean = total / count
    std = (squares / count - mean.square()).clamp_min(0).sqrt()
    std[std < 1e-8] = 1  # a constant channel; any divisor will do
    return Preprocess(mean=tuple(mean.tolist()), std=tuple(std.tolist()), augment=augment)


def _scaled(x: Tensor) -> Tensor:
    return x.to(torch.float32).div_(255) if x.dtype == torch.uint8 else x.to(torch.float32)


def _flip(x: Tensor) -> Tensor:
    chosen = torch.rand(len(x)) < 0.5
    return torch.where(chosen.to(x.device).view(-1, 1, 1, 1), x.flip(3), x)


def _crop(x: Tensor) -> Tensor:
    n, channels, height, width = x.shape
    shift = min(PADDING, min(height, width) // 5)
    down, right = torch.randint(0, 2 * shift + 1, (2, n, 1, 1)).to(x.device).unbind()
    rows = (down + torch.arange(height, device=x.device).view(1, -1, 1)).expand(n, height, width)
    columns = (right + torch.arange(width, device=x.device)).expand(n, height, width)
    places = (rows * (width + 2 * shift) + columns).view(n, 1, -1).expand(n, channels, -1)
    return functional.pad(x, (shift,) * 4).flatten(2).gather(2, places).view_as(x)


def _jitter(x: Tensor) -> Tensor:
    factors = 1 + JITTER * (2 * torch.rand(3, len(x), 1, 1, 1) - 1)
    brightness, contrast, saturation = factors.to(x.device).unbind()
    x = x * brightness
    x = x + (contrast - 1) * (x - x.mean(dim=(1, 2, 3), keepdim=True))
    return (x + (saturation - 1) * (x - x.mean(dim=1, keepdim=True))).clamp_(0, 1)


def _rotate(x: Tensor) -> Tensor:
    angle = math.radians(ROTATION) * (2 * torch.rand(len(x)) - 1)
    cos, sin, ratio = angle.cos(), angle.sin(), x.shape[2] / x.shape[3]
    zero = torch.zeros_like(angle)
    turn = torch.stack([torch.stack([cos, -sin * ratio, zero], 1), torch.stack([sin / ratio, cos, zero], 1)], 1)
    grid = functional.affine_grid(turn.to(x.device), list(x.shape), align_corners=False)
    turned: Tensor = functional.grid_sample(x, grid, padding_mode="border", align_corners=False)
    return turned
