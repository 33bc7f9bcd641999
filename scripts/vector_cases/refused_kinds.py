"""Hostile summaries, kind by kind."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

import fedconformal as fc
from fedconformal.summaries.tdigest import TDigestSummary
from scripts.vector_cases.tools import SCORES, File, altered, counts, floats, seal


def hostile() -> Iterator[tuple[str, bytes]]:
    """List them."""
    yield from _plain()
    yield from _sketches()
    yield from _parted()
    yield from _losses()


def _plain() -> Iterator[tuple[str, bytes]]:
    exact = File(fc.summarize(SCORES, kind="exact", site="a"))
    yield from altered(
        exact,
        "exact",
        {
            "NaN": {"values": floats(0.25, 0.5, 0.5, 1.0, float("nan"))},
            "an infinity": {"values": floats(0.25, 0.5, 0.5, 1.0, float("inf"))},
            "out of order": {"values": floats(0.5, 0.25, 0.5, 1.0, 2.0)},
            "a minus zero": {"values": floats(-0.0, 0.5, 0.5, 1.0, 2.0)},
            "one too few": {"values": floats(0.25, 0.5, 0.5, 1.0)},
            "half a score": {"values": floats(0.25, 0.5, 0.5, 1.0, 2.0)[:-4]},
        },
    )
    ranks = File(fc.summarize([k / 64 for k in range(300)], alpha=0.1, site="a"))
    values = ranks.fields["values"]
    yield from altered(
        ranks,
        "ranks",
        {
            "one too few": {"values": values[8:]},
            "one too many": {"values": floats(-1.0) + values},
            "out of order": {"values": values[8:16] + values[:8] + values[16:]},
            "4,097 points": {"points": 4097},
            "another number of points": {"points": 101},
            "points and bounds": {"lower": counts(1)},
            "points and a gap": {"gap": 3},
            "two sites without bounds": {"sizes": [150, 150], "sites": ["a", "b"]},
            "an alpha that is not the shortest": {"alpha": "0.10"},
            "an alpha that is no number": {"alpha": "one"},
            "an alpha of more than 15 places": {"alpha": "0.1000000000000001"},
            "an alpha of 1": {"alpha": "1.0"},
        },
    )
    parts = [fc.summarize([0.25, 0.5], site="a"), fc.summarize([0.5, 1.0, 2.0], site="b")]
    pooled = File(fc.pool(parts))
    good = pooled.fields["lower"]
    yield from altered(
        pooled,
        "ranks with bounds",
        {
            "an alpha beside bounds": {"alpha": "0.1"},
            "tied points": {"values": floats(0.25, 0.25, 1.0, 2.0)},
            "too few bounds": {"lower": good[8:]},
            "counts that fall": {"lower": counts(1, 4, 3, 5)},
            "a last count that is not n": {"lower": counts(1, 3, 4, 4)},
            "a wider gap than stated": {"below": counts(0, 1, 3, 4), "lower": counts(0, 1, 2, 5)},
            "a gap of n": {"gap": 5},
            "a count of 2^63": {"lower": counts(1, 3, 4, 2**63)},
            "no points": {"values": b"", "lower": b"", "below": b""},
        },
    )


def _sketches() -> Iterator[tuple[str, bytes]]:
    sketch = File(fc.summarize(SCORES, kind="ddsketch", site="a"))
    first, *others = np.frombuffer(sketch.fields["buckets"], "<u8").tolist()
    yield from altered(
        sketch,
        "ddsketch",
        {
            "out of order": {"buckets": counts(others[0], first, *others[1:])},
            "one too few": {"buckets": counts(*others)},
            "not in the table": {"buckets": counts(first, *others[:-1], 141_816)},
            "a count of 0": {"counts": counts(1, 3, 0, 1)},
            "counts that do not add up": {"counts": counts(1, 2, 1, 2)},
            "counts that wrap around": {"counts": counts(1, 2**52, 2**52, 2**52)},
            "a smallest that is in another bucket": {"smallest": 0.3},
            "a largest that is not finite": {"largest": float("inf")},
            "a smallest that is whole": {"smallest": 0},
            "none": {"buckets": b"", "counts": b""},
        },
    )
    digest = File(
        TDigestSummary(
            means=np.array([0.25, 0.5, 1.0]), weights=np.array([1, 3, 1]), smallest=0.25, largest=1.0, sizes=(5,)
        )
    )
    yield from altered(
        digest,
        "tdigest",
        {
            "out of order": {"means": floats(0.5, 0.25, 1.0)},
            "one too few": {"means": floats(0.25, 0.5)},
            "a mean below the smallest": {"means": floats(0.2, 0.5, 1.0)},
            "a mean above the largest": {"largest": 0.75},
            "a weight of 0": {"weights": counts(0, 4, 1)},
            "weights that do not add up": {"weights": counts(1, 3, 2)},
            "a minus zero": {"smallest": -0.0, "means": floats(0.0, 0.5, 1.0)},
            "NaN": {"smallest": float("nan")},
        },
    )


def _parted() -> Iterator[tuple[str, bytes]]:
    by_class = File(fc.summarize(SCORES, kind="exact", labels=[0, 0, 0, 7, 7], by_class=True, site="a"))
    one, two = by_class.fields["parts"]
    other = fc.summarize([1.0, 2.0], kind="ranks").to_bytes()
    stated = fc.summarize([1.0, 2.0], kind="exact", site="a").to_bytes()
    version_2 = fc.summarize([1.0, 2.0], kind="exact", classes=8).to_bytes()
    nested = by_class.having(sites=[], sizes=[5])
    yield from altered(
        by_class,
        "by class",
        {
            "out of order": {"labels": [7, 0]},
            "a class twice": {"labels": [7, 7]},
            "a class of 2^20": {"labels": [0, 2**20]},
            "a part too few": {"parts": [one]},
            "a part that does not add up": {"parts": [one, one]},
            "parts of two kinds": {"parts": [one, other]},
            "a part with a name": {"parts": [one, stated]},
            "a part of version 2": {"parts": [one, version_2]},
            "a part by class": {"labels": [0], "parts": [nested]},
            "a part with a wrong checksum": {"parts": [one, two[:-1] + b"\0"]},
            "no classes": {"labels": [], "parts": []},
        },
    )
    by_group = File(fc.summarize(SCORES, kind="exact", groups={"sex": ["F", "M", "F", None, None]}, site="a"))
    rows, none, f, m = by_group.fields["parts"]
    yield from altered(
        by_group,
        "by group",
        {
            "columns out of order": {"columns": ["sex", "age"]},
            "no columns": {"columns": []},
            "a column with =": {"columns": ["se=x"]},
            "a group of another column": {"groups": ["all rows", "none of the others", "age=F", "sex=M"]},
            "a group with a space around it": {"groups": ["all rows", "none of the others", "sex=F", "sex=M "]},
            "out of order": {
                "groups": ["all rows", "none of the others", "sex=M", "sex=F"],
                "parts": [rows, none, m, f],
            },
            "no group of all rows": {"groups": ["none of the others", "sex=F", "sex=M"], "parts": [none, f, m]},
            "all rows are not all": {"parts": [none, none, f, m]},
            "rows that are in no group": {"groups": ["all rows", "sex=F", "sex=M"], "parts": [rows, f, m]},
            "more rows than there are": {"parts": [rows, none, rows, m]},
            "a part by group": {"parts": [by_group.having(sites=[]), none, f, m]},
        },
    )


def _losses() -> Iterator[tuple[str, bytes]]:
    losses = File(fc.summarize_losses([[1, 0.5, 0], [1, 1, 0.25]], thresholds=[1, 2, 3], site="a"))
    steps = File(fc.summarize_losses([[1, 1, 1, 0.5, 0.5]], thresholds=[1, 2, 3, 4, 5]))
    unit = 2**20
    yield from altered(
        losses,
        "losses",
        {
            "more than the bound": {"sums": counts(2 * unit + 1, unit, 0)},
            "that rise": {"sums": counts(unit, 2 * unit, 0)},
            "too few sums": {"sums": counts(unit, 0)},
            "never rounded": {"rounded": 0},
            "places that are not needed": {"places": counts(1, 2), "sums": counts(unit, 0)},
        },
    )
    yield from altered(
        steps,
        "losses",
        {
            "a place beyond the grid": {"places": counts(5)},
            "a place where nothing changes": {"sums": counts(unit)},
            "places and all sums": {"sums": counts(*[unit] * 3, *[unit // 2] * 2)},
            "all sums where places are fewer": {"places": b"", "sums": counts(*[unit] * 3, *[unit // 2] * 2)},
            "places out of order": {"places": counts(3, 1), "sums": counts(unit // 2, 0)},
        },
    )
    for name, about in {
        "a bound of 0": {"bound": 0.0},
        "a bound of 10^7": {"bound": 1e7},
        "a bound that is whole": {"bound": 1},
        "a grid that falls": {"grid": floats(3, 2, 1)},
        "a grid with a minus zero": {"grid": floats(-0.0, 1, 2)},
        "a grid that is not finite": {"grid": floats(1, 2, float("inf"))},
        "a grid of half a number": {"grid": floats(1, 2, 3)[:-4]},
        "a loss with a text": {"loss": ["x", ["1"]]},
        "rising, at length": {"rising": False},
    }.items():
        said = {
            key: (losses.about | about)[key]
            for key in ("loss", "bound", "grid", "rising")
            if key in losses.about | about
        }
        yield f"losses: {name}", seal(msgspec.msgpack.encode([said, list(losses.fields.values())]), "L", "2")
    yield "losses: of version 1", seal(msgspec.msgpack.encode(list(losses.fields.values())), "L")
