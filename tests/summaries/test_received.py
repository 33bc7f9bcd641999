"""Messages read in columns: taken only if each would be taken by itself, and they say the same."""

from __future__ import annotations

import struct
import tracemalloc
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.summaries import batch, received
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.ranks import RankSummary, scheduled_ranks
from fedconformal.summaries.received import Received
from fedconformal.summaries.stack import Stack
from fedconformal.summaries.wire import PREFIX
from tests.contracts.tools import checks, refused
from tests.summaries.test_wire import seal

SCORE = fc.RAPS()
PLAIN = fc.summarize(np.arange(1, 201) / 200, alpha=0.1, score=SCORE, site="a")
ONE_SCORE = fc.summarize([0.5], kind="exact", score=SCORE, site="a")
EXACT = fc.summarize([0.25, 0.5], kind="exact", score=SCORE, site="a")

SIZES = [1, 2, 99, 100, 101, 127, 128, 255, 256, 257, 1000, 65_535, 65_536, 70_000]
NAMES = ["a", "b" * 31, "c" * 32, "d" * 64, "Köln", "\U0001f3e5" * 63, "日" * 64]


def taken(template: fc.Summary, data: bytes) -> bool:
    """Say whether one message is read in columns beside another."""
    columns, (fits,) = received.received(template, [data])
    assert len(columns) == fits
    return fits


def sent(kind: str, **about: Any) -> list[fc.Summary]:
    rng = np.random.default_rng(5)
    names = NAMES + [f"site {i}" for i in range(len(NAMES), len(SIZES))]
    return [
        fc.summarize(rng.normal(size=n), kind=kind, alpha=0.1, site=site, **about)
        for n, site in zip(SIZES, names, strict=True)
    ]


@pytest.mark.parametrize("kind", ["ranks", "exact"])
@pytest.mark.parametrize("about", [{}, {"score": SCORE, "model": "m", "temperature": 1.5}, {"classes": ["no", "yes"]}])
def test_sizes_and_names_of_all_lengths_are_read(
    monkeypatch: pytest.MonkeyPatch, kind: str, about: dict[str, Any]
) -> None:
    monkeypatch.setattr(received, "LONG", 2**20)
    sites = sent(kind, **about)
    together = fc.Summary.from_many([site.to_bytes() for site in sites])
    assert isinstance(together, Received)
    assert together.sites == [site.sites for site in sites]
    assert together.sizes == [(n,) for n in SIZES]
    assert together.digests == [site.digest() for site in sites]
    assert together.gaps == [site.gap for site in sites]
    assert together.lengths() == Stack(sites).lengths()
    assert together.origins == [sites[0].origin]
    for columns, made in zip(together.points(), Stack(sites).points(), strict=True):
        assert columns.tolist() == made.tolist()
    assert repr(together) == repr(sites)
    assert [site.to_bytes() for site in together] == [site.to_bytes() for site in sites]


def test_sites_without_a_name_are_numbered() -> None:
    sites = [fc.summarize([0.1 * k, 0.5], score=SCORE) for k in range(3)]
    together = fc.Summary.from_many([site.to_bytes() for site in sites])
    assert isinstance(together, Received)
    assert (together.sites, together.names) == ([(), (), ()], ["#1", "#2", "#3"])


@pytest.mark.parametrize("kind", ["ranks", "exact"])
@pytest.mark.parametrize(
    "guarantee", [fc.Mixture(), fc.Mixture(weights="uniform"), fc.EverySite(), fc.NewSite(), fc.FCP()]
)
def test_calibration_comes_out_the_same(kind: str, guarantee: fc.Guarantee) -> None:
    rng = np.random.default_rng(1)
    sites = [
        fc.summarize(rng.normal(k / 9, size=150 + k).round(2), kind=kind, alpha=0.1, score=SCORE, site=f"s{k}")
        for k in range(40)
    ]
    together = fc.Summary.from_many([site.to_bytes() for site in sites])
    assert isinstance(together, Received)
    mine, plain = (fc.calibrate(some, alpha=0.1, guarantee=guarantee) for some in (together, sites))
    assert mine.certificate == plain.certificate
    assert mine.curve.to_dict() == plain.curve.to_dict()
    assert fc.verify(mine, together) == []


def test_the_same_site_twice_is_refused() -> None:
    with refused("site 'a' is there twice"):
        fc.calibrate(fc.Summary.from_many([PLAIN.to_bytes()] * 3))


def test_two_ways_to_write_are_two_stacks() -> None:
    other = fc.summarize([0.5], kind="exact", site="b")
    sites = [PLAIN, other, replace(PLAIN, sites=("c",)), replace(other, sites=("d",)), fc.pool([PLAIN, PLAIN_B])]
    found = fc.Summary.from_many([site.to_bytes() for site in sites])
    assert not isinstance(found, Received)
    assert [site.to_bytes() for site in found] == [site.to_bytes() for site in sites]


PLAIN_B = replace(PLAIN, sites=("b",))


def altered(summary: fc.Summary, old: bytes, new: bytes) -> bytes:
    """Replace some bytes of a message and put it into an envelope again."""
    data = summary.to_bytes()
    assert data[PREFIX:].count(old) == 1
    return seal(data[PREFIX:].replace(old, new), data[4:5])


def written(value: float) -> bytes:
    return struct.pack("<d", value)


ONE_NAME = b"\x91\xa1a"
HOSTILE = {
    "a size in more bytes than it takes": altered(PLAIN, b"\x91\xcc\xc8", b"\x91\xcd\x00\xc8"),
    "a size of eight bytes": altered(PLAIN, b"\x91\xcc\xc8", b"\x91\xcf" + (200).to_bytes(8)),
    "no scores": altered(EXACT, b"\x91\x02" + ONE_NAME, b"\x91\x00" + ONE_NAME),
    "more scores than are sent": altered(EXACT, b"\x91\x02" + ONE_NAME, b"\x91\x03" + ONE_NAME),
    "another number of ranks": altered(PLAIN, b"\x91\xcc\xc8", b"\x91\xcd\xff\xff"),
    "a negative size": altered(PLAIN, b"\x91\xcc\xc8", b"\x91\xd0\xff"),
    "two sizes": altered(EXACT, b"\x91\x02" + ONE_NAME, b"\x92\x01\x01" + ONE_NAME),
    "a name in more bytes than it takes": altered(PLAIN, ONE_NAME, b"\x91\xd9\x01a"),
    "no name": altered(PLAIN, ONE_NAME, b"\x91\xa0"),
    "a name with an end of line": altered(PLAIN, ONE_NAME, b"\x91\xa2a\n"),
    "a name with a zero": altered(PLAIN, ONE_NAME, b"\x91\xa2a\0"),
    "a name that cannot be printed": altered(PLAIN, ONE_NAME, b"\x91\xa2a\x1b"),
    "a name that is no text": altered(PLAIN, ONE_NAME, b"\x91\xa2a\xff"),
    "a name that is too long": altered(PLAIN, ONE_NAME, b"\x91\xd9\x41" + b"a" * 65),
    "two names": altered(PLAIN, ONE_NAME, b"\x92\xa1a\xa1b"),
    "scores in more bytes than they take": altered(EXACT, b"\xc4\x10", b"\xc5\x00\x10"),
    "a score and a half": altered(ONE_SCORE, b"\xc4\x08" + written(0.5), b"\xc4\x0c" + written(0.5) + b"half"),
    "half a score": altered(EXACT, b"\xc4\x10" + written(0.25), b"\xc4\x0c" + written(0.25)[4:]),
    "a byte more": seal(EXACT.to_bytes()[PREFIX:] + b"\0", b"E"),
    "a byte less": seal(EXACT.to_bytes()[PREFIX:-1], b"E"),
    "another end": seal(PLAIN.to_bytes()[PREFIX:-1] + b"\x01", b"R"),
    "a wrong checksum": EXACT.to_bytes()[: PREFIX - 1] + b"?" + EXACT.to_bytes()[PREFIX:],
    "another start": b"X" + EXACT.to_bytes()[1:],
    "another kind": seal(EXACT.to_bytes()[PREFIX:], b"R"),
    "NaN": altered(EXACT, written(0.25), written(np.nan)),
    "NaN at the end": altered(EXACT, written(0.5), written(np.nan)),
    "infinity": altered(EXACT, written(0.5), written(np.inf)),
    "minus infinity": altered(EXACT, written(0.25), written(-np.inf)),
    "minus zero": altered(EXACT, written(0.25), written(-0.0)),
    "falling scores": altered(EXACT, written(0.25), written(0.75)),
    "nothing": b"",
    "a start": EXACT.to_bytes()[:PREFIX],
}


@pytest.mark.parametrize("what", list(HOSTILE))
def test_what_is_refused_by_itself_is_not_read_in_columns(what: str) -> None:
    data = HOSTILE[what]
    template = PLAIN if data[4:5] == b"R" else EXACT
    with pytest.raises(fc.InputError) as alone:
        fc.Summary.from_bytes(data)
    assert not taken(template, data)
    beside = [replace(template, sites=(f"site {i}",)).to_bytes() for i in range(5)]
    with refused(f"summary 4 of 6: {alone.value}"):
        fc.Summary.from_many([*beside[:3], data, *beside[3:]])


OTHERS = {
    "another score": replace(PLAIN, origin=fc.summarize([1.0], score=fc.LAC()).origin),
    "another penalty": fc.summarize(np.arange(1, 201) / 200, alpha=0.1, score=fc.RAPS(penalty=0.002), site="a"),
    "another alpha": fc.summarize(np.arange(1, 201) / 200, alpha=0.2, score=SCORE, site="a"),
    "no name": replace(PLAIN, sites=()),
    "an extended one": PLAIN.extend([0.5]),
    "a pooled one": fc.pool([PLAIN, PLAIN_B]),
    "version 2": fc.summarize(np.arange(1, 201) / 200, alpha=0.1, score=SCORE, site="a", classes=3),
    "another kind": EXACT,
}


@pytest.mark.parametrize("what", list(OTHERS))
def test_what_says_something_else_does_not_fit(what: str) -> None:
    assert not taken(PLAIN, OTHERS[what].to_bytes())
    assert taken(PLAIN, PLAIN.to_bytes())
    mixed = [PLAIN_B, OTHERS[what], replace(PLAIN, sites=("z",))]
    found = fc.Summary.from_many([site.to_bytes() for site in mixed])
    assert [site.to_bytes() for site in found] == [site.to_bytes() for site in mixed]


def test_what_says_something_else_of_the_same_length_does_not_fit() -> None:
    here, there = (fc.summarize([0.5], classes=classes, site="a") for classes in (["no", "yes"], ["on", "yes"]))
    assert len(here.to_bytes()) == len(there.to_bytes())
    assert taken(here, here.to_bytes())
    assert not taken(here, there.to_bytes())


def test_a_message_that_reads_on_into_the_next_does_not_fit() -> None:
    """Its last bytes are cut off, and are those with which the next one begins: it only fits if its end is ignored."""
    whole = EXACT.to_bytes()
    body = whole[PREFIX:-5]
    assert received.received(EXACT, [seal(body, b"E"), whole])[1] == [False, True]


def test_a_short_message_with_a_long_claim_is_not_believed() -> None:
    size, held = b"\x91\xce\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xf8"
    claim = altered(EXACT, b"\x91\x02" + ONE_NAME, size + ONE_NAME)
    claim = seal(claim[PREFIX:].replace(b"\xc4\x10", held), b"E")
    assert not taken(EXACT, claim)


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=130), min_size=2, max_size=6), st.booleans())
@checks(60)
def test_any_scores_come_out_as_by_themselves(scores: list[list[float]], all_of_them: bool) -> None:
    kind = "exact" if all_of_them else "ranks"
    sites = [fc.summarize(some, kind=kind, alpha=0.1, score=SCORE, site=f"s{k}") for k, some in enumerate(scores)]
    together = fc.Summary.from_many([site.to_bytes() for site in sites])
    assert isinstance(together, Received)
    for one, site in zip(together, sites, strict=True):
        assert (one.points.tobytes(), one.reached.tolist()) == (site.points.tobytes(), site.reached.tolist())
        assert one.count_at_most(0.5) == site.count_at_most(0.5)


def test_a_class_of_another_package_decodes_its_own_messages() -> None:
    @dataclass(frozen=True, kw_only=True, eq=False, repr=False)
    class Clipped(ExactSummary):
        """All scores, none above one."""

    sent = Clipped(values=np.array([0.5]), sizes=(1,), sites=("a",))
    assert sent.plain
    assert received.received(sent, [sent.to_bytes()])[1] == [False]


def test_many_names_of_classes_take_no_memory_for_each_message() -> None:
    """They are in front of the number of scores, in every message of version 2."""
    classes = tuple(f"class {i:06d} {'x' * 40}" for i in range(20_000))
    template = fc.summarize([0.5], kind="exact", classes=classes, site="a")
    sent = [ONE_SCORE.to_bytes()] * 2000
    tracemalloc.start()
    try:
        assert not any(received.received(template, sent)[1])
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("n", [2**31 - 1, 2**31, 2**32 - 1])
def test_the_largest_sizes_are_read(n: int) -> None:
    schedule = (100, Fraction(1, 10))
    ranks = scheduled_ranks(n, *schedule)
    values = np.arange(len(ranks)) / 128
    sites = [RankSummary.scheduled(values, schedule, sizes=(n,), sites=(site,)) for site in "ab"]
    together = fc.Summary.from_many([site.to_bytes() for site in sites])
    assert isinstance(together, Received)
    assert together.points()[1].astype(np.int64).cumsum()[: len(ranks)].tolist() == ranks.tolist()


def test_one_that_is_not_sound_does_not_keep_others_out() -> None:
    sent = [HOSTILE["minus zero"], EXACT.to_bytes(), HOSTILE["NaN"], HOSTILE["more scores than are sent"]]
    columns, fits = received.received(EXACT, [*sent, EXACT.to_bytes(), HOSTILE["falling scores"]])
    assert fits == [False, True, False, False, True, False]
    assert [one.to_bytes() for one in columns] == [EXACT.to_bytes()] * 2


def test_odd_ones_in_front_do_not_keep_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = [fc.summarize([0.5], site=f"o{i}", expires=f"2099-01-{i + 10}") for i in range(9)]
    alike = [replace(PLAIN, sites=(f"s{i}",)) for i in range(40)]
    monkeypatch.setattr(batch, "decoded", counting := Mock(side_effect=batch.decoded))
    fc.Summary.from_many([site.to_bytes() for site in (*odd, *alike)])
    assert counting.call_count <= len(odd) + 1


def test_no_summary_is_made_to_calibrate() -> None:
    sites = [fc.summarize(np.arange(50) / 50, site=f"s{i}", calibration="c", expires="2099-01-01") for i in range(3)]
    together = fc.Summary.from_many([site.to_bytes() for site in sites])
    fc.calibrate(together)
    assert "summaries" not in vars(together)


def test_scores_of_a_message_are_not_written_to_by_another() -> None:
    first, second = fc.Summary.from_many([PLAIN.to_bytes(), PLAIN_B.to_bytes()])
    grown = first.extend([2.0])
    assert grown.n == 201
    assert second.to_bytes() == PLAIN_B.to_bytes()
    assert first.to_bytes() == PLAIN.to_bytes()
