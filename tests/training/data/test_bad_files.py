"""Files that are broken, or made to break: one line that names the file, and never code that runs."""

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedconformal.errors import InputError
from fedconformal.training.data import Dataset, Rows, load
from fedconformal.training.data.sets import cifar, fitzpatrick17k
from tests.contracts import tools
from tests.training.data import made

TAR = "cifar-100-binary.tar.gz"
GOOD = made.cifar_records([1, 2], label_bytes=2)
NOISE = np.random.default_rng(0).bytes(10**5)
GREY = np.zeros((2, 28, 28), np.uint8)


def refused(name: str, *parts: str) -> None:
    with tools.refused(*parts):
        load(name)


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_a_pickle_in_an_npz_file_is_not_opened(place: Path) -> None:
    array = np.empty(1, object)
    array[0] = Bomb(place / "ran")
    np.savez(place / "dermamnist.npz", train_images=array)
    refused("dermamnist", str(place / "dermamnist.npz"), "cannot be read")
    assert not (place / "ran").exists()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "holds no train_images, val_images, test_images; get the official file"),
        ({"train_images": np.zeros((1, 28, 28, 3))}, "train_images: float64 (1, 28, 28, 3), expected bytes"),
        ({"train_images": GREY}, "has train_images but no train_labels"),
        ({"train_images": GREY, "train_labels": np.array([0, 7])}, "train_labels: row 1 is 7, expected a whole class"),
        ({"train_images": GREY, "train_labels": np.array([0])}, "train_labels: has shape (1,), expected (2,)"),
    ],
)
def test_images_that_are_none(place: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(place / "dermamnist.npz", **arrays)
    refused("dermamnist", str(place / "dermamnist.npz"), message)


def _npz(path: Path) -> None:
    made.write_npz(path, classes=10, shape=(32, 32, 3))


def _tar(path: Path) -> None:
    made.write_tar(path, {"train.bin": NOISE, "test.bin": NOISE})


@pytest.mark.parametrize(("name", "file", "write"), [("cifar10", "cifar10.npz", _npz), ("cifar100", TAR, _tar)])
def test_a_file_that_is_cut_off_or_none(place: Path, name: str, file: str, write: Callable[[Path], None]) -> None:
    write(place / file)
    whole = (place / file).read_bytes()
    for content in (b"", b"nonsense", whole[: len(whole) // 2]):
        (place / file).write_bytes(content)
        refused(name, file, "cannot be read")


def test_an_archive_that_unpacks_to_too_much(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made.write_tar(place / TAR, {"other": bytes(5000)})
    monkeypatch.setattr(cifar, "MOST_BYTES", 4999)
    refused("cifar100", "has more than 4999 bytes when unpacked")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not gzip", "cannot be read (Not a gzipped file"),
        (gzip.compress(b"\0\0\x08\x03" + bytes(5), mtime=0), "is no IDX file of bytes"),
        (gzip.compress(b"\0\0\x0d\x01" + b"\0\0\0\1" + b"1234", mtime=0), "is no IDX file of bytes"),
        (gzip.compress(b"\0\0\x08\x03" + b"\xff" * 12, mtime=0), "is no IDX file of bytes"),
        (gzip.compress(b"\0\0\x08\x01" + b"\0\0\0\5" + b"1234", mtime=0), "does not hold the 5 bytes of its header"),
        (gzip.compress(b"\0\0\x08\x01" + b"\0\0\0\x80" + bytes(range(128)), mtime=0)[:-9], "cannot be read"),
    ],
)
def test_idx_files_that_are_none(place: Path, content: bytes, message: str) -> None:
    made.write_fashion(place / "fashion-mnist")
    path = place / "fashion-mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(content)
    refused("fashionmnist", str(path), message)


def test_an_archive_writes_nothing_to_disk_whatever_its_paths_say(place: Path) -> None:
    records = made.cifar_records(list(range(100)), label_bytes=2)
    names = {"../outside.bin": b"x", "/etc/../train.bin": records, "../../test.bin": records}
    made.write_tar(place / TAR, names)
    before = sorted(place.parent.rglob("*"))
    assert len(load("cifar100").train) == 100
    assert sorted(place.parent.rglob("*")) == before


def test_an_archive_whose_files_are_links(place: Path) -> None:
    with tarfile.open(place / TAR, "w:gz") as archive:
        for name in ("train.bin", "test.bin"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
            archive.addfile(link)
    refused("cifar100", str(place / TAR), "has no test.bin, train.bin")


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (GOOD[:-1], "has 6147 bytes, not a whole number of images"),
        (made.cifar_records([3, 100], label_bytes=2), "labels: row 1 is 100, expected a whole class index"),
    ],
)
def test_an_archive_with_half_an_image_or_a_wrong_label(place: Path, train: bytes, message: str) -> None:
    made.write_tar(place / TAR, {"train.bin": train, "test.bin": GOOD})
    refused("cifar100", str(place / TAR), message)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["age,sex", "1,2"], "starts with 'age,sex', expected hospital,age,sex,cp"),
        ([made.HEART_HEADER, f"va,{made.PATIENT}"], "line 2 is no patient"),
        ([made.HEART_HEADER, f"va,{made.PATIENT},1", f"va,{made.PATIENT},5"], "line 3 is no patient"),
        ([made.HEART_HEADER, f"va,{made.PATIENT.replace('63.0', 'inf')},1"], "line 2 is no patient"),
        ([made.HEART_HEADER, f"va,{made.PATIENT.replace('63.0', 'old')},1"], "line 2 is no patient"),
    ],
)
def test_patients_that_are_none(place: Path, lines: list[str], message: str) -> None:
    (place / "heart_disease.csv").write_text("\n".join(lines), "utf-8")
    refused("heart_disease", str(place / "heart_disease.csv"), message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("../../etc/passwd,1,1,acne,inflammatory,benign", "line 2 has no md5hash"),
        ("abc,1,1", "line 2 has no md5hash"),
        ("abc,7,1,acne,inflammatory,benign", "line 2 has a skin type that is not 1 to 6 or -1"),
        ("abc,1,1,acne,inflammatory,benign", "holds no photograph of the table"),
    ],
)
def test_a_table_of_photographs_that_is_none(place: Path, line: str, message: str) -> None:
    (place / "fitzpatrick17k").mkdir()
    (place / "fitzpatrick17k.csv").write_text(f"{made.FITZPATRICK_HEADER}\n{line}\n", "utf-8")
    refused("fitzpatrick17k", message)


def test_photographs_that_are_none_or_too_large(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image", reason="photographs need Pillow")
    (place / "fitzpatrick17k").mkdir()
    record = made.fitzpatrick_records(1)[0]
    (place / "fitzpatrick17k.csv").write_text(f"{made.FITZPATRICK_HEADER}\n{record}\n", "utf-8")
    path = place / "fitzpatrick17k" / f"{record.partition(',')[0]}.jpg"
    noise, small = io.BytesIO(), io.BytesIO()
    image.effect_noise((64, 64), 50).save(noise, "JPEG")
    image.new("RGB", (4, 4)).save(small, "GIF")
    for content in (b"nonsense", noise.getvalue()[:-200], small.getvalue()):
        path.write_bytes(content)
        refused("fitzpatrick17k", str(path), "cannot be read as a photograph")
    image.new("RGB", (100, 100)).save(path)
    with monkeypatch.context() as patch:
        patch.setattr(fitzpatrick17k, "MOST_PIXELS", 9999)
        refused("fitzpatrick17k", str(path), "has 100 x 100 pixels, too many")
        patch.setattr(fitzpatrick17k, "MOST_BYTES", 10)
        refused("fitzpatrick17k", str(path), "bytes, more than 10; remove it")
        patch.undo()
        patch.setattr(image, "MAX_IMAGE_PIXELS", 9000)
        refused("fitzpatrick17k", str(path), "cannot be read as a photograph")


def test_a_data_set_checks_itself() -> None:
    rows = Rows(x=np.zeros((2, 3), np.float32), y=np.array([0, 1]))
    wide = Rows(x=np.zeros((2, 4), np.float32), y=np.array([0, 1]))
    with pytest.raises(InputError, match="tiny: train labels: row 1 is 1"):
        Dataset(name="tiny", classes=("only",), train=rows, val=rows, test=rows)
    with pytest.raises(InputError, match=r"tiny: test rows are \(4,\), train rows \(3,\)"):
        Dataset(name="tiny", classes=("a", "b"), train=rows, val=rows, test=wide)
    with pytest.raises(InputError, match=r"differ in length \(\[1, 2\]\)"):
        Rows(x=np.zeros((2, 3), np.float32), y=np.array([0]))
    with pytest.raises(InputError, match="expected uint8 images or a float32 table"):
        Rows(x=np.zeros((2, 3)), y=np.array([0, 1]))
