"""FashionMNIST: 28 x 28 photographs of clothes, from the publisher's IDX files.

Xiao, Rasul and Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms",
2017; MIT licence.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import as_labels
from fedconformal._base.files import unreadable
from fedconformal.errors import InputError, prefix_errors
from fedconformal.training.data.dataset import Parts, Rows
from fedconformal.training.data.download import Release
from fedconformal.training.data.sets.images import ImageSource, channels_first
from fedconformal.training.data.sets.source import in_groups_of

ADDRESS = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion"
FILES = {
    "train-images-idx3-ubyte.gz": (26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
    "train-labels-idx1-ubyte.gz": (29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
    "t10k-images-idx3-ubyte.gz": (4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
    "t10k-labels-idx1-ubyte.gz": (5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
}
MOST_BYTES = 2**28


class FashionMNIST(ImageSource):
    """60,000 training images; a random half of the 10,000 test images is for calibration."""

    name = "fashionmnist"
    classes = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
    groups = in_groups_of(1, 10)

    releases = tuple(
        Release(file=f"fashion-mnist/{file}", url=f"{ADDRESS}/{file}", most=size, checksum=f"sha256:{sha256}")
        for file, (size, sha256) in FILES.items()
    )

    def read(self, paths: Sequence[Path]) -> Parts:
        return self.with_val(train=self._rows(*paths[:2]), test=self._rows(*paths[2:]))

    def _rows(self, images: Path, labels: Path) -> Rows:
        with prefix_errors(images):
            x = channels_first(read_idx(images), "images")
        with prefix_errors(labels):
            return Rows(x=x, y=as_labels(read_idx(labels), rows=len(x), classes=len(self.classes)))


def read_idx(path: Path) -> NDArray[Any]:
    """Read a gzipped IDX file of bytes: two zeros, the type 8, the number of axes, their lengths, the bytes."""
    try:
        with gzip.open(path) as file:
            start = file.read(4)
            axes = start[3] if start[:3] == b"\0\0\x08" and len(start) == 4 else 0
            lengths = file.read(4 * axes)
            shape = tuple(int(length) for length in np.frombuffer(lengths[: len(lengths) // 4 * 4], ">u4"))
            size = math.prod(shape)
            if not axes or len(shape) != axes or not 0 < size <= MOST_BYTES:
                raise InputError("is no IDX file of bytes; get the official file again")
            content = file.read(size + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise unreadable(path, error) from None
    if len(content) != size:
        raise InputError(f"does not hold the {size} bytes of its header; get the official file again")
    return np.frombuffer(content, np.uint8).reshape(shape)
