"""The threshold from sums is the plain one, bit by bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats, as_alpha
from fedconformal._base.float_bits import keys_of
from fedconformal.privacy.sums.radix import EXACT, Rounds, Search, SumTarget, sum_target
from fedconformal.privacy.sums.scale import BITS, codes_of, edges, exponent_of
from fedconformal.privacy.sums.scale import MOST as FARTHEST
from tests.contracts.tools import alphas, checks, finite_scores, maybe_infeasible, refused
from tests.privacy.sums_play import SHORT

GUARANTEES = (
    fc.Mixture(),
    fc.FCP(),
    fc.PAC(failure=0.2),
)


def threshold(scores: Sequence[Floats], wanted: SumTarget, widths: tuple[int, ...]) -> float:
    """Play coordinator and sites, without masks."""
    rounds, search = Rounds(widths, wanted), Search()
    keys = [keys_of(part) for part in scores]
    while search.answer is None:
        total = np.zeros(rounds.cells(search.number), dtype=rounds.dtype)
        for part in keys:
            total += rounds.histogram(search, part)
        search = rounds.advance(search, total, frozenset(range(len(keys))))
    return search.answer


def plain(scores: Sequence[Floats], wanted: SumTarget) -> float:
    """Try every score."""
    for q in np.unique(np.concatenate(scores)).tolist():
        if sum(int((s <= q).sum()) for s in scores) >= wanted.target:
            return float(q)
    return math.inf


pieces = st.lists(
    st.lists(
        st.one_of(
            finite_scores,
            st.sampled_from([-0.0, 0.0, 0.5, 0.5000000000000001]),
            st.floats(0, 1, width=32),
        ),
        min_size=1,
        max_size=6,
    ).map(lambda values: np.array(values, dtype=np.float64)),
    min_size=1,
    max_size=4,
)


PALETTE = (-0.0, 0.0, 0.5, 0.5000000000000001, 1.0, -1.0, 5e-324, -5e-324, 2.2e-308, 1e300, -1e300, 1.7e308)
SCORE = 9


def read(data: bytes) -> list[Floats]:
    """Read scores of up to four sites, nine bytes each: drawing bytes is much faster than lists of lists.

    The first byte says where, and which kind: often tied, any float64, any float32, or between zero and one.
    """
    sites: list[list[float]] = [[], [], [], []]
    for start in range(0, len(data) - SCORE + 1, SCORE):
        first, bits = data[start], data[start + 1 : start + SCORE]
        kinds = (
            PALETTE[bits[0] % len(PALETTE)],
            struct.unpack("<d", bits)[0],
            struct.unpack("<f", bits[:4])[0],
            bits[0] / 255,
        )
        value = kinds[first % 4]
        sites[first // 4 % 4].append(value if math.isfinite(value) else 0.0)
    return [np.array(site) for site in sites if site]


any_scores = given(st.binary(min_size=SCORE, max_size=24 * SCORE), st.integers(1, 30))


@any_scores
@checks(2_000)
def test_sums_find_the_exact_score(data: bytes, target: int) -> None:
    check_exact(data, target)


@pytest.mark.slow
@any_scores
@checks(20_000)
def test_sums_find_the_exact_score_among_many(data: bytes, target: int) -> None:
    check_exact(data, target)


def check_exact(data: bytes, target: int) -> None:
    scores = read(data)
    wanted = SumTarget(target=target, most=sum(map(len, scores)))
    found, expected = threshold(scores, wanted, EXACT), plain(scores, wanted)
    assert found == expected
    assert math.copysign(1, found) == math.copysign(1, expected + 0.0)  # -0.0 is 0.0


def test_those_bytes_hold_every_kind_of_score() -> None:
    scores = read(np.random.default_rng(0).bytes(4000 * SCORE))
    values = np.concatenate(scores)
    assert len(scores) == 4
    assert len(np.unique(values)) < 0.8 * len(values)  # ties
    assert (np.signbit(values) & (values == 0)).any()
    assert (values < 0).any()
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32) == values
    assert 0.2 < narrow.mean() < 0.9


@given(pieces, st.integers(1, 12))
@checks(500)
def test_two_rounds_round_up_a_little(scores: list[Floats], target: int) -> None:
    wanted = SumTarget(target=target, most=sum(map(len, scores)))
    exact, short = plain(scores, wanted), threshold(scores, wanted, SHORT)
    assert short >= exact
    if math.isfinite(exact):
        assert short - exact <= max(abs(exact) * 2**-20, 1e-300)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
@given(st.data(), alphas)
@checks(150)
def test_sums_and_summaries_agree(guarantee: fc.Guarantee, data: st.DataObject, alpha: Fraction) -> None:
    scores = data.draw(pieces)
    wanted = sum_target(guarantee, alpha, [len(part) for part in scores])
    with maybe_infeasible():
        expected = fc.calibrate(
            [fc.Summary.of_scores(s, kind="exact") for s in scores], alpha=alpha, guarantee=guarantee, exact=True
        )
    assert threshold(scores, wanted, EXACT) == expected.threshold


@given(pieces, st.integers(1, 20), st.data())
@checks(300)
def test_what_goes_missing_only_raises_the_threshold(scores: list[Floats], target: int, data: st.DataObject) -> None:
    wanted = SumTarget(target=target, most=sum(map(len, scores)))
    rounds, search = Rounds(EXACT, wanted), Search()
    keys = [keys_of(part) for part in scores]
    drops_at = [data.draw(st.integers(0, 16)) for _ in scores]
    while search.answer is None:
        total = np.zeros(rounds.cells(search.number), dtype=rounds.dtype)
        present = [index for index, last in enumerate(drops_at) if search.number < last]
        for index in present:
            total += rounds.histogram(search, keys[index])
        search = rounds.advance(search, total, frozenset(present))
    assert search.answer >= plain(scores, wanted)


@pytest.mark.parametrize("scores", [[0.0, 1e300], [1.7e308, 1.7e308], [-1.7e308, 1.7976931348623157e308]])
def test_the_end_of_the_last_cell_is_a_number(scores: list[float]) -> None:
    """All is counted in the first round and nothing after it: the end of a cell with the largest floats."""
    rounds = Rounds((4, 4), SumTarget(target=2, most=2))
    search = rounds.advance(Search(), rounds.histogram(Search(), keys_of(np.array(scores))), frozenset([0]))
    found = rounds.advance(search, np.zeros(16, dtype=rounds.dtype), frozenset())
    assert found.answer == np.finfo(np.float64).max


@pytest.mark.parametrize(
    "guarantee",
    [fc.EverySite(), fc.OneSite(site=0), fc.WorstCase(), fc.Robust(liars=1), fc.ByClass(fc.Mixture())],
    ids=repr,
)
def test_guarantees_that_need_more_than_a_sum_are_refused(guarantee: fc.Guarantee) -> None:
    with refused("needs every site's own counts", "mixture by rows, fcp and pac"):
        sum_target(guarantee, as_alpha(0.1), [10, 10])


@pytest.mark.parametrize(("most", "word"), [(2**32 - 1, "<u4"), (2**32, "<u8")])
def test_no_sum_wraps_around(most: int, word: str) -> None:
    rounds = Rounds((1, 1), SumTarget(target=most, most=most))
    assert rounds.dtype == np.dtype(word)
    total = np.array([0, most], dtype=rounds.dtype)
    assert rounds.advance(Search(), total, frozenset([0])).digits == 1


def test_bad_sums_are_refused() -> None:
    rounds = Rounds((4,), SumTarget(target=1, most=1))
    with refused("the sum has 3 counts, expected 16"):
        rounds.advance(Search(), np.zeros(3, dtype=np.uint32), frozenset([0]))
    with refused("there are no more rounds"):
        rounds.advance(Search(answer=1.0), np.zeros(16, dtype=np.uint32), frozenset([0]))
    with refused("the sum of round 0 is impossible"):
        rounds.advance(Search(), np.array([1, 1, *[0] * 14], dtype=np.uint32), frozenset([0]))
    for widths in ((), (17,), (16,) * 5, (0,), (1,) * 64, (16, 16, 16, 14, 2)):
        with refused("widths are"):
            Rounds(widths, rounds.wanted)


LARGEST = float(np.finfo(np.float64).max)
CORNERS = [-0.0, 0.0, 0.5, 1.0, 2.0, -1.0, 5e-324, 2.2e-308, 1e-12, 2**-41, 1e300, 2.0**64, LARGEST]
SPECIAL = sorted(
    {s for x in CORNERS for y in (x, -x) for s in (y, math.nextafter(y, 9e307), math.nextafter(y, -9e307))}
)


def test_edges_are_exact_and_rise() -> None:
    found = edges()
    assert len(found) == 2**BITS
    assert (np.diff(found) > 0).all()
    assert found[-1] == LARGEST
    assert not np.signbit(found[found == 0]).any()
    for i in range(1, 1025):
        assert Fraction(found[1023 + i]) == Fraction(i**4, 2**41)
        assert Fraction(found[3071 - i]) == 1 - Fraction(i**4, 2**41)
    for i in range(1, 513):
        assert Fraction(found[3071 + i]) == 1 + Fraction(i**4, 2**36)
        assert Fraction(found[1023 - i]) == -Fraction(i**4, 2**36)
    assert {Fraction(x).denominator for x in found[3583:]} == {1, 2, 4}
    assert {Fraction(x).denominator for x in found[:512]} == {1, 2, 4, 8}


@given(
    st.lists(st.one_of(st.sampled_from(SPECIAL), st.floats(allow_nan=False, allow_infinity=False)), min_size=1),
    st.sampled_from([0, 7, -3, FARTHEST, -FARTHEST]),
)
@checks(300)
def test_a_score_is_in_its_cell(scores: list[float], exponent: int) -> None:
    found = edges(exponent)
    for score, code in zip(scores, codes_of(keys_of(np.array(scores)), exponent).tolist(), strict=True):
        assert Fraction(score) <= Fraction(found[code])
        assert code == 0 or Fraction(score) > Fraction(found[code - 1])


@pytest.mark.parametrize("exponent", [7, -3, FARTHEST, -FARTHEST])
def test_a_reach_multiplies_every_edge(exponent: int) -> None:
    assert [Fraction(edge) for edge in edges(exponent)[:-1]] == [
        Fraction(edge) * Fraction(2) ** exponent for edge in edges()[:-1]
    ]
    assert edges(exponent)[-1] == LARGEST
    assert exponent_of(2.0**exponent) == exponent == exponent_of(max(0.9 * 2.0**exponent, 2.0**-FARTHEST))


def test_the_largest_and_the_smallest_scores_have_a_cell() -> None:
    assert codes_of(keys_of(np.array([-LARGEST, LARGEST]))).tolist() == [0, 2**BITS - 1]
    assert set(codes_of(keys_of(edges())).tolist()) == set(range(2**BITS))
