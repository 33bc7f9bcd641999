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
from scripts import fuzz, vectors
from scripts.vector_cases.tools import SCORES, File, assemble, counts, disassemble, floats, seal
from tests.contracts.tools import checks, probes, refusal

MESSAGES = vectors.examples()
STARTS = [*MESSAGES.values()]
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


@every_message
@given(st.integers(0, 2**64 - 1))
@checks(300)
def test_mutated_messages_are_refused_or_sound(name: str, seed: int) -> None:
    hostile = fuzz.hostile(MESSAGES[name], random.Random(seed), STARTS)
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


def test_a_claim_of_very_many_scores_costs_nothing() -> None:
    digest, numbers = File(fc.Summary.of_scores([0.1, 0.5], kind="tdigest")), [-1.7e308, 1.7e308]
    arrays = [floats(-1e308, 1e308), counts(2**31 - 1, 2**31 - 1)]
    data = digest.having(arrays, sizes=[2**32 - 2], numbers=numbers)
    summary = fc.Summary.from_bytes(data)
    check_decoded(summary, data)
    assert len(summary.points) < 5000
