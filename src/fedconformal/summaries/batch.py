"""Decoding of summaries, consistency checks and pooling.

Messages are untrusted: every length is bounded by the bytes present, every value is validated, and only the canonical
encoding is accepted. Messages with the same shared header are decoded into columns, without one object per site. If
this fails, all messages are decoded one by one, which gives a specific error.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, chain
from typing import NamedTuple, TypeVar, overload

import msgspec
import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.names import abbreviate, are_names, first_duplicate
from fedconformal.errors import InputError, prefix_errors
from fedconformal.summaries import format as wire
from fedconformal.summaries.losses import LossSummary
from fedconformal.summaries.provenance import Provenance, combine_provenances
from fedconformal.summaries.strata import StratifiedSummary
from fedconformal.summaries.summary import Content, Summary, encode

H = TypeVar("H", wire.SharedHeader, wire.OwnHeader)
Shared = tuple[wire.SharedHeader, Provenance]


class MessageColumns(NamedTuple):
    """Columnar storage for messages of single sites with the same shared header."""

    sent: list[bytes]
    sizes: list[tuple[int, ...]]
    sites: list[tuple[str, ...]]
    lengths: list[int]
    values: Floats
    example: dict[tuple[int, ...], Summary]
    """One summary per size, as lower counts and gap depend on the size only."""


class SummaryBatch(Sequence[Summary]):
    """Sequence of summaries with columnar access to their fields; objects are created lazily."""

    def __init__(self, summaries: Sequence[Summary], columns: MessageColumns | None = None) -> None:
        for kind in set(map(type, summaries)):
            if not issubclass(kind, Summary):
                raise InputError(f"expected summaries, got {kind.__name__}; fedconformal.summarize makes them")
        self._inputs, self._columns = summaries, columns
        self.sizes = columns.sizes if columns else [summary.sizes for summary in summaries]
        self.sites = columns.sites if columns else [summary.sites for summary in summaries]
        # For each summary, a representative with the same provenance, kind, gap and lower counts.
        self._examples = [columns.example[sizes] for sizes in columns.sizes] if columns else list(summaries)
        self.gaps = [summary.gap for summary in self._examples]
        distinct = {id(summary): summary for summary in self._examples}.values()
        self.provenances = list({id(summary.provenance): summary.provenance for summary in distinct}.values())
        self.certified = all(summary.certified for summary in distinct)

    @classmethod
    def of(cls, summaries: Summary | Sequence[Summary]) -> SummaryBatch:
        """Return a batch of these summaries, or of one."""
        if isinstance(summaries, SummaryBatch):
            return summaries
        return cls([summaries] if isinstance(summaries, Summary) else list(summaries))

    @classmethod
    def from_bytes(cls, messages: Iterable[bytes], names: Sequence[str] = ()) -> SummaryBatch:
        """Decode messages; an error gives the name of the message, such as its file, or its number."""
        sent = list(messages)
        if len(sent) > 1 and (columns := _columns(sent)) is not None:
            return cls((), columns)
        summaries, known = [], dict[bytes, Shared]()
        for i, data in enumerate(sent):
            with prefix_errors(names[i] if names else f"summary {i + 1} of {len(sent)}"):
                summaries.append(decode(data, known))
        return cls(summaries)

    @cached_property
    def _summaries(self) -> Sequence[Summary]:
        if self._columns is None:
            return self._inputs
        columns = self._columns
        pieces = np.split(columns.values, list(accumulate(columns.lengths[:-1])))
        return [
            replace(columns.example[sizes], values=values, sites=sites)  # type: ignore[call-arg]  # of columnar kinds
            for values, sizes, sites in zip(pieces, columns.sizes, columns.sites, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> Summary: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Summary]: ...
    def __getitem__(self, index: int | slice) -> Summary | Sequence[Summary]:
        return self._summaries[index]

    def __iter__(self) -> Iterator[Summary]:
        return iter(self._summaries)

    def __repr__(self) -> str:
        return repr(self._summaries)

    @cached_property
    def names(self) -> list[str]:
        """Names of all sites; unnamed sites are numbered."""
        return names_of(self.sites, self.sizes)

    @property
    def kinds(self) -> list[str]:
        """Kind of each summary."""
        return [summary.name for summary in self._examples]

    @cached_property
    def digests(self) -> list[str]:
        """SHA-256 of the bytes of each summary."""
        sent = self._columns.sent if self._columns else (summary.to_bytes() for summary in self._inputs)
        return [sha256(data).hexdigest() for data in sent]

    def points(self) -> tuple[Floats, Integers]:
        """Return the points of all summaries in order, and the increase of the lower count at each."""
        counts = {id(summary): summary.lower_counts for summary in dict.fromkeys(self._examples)}
        shared = {id(lower): lower for lower in counts.values()}  # summaries of as many scores may share an array
        rises = {key: np.diff(lower, prepend=0) for key, lower in shared.items()}
        values = self._columns.values if self._columns else np.concatenate([each.points for each in self._inputs])
        return values, np.concatenate([rises[id(counts[id(summary)])] for summary in self._examples])

    def lengths(self) -> list[int]:
        """Return the number of points of each summary."""
        return self._columns.lengths if self._columns else [len(summary.points) for summary in self._inputs]


def decode(data: bytes, known: dict[bytes, Shared] | None = None) -> Summary:
    """Decode one message; `known` caches decoded shared headers."""
    known = {} if known is None else known
    start = data[: _check_envelope(data)]
    if start not in known:
        header = _unpack(wire.SHARED, start[len(wire.MAGIC) + wire.LENGTH :])
        known[start] = header, Provenance.from_header(header)
    shared, provenance = known[start]
    end = _header_end(data, len(start))
    own = _unpack(wire.OWN, data[len(start) + wire.LENGTH : end])
    size = len(data) - wire.LENGTH - end
    lengths = [*own.lengths, *(length for stratum in own.strata for length in stratum.lengths)]
    if 8 * sum(lengths) != size:
        raise InputError(f"the summary has {size} bytes of arrays and claims {8 * sum(lengths)}")
    words = np.frombuffer(data, dtype="<u8", offset=end, count=size // 8)
    content = Content(
        np.split(words, np.cumsum(lengths)[:-1]) if lengths else [],
        own.numbers,
        shared.parameters,
        kind=shared.kind,
        strata=own.strata,
        columns=shared.columns,
        by_class=shared.by_class,
    )
    summary = _kind(shared).from_content(
        content, sizes=own.sizes, sites=own.sites, provenance=provenance, skipped=own.skipped
    )
    if summary.to_bytes() != data:
        raise InputError(wire.NOT_CANONICAL)
    return summary


def _check_envelope(data: bytes) -> int:
    """Check the magic, the size and the checksum of a message; return the end of its shared header."""
    if data[: len(wire.MAGIC)] != wire.MAGIC:
        if data[:3] == wire.MAGIC[:3]:
            raise InputError(f"the summary is of format {str(data[3:4], 'latin-1')!r}, not 1; ask the site for another")
        advice = "; it holds noisy counts: read it with NoisyHistogram.from_bytes" if data[:4] == wire.NOISY else ""
        raise InputError(f"this is not a fedconformal summary (.fcs){advice}", param="privacy" if advice else None)
    if len(data) > wire.MAX_BYTES:
        raise InputError(f"the summary has {len(data)} bytes, more than {wire.MAX_BYTES}")
    if zlib.crc32(data) != wire.RESIDUE:
        raise InputError("the summary is truncated or altered (its checksum is wrong); ask the site to send it again")
    return _header_end(data, len(wire.MAGIC))


def _header_end(data: bytes, at: int) -> int:
    end = at + wire.LENGTH + int.from_bytes(data[at : at + wire.LENGTH], "little")
    if end > len(data) - wire.LENGTH:
        raise InputError("the summary is truncated; ask the site to send it again")
    return end


def _unpack(decoder: msgspec.msgpack.Decoder[H], data: bytes) -> H:
    try:
        header = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError) as error:  # may quote hostile keys
        raise InputError(f"the summary cannot be decoded: {abbreviate(str(error), 200)}") from None
    if encode(header) != data:
        raise InputError(wire.NOT_CANONICAL)
    return header


def _kind(shared: wire.SharedHeader) -> type[Summary]:
    if (shared.grid is None) == (shared.kind == LossSummary.name):
        raise InputError("the summary has losses and no grid, or a grid and no losses")
    if shared.columns or shared.by_class:
        return StratifiedSummary
    return LossSummary if shared.grid is not None else registry.find(shared.kind, Summary)


def _columns(sent: list[bytes]) -> MessageColumns | None:
    """Decode messages of one columnar kind with one shared header; None if any message does not fit."""
    known: dict[bytes, Shared] = {}
    try:
        first, (start, (shared, provenance)) = decode(sent[0], known), next(iter(known.items()))
    except InputError:
        return None
    if not first.columnar or set(map(zlib.crc32, sent)) != {wire.RESIDUE}:
        return None
    at, headers, arrays = len(start) + wire.LENGTH, [], []
    for data in sent:
        if not data.startswith(start):
            return None
        end = at + int.from_bytes(data[len(start) : at], "little")
        headers.append(data[at:end])
        arrays.append(data[end : -wire.LENGTH])
    try:
        owns = list(map(wire.OWN.decode, headers))
        sizes, sites = [own.sizes for own in owns], [own.sites for own in owns]
        example = {
            size: type(first).from_content(
                Content([np.frombuffer(array, dtype="<u8")], (), shared.parameters), sizes=size, provenance=provenance
            )
            for size, array in dict(zip(sizes, arrays, strict=True)).items()
        }
    except (ValueError, msgspec.DecodeError):
        return None
    stated, expected = [own.lengths for own in owns], {size: each.content().lengths for size, each in example.items()}
    lengths = list(chain.from_iterable(stated))
    fits = (
        list(map(wire.ENCODER.encode, owns)) == headers
        and stated == [expected[size] for size in sizes]
        and list(map(len, arrays)) == [8 * length for length in lengths]
        and not any(own.numbers or own.strata or own.skipped for own in owns)
        and set(map(len, sizes)) == {1}
        and set(map(len, sites)) == {len(first.sites)}
        and are_names([names[0] for names in sites if names])
    )
    if not fits:
        return None
    values = np.frombuffer(b"".join(arrays), dtype="<f8").astype(np.float64, copy=False)
    return MessageColumns(sent, sizes, sites, lengths, values, example) if _sound(values, lengths) else None


def _sound(values: Floats, lengths: Sequence[int]) -> bool:
    """Whether the scores of each message are finite, ascending and without -0.0."""
    ordered = values[1:] >= values[:-1]
    ordered[np.cumsum(lengths)[:-1] - 1] = True
    minus_zero = np.iinfo(np.int64).min  # the bits of -0.0
    return bool(ordered.all() and np.isfinite(values).all() and (values.view(np.int64) > minus_zero).all())


def names_of(sites: Sequence[Sequence[str]], sizes: Sequence[Sequence[int]]) -> list[str]:
    """Return the name of every site; unnamed sites are numbered."""
    if all(sites):
        return list(chain.from_iterable(sites))
    names: list[str] = []
    for some, counts in zip(sites, sizes, strict=True):
        names += some or [f"#{len(names) + i + 1}" for i in range(len(counts))]
    return names


def check_together(summaries: Sequence[Summary], names: Sequence[str] = ()) -> None:
    """Refuse summaries that cannot be combined; the error names two of them, by `names` if given."""
    batch = SummaryBatch.of(summaries)
    if len(set(map(bool, batch.sites))) > 1:
        raise InputError("some summaries have site names and some have none; name all of them or none")
    sites = list(chain.from_iterable(batch.sites))
    if len(batch.provenances) <= 1 and len(set(sites)) == len(sites):
        return
    names = names or list(map(str, batch))
    combine_provenances([summary.provenance for summary in batch], names)
    if (site := first_duplicate(sites)) is not None:
        both = ", ".join(name for some, name in zip(batch.sites, names, strict=True) if site in some)
        raise InputError(f"site {site!r} is there twice ({both}); give each site once, by its own name", param="site")


def pool(summaries: Sequence[Summary]) -> Summary:
    """Combine summaries of several sites into one, which keeps the size and the name of every site.

    Parameters
    ----------
    summaries
        Summaries of the same kind and provenance.

    Returns
    -------
    Summary

    Examples
    --------
    >>> import fedconformal as fc
    >>> both = fc.pool([fc.Summary.of_scores([0.1, 0.3], site="a"), fc.Summary.of_scores([0.2], site="b")])
    >>> both.sizes, both.count_at_most(0.2)
    ((2, 1), (2, 2))
    """
    summaries = list(summaries)
    if not summaries:
        raise InputError("there is nothing to pool")
    check_together(summaries)
    first = summaries[0]
    if len(kinds := {summary.name for summary in summaries}) > 1:
        raise InputError(f"only summaries of one kind pool; got {', '.join(sorted(kinds))}")
    if any(summary.provenance != first.provenance for summary in summaries):
        raise InputError("only summaries with the same provenance pool; summarise all sites with one release")
    if len(summaries) == 1:
        return first
    return type(first).merge(
        summaries,
        sizes=tuple(size for summary in summaries for size in summary.sizes),
        sites=tuple(site for summary in summaries for site in summary.sites),
        provenance=first.provenance,
        skipped=sum(summary.skipped for summary in summaries),
    )
