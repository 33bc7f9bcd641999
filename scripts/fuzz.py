"""Hostile bytes: mutate summaries of every kind, and demand that each is refused or decodes to something sound.

    python -m scripts.fuzz --count 1000000 --seed 1

Case i of a seed is always the same. A failure prints the case, how to run it alone, and its bytes; exit code 1.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np

import fedconformal as fc
from fedconformal._base import registry
from fedconformal.summaries.batch import SummaryBatch
from fedconformal.summaries.losses import UNIT, LossSummary
from fedconformal.summaries.summary import Summary
from scripts import vectors
from scripts.vector_cases.tools import assemble, disassemble

MEMORY = 4 * 2**30
SECONDS = 5
PROBES = 64
BATCH = 20
"""This many cases in a row are also decoded together; most of them are refused."""

# Bytes that mean something in MessagePack: arrays, maps, nil, binary, floats, integers, strings, extensions.
SPECIAL = bytes.fromhex("00 01 7f 80 90 91 96 dc dd de df c0 c1 c4 c5 c6 c7 c9 ca cb cc cd ce cf d0 d3 d9 da db ff")
NUMBERS = [0, 1, 2, 3, 2**31, 2**32, 2**32 + 1, 2**52, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
FLOATS = [0.0, -0.0, 0.5, -1e300, 1e308, -5e-324, float("nan"), float("inf"), float("-inf")]
ODD: list[Any] = [
    *NUMBERS,
    *FLOATS,
    -1,
    None,
    True,
    "",
    "0.1",
    "1e-999999999",
    "a\nb",
    "x" * 65,
    b"",
    bytes(8),
    (),
    (0,),
]


def starting_points() -> dict[str, bytes]:
    """Return valid summaries of every kind in the registry, small, large and pooled; and examples of the vectors."""
    rng = np.random.default_rng(0)
    about: dict[str, Any] = {"score": fc.RAPS(), "model": "m", "temperature": 1.5}
    found = vectors.examples()
    for kind in registry.members(Summary):
        few = fc.Summary.of_scores(rng.normal(size=7).round(1), kind=kind, alpha=0.1, site="a", **about)
        many = fc.Summary.of_scores(rng.normal(size=300).round(2), kind=kind, alpha=0.1, site="b", **about)
        bare = fc.Summary.of_scores([0.5], kind=kind)
        made = {"few": few, "many": many, "bare": bare}
        made["pooled"] = fc.pool([few, many])
        found |= {f"{kind} {word}": summary.to_bytes() for word, summary in made.items()}
    curves = (np.array([[0.5]]), -np.sort(-rng.random((60, 7)), axis=1), rng.random((9, 1)) > np.arange(100) / 50)
    for i, losses in enumerate(curves):
        found[f"losses {i}"] = fc.LossSummary.of_losses(losses, thresholds=range(losses.shape[1]), site="a").to_bytes()
    return found


def altered_bytes(body: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Flip, insert, delete, overwrite, swap or splice, one to four times, half of the time near the start."""
    out = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        reach = len(out) if rng.random() < 0.5 else min(len(out), 60)
        i = rng.randrange(reach + 1)
        match rng.randrange(7):
            case 0:
                out[i : i + 1] = bytes(byte ^ 1 << rng.randrange(8) for byte in out[i : i + 1])
            case 1:
                out.insert(i, rng.choice(SPECIAL))
            case 2:
                del out[i : i + rng.choice([1, 1, 2, 8])]
            case 3:
                out[i : i + 1] = bytes([rng.choice([rng.choice(SPECIAL), rng.randrange(256)])])
            case 4:  # a length, or the lack of one
                width = rng.choice([1, 2, 4, 8])
                number = rng.choice([*NUMBERS, len(body), len(body) - i, 2**31 - 1])
                out[i : i + width] = (number % 256**width).to_bytes(width, "big")
            case 5:
                j = rng.randrange(len(out) + 1)
                out[i : i + 8], out[j : j + 8] = out[j : j + 8], out[i : i + 8]
            case 6:
                other = rng.choice(others) or b"\0"
                j = rng.randrange(len(other))
                out[i:] = other[j:] if rng.random() < 0.5 else other[j : j + 16] + out[i:]
    return bytes(out)


def altered_fields(header: bytes, rng: random.Random) -> bytes:
    """Alter decoded fields of a header and encode them again: gets deeper than bytes do."""
    fields = msgspec.msgpack.decode(header)
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(list(fields))
        value = fields[name]
        if isinstance(value, list) and value and rng.random() < 0.7:
            place = rng.randrange(len(value))
            inner = value[place]
            if isinstance(inner, list) and inner and rng.random() < 0.7:  # a stratum
                inner[rng.randrange(len(inner))] = rng.choice(ODD)
            else:
                value[place] = rng.choice(ODD)
        elif isinstance(value, int | float) and rng.random() < 0.7:
            fields[name] = min(value + rng.choice([-1, 1, 0.5, 2**32]), 2**64 - 1)
        else:
            fields[name] = rng.choice(ODD)
    return msgspec.msgpack.encode(fields)


def altered_words(packed: bytes, rng: random.Random) -> bytes:
    """Alter one of the numbers of a packed array."""
    words = [packed[start : start + 8] for start in range(0, len(packed), 8)]
    i, j = rng.randrange(len(words)), rng.randrange(len(words))
    near = (int.from_bytes(words[i], "little") + rng.choice([-1, 1])) % 2**64
    match rng.randrange(6):
        case 0:
            words[i] = words[j]
        case 1:
            words[i], words[j] = words[j], words[i]
        case 2:
            words[i] = near.to_bytes(8, "little")
        case 3:
            words[i] = rng.choice(NUMBERS).to_bytes(8, "little")
        case 4:
            words[i] = np.float64(rng.choice(FLOATS)).tobytes()
        case 5:
            words[i : i + 1] = rng.choice([[], [words[i], words[i]]])
    return b"".join(words)


def case(number: int, seed: int, starts: list[bytes]) -> tuple[bytes, bytes]:
    """Make the hostile bytes of one case; return what they were before, too."""
    rng = random.Random(f"{seed} {number}")  # noqa: S311
    data = rng.choice(starts)
    return data, hostile(data, rng, starts)


def hostile(data: bytes, rng: random.Random, starts: list[bytes]) -> bytes:
    """Alter a summary."""
    if rng.random() < 0.1:  # the envelope too, with the checksum as it falls
        return altered_bytes(data, rng, starts)
    parts = list(disassemble(data))
    which = rng.randrange(3)
    if rng.random() < 0.5 and (which < 2 or len(parts[2]) >= 8):
        parts[which] = altered_words(parts[2], rng) if which == 2 else altered_fields(parts[which], rng)
    else:
        parts[which] = altered_bytes(parts[which], rng, [disassemble(other)[which] for other in rng.sample(starts, 2)])
    made = assemble(*parts)
    return made if rng.random() < 0.9 else made[:-1] + bytes([made[-1] ^ 1])


def check(data: bytes) -> str:
    """Decode and return the kind, or "refused"; anything unsound raises."""
    try:
        summary = fc.Summary.from_bytes(data)
    except fc.InputError as error:
        demand(len(str(error).splitlines()) == 1, "the refusal is not one line")
        return "refused"
    demand(summary.to_bytes() == data, "encodes to other bytes")
    demand(summary.n == sum(summary.sizes) > 0, "sizes")
    if isinstance(summary, LossSummary):
        sums, falls = summary.units, summary.provenance.rising or bool((np.diff(summary.units) <= 0).all())
        demand(falls and 0 <= sums.min() <= sums.max() <= summary.n * UNIT, "sums that rise or are out of bounds")
        demand(len(sums) == len(summary.grid) and bool((np.diff(summary.grid) > 0).all()), "grid")
        return summary.name
    points = summary.points
    demand(bool(np.isfinite(points).all() and (points[1:] >= points[:-1]).all()), "points")
    some = points[:: max(1, len(points) // PROBES)]
    with np.errstate(over="ignore"):
        beside = [np.nextafter(some, -np.inf), np.nextafter(some, np.inf)]
    lower, upper = summary.bounds(np.unique(np.concatenate([some, *beside, [-np.inf, 0.0, np.inf]])))
    demand(bool((lower <= upper).all()), "lower above upper")
    demand(bool((lower[1:] >= lower[:-1]).all() and (upper[1:] >= upper[:-1]).all()), "not monotone")
    demand(bool(lower[0] == 0 and lower[-1] == upper[-1] == summary.n), "not bracketed by 0 and n")
    demand(not summary.certified or bool((upper - lower <= summary.gap).all()), "wider than the stated gap")
    return summary.name


def check_beside(before: bytes, data: bytes, outcome: str) -> bool:
    """Decode it together with the message that it was made from, which must not change what it is."""
    if outcome in ("refused", LossSummary.name):
        return False
    together, alone = SummaryBatch.from_bytes([before, data]), fc.Summary.from_bytes(data)
    (values, rises), first = together.points(), together.lengths()[0]
    demand(together.sizes[1] == alone.sizes and together.sites[1] == alone.sites, "other sites together")
    demand(together.gaps[1] == alone.gap, "another gap together")
    demand(values[first:].tobytes() == alone.points.tobytes(), "other points together")
    demand(rises[first:].cumsum().tolist() == alone.lower_counts.tolist(), "other counts together")
    return together[1].to_bytes() == data


def check_together(batch: list[bytes], outcomes: list[str]) -> None:
    """Decode a batch: it must come out as one by one, and be refused if one of it is."""
    taken = [data for data, outcome in zip(batch, outcomes, strict=True) if outcome != "refused"]
    for data, summary in zip(taken, SummaryBatch.from_bytes(taken), strict=True):
        alone = fc.Summary.from_bytes(data)
        demand(type(summary) is type(alone) and summary.to_bytes() == data, "another summary in a batch")
        if isinstance(summary, LossSummary):  # which has no points
            continue
        same = summary.points.tobytes() == alone.points.tobytes() and (summary.lower_counts == alone.lower_counts).all()
        demand(bool(same), "other counts in a batch")
    if len(taken) == len(batch):
        return
    place = outcomes.index("refused") + 1
    said = "nothing"
    try:
        SummaryBatch.from_bytes(batch)
    except fc.InputError as error:
        said = str(error)
    demand(said.startswith(f"summary {place} of {len(batch)}: "), f"a batch is not refused for the right one: {said}")
    demand(len(said.splitlines()) == 1, "the refusal of a batch is not one line")


def demand(condition: bool, what: str) -> None:  # noqa: FBT001
    """Raise unless something holds; not an assert, which python -O leaves out."""
    if not condition:
        raise ArithmeticError(what)


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise TimeoutError in whatever is running SECONDS after the last call of `signal.alarm`."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no answer within {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fuzz(count: int, seed: int, first: int = 0, *, progress: bool = False) -> Counter[str]:
    """Run the cases and count outcomes by kind; on a failure, print a reproducer and raise."""
    starts = list(starting_points().values())
    outcomes: Counter[str] = Counter()
    began = time.monotonic()
    batch: list[bytes] = []
    found: list[str] = []
    with time_limit():
        for number in range(first, first + count):
            before, data = case(number, seed, starts)
            signal.alarm(SECONDS)
            try:
                batch, found = [*batch, data], [*found, check(data)]
                outcomes[found[-1]] += 1
                outcomes["together"] += check_beside(before, data, found[-1])
                if len(batch) == BATCH or number + 1 == first + count:
                    check_together(batch, found)
                    batch, found = [], []
            except BaseException:
                signal.alarm(0)
                begin = number - len(batch) + 1 if batch and batch[-1] == data else number
                print(f"case {number} of seed {seed}: --seed {seed} --first {begin} --count {number - begin + 1}")
                print(data.hex())
                raise
            if progress and (number + 1 - first) % 10_000 == 0:
                rate = (number + 1 - first) / (time.monotonic() - began)
                print(f"\r{number + 1 - first} cases, {rate:.0f}/s, {dict(outcomes)}", end="", file=sys.stderr)
    return outcomes


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # a claim of gigabytes is not to be believed
    try:
        outcomes = fuzz(options.count, options.seed, options.first, progress=True)
    except Exception:  # noqa: BLE001
        traceback.print_exc()
        return 1
    print(f"\n{options.count} cases, none unsound: {dict(outcomes.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
