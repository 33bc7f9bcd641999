"""Arrays from .npy and .npz files that come from somebody else: never a pickle, and memory in proportion to the file.

A few kilobytes of a compressed file can claim gigabytes, and a header is a line of Python. So a header is matched
and never evaluated, an array is read only if its claim is what the file holds, and what unpacks to far more than
the file itself is refused before memory is taken for it.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections.abc import Callable, Iterable
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedconformal.errors import InputError

MOST_BYTES = 2**33
"""Arrays of more bytes than this are refused: they hardly fit into memory."""
FREE_BYTES = 2**27
RATIO = 100
"""A file may unpack to this many times its size, and to `FREE_BYTES` in any case."""
LONGEST_HEADER = 4096
MOST_AXES = 32
STEP = 2**20
LAST_CHARACTER = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)

MAGIC = b"\x93NUMPY"
FIELDS = {
    "descr": r"'descr'\s*+:\s*+'([<>|=]?[biufSU]\d{1,9})'",
    "fortran_order": r"'fortran_order'\s*+:\s*+(True|False)",
    "shape": r"'shape'\s*+:\s*+\(((?:\s*+\d{1,18}L?\s*+,)*+\s*+(?:\d{1,18}L?\s*+)?)\)",
}
FIELD = f"(?:{'|'.join(FIELDS.values())})"
HEADER = re.compile(rf"\{{\s*+(?:{FIELD}\s*+,\s*+){{2}}{FIELD}\s*+,?\s*+\}}", re.ASCII)
"""The three entries of a plain array, in any order."""


def check_size(claimed: int, on_disk: int) -> None:
    """Refuse what is too large, or far larger than the file that it is in.

    >>> check_size(2_400_000_000, 3_000_000)
    Traceback (most recent call last):
    fedconformal.errors.InputError: unpacks from 3000000 to 2400000000 bytes, which is more than 100 times as much;
    save it without compression, as .npy or with numpy.savez
    """
    if claimed > MOST_BYTES:
        raise InputError(f"holds {claimed} bytes of numbers, more than {MOST_BYTES}; split it into several files")
    if claimed > max(FREE_BYTES, RATIO * on_disk):
        raise InputError(
            f"unpacks from {on_disk} to {claimed} bytes, which is more than {RATIO} times as much; "
            "save it without compression, as .npy or with numpy.savez"
        )


def read_npy(file: BinaryIO) -> NDArray[Any]:
    """Read the array of an open .npy file."""
    size = os.fstat(file.fileno()).st_size
    check_size(size, size)
    return _read(file, size)


def read_npz(file: BinaryIO, choose: Callable[[list[str]], Iterable[str]]) -> dict[str, NDArray[Any]]:
    """Read the arrays of an open .npz file that `choose` picks from their names."""
    with zipfile.ZipFile(file) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if len(members) < len(archive.infolist()):
            raise InputError("holds two arrays of one name")
        chosen = {name: members[name] for name in choose(list(members))}
        check_size(sum(info.file_size for info in chosen.values()), os.fstat(file.fileno()).st_size)
        return {name: _member(archive, info, name) for name, info in chosen.items()}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> NDArray[Any]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(f"{name} is compressed in a way that numpy does not write; save it with numpy.savez")
    with archive.open(info) as member:
        try:
            array = _read(member, info.file_size)
        except InputError as error:
            raise error.at(name) from None
        if member.read(1):  # reading to the end also checks the CRC
            raise InputError("has trailing bytes", where=name)
    return array


def _read(stream: IO[bytes], size: int) -> NDArray[Any]:
    """Read an array from a stream of this many bytes."""
    dtype, shape, columns_first, start = _header(stream)
    there = size - start
    if math.prod(shape) * dtype.itemsize != there:
        raise InputError(f"its header claims {dtype} {shape}, and it holds {there} bytes; it was cut off or altered")
    check_size(math.prod(max(1, length) for length in shape) * dtype.itemsize, there)
    array = np.empty(shape, dtype, order="F" if columns_first else "C")
    content, done = array.reshape(-1, order="A").view(np.uint8), 0
    while done < there:
        read = np.frombuffer(stream.read(min(STEP, there - done)), np.uint8)
        if not len(read):
            raise InputError(f"ends after {start + done} bytes of {size}; it was cut off")
        content[done : done + len(read)] = read
        done += len(read)
    if dtype.kind == "U":
        _check_text(array)
    return array


def _header(stream: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Match a header; return type, shape, whether columns come first, and where the numbers begin."""
    magic = stream.read(len(MAGIC) + 2)
    if magic[: len(MAGIC)] != MAGIC or magic[len(MAGIC) :] not in (b"\1\0", b"\2\0", b"\3\0"):
        raise InputError("cannot be read: it is no array as numpy saves it")
    prefix = stream.read(2 if magic.endswith(b"\1\0") else 4)
    length = int.from_bytes(prefix, "little")
    text = stream.read(min(length, LONGEST_HEADER)).decode("latin-1").strip()
    plain = length <= LONGEST_HEADER and HEADER.fullmatch(text)
    parts = {name: found[1] for name, field in FIELDS.items() if plain and (found := re.search(field, text))}
    if len(parts) < len(FIELDS):
        pickled = "it holds Python objects, which could run code when they are read" if "'|O'" in text else ""
        problem = pickled or "its header is not that of numbers or text"
        raise InputError(f"cannot be read: {problem}; save a plain array with numpy.save")
    shape = tuple(map(int, re.findall(r"\d+", parts["shape"])))
    try:
        dtype = np.dtype(parts["descr"])
    except (TypeError, ValueError) as error:
        raise InputError(f"cannot be read: its header names no type of numbers or text ({error})") from None
    if len(shape) > MOST_AXES or not dtype.itemsize:
        raise InputError(f"claims {len(shape)} axes of {dtype}, which is no array to read")
    return dtype, shape, parts["fortran_order"] == "True", len(magic) + len(prefix) + length


def _check_text(array: NDArray[Any]) -> None:
    """Refuse text that is not Unicode: nothing could show it."""
    if array.size:
        codes = array.reshape(-1, order="A").view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if codes.max() > LAST_CHARACTER or ((codes >= SURROGATES[0]) & (codes <= SURROGATES[1])).any():
            raise InputError("holds text that is not Unicode")
