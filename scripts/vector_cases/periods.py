"""Messages of sites about a period of a watch, in files of one or more."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from fedconformal.monitoring.messages import MAGIC, Period, Stream, Tally, write_periods
from scripts.vector_cases.tools import Case

PREDICTOR = hashlib.sha256(b"a predictor").hexdigest()
NOTHING = [0, 0, 0, 0]
SOME = [480, 41, 20, 700]
ALL_ROWS = [0.13, 0.025, 0.025, NOTHING, SOME, "", None, None]
GROUP = [0.2, 0.01, 0.0, [10, 1.5, 0, 10.25], [20, 2.25, 3, 30.75], "sex=F", 20770, 20771]


def cases() -> list[Case]:
    """List them, and what is refused."""
    one, two = [PREDICTOR, "clinic-a", 20758, 20773, [ALL_ROWS]], [PREDICTOR, "Köln", 0, 0, [ALL_ROWS, GROUP]]
    made = [
        {"name": "one period", "input": {"periods": [one]}},
        {"name": "two periods, one with a group", "input": {"periods": [one, two]}},
        {"name": "whole numbers that came as floats", "input": {"periods": [_with(one, after=[480.0, 41.0, 20, 7e2])]}},
    ]
    return made + [{"name": name, "file": "periods", "bytes": data.hex()} for name, data in _hostile().items()]


def _with(period: list[Any], *, after: list[Any]) -> list[Any]:
    stream = [*ALL_ROWS[:4], [int(after[0]), *after[1:]], *ALL_ROWS[5:]]
    return [*period[:4], [stream]]


def _hostile() -> dict[str, bytes]:
    tally = Tally(known=480, misses=41, waiting=20, sizes=700)
    stream = Stream(0.13, 0.025, 0.025, Tally(), tally)
    good = write_periods([Period(bytes.fromhex(PREDICTOR), "clinic-a", 20758, 20773, (stream,))])
    message = good[4:]
    fields = msgspec.msgpack.decode(message[len(MAGIC) :])
    rows = fields[4][0]

    def framed(content: Any, magic: bytes = MAGIC) -> bytes:
        data = magic + (content if isinstance(content, bytes) else msgspec.msgpack.encode(content))
        return len(data).to_bytes(4, "little") + data

    def altered(place: int, value: Any) -> bytes:
        return framed([*fields[:place], value, *fields[place + 1 :]])

    def with_rows(place: int, value: Any) -> bytes:
        return altered(4, [[*rows[:place], value, *rows[place + 1 :]]])

    group = [*rows[:5], "sex=F", *rows[6:]]
    return {
        "empty": b"",
        "not a length": good[:3],
        "a length of zero": bytes(4),
        "truncated": good[:-1],
        "trailing bytes": good + b"\0",
        "another magic": framed(fields, b"FCP2"),
        "no MessagePack": framed(b"\xc1"),
        "a field too few": framed(fields[:-1]),
        "a field too many": framed([*fields, 0]),
        "a digest of 31 bytes": altered(0, bytes(31)),
        "no site": altered(1, ""),
        "a site of 65 characters": altered(1, "x" * 65),
        "a site with a control character": altered(1, "a\x1b"),
        "a group with a control character": altered(4, [rows, [*group[:5], "sex=\x1b", *group[6:]]]),
        "more than 2^50 rows before": with_rows(3, [2**50, 0, 1, 0]),
        "it ends before it begins": altered(3, 20757),
        "a day after the year 9999": altered(3, 2_932_897),
        "no streams": altered(4, []),
        "no stream of all rows": altered(4, [group]),
        "a group twice": altered(4, [rows, group, group]),
        "a limit of 0": with_rows(0, 0.0),
        "a limit that is a whole number": with_rows(0, 1),
        "a failure of 1": with_rows(2, 1.0),
        "more misses than rows": with_rows(4, [10, 11, 0, 0]),
        "misses as a float that is whole": with_rows(4, [480, 41.0, 20, 700]),
        "counts that fall": with_rows(3, [481, 41, 0, 0]),
        "sizes that are infinite": with_rows(4, [480, 41, 20, float("inf")]),
        "more than 2^50 rows": with_rows(4, [2**50 + 1, 41, 20, 700]),
        "a change after the year 9999": with_rows(7, [2_932_897, 0]),
        "two periods, a group of the second in another order": good + altered(4, [group, rows]),
        "two periods, the second truncated": good + good[:-1],
        "an array in a longer form": framed(message[len(MAGIC) :].replace(b"\x98", b"\xdc\x00\x08", 1)),
    }
