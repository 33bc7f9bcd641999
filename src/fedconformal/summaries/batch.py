"""Decode what sites sent: hostile bytes, one message by itself or very many together.

Every message passes the same checks either way. Those that say the same of their scores are read in columns (see
received.py); what does not fit there is decoded by itself, by its summary's own `from_message`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock

import msgspec

from fedconformal._base import registry
from fedconformal._base.files import naming
from fedconformal.errors import InputError
from fedconformal.summaries import wire
from fedconformal.summaries.by_class import ClassSummary
from fedconformal.summaries.by_group import GroupSummary
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.losses import LossSummary
from fedconformal.summaries.origin import Origin
from fedconformal.summaries.ranks import RankSummary
from fedconformal.summaries.received import received
from fedconformal.summaries.stack import Stack
from fedconformal.summaries.summary import Summary, origin_fields, score_from

OBJECTS = 50
"""About this many are made at most while one message is read, also by an engine that hands it over."""

REMEMBERED = 4096
"""Up to this many bytes, what many sites say of their scores is read once."""

LAYOUTS = 8
"""How many groups of messages, each of which says the same of its scores, are read in columns; others one by one."""


def decode_many(messages: Iterable[bytes], names: Sequence[str] = ()) -> Stack:
    """Decode messages; if one is refused, the error calls it by its name, or else by its number."""
    sent = [data if type(data) is bytes else bytes(data) for data in messages]
    found: dict[int, Summary] = {}
    left = list(range(len(sent)))
    with rare_collection(len(sent)):
        for _ in range(min(LAYOUTS, len(sent) - 1)):
            middle = left[len(left) // 2]  # so that a few odd ones in front do not use up the rounds
            try:
                template = found[middle] = decoded(sent[middle])
            except InputError:  # there may be one before it
                break
            columns, fits = received(template, sent if len(left) == len(sent) else [sent[i] for i in left])
            if isinstance(columns, Stack) and len(columns) == len(sent):
                return columns
            found.update(zip((i for i, one in zip(left, fits, strict=True) if one), columns, strict=True))
            left = [i for i in left if i not in found]
            if len(left) < 2:
                break
        for i in left:
            with naming(names[i] if names else f"summary {i + 1} of {len(sent)}"):
                found[i] = decoded(sent[i])
    return Stack([found[i] for i in range(len(sent))])


def decoded(data: bytes) -> Summary:
    """Decode one message."""
    cls = _kind(wire.letter_of(data))
    message, about = wire.unpack(data, cls.message)
    origin = _origin(wire.ENCODER.encode((message.score, message.model, message.temperature, about)))
    if (origin.grid is None) == (cls is LossSummary):
        raise InputError("the summary has the grid of loss curves and is none, or is one and has no grid")
    summary = cls.from_message(message, {"sizes": message.sizes, "sites": message.sites, "origin": origin})
    if summary.to_bytes() != data:
        raise InputError(wire.NOT_CANONICAL)
    summary.__dict__["_encoded"] = data  # so that no copy is kept
    return summary


def _origin(facts: bytes) -> Origin:
    """Read an origin; short ones, which very many sites share, are remembered."""
    return _remembered_origin(facts) if len(facts) <= REMEMBERED else _read_origin(facts)


@lru_cache(maxsize=64)
def _kind(letter: str) -> type[Summary]:
    plain: tuple[type[Summary], ...] = (RankSummary, ExactSummary, ClassSummary, GroupSummary, LossSummary)
    found = _lettered(letter, plain) or _lettered(letter, registry.members(Summary).values())  # slow to import
    if found is None:
        raise InputError(f"the summary is of the unknown kind {letter!r}; update fedconformal")
    return found


def _lettered(letter: str, kinds: Iterable[type[Summary]]) -> type[Summary] | None:
    return next((kind for kind in kinds if vars(kind).get("letter") == letter), None)


def _read_origin(facts: bytes) -> Origin:
    described, model, temperature, about = msgspec.msgpack.decode(facts)
    score = None if described is None else score_from(*described)
    origin = Origin(score=score, model=model, temperature=temperature, **about)
    if wire.ENCODER.encode((*origin_fields(origin).values(), origin.about)) != facts:
        raise InputError(wire.NOT_CANONICAL)
    return origin


_remembered_origin = lru_cache(maxsize=64)(_read_origin)


_PATIENCE = Lock()


@contextmanager
def rare_collection(messages: int) -> Iterator[None]:
    """Let the garbage collector wait while many messages are read: all that is made is kept, so it finds nothing."""
    if not _PATIENCE.acquire(blocking=False):  # a caller, or another thread, has seen to it
        yield
        return
    first, *later = gc.get_threshold()
    gc.set_threshold(first and first + OBJECTS * messages, *later)  # zero: somebody has turned it off
    try:
        yield
    finally:
        gc.set_threshold(first, *later)
        _PATIENCE.release()
