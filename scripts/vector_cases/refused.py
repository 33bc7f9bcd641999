"""Hostile summaries: each has one thing that is not allowed, and the right checksum unless it is that."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import msgspec

import fedconformal as fc
from scripts.vector_cases import refused_kinds
from scripts.vector_cases.tools import PREFIX, SCORES, Case, File, altered, floats, seal


def cases() -> list[Case]:
    """List them; the bytes alone say what is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.ClassCountsWarning)
        found = dict([*_envelopes(), *_headers(), *_abouts(), *refused_kinds.hostile()])
    return [{"name": name, "bytes": data.hex()} for name, data in found.items()]


def _envelopes() -> Iterator[tuple[str, bytes]]:
    good = fc.summarize(SCORES, kind="exact", site="a").to_bytes()
    body = good[PREFIX:]
    yield "nothing", b""
    yield "another file", b"PK\x03\x04" + bytes(20)
    yield "only the envelope", good[:PREFIX]
    yield "version 3", seal(body, version="3")
    yield "version 0", seal(body, version="0")
    yield "an unknown kind", seal(body, "Z")
    yield "another kind", seal(body, "R")
    yield "a flipped bit", good[:20] + bytes([good[20] ^ 1]) + good[21:]
    yield "a wrong checksum", good[:5] + bytes(4) + good[PREFIX:]
    yield "truncated", good[:-1]
    yield "a trailing byte", good + b"\0"
    yield "a trailing byte, with a checksum for it", seal(body + b"\0")
    yield "no array", seal(b"\xc0")
    yield "not MessagePack", seal(b"\xc1" * 8)
    yield "a claim of two gigabytes", seal(b"\x96\x91\x05\x91\xa1a\xc0\xc0\xc0\xc6\x7f\xff\xff\xff")
    yield "an array in a longer form", seal(b"\xdc\x00\x06" + body[1:])
    yield "a number in a longer form", seal(body.replace(b"\x91\x05", b"\x91\xcc\x05", 1))
    yield "bytes in a longer form", seal(body.replace(b"\xc4\x28", b"\xc5\x00\x28", 1))
    yield "a text in a longer form", seal(body.replace(b"\xa1a", b"\xd9\x01a", 1))
    yield "a text that is not UTF-8", seal(body.replace(b"\xa1a", b"\xa1\xff", 1))
    yield "version 2 with nothing to say", seal(b"\x92\x80" + body, version="2")
    yield "version 2 without a map", seal(body, version="2")


def _headers() -> Iterator[tuple[str, bytes]]:
    file = File(fc.summarize(SCORES, kind="exact", site="a", score=fc.RAPS(), temperature=1.5))
    yield from altered(
        file,
        "header",
        {
            "no sites": {"sizes": [], "sites": []},
            "a size of 0": {"sizes": [0]},
            "a size of 2^32 + 1": {"sizes": [2**32 + 1]},
            "a size that is a float": {"sizes": [5.0]},
            "a size that does not fit": {"sizes": [6]},
            "two names for one site": {"sites": ["a", "b"]},
            "one site twice": {"sizes": [2, 3], "sites": ["a", "a"]},
            "an empty name": {"sites": [""]},
            "a name of 65 characters": {"sites": ["x" * 65]},
            "a name with a control character": {"sites": ["a\x1b"]},
            "a name with a line separator": {"sites": ["a\u2028"]},
            "an unknown score": {"score": ["no such score", []]},
            "a score without its parameters": {"score": ["raps", []]},
            "a parameter of another type": {"score": ["raps", [False, 0, 1, 1]]},
            "a parameter out of range": {"score": ["raps", [False, 0, -0.5, 1]]},
            "a parameter that is a text": {"score": ["raps", [False, 0, "0.001", 1]]},
            "a model without a name": {"model": ""},
            "a temperature of 0": {"temperature": 0.0},
            "a temperature that is whole": {"temperature": 1},
            "a temperature that is not finite": {"temperature": float("inf")},
        },
    )


def _abouts() -> Iterator[tuple[str, bytes]]:
    file = File(fc.summarize(SCORES, kind="exact", site="a", classes=3))
    yield from altered(
        file,
        "about",
        {
            "an unknown key": {"about": {"later": 1}},
            "the reserved key": {"about": {"task": "x"}},
            "no classes": {"about": {"classes": 0}},
            "65,537 classes": {"about": {"classes": 65_537}},
            "two classes of one name": {"about": {"classes": ["a", "a"]}},
            "a class with a space around it": {"about": {"classes": [" a", "b"]}},
            "a class that is not in NFKC": {"about": {"classes": ["\uff41", "b"]}},
            "another precision": {"about": {"precision": "float16"}},
            "not estimated, at length": {"about": {"estimated": False}},
            "a calibration with a space around it": {"about": {"calibration": " x"}},
            "an alpha that is not the shortest": {"about": {"calibration": "x", "alpha": "0.10"}},
            "an alpha of 0": {"about": {"calibration": "x", "alpha": "0"}},
            "a day that is none": {"about": {"expires": "2027-02-30"}},
            "a day without dashes": {"about": {"expires": "20270630"}},
            "a bound without a grid": {"about": {"bound": 1.0}},
            "a grid in a summary of scores": {"about": {"bound": 1.0, "grid": floats(1.0)}},
            "nil for a key that is not there": {"about": {"precision": None}},
        },
    )
    swapped = {"precision": "float32", "classes": 3}
    array = list(file.fields.values())
    yield "about: keys in another order", seal(msgspec.msgpack.encode([swapped, array]), "E", "2")
    twice = b"\x92\x82" + b"\xa7classes\x03" * 2 + msgspec.msgpack.encode(array)
    yield "about: a key twice", seal(twice, "E", "2")
