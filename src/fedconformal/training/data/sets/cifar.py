"""CIFAR-10 and CIFAR-100: 32 x 32 photographs, from the publisher's binary files.

The publisher's Python files are pickles, which can execute code when opened, so they are not used.
Krizhevsky, "Learning multiple layers of features from tiny images", 2009; no licence stated, research use.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedconformal._base.arrays import as_labels
from fedconformal._base.files import unreadable
from fedconformal.errors import InputError, prefix_errors
from fedconformal.training.data.dataset import Parts, Rows
from fedconformal.training.data.download import Release
from fedconformal.training.data.sets.images import ImageSource
from fedconformal.training.data.sets.source import Groups, in_groups_of

SIDE = 32
PIXELS = 3 * SIDE * SIDE
MOST_BYTES = 2**28
CHUNK = 2**20

_NAMES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
    elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
    man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
    pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
    skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
    tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CIFAR100_CLASSES = tuple(_NAMES.split())

_SUPERCLASSES = """
    4 30 55 72 95, 1 32 67 73 91, 54 62 70 82 92, 9 10 16 28 61, 0 51 53 57 83, 22 39 40 86 87, 5 20 25 84 94,
    6 7 14 18 24, 3 42 43 88 97, 12 17 37 68 76, 23 33 49 60 71, 15 19 21 31 38, 34 63 64 66 75, 26 45 77 79 99,
    2 11 35 46 98, 27 29 44 78 93, 36 50 65 74 80, 47 52 56 59 96, 8 13 48 58 90, 41 69 81 85 89
"""
CIFAR100_GROUPS: Groups = tuple(tuple(map(int, group.split())) for group in _SUPERCLASSES.split(","))


class _CIFAR(ImageSource):
    members: ClassVar[Mapping[str, tuple[str, ...]]]
    """Archive members of the training rows and of the test rows."""
    label_bytes: ClassVar[int]
    """Number of label bytes before each image; the last is the class."""

    def read(self, paths: Sequence[Path]) -> Parts:
        contents = read_members(paths[0], {name for names in self.members.values() for name in names})
        joined = {split: b"".join(contents[name] for name in names) for split, names in self.members.items()}
        with prefix_errors(paths[0]):
            return self.with_val(**{split: self._rows(content) for split, content in joined.items()})

    def _rows(self, content: bytes) -> Rows:
        if not content or len(content) % (self.label_bytes + PIXELS):
            raise InputError(f"has {len(content)} bytes, not a whole number of images; get the official file again")
        records = np.frombuffer(content, np.uint8).reshape(-1, self.label_bytes + PIXELS)
        return Rows(
            x=np.ascontiguousarray(records[:, self.label_bytes :]).reshape(-1, 3, SIDE, SIDE),
            y=as_labels(records[:, self.label_bytes - 1], rows=len(records), classes=len(self.classes)),
        )


def _official(classes: int, most: int, sha256: str) -> tuple[Release]:
    file = f"cifar-{classes}-binary.tar.gz"
    url = f"https://www.cs.toronto.edu/~kriz/{file}"
    return (Release(file=file, url=url, most=most, checksum=f"sha256:{sha256}"),)


class CIFAR10(_CIFAR):
    """50,000 training images; a random half of the 10,000 test images is for calibration."""

    name = "cifar10"
    classes = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    groups = in_groups_of(2, 10)
    members: ClassVar = {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)}
    label_bytes = 1
    releases = _official(10, 170052171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd")


class CIFAR100(_CIFAR):
    """50,000 training images; the first 1,000 test images are for calibration, the other 9,000 for testing."""

    name = "cifar100"
    classes = CIFAR100_CLASSES
    groups = CIFAR100_GROUPS
    members: ClassVar = {"train": ("train.bin",), "test": ("test.bin",)}
    label_bytes = 2
    releases = _official(100, 168513733, "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec")

    def with_val(self, *, train: Rows, test: Rows) -> Parts:
        """Use the first tenth of the test rows for calibration, as in the published logits of this data set."""
        first = len(test) // 10
        return {"train": train, "val": test.take(np.arange(first)), "test": test.take(np.arange(first, len(test)))}


def read_members(path: Path, names: set[str]) -> dict[str, bytes]:
    """Read members of a .tar.gz by base name; nothing is extracted to disk, so paths in it are harmless."""
    contents: dict[str, bytes] = {}
    try:
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                _check_unpacked(path, member.offset_data + member.size)
                name = member.name.rpartition("/")[2]
                content = archive.extractfile(member) if name in names - set(contents) and member.isreg() else None
                if content:
                    contents[name] = content.read()
            while stream.read(CHUNK):  # the checksum comes after the last byte
                _check_unpacked(path, stream.tell())
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise unreadable(path, error) from None
    if missing := sorted(names - set(contents)):
        raise InputError(f"{path}: has no {', '.join(missing)}; get the official file again")
    return contents


def _check_unpacked(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        raise InputError(f"{path}: has more than {MOST_BYTES} bytes when unpacked; get the official file again")
