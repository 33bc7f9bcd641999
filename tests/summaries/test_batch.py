"""Many summaries decoded together: the same as one by one, and as strict."""

from __future__ import annotations

import gc

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal.summaries import batch, received, wire
from fedconformal.summaries.ranks import RankMessage, scheduled_ranks
from tests.contracts.tools import KINDS, probes, refused
from tests.golden import make
from tests.summaries.test_wire import HOSTILE, golden

GOLDEN = [golden(path.stem) for path in sorted(make.HERE.glob("*.fcs"))]


def many(count: int = 60) -> list[bytes]:
    """Return what sites of every kind and of several sizes and origins send, in no order."""
    rng = np.random.default_rng(0)
    origins = [{}, {"score": fc.RAPS(), "model": "m"}, {"score": fc.RAPS(penalty=1), "temperature": 1.0}]
    kinds = sorted(KINDS)
    return [
        fc.summarize(
            rng.normal(size=rng.integers(1, 300)).round(2),
            kind=kinds[rng.integers(len(kinds))],
            alpha=[None, 0.1, 0.25][rng.integers(3)],
            site=f"site {i}" if i % 3 else None,
            **origins[rng.integers(len(origins))],  # type: ignore[arg-type]
        ).to_bytes()
        for i in range(count)
    ]


def check_same(sent: list[bytes]) -> None:
    together = fc.Summary.from_many(sent)
    assert [one.to_bytes() for one in together] == sent
    for one, data in zip(together, sent, strict=True):
        alone = fc.Summary.from_bytes(data)
        assert type(one) is type(alone)
        assert (one.sizes, one.sites, one.origin) == (alone.sizes, alone.sites, alone.origin)
        assert (one.gap, repr(one), one.digest()) == (alone.gap, repr(alone), alone.digest())
        q = probes(alone.points)
        assert np.array_equal(np.stack(one.bounds(q)), np.stack(alone.bounds(q)))
        assert one.points.tobytes() == alone.points.tobytes()
        vars(one).pop("_encoded")
        assert one.to_bytes() == data  # made anew from the parts


@pytest.mark.parametrize("size", [1, 7, 2048])
def test_batches_come_out_as_one_by_one(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(received, "BATCH", size)
    check_same(many())
    check_same(GOLDEN)
    assert len(fc.Summary.from_many([])) == 0


@pytest.mark.parametrize("size", [10, 100, 500])
def test_long_messages_are_decoded_by_themselves(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(received, "LONG", size)
    check_same(many(30))


@pytest.mark.parametrize("what", list(HOSTILE))
def test_one_hostile_body_is_refused_among_sound_ones(what: str) -> None:
    sound = [data for data in GOLDEN if data[4] == HOSTILE[what][4]]
    with refused("summary 3 of"):
        fc.Summary.from_many([*sound[:2], HOSTILE[what], *sound])


def test_every_flipped_bit_is_refused_among_sound_ones() -> None:
    data = golden("ranks")
    for i in range(0, len(data), 7):
        with refused("summary 2 of 3: "):
            fc.Summary.from_many([data, data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :], data])


def test_the_refused_one_is_named() -> None:
    sent = [*many(5), b"FCS"]
    with refused("summary 6 of 6: the summary is truncated"):
        fc.Summary.from_many(sent)
    with refused("f.fcs: the summary is truncated"):
        fc.Summary.from_many(sent, [f"{letter}.fcs" for letter in "abcdef"])


def test_the_garbage_collector_is_left_as_it_was() -> None:
    before = gc.get_threshold()
    fc.Summary.from_many(many(3))
    assert gc.get_threshold() == before
    with refused("not a fedconformal summary"):
        fc.Summary.from_many([b""])
    assert gc.get_threshold() == before


def test_threads_leave_the_garbage_collector_as_it_was() -> None:
    before = gc.get_threshold()
    first, second = batch.rare_collection(10), batch.rare_collection(20)
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold()[0] > before[0]
    first.__exit__(None, None, None)  # the first to come is the first to go
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_no_ranks_are_worked_out_and_remembered_for_a_short_message() -> None:
    sound = fc.summarize(np.arange(1000.0), site="a").to_bytes()
    message, _ = wire.unpack(sound, RankMessage)
    before = scheduled_ranks.cache_info().currsize
    for n in (5000, 5001, 5002):
        sent = wire.pack("R", msgspec.structs.replace(message, sizes=(n,), values=bytes(8)))
        with refused("holds 1 scores, expected about 100 ranks"):
            fc.Summary.from_many([sent])
    assert scheduled_ranks.cache_info().currsize == before
