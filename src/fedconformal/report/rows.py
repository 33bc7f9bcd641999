"""The test rows of a report: the model's probabilities, the true labels, and images if there are any."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Integers, Probabilities
from fedconformal._base.groups import Groups
from fedconformal.errors import InputError

Images = NDArray[Any]
CHANNELS = (1, 3)


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledRows:
    """Test rows: probabilities and labels; `plain` are the probabilities before temperature, `images` one a row.

    `groups` are the columns that a predictor by group needs, `sites` the sites for one with a threshold for each.
    """

    probs: Probabilities
    labels: Integers
    plain: Probabilities | None = None
    images: Images | None = None
    groups: Groups | None = None
    sites: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        """Check that there is one image a row, of a kind that can be drawn."""
        if self.images is not None:
            object.__setattr__(self, "images", channels_last(self.images, len(self.labels)))

    def strata_at(self, index: Any = slice(None)) -> dict[str, Any]:
        """Return the groups and the sites of some of the rows, as predictors take them."""
        groups = self.groups and {name: np.asarray(values)[index] for name, values in self.groups.items()}
        return {"groups": groups, "sites": None if self.sites is None else self.sites[index]}


def channels_last(images: Images, rows: int) -> Images:
    """Bring images to (rows, height, width, channels).

    >>> channels_last(np.zeros((2, 3, 28, 28)), 2).shape, channels_last(np.zeros((2, 8, 8)), 2).shape
    ((2, 28, 28, 3), (2, 8, 8, 1))
    """
    shape = images.shape
    if images.ndim == 3:
        images = images[..., None]
    elif images.ndim == 4 and shape[-1] not in CHANNELS and shape[1] in CHANNELS:
        images = np.moveaxis(images, 1, -1)
    if images.ndim != 4 or images.shape[-1] not in CHANNELS or images.dtype.kind not in "uif" or not images.size:
        raise InputError(f"images: {images.dtype} of shape {shape}, expected (rows, height, width), or with 3 colours")
    if len(images) != rows:
        raise InputError(f"images: there are {len(images)} for {rows} rows")
    return images


def png(image: Images) -> str:
    """Return an image of (height, width, 1 or 3) as a data address; numbers other than bytes are stretched.

    >>> png(np.zeros((1, 1, 3), dtype=np.uint8))[:30]
    'data:image/png;base64,iVBORw0K'
    """
    if image.dtype != np.uint8:
        spread = np.nan_to_num(image.astype(np.float64))
        spread -= spread.min()
        image = (spread * (255 / (spread.max() or 1))).astype(np.uint8)
    height, width, channels = image.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)
    colours = {1: 0, 3: 2}[channels]
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()
