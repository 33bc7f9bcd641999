"""Arrays from somebody else: odd headers are refused in one line, and a small file never takes much memory."""

from __future__ import annotations

import io
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as numpys

from fedconformal._base import files
from fedconformal._base.files import read_array, read_npz
from tests.contracts.tools import refusal, refused

PLAIN = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }"
SIX = np.arange(6.0).tobytes()


def headed(text: str | bytes, data: bytes = b"", version: int = 1) -> bytes:
    """Return a .npy file with this header."""
    text = text.encode() if isinstance(text, str) else text
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + data


def zipped(path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("probs.npy", content)
    return path


# --- headers ---

ODD: dict[str, bytes] = {
    "nested": headed("(" * 4000),
    "code": headed("__import__('os').abort()"),
    "nested lists": headed("{'descr': " + "[" * 3000 + "]" * 3000 + ", 'fortran_order': False, 'shape': ()}"),
    "an open string": headed("{'descr': '<f8"),
    "an escape that warns": headed("{'descr': '\\d', 'fortran_order': False, 'shape': ()}"),
    "thousands of digits": headed(PLAIN.replace("3", "9" * 3000)),
    "a huge shape": headed(PLAIN.replace("3", "9" * 18)),
    "a shape beyond 64 bits": headed(PLAIN.replace("3, 2", ", ".join(["9" * 18] * 30))),
    "a negative shape": headed(PLAIN.replace("3", "-3")),
    "a shape of truth values": headed(PLAIN.replace("3, 2", "True, True")),
    "a shape of nothing much": headed(PLAIN.replace("3, 2", "0, 999999999999")),
    "many axes": headed(PLAIN.replace("3, 2", "1, " * 65), bytes(8)),
    "no shape": headed("{'descr': '<f8', 'fortran_order': False}"),
    "two shapes": headed("{'descr': '<f8', 'shape': (3, 2), 'shape': (3, 2), }", SIX),
    "objects": headed(PLAIN.replace("<f8", "|O")),
    "a structure": headed(PLAIN.replace("'<f8'", "[('a', '<f8'), ('b', '<i4')]")),
    "an array of arrays": headed(PLAIN.replace("'<f8'", "('<f8', (1000, 1000, 1000))")),
    "bytes without a meaning": headed(PLAIN.replace("<f8", "|V8"), SIX),
    "dates": headed(PLAIN.replace("<f8", "<M8[ns]"), SIX),
    "no type": headed(PLAIN.replace("'<f8'", "None"), SIX),
    "text of no characters": headed(PLAIN.replace("<f8", "<U0").replace("3, 2", "99999999")),
    "text of too many characters": headed(PLAIN.replace("<f8", "<U999999999")),
    "letters": headed("{'descr': 'é', 'fortran_order': False, 'shape': ()}"),
    "not UTF-8": headed(b"\xff\xfe{'descr': '<f8'}", version=3),
    "a long header": headed(PLAIN + " " * 5000, SIX),
    "a header of gigabytes": b"\x93NUMPY\x02\x00" + b"\xff\xff\xff\xff" + PLAIN.encode() + SIX,
    "version 4": headed(PLAIN, SIX, version=4),
    "nothing below the header": headed(PLAIN),
    "less than it says": headed(PLAIN, SIX[:-1]),
    "more than it says": headed(PLAIN, SIX + b"x"),
    "text that is not Unicode": headed(PLAIN.replace("<f8", "<U2"), b"\xff" * 48),
    "half a character": headed(PLAIN.replace("<f8", "<U2"), (0xD800).to_bytes(4, "little") * 12),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_headers_are_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(ODD[what])
    assert refusal(lambda: read_array(path, "probs")).startswith(f"{path}: ")
    packed = zipped(tmp_path / "a.npz", ODD[what])
    for read in (read_array, read_npz):
        assert refusal(partial(read, packed)).startswith(f"{packed}: ")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(3, 2),
        np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
        np.array(5),
        np.zeros((0, 3), dtype=np.float32),
        np.array(["Köln", "病院", ""]),
        np.array(["a", "b"], dtype=">U3"),
        np.array([b"a", b"bc"]),
        np.array([True, False]),
        np.arange(3, dtype=">i2"),
        np.arange(3, dtype=np.float16),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_what_numpy_writes_is_read(tmp_path: Path, array: Any) -> None:
    for name, version in (("a.npy", (1, 0)), ("a.npz", (2, 0))):
        stream, path = io.BytesIO(), tmp_path / name
        numpys.write_array(stream, array, version=version)
        path.write_bytes(stream.getvalue()) if name == "a.npy" else zipped(path, stream.getvalue())
        found = read_array(path, "probs")
        assert (found.dtype, found.shape, found.tolist()) == (array.dtype, array.shape, array.tolist())


def test_what_others_write_is_read(tmp_path: Path) -> None:
    for text in (
        "{'shape': (3L, 2L), 'fortran_order': False, 'descr': '<f8'}",
        "{'descr':'<f8','fortran_order':False,'shape':(3,2)}\n",
        "{ 'descr' : '<f8' , 'fortran_order' : False , 'shape' : ( 3 , 2 , ) , } \n",
    ):
        (tmp_path / "a.npy").write_bytes(headed(text, SIX))
        assert read_array(tmp_path / "a.npy").tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


# --- sizes ---


def bomb(path: Path, rows: int, members: int = 1) -> Path:
    """Write zeros that are compressed a thousand times, without ever holding them."""
    header = headed(PLAIN.replace("3, 2", f"{rows}, 2"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for k in range(members):
            with archive.open(f"probs{k or ''}.npy", "w", force_zip64=True) as member:
                member.write(header)
                for start in range(0, 16 * rows, 2**20):
                    member.write(bytes(min(2**20, 16 * rows - start)))
    return path


def test_a_bomb_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path = bomb(tmp_path / "a.npz", 2**23)
    size = path.stat().st_size
    assert size < 300_000
    for action in (lambda: read_array(path, "probs"), lambda: read_npz(path)):
        message = refusal(action)  # which measures memory
        assert message.startswith(f"{path}: unpacks from {size} to {2**27 + len(headed(PLAIN)) + 6} bytes")
        assert "more than 100 times" in message
        assert "save it without compression, as .npy or with numpy.savez" in message


def test_many_arrays_are_one_bomb(tmp_path: Path) -> None:
    path = bomb(tmp_path / "a.npz", 2**21, members=4)
    assert "more than 100 times" in refusal(lambda: read_npz(path))
    assert read_array(path, "probs").shape == (2**21, 2)  # the others are not unpacked


def test_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    logits, clients = rng.normal(size=(10_000, 10)).astype(np.float32), np.zeros(10_000, dtype=np.int64)
    np.savez_compressed(tmp_path / "a.npz", val_logits=logits, val_clients=clients)
    monkeypatch.setattr(files, "FREE_BYTES", 0)
    assert np.array_equal(read_npz(tmp_path / "a.npz")["val_logits"], logits)  # in proportion to the file
    np.savez(tmp_path / "b.npz", zeros=clients)
    np.save(tmp_path / "b.npy", clients)
    for name in ("b.npz", "b.npy"):
        assert not read_array(tmp_path / name).any()  # without compression there is no limit but the last
    monkeypatch.setattr(files, "MOST_BYTES", 80_000)
    for name in ("b.npz", "b.npy"):
        message = refusal(lambda name=name: read_array(tmp_path / name))  # type: ignore[misc]
        assert "more than 80000; split it into several files" in message


def test_other_compression_is_refused(tmp_path: Path) -> None:
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path = zipped(tmp_path / "a.npz", headed(PLAIN, SIX), method)
        with refused(f"{path}: probs is compressed in a way that numpy does not write"):
            read_array(path)


def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in ("probs", "probs.npy"):
            archive.writestr(name, headed(PLAIN, SIX))
    with refused("a.npz: holds two arrays of one name"):
        read_array(tmp_path / "a.npz", "probs")


def test_a_size_in_the_archive_that_is_not_true(tmp_path: Path) -> None:
    """The sizes in a zip file are claims as well: the bytes themselves decide."""
    content = headed(PLAIN.replace("3, 2", "9000000"), bytes(800))
    path = zipped(tmp_path / "a.npz", content)
    size, claim = (len(content).to_bytes(4, "little"), (len(content) - 800 + 72_000_000).to_bytes(4, "little"))
    data = path.read_bytes()
    assert data.count(size) == 2
    path.write_bytes(data.replace(size, claim))
    with refused(f"{path}: probs: "):
        read_array(path)
