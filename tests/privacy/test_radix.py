"""The threshold from sums is that of all scores, rounded up to the edge of a public cell.

Who knows a row's score, and sees all sums, can hardly tell that the row is in there; if one round counted all cells at
once, the sums would give many rows away.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats, keys_of
from fedconformal.privacy.sums import radix
from fedconformal.privacy.sums.radix import FARTHEST, JOINED, LEAST, Rounds, Search, edges, exponent_of, score_rounds
from tests.contracts.tools import checks, finite_scores, refused
from tests.privacy.attack import decided, of_digits, watching
from tests.privacy.sums_play import SCORES, calibrate_by_sums, rounded

LARGEST = float(np.finfo(np.float64).max)
CORNERS = [-0.0, 0.0, 0.5, 1.0, 2.0, -1.0, 5e-324, 2.2e-308, 1e-12, 2**-41, 1e300, 2.0**64, LARGEST]
SPECIAL = sorted(
    {s for x in CORNERS for y in (x, -x) for s in (y, math.nextafter(y, 9e307), math.nextafter(y, -9e307))}
)
pieces = st.lists(
    st.lists(st.one_of(finite_scores, st.sampled_from(SPECIAL), st.floats(0, 1, width=32)), min_size=1, max_size=6).map(
        lambda values: np.array(values, dtype=np.float64)
    ),
    min_size=1,
    max_size=4,
)


def rounds_of(scores: Sequence[Floats], target: int) -> Rounds:
    return Rounds(edges(), target, sum(map(len, scores)))


def searched(rounds: Rounds, scores: Sequence[Floats], drops_at: Sequence[int] = ()) -> Search:
    """Play coordinator and sites, without masks; sites may be out from some round on."""
    search, keys = Search(), [keys_of(part) for part in scores]
    while search.answer is None:
        present = [k for k in range(len(keys)) if not drops_at or search.number < drops_at[k]]
        total = np.zeros(rounds.cells(search.number), dtype=rounds.dtype)
        for k in present:
            total += rounds.histogram(search, keys[k])
        before, search = search, rounds.advance(search, total, frozenset(present))
        assert search.answer is not None or rounds.extends(before, search)
    return search


def plain(scores: Sequence[Floats], target: int) -> float:
    """Return the order statistic."""
    values = np.sort(np.concatenate(scores))
    return float(values[target - 1]) if target <= len(values) else math.inf


@pytest.mark.usefixtures("to_the_last_cell")
@given(pieces, st.integers(1, 24))
@checks(250)
def test_sums_find_the_cell_of_the_score(scores: list[Floats], target: int) -> None:
    assert searched(rounds_of(scores, target), scores).answer == rounded(plain(scores, target))


@given(pieces, st.integers(1, 12))
@checks(150)
def test_never_below_the_plain_threshold(scores: list[Floats], target: int) -> None:
    rounds, exact = rounds_of(scores, target), plain(scores, target)
    found = searched(rounds, scores)
    assert found.answer is not None
    assert found.answer >= exact
    assert math.isfinite(found.answer) == math.isfinite(exact)


@pytest.mark.usefixtures("to_the_last_cell")
@given(pieces, st.integers(1, 20), st.lists(st.integers(0, 4), min_size=4, max_size=4))
@checks(150)
def test_rows_that_go_missing_only_raise_the_threshold(scores: list[Floats], target: int, drops_at: list[int]) -> None:
    found = searched(rounds_of(scores, target), scores, drops_at).answer
    assert found is not None
    assert found >= plain(scores, target)


@pytest.mark.parametrize(("rows", "parts"), [(12, 1), (13, 2), (24, 2), (25, 4), (49, 4), (50, 8)])
def test_a_cell_of_few_rows_is_split_in_fewer_parts(rows: int, parts: int) -> None:
    """The target is in a cell of this many rows; others are far above."""
    scores = [np.linspace(0.04, 0.45, rows), np.full(rows, 0.99)]
    rounds, exact = rounds_of(scores, rows // 2), plain(scores, rows // 2)
    with watching() as seen:
        found = searched(rounds, scores)
    assert len(seen) == (1 if parts == 1 else 2)
    assert found.stopped == "its cell has fewer than 50 rows"
    cells = edges()[511 + 512 * 2 :: 64][:9] if parts > 1 else np.array([1 / 32, 0.5])
    upper = cells[1:][8 // parts - 1 :: 8 // parts] if parts > 1 else cells[1:]
    place = int(np.searchsorted(upper, exact))
    assert found.answer == upper[place]
    if parts > 1:
        assert set(np.flatnonzero(seen[1][2])) <= set(range(8 // parts - 1, 8, 8 // parts))


def coverage(alpha: Fraction) -> Fraction:
    """Return the chance that a fourth score is at most the threshold of three: every way to draw them is as likely."""
    atoms, rounds = edges()[511::512], score_rounds(fc.Mixture(), alpha, [1, 1, 1])
    answers = [
        searched(rounds, [atoms[[k]] for k in drawn]).answer or 0 for drawn in itertools.product(range(8), repeat=3)
    ]
    return Fraction(sum(int((atoms <= found).sum()) for found in answers), 8 * len(answers))


def test_coverage_is_promised_and_a_rank_too_low_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert coverage(Fraction(1, 3)) >= Fraction(2, 3)
    rank = fc.Mixture.rank

    def lower(self: fc.Mixture, alpha: Fraction, sizes: Any) -> Any:
        found = rank(self, alpha, sizes)
        return found and (found[0] - 1, found[1])

    monkeypatch.setattr(fc.Mixture, "rank", lower)
    assert coverage(Fraction(1, 3)) < Fraction(2, 3)


def test_a_question_extends_the_last_one() -> None:
    rounds = Rounds(edges(), target=1, rows=1)
    assert rounds.extends(None, Search())
    assert rounds.extends(Search(1, 5), Search(2, 5 * 8 + 7))
    assert rounds.extends(Search(1, 5), Search(2, 2 << JOINED | 5 * 8 + 7))
    for before, after in (
        (None, Search(0, 1)),
        (None, Search(1, 0)),
        (Search(1, 5), Search(2, 6 * 8)),
        (Search(1, 5), Search(2, 4 * 8 + 7)),
        (Search(1, 5), Search(1, 5)),
        (Search(0, 0), Search(2, 0)),
        (Search(1, 1 << JOINED | 5), Search(2, 5 * 8)),
    ):
        assert not rounds.extends(before, after)


@pytest.mark.parametrize(("rows", "word"), [(2**32 - 1, "<u4"), (2**32, "<u8")])
def test_no_sum_wraps_around(rows: int, word: str) -> None:
    rounds = Rounds(edges(), target=rows, rows=rows)
    assert rounds.dtype == np.dtype(word)
    total = np.array([0, rows, *[0] * 6], dtype=rounds.dtype)
    assert rounds.advance(Search(), total, frozenset([0])).digits == 1


def test_an_impossible_sum_is_refused() -> None:
    with refused("the sum of round 0 is impossible"):
        Rounds(edges(), 1, 1).advance(Search(), np.array([1, 1, *[0] * 6], dtype=np.uint32), frozenset([0]))


UNIT = 12
"""A row of a patient with three rows counts four."""


@pytest.mark.parametrize("least", [0, LEAST])
@given(st.lists(st.tuples(finite_scores, st.integers(1, UNIT)), min_size=1, max_size=40), st.integers(1, 12 * UNIT))
@checks(100)
def test_rows_may_count_in_part(least: int, rows: list[tuple[float, int]], target: int) -> None:
    """The threshold is that of the weights: the smallest edge at which they reach the target, or above."""
    scores, weights = np.array([score for score, _ in rows]), np.array([weight for _, weight in rows], dtype=np.uint64)
    rounds, search = Rounds(edges(), target, rows=len(rows), unit=UNIT), Search()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(radix, "LEAST", least)
        while search.answer is None:
            split, total = search.joined, rounds.histogram(search, keys_of(scores), weights)
            search = rounds.advance(search, total, frozenset([0]))
            assert search.answer is not None or int(total.max()) << search.joined >= least * UNIT
            assert search.answer is not None or split == 0
    reached = edges()[[int(weights[scores <= edge].sum()) >= target for edge in edges()]]
    expected = reached[0] if len(reached) else math.inf
    assert search.answer >= expected if least else search.answer == expected


def test_edges_are_exact_and_rise() -> None:
    found = edges()
    assert len(found) == 4096
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


@given(st.lists(st.one_of(st.sampled_from(SPECIAL), finite_scores), min_size=1), st.sampled_from([0, 7, -3, FARTHEST]))
@checks(150)
def test_a_score_is_in_its_cell(scores: list[float], exponent: int) -> None:
    found = edges(exponent)
    codes = np.searchsorted(keys_of(found), keys_of(np.array([*scores, -LARGEST, LARGEST])))
    assert codes[-2:].tolist() == [0, len(found) - 1]
    for score, code in zip(scores, codes.tolist(), strict=False):
        assert Fraction(score) <= Fraction(found[code])
        assert code == 0 or Fraction(score) > Fraction(found[code - 1])


@pytest.mark.parametrize("exponent", [7, -3, FARTHEST, -FARTHEST])
def test_a_reach_multiplies_every_edge(exponent: int) -> None:
    assert [Fraction(edge) for edge in edges(exponent)[:-1]] == [
        Fraction(edge) * Fraction(2) ** exponent for edge in edges()[:-1]
    ]
    assert edges(exponent)[-1] == LARGEST
    assert exponent_of(2.0**exponent) == exponent == exponent_of(max(0.9 * 2.0**exponent, 2.0**-FARTHEST))


SITES = 10
MEMBERS = 650


@pytest.mark.parametrize("score", [fc.LAC(), fc.APS()], ids=repr)
def test_hardly_a_member_is_decided(score: fc.Score, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = of_digits(score, MEMBERS)
    shares: dict[int, list[float]] = {3: [], 12: []}
    for seed in range(3):
        members, others, labels = draw(seed)
        exact = np.sort(members)[9 * MEMBERS // 10]  # the next rank after nine tenths
        for width, found in shares.items():
            monkeypatch.setattr(radix, "WIDTH", width)
            with watching() as seen:
                threshold = calibrate_by_sums({f"site-{k}": members[k::SITES] for k in range(SITES)}).threshold
            found.append(decided(seen, members, others) / MEMBERS)
            assert exact <= threshold
            assert (labels <= threshold).mean() <= 1.1 * (labels <= exact).mean()  # what it costs in labels
    assert max(shares[3]) <= 0.01
    assert min(shares[12]) >= 0.015  # or the attack would be too weak to show anything
    assert sum(shares[12]) >= 5 * sum(shares[3])


def test_the_certificate_says_why_it_is_no_smaller_cell() -> None:
    found = calibrate_by_sums(SCORES).certificate
    assert found.privacy is not None
    assert found.privacy["precision"] == {"least": LEAST, "reach": 1.0, "stopped": "its cell has fewer than 50 rows"}
    assert (found.status, found.coverage_at_least, found.coverage_at_most) == ("certified", 0.9, 1.0)
    assert "the upper edge of a public cell" in found.statement.caveat


def test_one_site_of_one_row_moves_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing bounds the counts of a site by its rows: the certificate says that sites have to follow the protocol."""
    sites = {f"site-{k}": np.random.default_rng(k).random(100) for k in range(9)} | {"liar": np.array([0.5])}
    honest = calibrate_by_sums(sites).threshold
    histogram = Rounds.histogram

    def lying(rounds: Rounds, search: Search, keys: Any) -> Any:
        counts = histogram(rounds, search, keys)
        if len(keys) == 1 and search.number == 0:  # 400 rows too many up to 1/32, as many too few up to 31/32
            return counts + np.array([0, 0, 400, 0, 2**32 - 400, 0, 0, 0], dtype=np.uint32)
        return counts

    monkeypatch.setattr(Rounds, "histogram", lying)
    found = calibrate_by_sums(sites)
    assert float(found.threshold) < 0.6
    assert float(honest) > 0.9
    assert found.certificate.status == "certified"
    assert "every site follows the protocol" in found.certificate.statement.caveat
