"""Hostile messages: each breaks one rule, and has the right checksum unless that is the rule."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import fedconformal as fc
from fedconformal.errors import ClassCountsWarning
from scripts.vector_cases import refused_kinds
from scripts.vector_cases.tools import ABSENT, SCORES, Case, File, altered, assemble, disassemble, floats, seal


def cases() -> list[Case]:
    """List them; the bytes alone say what is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClassCountsWarning)
        found = dict([*_envelopes(), *_headers(), *_provenances(), *refused_kinds.hostile()])
    return [{"name": name, "bytes": data.hex()} for name, data in found.items()]


def _envelopes() -> Iterator[tuple[str, bytes]]:
    good = fc.Summary.of_scores(SCORES, kind="exact", site="a").to_bytes()
    shared, own, words = disassemble(good)
    yield "nothing", b""
    yield "another file", b"PK\x03\x04" + bytes(20)
    yield "only the magic", good[:4]
    yield "only a checksum", seal(good[:4])
    yield "format 0", seal(b"FCS0" + good[4:-4])
    yield "format 2", seal(b"FCS2" + good[4:-4])
    yield "a flipped bit", good[:20] + bytes([good[20] ^ 1]) + good[21:]
    yield "a wrong checksum", good[:-4] + bytes(4)
    yield "truncated", good[:-1]
    yield "truncated, with a checksum", seal(good[:-12])
    yield "truncated in the own header, with a checksum", seal(good[: len(shared) + 14])
    yield "a trailing byte", good + b"\0"
    yield "a trailing byte, with a checksum", assemble(shared, own, words + b"\0")
    yield "a trailing word, with a checksum", assemble(shared, own, words + bytes(8))
    yield "a claim of two gigabytes", seal(good[:4] + b"\xff\xff\xff\x7f" + good[8:-4])
    yield "no map", assemble(b"\xc0", own, words)
    yield "not MessagePack", assemble(b"\xc1" * 8, own, words)
    yield "a byte after the shared header", assemble(shared + b"\0", own, words)
    yield "a byte after the own header", assemble(shared, own + b"\0", words)
    yield "a map in a longer form", assemble(b"\xde\x00\x01" + shared[1:], own, words)
    yield "a number in a longer form", assemble(shared, own.replace(b"\x91\x05", b"\x91\xcc\x05", 1), words)
    yield "a text in a longer form", assemble(shared, own.replace(b"\xa1a", b"\xd9\x01a", 1), words)
    yield "a text that is not UTF-8", assemble(shared, own.replace(b"\xa1a", b"\xa1\xff", 1), words)
    yield "headers in the other order", assemble(own, shared, words)


def _headers() -> Iterator[tuple[str, bytes]]:
    file = File(fc.Summary.of_scores(SCORES, kind="exact", site="a", score=fc.RAPS(), temperature=1.5))
    yield from altered(
        file,
        "header",
        {
            "an unknown kind": {"kind": "bloom"},
            "no kind": {"kind": ABSENT},
            "another kind": {"kind": "ranks"},
            "parameters of another kind": {"parameters": [100]},
            "no sites": {"sizes": [], "sites": []},
            "a size of 0": {"sizes": [0]},
            "a size of 2^32 + 1": {"sizes": [2**32 + 1]},
            "a size that is a float": {"sizes": [5.0]},
            "a size that does not fit": {"sizes": [6]},
            "no site, at length": {"sites": []},
            "two names for one site": {"sites": ["a", "b"]},
            "one site twice": {"sizes": [2, 3], "sites": ["a", "a"]},
            "an empty name": {"sites": [""]},
            "a name of 65 characters": {"sites": ["x" * 65]},
            "a name with a control character": {"sites": ["a\x1b"]},
            "a name with a line separator": {"sites": ["a\u2028"]},
            "a name with a space around it": {"sites": ["a "]},
            "a name that is not in NFKC": {"sites": ["\uff41"]},
            "more words than there are": {"lengths": [6]},
            "two arrays instead of one": {"lengths": [2, 3]},
            "numbers of another kind": {"numbers": [0]},
            "strata beside an array": {"strata": [[None, 0, [5], [], []]]},
            "the patients of later formats": {"patients": [5]},
            "the withheld ranks of later formats": {"withheld": [1]},
            "the missing rows of later formats": {"missing": [1]},
            "the partly known rows of later formats": {"partial": [1]},
            "the weights of later formats": {"weights": "patients"},
            "the own models of later formats": {"site_model": True},
            "an unknown score": {"score": ["no such score", []]},
            "a score without its parameters": {"score": ["raps", []]},
            "a parameter of another type": {"score": ["raps", [False, 0, 1, 1]]},
            "a parameter out of range": {"score": ["raps", [False, 0, -0.5, 1]]},
            "a parameter that is a text": {"score": ["raps", [False, 0, "0.001", 1]]},
            "a model without a name": {"model": ""},
            "a model that is not in NFKC": {"model": "\uff41"},
            "a temperature of 0": {"temperature": 0.0},
            "a temperature that is whole": {"temperature": 1},
            "a temperature that is not finite": {"temperature": float("inf")},
        },
    )


def _provenances() -> Iterator[tuple[str, bytes]]:
    file = File(fc.Summary.of_scores(SCORES, kind="exact", site="a", classes=3))
    yield from altered(
        file,
        "provenance",
        {
            "an unknown key": {"later": 1},
            "no classes": {"classes": 0},
            "65,537 classes": {"classes": 65_537},
            "two classes of one name": {"classes": ["a", "a"]},
            "a class with a space around it": {"classes": [" a", "b"]},
            "a class that is not in NFKC": {"classes": ["\uff41", "b"]},
            "another precision": {"precision": "float16"},
            "not estimated, at length": {"estimated": False},
            "a calibration with a space around it": {"calibration": " x"},
            "an alpha that is not the shortest": {"calibration": "x", "alpha": "0.10"},
            "an alpha of 0": {"calibration": "x", "alpha": "0"},
            "a day that does not exist": {"expires": "2027-02-30"},
            "a day without dashes": {"expires": "20270630"},
            "a bound without a grid": {"bound": 1.0},
            "a grid in a summary of scores": {"bound": 1.0, "grid": floats(1.0)},
            "nil for an absent key": {"precision": None},
        },
    )
    swapped = {"classes": 3, "kind": "exact"}
    _, own, words = disassemble(file.having())
    yield "provenance: keys in another order", assemble(swapped, own, words)
    yield "provenance: a key twice", assemble(b"\x83" + b"\xa7classes\x03" * 2 + b"\xa4kind\xa5exact", own, words)
