"""Who knows a row's score, and sees all sums, can hardly tell that the row is in there.

With the first 32 bits of a score in two rounds, as it was before, the sums give many rows away.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats, as_alpha
from fedconformal._base.float_bits import keys_of
from fedconformal.privacy.sums.radix import BYTES, IN_STEPS, JOINED, LEAST, Rounds, Search, SumTarget, sum_target
from fedconformal.privacy.sums.scale import edges
from tests.contracts.tools import checks, refused
from tests.privacy.attack import Seen, alone, decided, of_digits, watching
from tests.privacy.sums_play import SCORES, SHORT, calibrate_by_sums
from tests.privacy.test_radix import pieces, plain

pytestmark = pytest.mark.long

SITES = 10
MEMBERS = 650
Widths = tuple[int, ...] | None


@pytest.fixture
def seen() -> Iterator[Seen]:
    """All sums that the coordinator sees."""
    with watching() as found:
        yield found


@pytest.mark.parametrize("score", [fc.LAC(), fc.APS()], ids=repr)
def test_hardly_a_member_is_decided(score: fc.Score, seen: Seen) -> None:
    pytest.importorskip("sklearn", reason="the attack is on scikit-learn's digits")
    draw = of_digits(score, MEMBERS)
    shares: dict[Widths, list[float]] = {None: [], SHORT: []}
    for seed, widths in itertools.product(range(3), shares):
        members, others, labels = draw(seed)
        seen.clear()
        sites = {f"site-{k}": members[k::SITES] for k in range(SITES)}
        found = calibrate_by_sums(sites, widths=widths).threshold
        shares[widths].append(decided(seen, members, others) / MEMBERS)
        exact = np.sort(members)[9 * MEMBERS // 10]  # the next rank after nine tenths
        assert exact <= found
        assert (labels <= found).mean() <= 1.1 * (labels <= exact).mean()  # what it costs in labels
    assert max(shares[None]) <= 0.01
    assert min(shares[SHORT]) >= 0.015  # or the attack would be too weak to show anything
    assert sum(shares[SHORT]) >= 5 * sum(shares[None])


def test_hardly_a_row_is_seen_alone(seen: Seen) -> None:
    scores = np.random.default_rng(0).beta(10, 0.5, 10_000)  # a weak model for many classes
    for widths, fewest, most in ((SHORT, 1_000, 10_000), (None, 0, 2)):
        seen.clear()
        calibrate_by_sums({f"site-{k}": scores[k::SITES] for k in range(SITES)}, widths=widths)
        assert fewest <= alone(seen) <= most


def searched(scores: list[Floats], wanted: SumTarget) -> Search:
    """Play without masks, in small steps."""
    widths, least = IN_STEPS
    rounds, search, keys = Rounds(widths, wanted, least), Search(), [keys_of(part) for part in scores]
    while search.answer is None:
        counts = [rounds.histogram(search, part) for part in keys]
        total = np.sum(counts, axis=0, dtype=rounds.dtype)
        before, search = search, rounds.advance(search, total, frozenset(range(len(keys))))
        assert search.answer is not None or rounds.extends(before, search)
    return search


@given(pieces, st.integers(1, 12))
@checks(300)
def test_never_below_the_plain_threshold(scores: list[Floats], target: int) -> None:
    wanted = SumTarget(target=target, most=sum(map(len, scores)))
    found, exact = searched(scores, wanted), plain(scores, wanted)
    assert found.answer is not None
    assert found.answer >= exact
    assert math.isfinite(found.answer) == math.isfinite(exact)
    if math.isfinite(exact):
        widths, least = IN_STEPS
        above = Rounds(widths, wanted, least).above(found)
        assert above is None or above < exact


@pytest.mark.parametrize(("rows", "parts"), [(12, 1), (13, 2), (24, 2), (25, 4), (49, 4), (50, 8)])
def test_a_cell_of_few_rows_is_split_in_fewer_parts(rows: int, parts: int) -> None:
    """The target is in a cell of this many rows; others are far above."""
    inside = np.linspace(0.04, 0.45, rows)
    wanted = SumTarget(target=rows // 2, most=2 * rows)
    with watching() as seen:
        found = searched([inside, np.full(rows, 0.99)], wanted)
    assert len(seen) == (1 if parts == 1 else 2)
    assert found.stopped == "its cell has fewer than 50 rows"
    cells = edges()[511 + 512 * 2 :: 64][:9] if parts > 1 else np.array([1 / 32, 0.5])
    upper = cells[1:][8 // parts - 1 :: 8 // parts] if parts > 1 else cells[1:]
    exact = plain([inside, np.full(rows, 0.99)], wanted)
    place = int(np.searchsorted(upper, exact))
    assert found.answer == upper[place]
    assert Rounds(IN_STEPS[0], wanted, LEAST).above(found) == (upper[place - 1] if place else cells[0])
    if parts > 1:
        counts = seen[1][2]
        assert set(np.flatnonzero(counts)) <= set(range(8 // parts - 1, 8, 8 // parts))


def test_many_rows_are_narrowed_to_a_cell_of_the_scale() -> None:
    scores = [np.random.default_rng(k).random(100_000) for k in range(3)]
    wanted = sum_target(fc.Mixture(), as_alpha(0.1), [len(s) for s in scores])
    found, exact = searched(scores, wanted), plain_quantile(scores, wanted.target)
    assert (found.number, found.stopped) == (4, "it was the last round")
    assert found.answer is not None
    assert found.answer == edges()[np.searchsorted(edges(), exact)]
    assert found.answer - exact < 0.001


def plain_quantile(scores: list[Floats], rank: int) -> float:
    return float(np.sort(np.concatenate(scores))[rank - 1])


def coverage(alpha: Fraction) -> Fraction:
    """Return the chance that a fourth score is at most the threshold of three: every way to draw them is as likely."""
    atoms = edges()[511::512]
    hits = total = 0
    wanted = sum_target(fc.Mixture(), alpha, [1, 1, 1])
    for drawn in itertools.product(range(8), repeat=3):
        found = searched([atoms[[k]] for k in drawn], wanted).answer
        assert found is not None
        hits += int((atoms <= found).sum())
        total += 8
    return Fraction(hits, total)


def test_coverage_is_promised_and_a_rank_too_low_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert coverage(Fraction(1, 3)) >= Fraction(2, 3)
    rank = fc.Mixture.rank

    def lower(self: fc.Mixture, alpha: Fraction, sizes: Any) -> Any:
        found = rank(self, alpha, sizes)
        return found and (found[0] - 1, found[1])

    monkeypatch.setattr(fc.Mixture, "rank", lower)
    assert coverage(Fraction(1, 3)) < Fraction(2, 3)


def test_the_certificate_says_how_precise_it_is() -> None:
    found = calibrate_by_sums(SCORES)
    certificate = found.predictor.certificate
    assert certificate.privacy is not None
    precision = certificate.privacy["precision"]
    exact = calibrate_by_sums(SCORES, widths=BYTES)
    assert precision["above"] < exact.threshold <= found.threshold
    assert (precision["exact"], precision["least"]) == (False, LEAST)
    assert precision["stopped"] == "its cell has fewer than 50 rows"
    assert (certificate.status, certificate.coverage_at_most) == ("certified", 1.0)
    assert certificate.coverage_at_least == exact.predictor.certificate.coverage_at_least
    assert "the upper edge of a public cell" in certificate.statement.caveat
    said = exact.predictor.certificate
    assert said.privacy is not None
    assert said.privacy["precision"]["exact"]
    assert said.privacy["precision"]["above"] == np.nextafter(exact.threshold, -np.inf)
    assert "who knows a row can often tell" in said.statement.caveat
    assert "one site can move the threshold to anywhere" in said.statement.caveat


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
    assert found.threshold < 0.6
    assert honest > 0.9
    assert found.predictor.certificate.status == "certified"
    assert "every site follows the protocol" in found.predictor.certificate.statement.caveat


def test_cells_that_are_too_small_are_refused() -> None:
    wanted = SumTarget(target=1, most=1)
    with refused("cells of 39 rows are to be split, expected 40 at least"):
        Rounds((3,), wanted, 39)
    Rounds((3,), wanted, 40)
    for widths in ((4,), (12,), (3,) * 5):  # a first round of 4,096 cells would show everything at once
        with refused("expected 1 to 3 bits a round and 12 in all at most"):
            Rounds(widths, wanted, 50)


def test_a_question_extends_the_last_one() -> None:
    rounds = Rounds((3, 3, 3), SumTarget(target=1, most=1), 50)
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
