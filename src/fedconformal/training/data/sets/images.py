"""Images in an .npz file in the layout of MedMNIST, and the MedMNIST data sets.

Arrays `train_images` (n, height, width) or (n, height, width, channels) of bytes and `train_labels`, likewise
`val_*` and `test_*`. Any other array with one text a row, such as `train_source`, becomes a column.
Yang et al., "MedMNIST v2 - A large-scale lightweight benchmark for 2D and 3D biomedical image classification", 2023;
CC BY 4.0, and CC BY-NC 4.0 for DermaMNIST. The publisher gives md5 checksums.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import as_labels
from fedconformal._base.files import read_npz
from fedconformal.errors import InputError, prefix_errors
from fedconformal.training.data.dataset import SPLITS, Parts, Rows, Split
from fedconformal.training.data.download import Release
from fedconformal.training.data.sets.source import DataSource, in_groups_of

ADDRESS = "https://zenodo.org/records/10519652/files"


class ImageSource(DataSource):
    """Images in official training and test files, or in an .npz file named after the data set."""

    own_file = "{name}.npz"

    def read_own(self, path: Path) -> Parts:
        parts = read_images(path, classes=len(self.classes))
        return parts if "val" in parts else self.with_val(**parts)

    def with_val(self, *, train: Rows, test: Rows) -> Parts:
        """Use a random half of the test rows for calibration."""
        order, middle = np.random.default_rng(0).permutation(len(test)), len(test) // 2
        val, rest = (test.take(np.sort(part)) for part in (order[:middle], order[middle:]))
        return {"train": train, "val": val, "test": rest}


class _MedMNIST(DataSource):
    own_file = "{name}.npz"

    def read(self, paths: Sequence[Path]) -> Parts:
        return read_images(paths[0], classes=len(self.classes), needed=SPLITS)


def _split_names(names: str) -> tuple[str, ...]:
    return tuple(names.split("; "))


def _official(name: str, most: int, md5: str) -> tuple[Release]:
    url = f"{ADDRESS}/{name}.npz?download=1"
    return (Release(file=f"{name}.npz", url=url, most=most, checksum=f"md5:{md5}"),)


class BloodMNIST(_MedMNIST):
    """Single blood cells under the microscope, 17,092 in 8 classes. Acevedo et al., 2020."""

    name = "bloodmnist"
    classes = _split_names(
        "basophil; eosinophil; erythroblast; immature granulocyte; lymphocyte; monocyte; neutrophil; platelet"
    )
    groups = in_groups_of(2, 8)
    releases = _official(name, 64_000_000, "7053d0359d879ad8a5505303e11de1dc")


class DermaMNIST(_MedMNIST):
    """Pigmented skin lesions, 10,015 in 7 classes. Tschandl, Rosendahl and Kittler, "The HAM10000 dataset", 2018.

    Arrays `train_source` and so on, with the origin of each image, become the column `source`.
    """

    name = "dermamnist"
    classes = _split_names(
        "actinic keratosis or intraepithelial carcinoma; basal cell carcinoma; benign keratosis-like lesion; "
        "dermatofibroma; melanoma; melanocytic nevus; vascular lesion"
    )
    groups = in_groups_of(2, 7)
    releases = _official(name, 64_000_000, "0744692d530f8e62ec473284d019b0c7")


class PathMNIST(_MedMNIST):
    """Colorectal tissue, 107,180 patches in 9 classes; test patches are from another hospital. Kather et al., 2019."""

    name = "pathmnist"
    classes = _split_names(
        "adipose; background; debris; lymphocytes; mucus; smooth muscle; normal colon mucosa; cancer-associated "
        "stroma; colorectal adenocarcinoma epithelium"
    )
    groups = in_groups_of(3, 9)
    releases = _official(name, 256_000_000, "a8b06965200029087d5bd730944a56c1")


class TissueMNIST(_MedMNIST):
    """Cells of the kidney cortex, 236,386 in 8 classes, in grey. Woloshuk et al., 2021."""

    name = "tissuemnist"
    classes = _split_names(
        "collecting duct, connecting tubule; distal convoluted tubule; glomerular endothelial cell; interstitial "
        "endothelial cell; leukocyte; podocyte; proximal tubule segment; thick ascending limb"
    )
    groups = in_groups_of(2, 8)
    releases = _official(name, 256_000_000, "ebe78ee8b05294063de985d821c1c34b")


def read_images(path: Path, *, classes: int, needed: Sequence[Split] = ("train", "test")) -> Parts:
    """Read the splits of a file."""
    arrays = read_npz(path)
    with prefix_errors(path):
        parts: Parts = {split: _rows(arrays, split, classes) for split in SPLITS if f"{split}_images" in arrays}
        if missing := [f"{split}_images" for split in needed if split not in parts]:
            raise InputError(f"holds no {', '.join(missing)}; get the official file again")
    return parts


def channels_first(array: NDArray[Any], what: str) -> NDArray[np.uint8]:
    """Convert (n, height, width) or (n, height, width, channels) to (n, channels, height, width).

    >>> channels_first(np.zeros((5, 28, 28, 3), np.uint8), "images").shape
    (5, 3, 28, 28)
    """
    if array.ndim == 3:
        array = array[..., np.newaxis]
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[3] not in (1, 3) or 0 in array.shape:
        raise InputError(f"{what}: {array.dtype} {array.shape}, expected bytes (rows, height, width[, 3])")
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2))


def _rows(arrays: dict[str, NDArray[Any]], split: Split, classes: int) -> Rows:
    images = channels_first(arrays[f"{split}_images"], f"{split}_images")
    if f"{split}_labels" not in arrays:
        raise InputError(f"has {split}_images but no {split}_labels")
    labels = as_labels(arrays[f"{split}_labels"], rows=len(images), classes=classes, name=f"{split}_labels")
    columns = {
        name.removeprefix(f"{split}_"): values
        for name, values in arrays.items()
        if name.startswith(f"{split}_") and values.dtype.kind == "U" and values.shape == (len(images),)
    }
    return Rows(x=images, y=labels, columns=columns)
