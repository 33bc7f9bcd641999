"""Summaries by class: what they hold, what they show, and what is refused."""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base import registry
from fedconformal.summaries import ClassSummary
from fedconformal.summaries.summary import Summary
from tests.contracts.tools import KINDS, refused

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")

RNG = np.random.default_rng(4)
SCORES = RNG.normal(size=700)
LABELS = RNG.choice([0, 3, 7], size=700, p=[0.8, 0.17, 0.03])
Q = np.linspace(-3, 3, 41)


def made(kind: str = "ranks", site: str | None = "a", rows: slice = slice(None)) -> ClassSummary:
    summary = fc.summarize(SCORES[rows], kind, alpha=0.1, labels=LABELS[rows], by_class=True, site=site, score=fc.LAC())
    assert isinstance(summary, ClassSummary)
    return summary


def test_it_warns_of_what_it_shows() -> None:
    with pytest.warns(fc.ClassCountsWarning, match="how many calibration rows of each class"):
        fc.summarize([0.1], labels=[0], by_class=True)


@pytest.mark.parametrize("kind", KINDS)
def test_each_class_is_summarised_as_if_alone(kind: str) -> None:
    summary = made(kind)
    assert list(summary.parts) == [0, 3, 7]
    assert summary.sizes == (700,)
    assert summary.certified == KINDS[kind].certified
    for label, part in summary.parts.items():
        alone = fc.summarize(SCORES[label == LABELS], kind, alpha=0.1)
        assert part.to_bytes() == alone.to_bytes()
        assert summary.sizes_of(label) == alone.sizes
    assert summary.sizes_of(1) == (0,)
    again = fc.Summary.from_bytes(summary.to_bytes())
    assert isinstance(again, ClassSummary)
    assert again.to_bytes() == summary.to_bytes()
    assert repr(again) == f"<{kind} by class summary of 700 scores from site 'a'>"


@pytest.mark.parametrize("kind", KINDS)
def test_the_counts_at_its_points_are_those_of_its_parts(kind: str) -> None:
    scores = SCORES.round(1)  # with many ties
    summary = fc.summarize(scores, kind, labels=LABELS, by_class=True)
    assert summary.reached.tolist() == summary.bounds(summary.points)[0].tolist()


@pytest.mark.parametrize("kind", [name for name, cls in KINDS.items() if cls.certified])
def test_it_bounds_all_scores_as_well(kind: str) -> None:
    summary = made(kind)
    lower, upper = summary.bounds(Q)
    truth = np.count_nonzero(SCORES[:, None] <= Q, axis=0)
    assert (lower <= truth).all()
    assert (truth <= upper).all()
    assert (upper - lower <= summary.gap).all()
    assert fc.calibrate([summary], alpha=0.1).certificate.scores == 700


@pytest.mark.parametrize("kind", KINDS)
def test_pooling_and_extending_go_class_by_class(kind: str) -> None:
    first, second = made(kind, "a", slice(0, 300)), made(kind, "b", slice(300, None))
    both = fc.pool([first, second])
    assert isinstance(both, ClassSummary)
    assert (both.sites, both.sizes) == (("a", "b"), (300, 400))
    again = fc.Summary.from_bytes(both.to_bytes())
    assert again.to_bytes() == both.to_bytes()
    if kind == "exact":
        grown = first.extend(SCORES[300:], LABELS[300:])
        assert grown.to_bytes() == made(kind, "a").to_bytes()
        assert both.sizes_of(7) == (*(p.parts[7].n for p in (first, second)),)
    else:
        grown = first.extend(SCORES[300:], LABELS[300:])
        assert {label: part.n for label, part in grown.parts.items()} == {
            label: part.n for label, part in made(kind).parts.items()
        }
    with refused("labels"):
        first.extend(SCORES[300:])
    with refused("pooled"):
        both.extend(SCORES, LABELS)


def test_it_is_not_a_kind_to_ask_for() -> None:
    assert "by-class" not in registry.members(Summary)
    with refused("go together"):
        fc.summarize([0.1], labels=[0])
    with refused("go together"):
        fc.summarize([0.1], by_class=True)
    with refused("labels"):
        ClassSummary.of_scores(np.array([0.1]))
    with refused("labels"):
        fc.summarize([0.1, 0.2], labels=[0], by_class=True)
    with refused("label"):
        fc.summarize([0.1, 0.2], labels=[0, -1], by_class=True)


def sealed(fields: list[Any]) -> bytes:
    """Write the message with a right checksum."""
    body = msgspec.msgpack.encode(fields)
    return b"FCS1C" + zlib.crc32(b"FCS1C" + body).to_bytes(4, "little") + body


PLAIN = fc.summarize([0.5, 0.6], "exact").to_bytes()
NAMED = fc.summarize([0.5, 0.6], "exact", site="a").to_bytes()
SCORED = fc.summarize([0.5, 0.6], "exact", score=fc.LAC()).to_bytes()
RANKS = fc.summarize([0.5, 0.6], "ranks").to_bytes()
TWO_SITES = fc.pool([fc.summarize([0.5], "exact"), fc.summarize([0.6], "exact")]).to_bytes()


def message(sizes: list[int], labels: list[Any], parts: list[Any]) -> list[Any]:
    return [sizes, [], None, None, None, labels, parts]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (message([4], [0], [PLAIN]), "add up"),
        (message([2], [0, 1], [PLAIN]), "labels"),
        (message([4], [1, 1], [PLAIN, PLAIN]), "labels"),
        (message([4], [1, 0], [PLAIN, PLAIN]), "labels"),
        (message([2], [-1], [PLAIN]), "decoded"),
        (message([2], [2**20], [PLAIN]), "decoded"),
        (message([2], [], []), "decoded"),
        (message([2], [0], [b""]), "not a fedconformal summary"),
        (message([2], [0], [PLAIN[:-1]]), "altered"),
        (message([2], [0], [NAMED]), "without names"),
        (message([2], [0], [SCORED]), "without names"),
        (message([4], [0, 1], [PLAIN, RANKS]), "different ways"),
        (message([2], [0], [TWO_SITES]), "more sites"),
        (message([1, 1], [0], [PLAIN]), "more sites or scores"),
    ],
)
def test_what_does_not_add_up_is_refused(fields: list[Any], reason: str) -> None:
    with refused(reason):
        fc.Summary.from_bytes(sealed(fields))


def test_nesting_is_refused_before_it_gets_deep() -> None:
    data = sealed(message([2], [0], [PLAIN]))
    assert fc.Summary.from_bytes(data).n == 2
    for _ in range(3000):
        data = sealed(message([2], [0], [data]))
    with refused("by class itself"):
        fc.Summary.from_bytes(data)


def test_every_changed_byte_is_refused() -> None:
    data = bytearray(made("ranks", rows=slice(0, 30)).to_bytes())
    for position, bit in itertools.product(range(len(data)), (1, 128)):
        changed = bytearray(data)
        changed[position] ^= bit
        with pytest.raises(fc.InputError):
            fc.Summary.from_bytes(bytes(changed))
