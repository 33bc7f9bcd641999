"""Any bytes in a file: they are read, or refused in one line."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedconformal.errors import InputError
from fedconformal.training.data.sets.cifar import read_members
from fedconformal.training.data.sets.fashionmnist import read_idx
from fedconformal.training.data.sets.fitzpatrick17k import read_photographs, read_table
from fedconformal.training.data.sets.images import read_images
from tests.training.data import made


def tar(path: Path) -> None:
    made.write_tar(path, {"train.bin": bytes(range(256)), "test.bin": b"test"})


def npz(path: Path) -> None:
    made.write_npz(path, classes=2, shape=(4, 4), source="here")


def table(path: Path) -> None:
    path.write_text("\n".join([made.FITZPATRICK_HEADER, *made.fitzpatrick_records(5)]), "utf-8")


def photograph(path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="photographs need Pillow")
    buffer = io.BytesIO()
    image.effect_noise((40, 30), 40).save(buffer, "JPEG" if path.suffix == ".jpg" else "PNG")
    path.write_bytes(buffer.getvalue())


@pytest.mark.parametrize(
    ("name", "write", "read"),
    [
        ("a.gz", lambda path: made.write_idx(path, np.arange(256, dtype=np.uint8).reshape(4, 8, 8)), read_idx),
        ("a.tar.gz", tar, lambda path: read_members(path, {"train.bin", "test.bin"})),
        ("a.npz", npz, lambda path: read_images(path, classes=2)),
        ("a.csv", table, read_table),
        ("a.jpg", photograph, lambda path: read_photographs([path])),
        ("a.png", photograph, lambda path: read_photographs([path])),
    ],
)
@given(cut=st.floats(0, 1), changes=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changed_bytes_are_read_or_refused(
    tmp_path: Path,
    name: str,
    write: Callable[[Path], None],
    read: Callable[[Path], Any],
    cut: float,
    changes: list[tuple[float, int]],
) -> None:
    path = tmp_path / name
    write(path)
    content = bytearray(path.read_bytes())
    for where, value in changes:
        content[int(where * len(content))] = value
    path.write_bytes(content[: len(content) if cut > 0.5 else int(2 * cut * len(content))])
    try:
        read(path)
    except InputError as error:
        said = str(error)
        if "\n" in said:
            raise
