"""The wire format: hostile bytes are refused, without harm and in one line. tests/vectors/wire has the single rules."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.summaries import StratifiedSummary
from fedconformal.summaries.ranks import RankSummary
from scripts import vectors
from scripts.vector_cases.tools import ABSENT, SCORES, File, assemble, counts, disassemble, floats, seal
from tests.contracts.tools import checks, probes, refusal

MESSAGES = vectors.examples()
every_message = pytest.mark.parametrize("name", MESSAGES)
EXACT = File(fc.Summary.of_scores(SCORES, kind="exact", site="a", score=fc.LAC()))
RANKS = File(fc.Summary.of_scores(np.arange(300) / 64, alpha=0.1, site="a"))
PARTS = [RankSummary.build(np.array([score])) for score in (0.5, 0.25)]
MERGED = File(RankSummary.merge(PARTS, sizes=(2,), sites=("a",)))


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
    assert ((lower <= upper) & (upper - lower <= summary.gap)).all()
    assert (np.diff([lower, upper]) >= 0).all()
    assert (lower[0], lower[-1], upper[-1]) == (0, summary.n, summary.n)
    if isinstance(summary, StratifiedSummary):
        for part in summary.parts.values():
            if all(part.sizes):
                check_decoded(part, part.to_bytes())


@given(st.binary(max_size=200))
@checks(200)
def test_random_bytes_are_refused(data: bytes) -> None:
    shared, own, words = disassemble(EXACT.having())
    for hostile in (data, b"FCS1" + data, seal(data), seal(b"FCS1" + data), assemble(data, own, words)):
        with pytest.raises(fc.InputError):
            fc.Summary.from_bytes(hostile)
    with pytest.raises(fc.InputError):
        fc.Summary.from_bytes(assemble(shared, data, words))


@every_message
def test_truncated_altered_and_longer_messages_are_refused(name: str) -> None:
    data = MESSAGES[name]
    for i in range(len(data)):
        flipped = (data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1 :] for bit in range(8))
        for hostile in (data[:i], seal(data[: max(0, i - 4)]), *flipped):
            with pytest.raises(fc.InputError):
                fc.Summary.from_bytes(hostile)
    for more in (b"\x00", b"\xc0", b"\n", data, bytes(8)):
        assert "truncated or altered" in refusal(decode(data + more))
        assert "bytes of arrays" in refusal(decode(seal(data[:-4] + more)))


ODD: dict[str, list[Any]] = {
    "sizes": [[-1], [2**64 - 1], ["5"], [None], [True], 5],
    "sites": [["\x7f"], ["\u202e"], [None], "a"],
    "model": ["\u2028", 1, b"m"],
    "temperature": [-1.0, "1.5", True, math.inf],
    "score": [["LAC", []], ["__class__", []], ["lac", [0.0] * 17], "lac", {"lac": []}, ["aps", [False, 2**63]]],
    "kind": ["", "exact by class", "../exact", None],
    "lengths": [[-1], [2**31], [5.0], None],
    "numbers": [[0, 0, 0], None],
    "columns": [["sex"], "sex", None],
    "by_class": [True, False, 1],
}
ODD_ALPHAS = ("1e-999999999", "1e999999999", "inf", "1/10", ".1", "1e-1", " 0.1", "0_1", "+0.1")


def test_odd_fields_are_refused() -> None:
    for name, values in ODD.items():
        for value in values:
            refusal(decode(EXACT.having(**{name: value})))
    for alpha in ODD_ALPHAS:
        refusal(decode(RANKS.having(parameters=[100, alpha])))


def test_claims_cost_nothing() -> None:
    shared, own, words = disassemble(EXACT.having())
    much = b"\xff\xff\xff\xff"
    for header in (b"\x81\xa5sizes\xdd" + much, b"\xdf" + much, b"\x81\xa5sizes\xdb" + much, b"\x91" * 100_000):
        refusal(decode(assemble(shared, header, words)))
        refusal(decode(assemble(header, own, words)))
    refusal(decode(RANKS.having(sizes=[2**32])))


def test_a_million_sites_cost_no_more_than_their_bytes() -> None:
    with pytest.raises(fc.InputError, match="claims 1048576 scores and holds 5"):
        fc.Summary.from_bytes(EXACT.having(sizes=[1] * 2**20, sites=[str(i) for i in range(2**20)]))


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
            case 4 if data:
                start = rng.randrange(len(data))
                out[i:i] = data[start : start + rng.choice([1, 8, 16])]
            case 5:
                j = rng.randrange(len(out) + 1)
                out[i : i + 8], out[j : j + 8] = out[j : j + 8], out[i : i + 8]
    return bytes(out)


@every_message
@given(st.integers(0, 2**64 - 1))
@checks(300)
def test_mutated_messages_are_refused_or_sound(name: str, seed: int) -> None:
    rng = random.Random(seed)
    parts = list(disassemble(MESSAGES[name]))
    which = rng.randrange(3)
    parts[which] = mutated(parts[which], rng)
    hostile = assemble(*parts)
    try:
        summary = fc.Summary.from_bytes(hostile)
    except fc.InputError:
        return
    check_decoded(summary, hostile)


@given(st.data())
@checks(300)
def test_altered_bounds_are_refused_or_sound(data: st.DataObject) -> None:
    """Alter decoded fields rather than bytes, which gets deeper than flipping bits does."""
    n = data.draw(st.integers(1, 12))
    some_counts = st.lists(st.integers(0, n + 1), min_size=n, max_size=n).map(sorted)
    lower, below = data.draw(some_counts), data.draw(some_counts)
    if data.draw(st.booleans()):
        lower[-1], below[-1] = n, min(below[-1], n - 1)
    values = sorted(set(data.draw(st.lists(st.integers(-8, 8), min_size=n, max_size=n))))
    m = len(values)
    arrays = [floats(*values), counts(*lower[-m:]), counts(*below[-m:])]
    hostile = MERGED.having(arrays, sizes=[n], numbers=[data.draw(st.integers(0, n))])
    try:
        summary = fc.Summary.from_bytes(hostile)
    except fc.InputError:
        return
    check_decoded(summary, hostile)


# --- sketches: places, counts at them, and the extreme scores ---

# Bucket 70,908 is zero's, and 106,327 ends at 1.
FINE: dict[str, dict[str, Any]] = {
    "ddsketch": {"places": counts(70_908, 106_327, 106_328), "smallest": 0.0, "largest": 1.01},
    "tdigest": {"places": floats(0.1, 0.5, 0.9), "smallest": 0.0, "largest": 1.0},
}
ODD_SKETCHES: dict[str, dict[str, Any]] = {
    "counts as floats": {"counts": floats(3.0, 5.0, 2.0)},
    "another size": {"sizes": [11]},
    "smallest of minus zero": {"smallest": -0.0},
    "largest as a text": {"largest": "1.01"},
    **{f"smallest {bad}": {"smallest": bad} for bad in (math.nan, -math.inf)},
    "smallest above the first place": {"smallest": 0.2},
    "largest below the last place": {"largest": 0.8},
    "two extremes of one score": {"sizes": [1], "places": floats(0.5), "counts": counts(1)},
}


def altered(kind: str, **changes: Any) -> bytes:
    """Encode a summary of ten scores with some fields altered."""
    fields = {"sizes": [10], "counts": counts(3, 5, 2), **FINE[kind], **changes}
    arrays, numbers = ([fields.pop(name) for name in pair] for pair in (("places", "counts"), ("smallest", "largest")))
    return File(fc.Summary.of_scores([0.1, 0.5], kind=kind)).having(arrays, numbers=numbers, sites=ABSENT, **fields)


@pytest.mark.parametrize("kind", FINE)
def test_an_honest_body_is_decoded(kind: str) -> None:
    data = altered(kind)
    check_decoded(fc.Summary.from_bytes(data), data)


@pytest.mark.parametrize("kind", FINE)
@pytest.mark.parametrize("what", ODD_SKETCHES)
def test_a_hostile_body_is_refused(kind: str, what: str) -> None:
    """tests/vectors/wire has more of them."""
    refusal(decode(altered(kind, **ODD_SKETCHES[what])))


def test_a_claim_of_very_many_scores_costs_nothing() -> None:
    halves: dict[str, Any] = {"places": floats(-1e308, 1e308), "counts": counts(2**31 - 1, 2**31 - 1)}
    data = altered("tdigest", sizes=[2**32 - 2], smallest=-1.7e308, largest=1.7e308, **halves)
    summary = fc.Summary.from_bytes(data)
    check_decoded(summary, data)
    assert len(summary.points) < 5000
