"""Four of the MedMNIST sets: medical images of 28 x 28, with the official split into training, validation and test.

Yang et al., "MedMNIST v2 - A large-scale lightweight benchmark for 2D and 3D biomedical image classification", 2023.
The publisher gives md5 checksums. The licence is CC BY 4.0, and CC BY-NC 4.0 for DermaMNIST.
"""

from __future__ import annotations

from typing import Any, ClassVar

from fedconformal.errors import InputError
from fedconformal.training.data.dataset import Dataset, Progress, Split
from fedconformal.training.data.download import Release, locate
from fedconformal.training.data.sets.images import read_images
from fedconformal.training.data.sets.source import Source, in_groups_of, listed

ADDRESS = "https://zenodo.org/records/10519652/files"


class _MedMNIST(Source):
    md5: ClassVar[str]
    most: ClassVar[int]

    def load(self, *, download: bool, progress: Progress | None) -> Dataset:
        """Read the official .npz file, or one of the same form."""
        file = f"{self.name}.npz"
        release = Release(file=file, url=f"{ADDRESS}/{file}?download=1", most=self.most, checksum=f"md5:{self.md5}")
        path = locate(release, download=download, progress=progress)
        parts: dict[Split, Any] = dict(read_images(path, classes=len(self.classes)))
        if "val" not in parts:
            raise InputError(f"{path}: has no val_images; get the official file again")
        return Dataset(name=self.name, classes=self.classes, groups=self.groups, **parts)


class BloodMNIST(_MedMNIST):
    """Single blood cells under the microscope, 17,092 in 8 classes. Acevedo et al., 2020."""

    name = "bloodmnist"
    classes = listed(
        "basophil; eosinophil; erythroblast; immature granulocyte; lymphocyte; monocyte; neutrophil; platelet"
    )
    groups = in_groups_of(2, 8)
    md5 = "7053d0359d879ad8a5505303e11de1dc"
    most = 64_000_000


class DermaMNIST(_MedMNIST):
    """Pigmented skin lesions, 10,015 in 7 classes. Tschandl, Rosendahl and Kittler, "The HAM10000 dataset", 2018.

    A file that says where each image was collected, in `train_source` and so on, gives the column `source`.
    """

    name = "dermamnist"
    classes = listed(
        "actinic keratosis or intraepithelial carcinoma; basal cell carcinoma; benign keratosis-like lesion; "
        "dermatofibroma; melanoma; melanocytic nevus; vascular lesion"
    )
    groups = in_groups_of(2, 7)
    md5 = "0744692d530f8e62ec473284d019b0c7"
    most = 64_000_000


class PathMNIST(_MedMNIST):
    """Colorectal tissue, 107,180 patches in 9 classes; those to test are from another hospital. Kather et al., 2019."""

    name = "pathmnist"
    classes = listed(
        "adipose; background; debris; lymphocytes; mucus; smooth muscle; normal colon mucosa; cancer-associated "
        "stroma; colorectal adenocarcinoma epithelium"
    )
    groups = in_groups_of(3, 9)
    md5 = "a8b06965200029087d5bd730944a56c1"
    most = 256_000_000


class TissueMNIST(_MedMNIST):
    """Cells of the kidney cortex, 236,386 in 8 classes, in grey. Woloshuk et al., 2021."""

    name = "tissuemnist"
    classes = listed(
        "collecting duct, connecting tubule; distal convoluted tubule; glomerular endothelial cell; interstitial "
        "endothelial cell; leukocyte; podocyte; proximal tubule segment; thick ascending limb"
    )
    groups = in_groups_of(2, 8)
    md5 = "ebe78ee8b05294063de985d821c1c34b"
    most = 256_000_000
