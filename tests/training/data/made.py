"""Small files of the same form as the official ones, and data sets of random rows."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal.training.data import Dataset, Rows

FITZPATRICK_HEADER = "md5hash,fitzpatrick_scale,fitzpatrick_centaur,label,nine_partition_label,three_partition_label"
HEART_HEADER = "hospital,age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num"
PATIENT = "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0"


def random_dataset(sizes: tuple[int, int, int], *, classes: int, seed: int = 0, values: str = "abc") -> Dataset:
    rng = np.random.default_rng(seed)

    def rows(n: int) -> Rows:
        where = rng.choice(list(values), size=n).astype(np.str_)
        return Rows(x=rng.random((n, 2), np.float32), y=rng.integers(0, classes, n), columns={"where": where})

    train, val, test = map(rows, sizes)
    names = tuple(f"class {j}" for j in range(classes))
    return Dataset(name="random", classes=names, train=train, val=val, test=test)


def write_npz(path: Path, *, classes: int, shape: tuple[int, ...] = (28, 28, 3), val: bool = True, **more: Any) -> None:
    """Write 2 rows a class to train on, 1 a class to calibrate and test with; the pixels of a row are its label."""
    arrays: dict[str, NDArray[Any]] = {}
    for split, copies in {"train": 2, **({"val": 1} if val else {}), "test": 1}.items():
        labels = np.tile(np.arange(classes, dtype=np.uint8), copies)
        arrays[f"{split}_labels"] = labels[:, np.newaxis]
        arrays[f"{split}_images"] = np.broadcast_to(labels.reshape(-1, *[1] * len(shape)), (len(labels), *shape))
        for name, value in more.items():
            arrays[f"{split}_{name}"] = np.full(len(labels), value)
    np.savez(path, **arrays)  # type: ignore[arg-type]


def write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lengths = np.array(array.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(bytes([0, 0, 8, array.ndim]) + lengths + array.tobytes()))


def write_fashion(folder: Path, *, rows: int = 20) -> None:
    for prefix in ("train", "t10k"):
        labels = np.arange(rows, dtype=np.uint8) % 10
        write_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", labels)
        images = np.broadcast_to(labels[:, np.newaxis, np.newaxis], (rows, 28, 28))
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", np.ascontiguousarray(images))


def write_tar(path: Path, members: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def cifar_records(labels: list[int], *, label_bytes: int) -> bytes:
    """Each image is red all over, as bright as its label."""
    red = [bytes([label]) * 1024 + bytes(2048) for label in labels]
    return b"".join(bytes(label_bytes - 1) + bytes([label]) + image for label, image in zip(labels, red, strict=True))


def write_heart(folder: Path, *, patients: int = 8) -> None:
    """Write the four official files, with what they write for a missing value."""
    folder.mkdir()
    for hospital in ("cleveland", "hungarian", "switzerland", "va"):
        lines = [f"{PATIENT if i else PATIENT.replace('233.0', '?')},{i % 3}\n" for i in range(patients)]
        (folder / f"processed.{hospital}.data").write_text("".join(lines), "utf-8")


def fitzpatrick_records(rows: int) -> list[str]:
    """Skin types 1 to 6 and unknown, three conditions in two groups."""
    known = [("acne", "inflammatory", "non-neoplastic"), ("nevus", "benign melanocyte", "benign")]
    known.append(("wart", "benign epidermal", "benign"))
    types = ["1", "2", "3", "4", "5", "6", "-1"]
    return [f"{i:032x},{types[i % 7]},{types[i % 7]},{','.join(known[i % 3])}" for i in range(rows)]
