"""What a site says of its scores: bounds on how many are at or below any number."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base import registry
from fedconformal._base.arrays import Floats, Integers, as_scores
from fedconformal._base.names import check_name
from fedconformal.errors import InputError
from fedconformal.scores import AnyScore
from fedconformal.summaries import wire
from fedconformal.summaries.origin import UNKNOWN, Origin


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary(ABC):
    """The calibration scores of one site, or of several that were pooled, in brief.

    `sizes` holds every site's own number of scores. `gap` is a bound, known before the scores are seen, on
    how far `upper` can be above `lower`; a kind without such a bound says `certified = False`.
    """

    noun: ClassVar[str] = "summary kind"
    name: ClassVar[str]
    letter: ClassVar[str]
    message: ClassVar[type[wire.Header]]
    certified: ClassVar[bool] = True

    sizes: tuple[int, ...]
    sites: tuple[str, ...] = ()
    origin: Origin = UNKNOWN

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return some to check: of one score, of many that are tied, and of more than are sent one by one."""
        rng = np.random.default_rng(0)
        scores = (np.array([0.5]), rng.random(60).round(1), rng.normal(size=3000))
        return tuple(cls.of_scores(part, alpha=0.1, sites=("a",)) for part in scores)

    @classmethod
    @abstractmethod
    def of_scores(cls, scores: Floats, *, alpha: Any = None, **about: Any) -> Self:
        """Summarise the checked scores of one site, maybe sorted in place; `alpha` says where precision matters."""

    @property
    @abstractmethod
    def points(self) -> Floats:
        """The scores at which the lower count rises, in ascending order."""

    @property
    def reached(self) -> Integers:
        """The lower count at each point, which ends with n; summaries that have the same may share the array."""
        return self.bounds(self.points)[0]

    @property
    @abstractmethod
    def gap(self) -> int:
        """A bound on upper - lower that does not depend on the scores."""

    @abstractmethod
    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        """Bound the number of scores <= q for an array of q."""

    def mirrored(self) -> Summary:
        """Summarise the scores times -1: what a lower end is searched in."""
        raise InputError(
            f"{self.label} sent a {self.name} summary, which says nothing sure of a lower end; send ranks or exact"
        )

    def extend(self, more: ArrayLike) -> Self:
        """Add more rows of the same site: still one site."""
        new = as_scores(more)
        about = extended(self, new)
        return self.merge([self, self.of_scores(new)], **about)

    @classmethod
    @abstractmethod
    def merge(cls, parts: Sequence[Self], **about: Any) -> Self:
        """Put the scores of several summaries together."""

    @abstractmethod
    def to_message(self, header: dict[str, Any]) -> wire.Header:
        """Say it in the terms of the wire format."""

    @classmethod
    @abstractmethod
    def from_message(cls, message: Any, about: dict[str, Any]) -> Self:
        """Check a decoded message and rebuild the summary."""

    def __post_init__(self) -> None:
        if self.sites and len(self.sites) != len(self.sizes):
            raise InputError(f"{len(self.sites)} names for {len(self.sizes)} sites")
        for site in self.sites:
            check_name(site, "site")
        if len(set(self.sites)) != len(self.sites):
            raise InputError("the same site is in one summary twice")
        if max(self.sizes) > wire.MAX_SIZE:
            raise InputError(f"a site has {max(self.sizes)} scores, more than {wire.MAX_SIZE}")

    @property
    def n(self) -> int:
        """The number of scores, over all sites in it."""
        return sum(self.sizes)

    @property
    def label(self) -> str:
        """What to call this summary in a message."""
        if not self.sites:
            return "a summary without a site name"
        return f"site {self.sites[0]!r}" + (f" and {len(self.sites) - 1} more" if self.sites[1:] else "")

    def count_at_most(self, q: float) -> tuple[int, int]:
        """Bound the number of scores <= q from below and from above."""
        if math.isnan(q):
            raise InputError("q is NaN, expected a number")
        lower, upper = self.bounds(np.array([q], dtype=np.float64))
        return int(lower[0]), int(upper[0])

    def to_bytes(self) -> bytes:
        """Encode for the wire; see docs/wire-format.md."""
        return self._encoded

    @cached_property
    def _encoded(self) -> bytes:
        return wire.pack(self.letter, self.said(), self.origin.about)

    def said(self) -> wire.Header:
        """Say it in the terms of the wire format, header included."""
        return self.to_message({"sizes": self.sizes, "sites": self.sites, **origin_fields(self.origin)})

    @property
    def plain(self) -> bool:
        """Whether it is of one site, and all but `values`, the scores that it sends, follows from their number."""
        return False

    def frame(self, n: int, count: int) -> dict[str, Any] | None:
        """Return what another plain site says that has n scores and sends `count`: the parts of a summary but `values`.

        None if such a site sends another number of scores.
        """
        return None

    @staticmethod
    def from_bytes(data: bytes) -> Summary:
        """Decode hostile bytes: anything but the canonical encoding of a valid summary is refused."""
        from fedconformal.summaries.batch import decoded  # which knows the kinds

        return decoded(bytes(data))

    @staticmethod
    def from_many(messages: Iterable[bytes], names: Sequence[str] = ()) -> Sequence[Summary]:
        """Decode the bytes of many sites, many times faster than one by one.

        Where all say the same of their scores they are kept in columns, and a summary is made when it is asked for.
        If one is refused, the error calls it by its name, such as that of its file, or else by its number.

        >>> from fedconformal import summarize
        >>> sent = [summarize([0.1, 0.2], site=site).to_bytes() for site in ("a", "b")]
        >>> Summary.from_many(sent)
        [<ranks summary of 2 scores from site 'a'>, <ranks summary of 2 scores from site 'b'>]
        >>> Summary.from_many([sent[0], b"x"])
        Traceback (most recent call last):
        fedconformal.errors.InputError: summary 2 of 2: this is not a fedconformal summary (.fcs)
        """
        from fedconformal.summaries.batch import decode_many

        return decode_many(messages, names)

    def digest(self) -> str:
        """Return the SHA-256 of the bytes, which is that of the .fcs file."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def __repr__(self) -> str:
        who = f"{len(self.sizes)} sites pooled" if len(self.sizes) > 1 else self.label
        return f"<{self.name} summary of {self.n} scores from {who}>"


def check_origins(origins: Sequence[Origin], names: Sequence[str]) -> Origin:
    """Put together what all of these say; refuse those that do not go together, naming two."""
    first = {id(origin): i for i, origin in reversed(list(enumerate(origins)))}
    together = origins[0]
    for i in sorted(first.values()):
        found = origins[i]
        if difference := together.difference(found):
            other = next(k for k in sorted(first.values()) if (difference := origins[k].difference(found)))
            same = "loss, bound, grid, model" if found.grid else "score, model, temperature, classes, precision"
            raise InputError(
                f"{names[other]} and {names[i]} do not go together: {difference}; "
                f"summarise all sites with the same {same} and calibration"
            )
        together = together.joined(found)
    return together


def extended(summary: Summary, more: Floats) -> dict[str, Any]:
    """Return what stays the same when one site grows; refuse pooled summaries."""
    if len(summary.sizes) > 1:
        raise InputError("a pooled summary cannot be extended; extend each site's own, then pool")
    return {"sizes": (summary.n + len(more),), "sites": summary.sites, "origin": summary.origin}


def origin_fields(origin: Origin) -> dict[str, Any]:
    """Return the three fields with which every message says what its scores were made from.

    >>> origin_fields(Origin(model="m"))
    {'score': None, 'model': 'm', 'temperature': None}
    """
    score = origin.score
    described = None if score is None else (score.name, tuple(getattr(score, one.name) for one in fields(score)))
    return {"score": described, "model": origin.model, "temperature": origin.temperature}


def origin_of(message: Any, **about: Any) -> Origin:
    """Read the three fields of a message, which may be hostile."""
    score = None if message.score is None else score_from(*message.score)
    return Origin(score=score, model=message.model, temperature=message.temperature, **about)


def score_from(name: str, parameters: Sequence[Any]) -> AnyScore:
    """Rebuild a score from the wire."""
    cls = registry.find(name, AnyScore)
    names = [field.name for field in fields(cls)]
    if len(names) != len(parameters):
        raise InputError(f"the score {name!r} has {len(parameters)} parameters, expected {len(names)}")
    return cls(**dict(zip(names, parameters, strict=True)))
