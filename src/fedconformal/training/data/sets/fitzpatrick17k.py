"""Fitzpatrick17k: photographs of skin conditions, with diagnosis and skin type.

The authors publish a table of 16,577 addresses and labels, and provide the photographs on request. Put the table and a
folder of photographs, named by their md5, in a data directory, as `fitzpatrick17k.csv` and `fitzpatrick17k/`.
Groh et al., "Evaluating deep neural networks trained on clinical images in dermatology with the Fitzpatrick 17k
dataset", 2021; CC BY-NC-SA 3.0.
"""

from __future__ import annotations

import csv
import logging
import string
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.files import read_bytes
from fedconformal.errors import InputError
from fedconformal.training.data.dataset import SPLITS, Dataset, Parts, Progress, Rows
from fedconformal.training.data.download import find, where
from fedconformal.training.data.sets.source import DataSource

PAGE = "https://github.com/mattgroh/fitzpatrick17k"
SKIN_TYPES = {"1": "I", "2": "II", "3": "III", "4": "IV", "5": "V", "6": "VI", "-1": ""}
LABEL, THREE, NINE = "label", "three_partition_label", "nine_partition_label"
FIELDS = ("md5hash", "fitzpatrick_scale", "fitzpatrick_centaur", LABEL, THREE, NINE)
HELD_OUT = 100
"""Number of test and of calibration photographs per half step of skin type; at most a third each."""
ENDINGS = (".jpg", ".jpeg", ".png")
SIDE = 224
"""Image size of Lu et al. (2023); 16,577 photographs take 2.5 GB."""
BORDER = (1 - 224 / 256) / 2
"""Share cropped at every edge: the authors' code scales the shorter side to 256 pixels and crops the centre."""
MOST_BYTES = 2**26
MOST_PIXELS = 2**26

logger = logging.getLogger(__name__)

Record = dict[str, str]


class Fitzpatrick17k(DataSource):
    """114 skin conditions, with the split of Lu et al. (2023): per half step of skin type, 100 test and 100 calibrate.

    The columns are `skin_type` (empty for 565 rows), `skin_half_step` (the mean of two ratings,
    1 to 6), `three_groups` and `nine_groups` of diseases; the class groups are the three groups of diseases.
    """

    name = "fitzpatrick17k"

    def load(self, *, download: bool, progress: Progress | None) -> Dataset:
        """Read the table and the photographs; rows without a photograph are left out, with a warning."""
        table, folder = find("fitzpatrick17k.csv"), find("fitzpatrick17k")
        if table is None or folder is None:
            missing = "the table fitzpatrick17k.csv" if table is None else "the folder fitzpatrick17k of photographs"
            raise InputError(f"{self.name}: {missing} is missing; see {PAGE} and put it in {where()}")
        records = read_table(table)
        group_of = {record[LABEL]: record[THREE] for record in records}
        classes, total = tuple(sorted(group_of)), len(records)
        candidates = (
            (record["md5hash"], folder / f"{record['md5hash']}{end}") for record in records for end in reversed(ENDINGS)
        )
        paths = {md5: path for md5, path in candidates if path.is_file()}
        records = [record for record in records if record["md5hash"] in paths]
        if not records:
            raise InputError(f"{folder}: holds no photograph of the table; expected names such as MD5HASH.jpg")
        if len(records) < total:
            missing_count = total - len(records)
            logger.warning("%s: %d of %d photographs are missing and left out", self.name, missing_count, total)
        columns = {
            "skin_type": [SKIN_TYPES[record["fitzpatrick_scale"]] for record in records],
            "skin_half_step": [half_step(record) for record in records],
            "three_groups": [record[THREE] for record in records],
            "nine_groups": [record[NINE] for record in records],
        }
        rows = Rows(
            x=read_photographs([paths[record["md5hash"]] for record in records], progress=progress),
            y=np.searchsorted(classes, [record[LABEL] for record in records]),
            columns={name: np.array(values, np.str_) for name, values in columns.items()},
        )
        groups = tuple(
            tuple(i for i, condition in enumerate(classes) if group_of[condition] == group)
            for group in sorted(set(group_of.values()))
        )
        return Dataset(name=self.name, classes=classes, groups=groups, **split(rows))


def read_table(path: Path) -> list[Record]:
    """Read the table, and check the checksums, which become file names, and the skin types."""
    records = list(csv.DictReader(read_bytes(path).decode("utf-8-sig", "replace").splitlines()))
    if not records or not set(FIELDS) <= set(records[0]):
        raise InputError(f"{path}: expected a table with the columns {', '.join(FIELDS)}")
    for line, record in enumerate(records, start=2):
        # The md5 becomes a file name, so it must not be a path.
        if None in record.values() or not record["md5hash"] or set(record["md5hash"]) - set(string.hexdigits):
            raise InputError(f"{path}: line {line} has no md5hash; get the official file again")
        if not {record["fitzpatrick_scale"], record["fitzpatrick_centaur"]} <= set(SKIN_TYPES):
            raise InputError(f"{path}: line {line} has a skin type that is not 1 to 6 or -1")
    return records


def half_step(record: Record) -> str:
    """Return the mean of the two ratings of skin type, or the only one; empty if there is none.

    >>> half_step({"fitzpatrick_scale": "2", "fitzpatrick_centaur": "3"})
    '2.5'
    """
    known = [int(rating) for key in ("fitzpatrick_scale", "fitzpatrick_centaur") if (rating := record[key]) != "-1"]
    return f"{sum(known) / len(known):g}" if known else ""


def split(rows: Rows) -> Parts:
    """Draw test and calibration rows from every half step, with the random draws of the authors' notebook."""
    part = np.zeros(len(rows), np.int64)
    steps = rows.columns["skin_half_step"]
    for step in np.unique(steps[steps != ""]):
        for drawn in (SPLITS.index("test"), SPLITS.index("val")):
            members = np.flatnonzero((steps == step) & (part == 0))
            count = min(HELD_OUT, int(np.count_nonzero(steps == step)) // 3)
            # the draw of pandas' DataFrame.sample(random_state=0)
            part[members[np.random.RandomState(0).choice(len(members), count, replace=False)]] = drawn
    return {name: rows.take(part == i) for i, name in enumerate(SPLITS)}


def read_photographs(paths: Sequence[Path], *, progress: Progress | None = None) -> NDArray[np.uint8]:
    """Return bytes of shape (n, 3, SIDE, SIDE): the resized central square of each photograph."""
    try:
        import PIL.Image
    except ImportError:
        raise InputError("photographs: reading them needs Pillow: pip install 'fedconformal[images]'") from None
    images = np.empty((len(paths), 3, SIDE, SIDE), np.uint8)
    with warnings.catch_warnings():
        # Pillow refuses very large images and warns of large ones; here both are refused.
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
