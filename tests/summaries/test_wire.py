"""The wire format: hostile bytes are refused, without harm and in one line."""

from __future__ import annotations

import math
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.summaries.parted import PartedSummary
from tests.contracts.tools import checks, probes, refusal
from tests.golden import make

PREFIX = 9
"""FCS, the version, the letter of the kind, four bytes of CRC-32."""


GOLDEN = sorted(path.stem for path in make.HERE.glob("*.fcs"))
every_golden = pytest.mark.parametrize("name", GOLDEN)


def golden(name: str) -> bytes:
    return (make.HERE / f"{name}.fcs").read_bytes()


def seal(body: bytes, letter: bytes = b"E", version: bytes = b"1") -> bytes:
    """Put a body into an envelope with the right checksum."""
    start = b"FCS" + version + letter
    return start + zlib.crc32(start + body).to_bytes(4, "little") + body


def fields_of(name: str) -> list[Any]:
    """Return the fields of a golden file as plain values, to be altered."""
    decoded = msgspec.msgpack.decode(golden(name)[PREFIX:])
    assert isinstance(decoded, list)
    return decoded


def resealed(name: str, **altered: Any) -> bytes:
    """Encode a golden file again with some fields altered."""
    order = ["sizes", "sites", "score", "model", "temperature"]
    order += ["values"] if name.startswith("exact") else ["points", "alpha", "values", "lower", "below", "gap"]
    found = dict(zip(order, fields_of(name), strict=True))
    assert set(altered) <= set(found)
    return seal(msgspec.msgpack.encode(list((found | altered).values())), golden(name)[4:5])


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def counts(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def decode(data: bytes) -> Callable[[], fc.Summary]:
    return lambda: fc.Summary.from_bytes(data)


def check_decoded(summary: fc.Summary, data: bytes) -> None:
    """Check what must hold of anything that was accepted."""
    assert summary.to_bytes() == data
    assert summary.n == sum(summary.sizes) > 0
    assert len(summary.sites) in (0, len(summary.sizes))
    assert np.isfinite(summary.points).all()
    assert (summary.points[1:] >= summary.points[:-1]).all()
    assert 0 <= summary.gap < summary.n
    lower, upper = summary.bounds(probes(summary.points))
    assert (lower <= upper).all()
    assert (upper - lower <= summary.gap).all()
    assert (np.diff(lower) >= 0).all()
    assert (np.diff(upper) >= 0).all()
    assert lower[0] == 0
    assert lower[-1] == upper[-1] == summary.n
    fc.Summary.from_bytes(fc.pool([summary]).to_bytes())
    if isinstance(summary, PartedSummary):
        for part in summary.parts.values():
            check_decoded(part, part.to_bytes())
    elif len(summary.sizes) == 1 and len(summary.points) < 10**4:
        grown = summary.extend([0.5, -7.0])
        assert fc.Summary.from_bytes(grown.to_bytes()).n == summary.n + 2


# --- hostile bytes: the envelope ---


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a fedconformal summary"),
        (b"\x00" * 100, "not a fedconformal summary"),
        (b"PK\x03\x04" + bytes(60), "not a fedconformal summary"),
        (b"FC", "not a fedconformal summary"),
        (b"FCS", "truncated"),
        (b"FCS1E", "truncated"),
        (b"FCS1E\x00\x00\x00\x00", "truncated"),
        (b"FCS3" + seal(b"\xc0")[4:], "version"),
        (seal(b"\xc0", version=b"3"), "version"),
        (seal(b"\xc0", version=b"\x00"), "version"),
        (seal(b"\xc0", letter=b"Z"), "unknown kind 'Z'"),
        (seal(b"\xc0", letter=b"\xff"), "unknown kind"),
        (seal(b"\xc0", letter=b"\n"), "unknown kind"),
        (seal(b"\xc0"), "cannot be decoded"),
    ],
)
def test_a_bad_envelope_is_refused(data: bytes, message: str) -> None:
    assert message in refusal(decode(data))


@given(st.binary(max_size=200))
@checks(200)
def test_random_bytes_are_refused(data: bytes) -> None:
    for hostile in (data, b"FCS1" + data, seal(data), seal(data, b"R")):
        with pytest.raises(fc.InputError):
            fc.Summary.from_bytes(hostile)


@every_golden
def test_every_truncation_is_refused(name: str) -> None:
    data = golden(name)
    for length in range(len(data)):
        with pytest.raises(fc.InputError):
            fc.Summary.from_bytes(data[:length])
        if length > PREFIX:
            with pytest.raises(fc.InputError):
                fc.Summary.from_bytes(seal(data[PREFIX:length], data[4:5]))


@every_golden
def test_trailing_bytes_are_refused(name: str) -> None:
    data = golden(name)
    for more in (b"\x00", b"\xc0", b"\n", data, bytes(10)):
        assert "truncated or altered" in refusal(decode(data + more))
        assert "cannot be decoded" in refusal(decode(seal(data[PREFIX:] + more, data[4:5])))


@every_golden
def test_every_flipped_bit_is_refused(name: str) -> None:
    data = golden(name)
    for i in range(len(data)):
        for bit in range(8):
            with pytest.raises(fc.InputError):
                fc.Summary.from_bytes(data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1 :])


# --- hostile bytes: the body, with the checksum made right ---


def hostile_values() -> Iterator[tuple[str, bytes]]:
    """Yield scores that are not finite, not in order, or not as many as claimed."""
    five = [-1.0, 0.25, 0.25, 0.5, 1.75]
    for word, bad in [("NaN", math.nan), ("inf", math.inf), ("-inf", -math.inf)]:
        yield f"{word} first", resealed("exact", values=floats(bad, *five[1:]))
        yield f"{word} last", resealed("exact", values=floats(*five[:-1], bad))
        yield f"{word} only", resealed("exact-bare", values=floats(bad))
        ranks = fields_of("ranks")[7]
        yield f"{word} in ranks", resealed("ranks", values=ranks[:-8] + floats(bad))
        yield f"{word} temperature", resealed("exact", temperature=bad)
    yield "another NaN", resealed("exact", values=b"\x01\x00\x00\x00\x00\x00\xf0\x7f" + floats(*five[1:]))
    yield "minus zero", resealed("exact-bare", values=floats(-0.0))
    yield "unsorted", resealed("exact", values=floats(*five[::-1]))
    yield "unsorted ranks", resealed("ranks", values=np.frombuffer(fields_of("ranks")[7])[::-1].tobytes())
    yield "one score too few", resealed("exact", values=floats(*five[:-1]))
    yield "one score too many", resealed("exact", values=floats(*five, 2.0))
    yield "no scores", resealed("exact", values=b"")
    yield "half a score", resealed("exact", values=floats(*five)[:-4])
    yield "scores as a list", resealed("exact", values=five)
    yield "scores as text", resealed("exact", values="x" * 40)


def hostile_headers() -> Iterator[tuple[str, bytes]]:
    """Yield sizes, names, models, scores and temperatures that cannot be."""
    for size in (0, -1, 4, 6, 2**32 + 1, 2**53, 2**63, 2**64 - 1, -(2**63), 5.0, "5", None, True):
        yield f"size {size!r}", resealed("exact", sizes=[size])
    yield "no sizes", resealed("exact", sizes=[])
    yield "sizes that add up to more", resealed("exact-pooled", sizes=[2**32, 2**32, 2**32])
    yield "a size of nothing among others", resealed("exact-pooled", sizes=[3, 0, 10])
    yield "sizes and sites not equally many", resealed("exact-pooled", sizes=[13])
    yield "two names for one site", resealed("exact", sites=["a", "b"])
    yield "sizes not a list", resealed("exact", sizes=5)

    yield "a site twice", resealed("exact-pooled", sites=["a", "b", "a"])
    for text in ("", "x" * 65, "a\nb", "a\tb", "\x00", "\x7f", "\x1b[31m", "\u202e", "\u2028", "a\u00a0b", "病" * 65):
        yield f"site {text[:8]!r}", resealed("exact", sites=[text])
        yield f"model {text[:8]!r}", resealed("exact", model=text)
    for thing in (1, None, b"a", ["a"], 1.5):
        yield f"site {thing!r}", resealed("exact", sites=[thing])
    yield "model 1", resealed("exact", model=1)

    score: Any
    for score in (
        ["nope", []],
        ["", []],
        ["LAC", []],
        ["fedconformal.scores.lac", []],
        ["__class__", []],
        ["lac", [1]],
        ["lac", [1.0] * 16],
        ["lac", [0.0] * 17],
        ["lac", None],
        ["lac"],
        ["lac", [], []],
        "lac",
        [],
        {"lac": []},
        ["aps", []],
        ["aps", [False]],
        ["aps", [0, 0]],
        ["aps", [False, 0.0]],
        ["aps", [False, -1]],
        ["aps", [False, 2**63]],
        ["aps", [False, True]],
        ["aps", ["no", 0]],
        ["aps", [False, [0]]],
        ["raps", [False, 0, math.nan, 1]],
        ["raps", [False, 0, math.inf, 1]],
        ["raps", [False, 0, -1.0, 1]],
        ["raps", [False, 0, 1e300, 1]],
        ["raps", [False, 0, 1, 1]],  # the one encoding of a penalty is a float
        ["raps", [False, 0, 0.001, -1]],
        ["raps", [False, 0, 0.001, 1.0]],
        ["raps", [False, 0, 0.001, 2**40]],
        ["raps", [False, 0, 0.001]],
    ):
        yield f"score {score!r:.40}", resealed("exact", score=score)
    for temperature in (0.0, -1.0, -0.0, 1, "1.5", True):
        yield f"temperature {temperature!r}", resealed("exact", temperature=temperature)


def hostile_schedules() -> Iterator[tuple[str, bytes]]:
    """Yield ranks that do not follow from size, points and alpha."""
    alpha: Any
    for alpha in (
        "1e-999999999", "1e999999999", "9" * 17, "nan", "inf", "-0.1", "0", "1", "1/10", "0.10", ".1", "1e-1", " 0.1",
        "0.1 ", "0_1", "\u0660.\u0661", "", "x", "0.1\n", "1E-5", "+0.1", "0.30000000000000004", 0.1, 1, [],
    ):  # fmt: skip
        yield f"alpha {alpha!r}", resealed("ranks", alpha=alpha)
    yield "another alpha", resealed("ranks", alpha="0.9")
    yield "no alpha", resealed("ranks", alpha=None)
    for points in (1, 99, 101, 4096, 4097, 2**31, -1, 100.0, None):
        yield f"{points} points", resealed("ranks", points=points)
    yield "another size", resealed("ranks", sizes=[299])
    yield "a size that needs more ranks", resealed("ranks", sizes=[2**32])
    yield "a schedule and a gap", resealed("ranks", gap=1)
    yield "a schedule and counts", resealed("ranks", lower=counts(1), below=counts(0))
    yield "a schedule for two sites", resealed("ranks", sizes=[150, 150], sites=["a", "b"])


def hostile_counts() -> Iterator[tuple[str, bytes]]:
    """Yield bounds that contradict each other, the size or the stated gap."""
    plain: dict[str, Any] = {
        "sizes": [10],
        "values": floats(0.1, 0.5, 0.9),
        "lower": counts(3, 5, 10),
        "below": counts(2, 4, 9),
        "gap": 4,
    }
    fine = resealed("ranks-extended", **plain)
    check_decoded(fc.Summary.from_bytes(fine), fine)
    changes: dict[str, dict[str, Any]] = {
        "alpha without a schedule": {"alpha": "0.1"},
        "gap too small": {"gap": 3},
        "gap as large as n": {"gap": 10},
        "gap of 2^62": {"gap": 2**62},
        "gap of 2^64 - 1": {"gap": 2**64 - 1},
        "negative gap": {"gap": -1},
        "gap not a number": {"gap": None},
        "last count not n": {"lower": counts(3, 5, 9)},
        "more than n": {"lower": counts(3, 5, 11)},
        "n does not match": {"sizes": [11]},
        "falling lower counts": {"lower": counts(5, 3, 10)},
        "falling upper counts": {"below": counts(4, 2, 9)},
        "upper count at the last of n": {"below": counts(2, 4, 10)},
        "lower count above the next upper": {"lower": counts(5, 5, 10)},
        "fewer counts than scores": {"lower": counts(3, 10)},
        "more counts than scores": {"below": counts(2, 4, 9, 9)},
        "no points": {"values": b"", "lower": b"", "below": b""},
        "half a count": {"lower": counts(3, 5, 10)[:-1]},
        "a count of 2^63": {"lower": counts(3, 5, 2**63)},
        "a count of 2^64 - 1": {"below": counts(2, 4, 2**64 - 1)},
        "a count of 2^53": {"below": counts(2, 2**53, 2**53)},
        "minus zero among points": {"values": floats(-0.0, 0.5, 0.9)},
        "points twice": {"values": floats(0.1, 0.1, 0.9)},
        "points falling": {"values": floats(0.5, 0.1, 0.9)},
        "points too small": {"points": 3},
    }
    for word, change in changes.items():
        yield word, resealed("ranks-extended", **(plain | change))


def hostile_encodings() -> Iterator[tuple[str, bytes]]:
    """Yield encodings that are not the canonical one, or not MessagePack as it should be."""
    body = golden("exact")[PREFIX:]
    tail = golden("exact")[PREFIX + 3 :]
    yield "a size in two bytes", seal(b"\x96\x91\xcc\x05" + tail)
    yield "a size in nine bytes", seal(b"\x96\x91\xcf" + bytes(7) + b"\x05" + tail)
    yield "a size in signed bytes", seal(b"\x96\x91\xd0\x05" + tail)
    yield "sizes as array16", seal(b"\x96\xdc\x00\x01\x05" + tail)
    yield "the whole as array16", seal(b"\xdc\x00\x06" + body[1:])
    yield "a name as str8", seal(body.replace(b"\xa8clinic", b"\xd9\x08clinic"))
    yield "a name as bytes", seal(body.replace(b"\xa8clinic", b"\xc4\x08clinic"))
    yield "scores as bin16", seal(body.replace(b"\xc4\x28", b"\xc5\x00\x28"))
    yield (
        "a float32 temperature",
        seal(resealed("exact", temperature=1.5)[PREFIX:].replace(b"\xcb\x3f\xf8" + bytes(6), b"\xca\x3f\xc0\x00\x00")),
    )
    yield "a name that is not UTF-8", seal(body.replace(b"clinic-a", b"clinic\xff\xfe"))
    yield "a name with a surrogate", seal(body.replace(b"clinic-a", b"clini\xed\xa0\x80"))
    yield "an overlong NUL", seal(body.replace(b"clinic-a", b"clinic\xc0\x80"))
    yield "an extension type", seal(b"\x96\xc7\x05\x01abcde" + body[3:])
    yield "a timestamp", seal(b"\x96\xd6\xff\x00\x00\x00\x00" + body[3:])
    yield "the never-used byte", seal(b"\xc1" + body[1:])


def hostile_claims() -> Iterator[tuple[str, bytes]]:
    """Yield lengths that are not there, nesting without end, and messages of the wrong form."""
    body = golden("exact")[PREFIX:]
    tail = golden("exact")[PREFIX + 3 :]
    much = b"\xff\xff\xff\xff"
    yield "a claim of 2 GB", seal(body.replace(b"\xc4\x28", b"\xc6\x80\x00\x00\x00"))
    yield "a claim of 4 GB", seal(body.replace(b"\xc4\x28", b"\xc6" + much))
    yield "sizes of a claimed array32", seal(b"\x96\xdd" + much + body[2:])
    yield "a claimed 2^20 sizes", seal(b"\x96\xdd\x00\x10\x00\x00" + body[2:])
    yield "names of a claimed array32", seal(b"\x96\x91\x05\xdd" + much + tail[1:])
    yield "the whole as a claimed array32", seal(b"\xdd" + much + body[1:])
    yield "the whole as a claimed map32", seal(b"\xdf" + much + body[1:])
    yield "sizes as a claimed map32", seal(b"\x96\xdf" + much + body[2:])
    yield "a claimed str32", seal(b"\x96\x91\x05\x91\xdb" + much + tail[2:])
    yield "a claimed ext32", seal(b"\x96\xc9" + much + body[2:])
    yield "nested a hundred thousand deep", seal(b"\x91" * 100_000)
    yield "nested under the header", seal(b"\x96" + b"\x91" * 100_000)
    yield "nested maps", seal(b"\x81\xa1a" * 50_000)
    yield "nested in the score", seal(b"\x96\x91\x05\x91\xa1a\x92\xa3lac" + b"\x91" * 50_000)
    yield "only a header", seal(msgspec.msgpack.encode(fields_of("exact")[:5]))
    yield "one field more", seal(msgspec.msgpack.encode([*fields_of("exact"), 1]))
    yield (
        "an object instead of an array",
        seal(msgspec.msgpack.encode(dict(zip("abcdef", fields_of("exact"), strict=True)))),
    )
    yield "ranks in an exact envelope", seal(golden("ranks")[PREFIX:], b"E")
    yield "exact in a ranks envelope", seal(golden("exact")[PREFIX:], b"R")


MAKERS = (hostile_values, hostile_headers, hostile_schedules, hostile_counts, hostile_encodings, hostile_claims)
HOSTILE = {what: data for maker in MAKERS for what, data in maker()}
assert len(HOSTILE) == sum(len(list(maker())) for maker in MAKERS), "two of them have the same name"


@pytest.mark.parametrize("what", list(HOSTILE))
def test_a_hostile_body_is_refused(what: str) -> None:
    refusal(decode(HOSTILE[what]))


def test_a_message_says_what_is_wrong() -> None:
    assert "not finite" in refusal(decode(HOSTILE["NaN first"]))
    assert "ascending" in refusal(decode(HOSTILE["unsorted"]))
    assert "claims 5 scores and holds 4" in refusal(decode(HOSTILE["one score too few"]))
    assert "same site" in refusal(decode(HOSTILE["a site twice"]))
    assert "no score is called 'nope'" in refusal(decode(HOSTILE["score ['nope', []]"]))
    assert "canonical" in refusal(decode(HOSTILE["a size in two bytes"]))
    assert "do not add up" in refusal(decode(HOSTILE["last count not n"]))
    assert "wider gap" in refusal(decode(HOSTILE["gap too small"]))


def test_a_million_sites_cost_no_more_than_their_bytes() -> None:
    sizes = b"\xdd\x00\x10\x00\x00" + b"\x01" * 2**20
    hostile = seal(b"\x96" + sizes + b"\x90\xc0\xc0\xc0\xc4\x08" + bytes(8))
    with pytest.raises(fc.InputError, match="claims 1048576 scores and holds 1"):
        fc.Summary.from_bytes(hostile)


# --- fuzzing ---


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Flip, insert, delete, overwrite or splice a few times."""
    out = bytearray(data)
    special = [0x00, 0x01, 0x7F, 0x80, 0x90, 0xC0, 0xC4, 0xC6, 0xCB, 0xCC, 0xCF, 0xD9, 0xDD, 0xDF, 0xFF]
    for _ in range(rng.randint(1, 4)):
        i = rng.randrange(len(out) + 1) if rng.random() < 0.5 else rng.randrange(min(len(out), 60) + 1)
        match rng.randrange(6):
            case 0 if i < len(out):
                out[i] ^= 1 << rng.randrange(8)
            case 1:
                out.insert(i, rng.choice(special))
            case 2:
                del out[i : i + rng.choice([1, 1, 2, 8])]
            case 3 if i < len(out):
                out[i] = rng.choice([*special, rng.randrange(256)])
            case 4:
                start = rng.randrange(len(data))
                out[i:i] = data[start : start + rng.choice([1, 8, 16])]
            case 5:
                j = rng.randrange(len(out) + 1)
                out[i : i + 8], out[j : j + 8] = out[j : j + 8], out[i : i + 8]
    return bytes(out)


@every_golden
@given(st.integers(0, 2**64 - 1))
@checks(300)
def test_mutated_bodies_are_refused_or_sound(name: str, seed: int) -> None:
    data = golden(name)
    hostile = seal(mutated(data[PREFIX:], random.Random(seed)), data[4:5])
    try:
        summary = fc.Summary.from_bytes(hostile)
    except fc.InputError:
        return
    check_decoded(summary, hostile)


@given(st.data())
@checks(300)
def test_altered_fields_are_refused_or_sound(data: st.DataObject) -> None:
    """Alter decoded fields rather than bytes, which gets deeper than flipping bits does."""
    n = data.draw(st.integers(1, 12))
    some_counts = st.lists(st.integers(0, n + 1), min_size=n, max_size=n).map(sorted)
    lower, below = data.draw(some_counts), data.draw(some_counts)
    if data.draw(st.booleans()):
        lower[-1], below[-1] = n, min(below[-1], n - 1)
    values = sorted(set(data.draw(st.lists(st.integers(-8, 8), min_size=n, max_size=n))))
    m = len(values)
    hostile = resealed(
        "ranks-extended",
        sizes=[n],
        values=floats(*values),
        lower=counts(*lower[-m:]),
        below=counts(*below[-m:]),
        gap=data.draw(st.integers(0, n)),
    )
    try:
        summary = fc.Summary.from_bytes(hostile)
    except fc.InputError:
        return
    check_decoded(summary, hostile)
