"""Decode what many sites sent, together: the checks of all messages of one kind are a few operations on one array.

It takes a quarter of the time of one message after the other: 0.25 s instead of 1.1 s for 30,000 sites that send ranks,
0.48 s instead of 1.4 s for those that send all scores. Every message passes the same checks either way. What does not
look plain here, and every other kind, is left to the summary's own `from_message`, which says what is wrong with it.
Of that time, a garbage collector that waits saves 4 to 8 per cent.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from threading import Lock
from typing import Any, TypeVar

import msgspec
import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import Floats, as_alpha
from fedconformal._base.files import naming
from fedconformal.errors import InputError
from fedconformal.summaries import wire
from fedconformal.summaries.by_class import ClassSummary
from fedconformal.summaries.by_group import GroupSummary
from fedconformal.summaries.exact import ExactMessage, ExactSummary
from fedconformal.summaries.losses import LossSummary
from fedconformal.summaries.origin import Origin
from fedconformal.summaries.ranks import (
    RankMessage,
    RankSummary,
    lower_of,
    plausible,
    scheduled_ranks,
    widest_step,
)
from fedconformal.summaries.summary import Summary, origin_fields, score_from

BATCH = 1024
BATCH_BYTES = 2**24
"""How many messages, and how much, are decoded at a time."""

OBJECTS = 50
"""About this many are made at most while one message is read, also by an engine that hands it over."""

REMEMBERED = 4096
"""Up to this many bytes, what many sites say of their scores is read once."""

S = TypeVar("S", bound=Summary)


def decode_many(messages: Iterable[bytes], names: Sequence[str] = ()) -> list[Summary]:
    """Decode messages; if one is refused, the error calls it by its name, or else by its number."""
    sent = list(map(bytes, messages))
    # So much at a time that it stays close to the processor, and that long messages are not held twice.
    longest = max(map(len, sent), default=0)
    step = max(1, min(BATCH, BATCH_BYTES // (longest + 1)))
    found: list[Summary] = []
    with rare_collection(len(sent)):
        for start in range(0, len(sent), step):
            try:
                found += _decode_batch(sent[start : start + step])
            except InputError:
                for i in range(start, min(start + step, len(sent))):
                    with naming(names[i] if names else f"summary {i + 1} of {len(sent)}"):
                        decoded([sent[i]])
                raise
    return found


def _decode_batch(batch: list[bytes]) -> list[Summary]:
    """Decode a batch; those of one kind, which begin alike, together."""
    places: dict[bytes, list[int]] = {}
    for i, data in enumerate(batch):
        places.setdefault(data[: wire.LETTER + 1], []).append(i)
    found: dict[int, Summary] = {}
    for some in places.values():
        found.update(zip(some, decoded([batch[i] for i in some]), strict=True))
    return [found[i] for i in range(len(batch))]


def decoded(batch: Sequence[bytes]) -> list[Summary]:
    """Decode messages that begin alike, down to the letter of the kind."""
    start = batch[0][: wire.LETTER + 1]
    bodies = wire.bodies(batch, start)
    cls = _kind(chr(start[wire.LETTER]))
    messages, abouts = wire.unpack(bodies, cls.message, start[len(wire.MAGIC)])
    origins = _origins(messages, abouts)
    if any((origin.grid is None) == (cls is LossSummary) for origin in {id(one): one for one in origins}.values()):
        raise InputError("the summary has the grid of loss curves and is none, or is one and has no grid")
    together = _TOGETHER.get(cls) if len(batch) > 1 else None
    found: list[Summary] = []
    # None stands for one that is not surely sound, and is looked at by itself.
    sound = together(messages, origins) if together else [None] * len(messages)
    for data, message, origin, summary in zip(batch, messages, origins, sound, strict=True):
        if summary is None:
            summary = cls.from_message(message, {"sizes": message.sizes, "sites": message.sites, "origin": origin})  # noqa: PLW2901
            if summary.to_bytes() != data:
                raise InputError(wire.NOT_CANONICAL)
        summary.__dict__["_encoded"] = data
        found.append(summary)
    return found


def _origins(messages: Sequence[wire.Header], abouts: Sequence[wire.About]) -> list[Origin]:
    facts = [
        (message.score, message.model, message.temperature, about)
        for message, about in zip(messages, abouts, strict=True)
    ]
    first = wire.ENCODER.encode(facts[0])
    # As bytes, because True and 1.0 and 1 are equal, but not the same parameter.
    if wire.entries(facts) == first * len(facts):
        return [_origin(first)] * len(facts)
    return [_origin(wire.ENCODER.encode(fact)) for fact in facts]


def _origin(facts: bytes) -> Origin:
    """Read an origin; short ones, which very many sites share, are remembered."""
    return _remembered_origin(facts) if len(facts) <= REMEMBERED else _read_origin(facts)


@lru_cache(maxsize=64)
def _kind(letter: str) -> type[Summary]:
    plain: list[type[Summary]] = [RankSummary, ExactSummary, ClassSummary, GroupSummary, LossSummary]
    for known in (lambda: plain, lambda: registry.members(Summary).values()):  # the others are slow to import
        for kind in known():
            if vars(kind).get("letter") == letter:
                return kind
    raise InputError(f"the summary is of the unknown kind {letter!r}; update fedconformal")


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


def _exact(messages: Sequence[ExactMessage], origins: Sequence[Origin]) -> Sequence[ExactSummary | None]:
    columns = _columns([message.values for message in messages], [message.sizes[0] for message in messages])
    if columns is None or not _one_site_each(messages):
        return [None] * len(messages)
    return [
        _built(ExactSummary, {"sizes": message.sizes, "sites": message.sites, "origin": origin, "values": values})
        for message, origin, values in zip(messages, origins, columns, strict=True)
    ]


def _ranks(messages: Sequence[RankMessage], origins: Sequence[Origin]) -> Sequence[RankSummary | None]:
    """Leave over those that send their bounds."""
    found: list[RankSummary | None] = [None] * len(messages)
    plain = [i for i, m in enumerate(messages) if m.points and plausible(m) and not (m.lower or m.below or m.gap)]
    chosen = [messages[i] for i in plain]
    if not chosen or not _one_site_each(chosen):
        return found
    lower = {id(origin): lower_of(origin) for origin in origins}
    keys = [(m.sizes[0], m.points, m.alpha, lower[id(origins[i])]) for i, m in zip(plain, chosen, strict=True)]
    known = {key: _schedule(*key) for key in set(keys)}
    schedules = [known[key] for key in keys]
    columns = _columns([m.values for m in chosen], [len(schedule["lower"]) for schedule in schedules])
    if columns is None:
        return found
    for i, values, schedule in zip(plain, columns, schedules, strict=True):
        parts = schedule.copy()
        parts["sites"], parts["origin"], parts["values"] = messages[i].sites, origins[i], values
        found[i] = _built(RankSummary, parts)
    return found


_TOGETHER: dict[type[Summary], Callable[[Any, Sequence[Origin]], Sequence[Summary | None]]] = {
    ExactSummary: _exact,
    RankSummary: _ranks,
}
"""Rebuild, all at once, the summaries that are surely sound."""


def _built(cls: type[S], parts: dict[str, Any]) -> S:
    """Build from parts that were checked for many summaries at once, as `__post_init__` would each."""
    summary = object.__new__(cls)
    object.__setattr__(summary, "__dict__", parts)
    return summary


def _one_site_each(messages: Sequence[wire.Header]) -> bool:
    """Whether each message is of one site, with a printable name or with none."""
    names = [name for message in messages for name in message.sites]
    return (
        all([len(message.sizes) == 1 >= len(message.sites) for message in messages])  # noqa: C419
        and "".join(names).isprintable()
    )


def _columns(parts: Sequence[bytes], lengths: Sequence[int]) -> list[Floats] | None:
    """Unpack `<f8` arrays of these lengths, each finite, ascending and without -0.0; None if any is not."""
    if [8 * length for length in lengths] != list(map(len, parts)) or 0 in lengths:
        return None
    together: Floats = np.frombuffer(b"".join(parts), dtype="<f8").astype(np.float64, copy=False)
    bounds = [0, *accumulate(lengths)]
    starts, lasts = np.array(bounds[:-1]), np.array(bounds[1:]) - 1
    ordered = together[1:] >= together[:-1]  # False beside a NaN
    ordered[lasts[:-1]] = True
    finite = np.isfinite(together[starts]).all() and np.isfinite(together[lasts]).all()
    minus_zero = together.view(np.int64) == np.iinfo(np.int64).min
    if not ordered.all() or not finite or minus_zero.any():
        return None
    return [together[start:end] for start, end in pairwise(bounds)]


@lru_cache(maxsize=4096)
def _schedule(n: int, points: int, text: str | None, lower: Fraction | None) -> dict[str, Any]:
    """Return the parts that follow from a schedule, whose alpha must be written in the one canonical way."""
    alpha = None if text is None else as_alpha(text)
    if alpha is not None and repr(float(alpha)) != text:
        raise InputError(wire.NOT_CANONICAL)
    ranks = scheduled_ranks(n, points, alpha, lower)
    gap = widest_step(n, points, alpha, lower) - 1
    parts = {"sizes": (n,), "lower": ranks, "below": ranks - 1, "stated_gap": gap, "schedule": (points, alpha)}
    # Room for the rest, so that a copy need not grow.
    return parts | dict.fromkeys(["sites", "origin", "values", "_encoded"])
