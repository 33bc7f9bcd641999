"""Sites with images and masks that are as unlike as hospitals of a brain-tumour federation: scanners, sizes, tumours.

Each image has one round tumour. A site's scanner adds blur, noise and a change of contrast, so the same network is less
sure of its pixels at one site than at another, and each image has a difficulty of its own. Sizes go from few to many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats, Integers

SIDE = 24


class Site(NamedTuple):
    """Scores of pixels, which of them are tumour, and how many images calibrate."""

    scores: NDArray[np.float32]
    truth: Booleans
    calibrating: int


def federation(sites: int, images: int, seed: int = 0) -> list[Site]:
    """Make sites with `images` images each, of which 15 to 120 calibrate."""
    rng = np.random.default_rng(seed)
    sizes: Integers = np.geomspace(15, 120, sites).astype(np.int64)[rng.permutation(sites)]
    return [_site(rng, images, int(size), hard) for size, hard in zip(sizes, rng.beta(1, 3, sites), strict=True)]


def _site(rng: np.random.Generator, images: int, calibrating: int, hard: float) -> Site:
    place: Floats = np.arange(SIDE, dtype=np.float64)
    radius = rng.uniform(2, 7, images)[:, None, None]
    middle = rng.uniform(7, SIDE - 7, (images, 2))
    down = place[None, :, None] - middle[:, 0, None, None]
    across = place[None, None, :] - middle[:, 1, None, None]
    inside = radius - np.hypot(down, across)  # above 0 within the tumour
    difficulty = 2.5 * hard + rng.gamma(2, 0.25, images)[:, None, None]
    noise = rng.normal(0, 0.4 + 0.4 * hard, inside.shape)
    signal = 2.5 * np.tanh(inside / 1.5) - difficulty + noise
    scores = (1 / (1 + np.exp(-0.8 * signal))).astype(np.float32)
    return Site(scores, inside > 0, calibrating)
