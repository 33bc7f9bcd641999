"""How messages that say the same of their scores are written, and how all of them are read at once.

They differ in four places: the checksum, the number of scores, the name of the site and the scores. All other bytes are
compared with those of one message that was decoded by itself. What is between them is read from left to right for all
messages together, in arrays.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Integers
from fedconformal._base.names import MAX_NAME
from fedconformal.summaries import wire
from fedconformal.summaries.summary import Summary

ONE = b"\x91"
"""How a MessagePack array of one begins: of the size of one site, and of its name."""
NONE = b"\x90"

LONGEST = 256
"""No name that is read here is longer, in bytes."""

Bytes = NDArray[np.uint8]


class Batch(NamedTuple):
    """Which messages fit, and of these the sizes, names, if there are any, and scores: from where to where."""

    fits: Booleans
    sent: Sequence[bytes]
    sizes: Integers
    names: list[str]
    starts: Integers
    counts: Integers

    def scores(self) -> list[bytes]:
        """Return the bytes of the scores of each."""
        ends = self.starts + 8 * self.counts
        return [
            data[start:end] for data, start, end in zip(self.sent, self.starts.tolist(), ends.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class Layout:
    """The bytes between which a message says its checksum, size, name and scores."""

    start: bytes
    before: bytes
    named: bool
    middle: bytes
    tail: bytes

    @classmethod
    def of(cls, template: Summary) -> Layout:
        """Take it from one summary."""
        message, about = template.said(), template.origin.about
        place = message.__struct_fields__.index("values")
        names = message.__struct_fields__[:place] + message.__struct_fields__[place + 1 :]
        fields = [wire.ENCODER.encode(getattr(message, name)) for name in names]
        head = wire.ENCODER.encode([None, *names])[:1]  # of fewer than 16 fields
        prefix = b"" if about == wire.NOTHING else wire.ENCODER.encode((about, None))[:-1]
        named = bool(template.sites)
        return cls(
            start=template.to_bytes()[: wire.LETTER + 1],
            before=prefix + head + ONE,
            named=named,
            middle=(b"" if named else NONE) + b"".join(fields[2:place]),
            tail=b"".join(fields[place:]),
        )

    def read(self, sent: Sequence[bytes], lengths: Integers) -> Batch:
        """Read all messages of a batch from left to right, side by side.

        One that is shorter than it says is read on into the next, or into the room after the last; then it does not
        end where it says.
        """
        ends = np.cumsum(lengths)
        starts = ends - lengths
        room = wire.PREFIX + len(self.middle) + 2 * LONGEST
        page = Page(np.frombuffer(b"".join([*sent, bytes(room)]), dtype=np.uint8), starts)
        envelope = page.take(wire.PREFIX)
        page.expect(self.start, envelope)
        checksum = zlib.crc32(self.start)
        right = np.array([zlib.crc32(data[wire.PREFIX :], checksum) for data in sent], dtype=np.uint32)
        page.fits &= np.ascontiguousarray(envelope[:, len(self.start) :]).view("<u4")[:, 0] == right
        # It names the classes, so it may be long: each message is compared with it by itself.
        page.fits &= np.array([data.startswith(self.before, wire.PREFIX) for data in sent], dtype=np.bool_)
        page.at = page.at + len(self.before)
        sizes = page.number(UINT, after=b"")
        names = page.text(page.number(STR, after=ONE)) if self.named else []
        held = page.number(BIN, after=self.middle)
        page.fits &= (sizes > 0) & (held > 0) & (held % 8 == 0) & (page.at + held + len(self.tail) == ends)
        first = page.at - starts
        page.at = ends - len(self.tail)
        page.expect(self.tail, page.take(len(self.tail)))
        fits = page.fits
        if not fits.all():
            sent, names = list(compress(sent, fits)), list(compress(names, fits))
        return Batch(fits, sent, sizes[fits], names, first[fits], held[fits] // 8)


class Form:
    """How MessagePack writes a whole number: in one byte from `low` on, or after a byte that says in how many.

    `width` says how many bytes follow a first byte, -1 if no number begins so; `least` is the least number that
    takes as many bytes.
    """

    def __init__(self, low: int, high: int, widths: Mapping[int, int]) -> None:
        self.low = low
        self.width = np.full(256, -1)
        self.width[low:high] = 0
        self.width[list(widths)] = list(widths.values())
        self.least = np.array([0, high - low, 2**8, 0, 2**16])


UINT = Form(0, 0x80, {0xCC: 1, 0xCD: 2, 0xCE: 4})
STR = Form(0xA0, 0xC0, {0xD9: 1})
BIN = Form(0, 0, {0xC4: 1, 0xC5: 2, 0xC6: 4})


@dataclass
class Page:
    """Messages one after the other in one array, how far each is read, and which fit so far."""

    page: Bytes
    at: Integers

    def __post_init__(self) -> None:
        self.fits = np.ones(len(self.at), dtype=np.bool_)

    def take(self, width: int) -> Bytes:
        """Read this many bytes of each, a row for each message."""
        last = len(self.page) - width
        windows = np.lib.stride_tricks.as_strided(self.page, (last + 1, width), (1, 1), writeable=False)
        found: Bytes = windows[np.minimum(self.at, last)]
        self.at = self.at + width
        return found

    def expect(self, known: bytes, found: Bytes) -> None:
        """Compare the first bytes of what was read with what is the same in all."""
        self.fits &= (found[:, : len(known)] == np.frombuffer(known, dtype=np.uint8)).all(axis=1)

    def number(self, form: Form, *, after: bytes) -> Integers:
        """Read what is the same in all, and then a number that is written in the shortest way; zero where it is not."""
        found = self.take(len(after) + 5)
        self.expect(after, found)
        first = found[:, -5]
        width = form.width[first]
        self.fits &= width >= 0
        width[~self.fits] = 0
        self.at = self.at - 4 + width
        following = np.ascontiguousarray(found[:, -4:]).view(">u4")[:, 0].astype(np.int64)
        value = np.where(width, following >> 8 * (4 - width), first.astype(np.int64) - form.low)
        self.fits &= value >= form.least[width]
        return np.where(self.fits, value, 0)

    def text(self, lengths: Integers) -> list[str]:
        """Read a name of this length in bytes from each: printable and not too long."""
        widest = int(lengths.max())
        at, found = self.at, self.take(widest)
        self.at = at + lengths
        inside = np.arange(widest) < lengths[:, None]
        self.fits &= (lengths > 0) & ((found != 0) | ~inside).all(axis=1)
        found[~inside] = 0
        # A name has no end of line: it is not printable.
        lines = b"\n".join(found.view(f"S{widest}")[:, 0].tolist()) if widest else b"\n" * (len(lengths) - 1)
        names = lines.decode(errors="replace").split("\n")
        if len(names) != len(lengths) or lines != "\n".join(names).encode():
            self.fits[:] = False
            return [""] * len(lengths)
        if widest > MAX_NAME or not "".join(names).isprintable():
            self.fits &= [name.isprintable() and len(name) <= MAX_NAME for name in names]
        return names
