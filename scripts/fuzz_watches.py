"""Hostile bytes: mutate messages of periods and files of watches; each is refused, or sound and usable.

    python -m scripts.fuzz_watches --count 100000 --seed 1

Case i of a seed is always the same. A failure prints the case and its bytes; exit code 1.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import math
import random
import resource
import signal
import sys
import traceback
from collections import Counter
from typing import Any

import msgspec
import numpy as np

from fedconformal.errors import InputError
from fedconformal.monitoring.messages import Period, Stream, Tally, read_periods, write_periods
from fedconformal.monitoring.monitor import Monitor
from scripts.fuzz import MEMORY, ODD, SECONDS, altered_bytes, altered_words, demand, time_limit

MAGIC = 4


def starting_points() -> list[bytes]:
    """Return valid messages, with and without a group and an alarm."""
    tally = Tally(known=400, misses=31.5, waiting=9, sizes=801.25)
    streams = tuple(
        Stream(0.13, 0.025, 0.0, Tally(known=9, misses=1), tally, group, alarm, changed)
        for group, alarm, changed in (("", None, None), ("sex=F", 20_770, 20_772))
    )
    made = [Period(bytes(32), "clinic-a", 20_758, 20_773, streams[:count]) for count in (1, 2)]
    return [period.to_bytes() for period in made]


def altered(value: Any, rng: random.Random) -> Any:
    """Alter one place of decoded fields, however deep."""
    if isinstance(value, list) and value and rng.random() < 0.85:
        place = rng.randrange(len(value))
        return [*value[:place], altered(value[place], rng), *value[place + 1 :]]
    if isinstance(value, dict) and rng.random() < 0.9:
        name = rng.choice(list(value))
        return {**value, name: altered(value[name], rng)}
    if isinstance(value, bytes) and len(value) >= 8 and rng.random() < 0.7:
        return altered_words(value, rng)
    if isinstance(value, int | float) and math.isfinite(value) and rng.random() < 0.5:
        return rng.choice([-value, value + 1, value - 1, value * 2**20, value / 3, float(value), value / 2**900])
    return rng.choice(ODD)


def case(number: int, seed: int, starts: list[bytes]) -> bytes:
    """Make the hostile bytes of one case."""
    rng = random.Random(f"{seed} {number}")  # noqa: S311
    data = rng.choice(starts)
    if rng.random() < 0.3:
        return altered_bytes(data, rng, starts)
    fields = msgspec.msgpack.decode(data[MAGIC:])
    for _ in range(rng.randint(1, 3)):
        fields = altered(fields, rng)
    try:
        return data[:MAGIC] + msgspec.msgpack.encode(fields)
    except OverflowError:  # an integer that is too large to write
        return data


def use_monitor(watch: Monitor) -> None:
    """Read all that a watch says, and go on from it."""
    low, high = watch.interval
    demand(math.isfinite(watch.log_e_value) and 0 <= low <= high <= 1, "no evidence or no interval")
    if watch.rows < 2**49:
        after = watch.update(misses=[1, 0.25, 0], waiting=watch.waiting)
        demand(after.known == watch.known + 3 and (after.alarm or not watch.alarm), "does not go on")


def use_period(period: Period) -> None:
    """Read the evidence of all streams."""
    for stream in period.streams:
        use_monitor(stream.monitor())
    demand(read_periods(write_periods([period] * 2)) == [period] * 2, "not the same in a file")


def check(data: bytes) -> str:
    """Try the bytes as a message and return "period", or "refused"; anything unsound raises."""
    outcome = "refused"
    try:
        found = Period.from_bytes(data)
        demand(found.to_bytes() == data, "encodes to other bytes")
        use_period(found)
        outcome = "period"
        read_periods(data)
    except InputError as error:
        demand(len(str(error).splitlines()) == 1, "the refusal is not one line")
    return outcome


def fuzz(count: int, seed: int, first: int = 0) -> Counter[str]:
    """Run the cases and count outcomes by kind; on a failure, print the case and raise."""
    starts, outcomes = starting_points(), Counter[str]()
    with time_limit(), np.errstate(all="raise", under="ignore"):
        for number in range(first, first + count):
            data = case(number, seed, starts)
            signal.alarm(SECONDS)
            try:
                outcomes[check(data)] += 1
            except BaseException:
                signal.alarm(0)
                print(f"case {number} of seed {seed}: --seed {seed} --first {number} --count 1\n{data.hex()}")
                raise
    return outcomes


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        outcomes = fuzz(options.count, options.seed, options.first)
    except Exception:  # noqa: BLE001
        traceback.print_exc()
        return 1
    print(f"{options.count} cases, none unsound: {dict(outcomes.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
