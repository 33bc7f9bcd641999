"""Photographs of any size, brought to one size.

Pillow decodes them: it is what the field uses, it is maintained, and it refuses what is not an image. Only JPEG
and PNG are let in, and only up to a size, because nobody has checked the photographs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedconformal.errors import InputError
from fedconformal.training.data.dataset import Progress

SIDE = 224
"""The size that Lu et al. (2023) use; 16,577 photographs of it are 2.5 GB."""
BORDER = (1 - 224 / 256) / 2
"""The share that is cut off at every edge: their code scales the shorter side to 256 pixels and crops the middle."""
MOST_BYTES = 2**26
MOST_PIXELS = 2**26


def read_photographs(paths: Sequence[Path], *, progress: Progress | None = None) -> NDArray[np.uint8]:
    """Return (n, 3, SIDE, SIDE) bytes: a square in the middle of each photograph, made smaller."""
    try:
        import PIL.Image
    except ImportError:
        raise InputError("photographs: reading them needs Pillow: pip install 'fedconformal[images]'") from None
    images = np.empty((len(paths), 3, SIDE, SIDE), np.uint8)
    with warnings.catch_warnings():
        # Pillow warns of images that are too large before it refuses them; here the warning is enough.
        warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
        for i, path in enumerate(paths):
            images[i] = _read(path)
            if progress:
                progress(i + 1, len(paths), "photographs")
    return images


def _read(path: Path) -> NDArray[np.uint8]:
    import PIL.Image
    import PIL.ImageOps

    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: has {path.stat().st_size} bytes, more than {MOST_BYTES}; remove it")
        with PIL.Image.open(path, formats=("JPEG", "PNG")) as image:
            if image.width * image.height > MOST_PIXELS:
                raise InputError(f"{path}: has {image.width} x {image.height} pixels, too many; remove it")
            image.draft("RGB", (2 * SIDE, 2 * SIDE))  # a JPEG can be decoded at a fraction of its size
            square = PIL.ImageOps.fit(image.convert("RGB"), (SIDE, SIDE), PIL.Image.Resampling.BILINEAR, bleed=BORDER)
    except (OSError, SyntaxError, ValueError, Warning, PIL.Image.DecompressionBombError) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error).replace(str(path), "it").split())
        raise InputError(f"{path}: cannot be read as a photograph ({reason:.100}); remove it") from None
    return np.asarray(square, np.uint8).transpose(2, 0, 1)
