"""Base class of summaries: certified bounds on the number of scores at or below any value."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, as_alpha, as_scores
from fedconformal._base.groups import Groups
from fedconformal._base.names import as_name
from fedconformal._base.spec import build, parse
from fedconformal.errors import InputError
from fedconformal.scores import AnyScore
from fedconformal.summaries import format as wire
from fedconformal.summaries.provenance import UNKNOWN, Provenance


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary(ABC):
    """The calibration scores of one site, or of several pooled sites, in brief.

    A kind of summary is a subclass with a `name`, in one file. `certified` is False for a kind whose counts are
    estimates. `columnar` is True for a kind whose messages hold one array, finite and ascending, and whose lower counts
    follow from n and the shared header: very many of them are decoded together.

    Attributes
    ----------
    sizes, sites
        Number of scores and name of each site; several sizes mark a pool.
    provenance
        How the scores were made.
    gap
        Bound on the difference between upper and lower counts that holds before the scores are seen.
    skipped
        Number of rows that were left out because a value is missing.
    n
        Number of scores of all sites.
    """

    noun: ClassVar[str] = "summary kind"
    name: ClassVar[str]
    certified: ClassVar[bool] = True
    columnar: ClassVar[bool] = False
    counted: ClassVar[str] = "scores"

    sizes: tuple[int, ...]
    sites: tuple[str, ...] = ()
    provenance: Provenance = UNKNOWN
    gap: int = 0
    skipped: int = 0
    n: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", sum(self.sizes))
        if self.sites and len(self.sites) != len(self.sizes):
            raise InputError(f"{len(self.sites)} names for {len(self.sizes)} sites")
        for site in self.sites:
            if as_name(site, "site") != site:
                raise InputError(f"site is {site!r}, expected {as_name(site, 'site')!r} (stripped, Unicode NFKC)")
        if len(set(self.sites)) != len(self.sites):
            raise InputError("the same site is in one summary twice")
        if type(self.skipped) is not int or not 0 <= self.skipped <= wire.MAX_SIZE * wire.MAX_SITES:
            raise InputError(f"skipped is {self.skipped!r:.40}, expected a number of rows", param="skipped")
        if max(self.sizes) > wire.MAX_SIZE:
            raise InputError(f"a site has {max(self.sizes)} scores, more than {wire.MAX_SIZE}")

    @staticmethod
    def of_scores(  # noqa: PLR0913
        scores: ArrayLike,
        *,
        kind: str = "ranks",
        alpha: Any = None,
        site: str | None = None,
        labels: ArrayLike | None = None,
        groups: Groups | None = None,
        score: AnyScore | str | None = None,
        calibration: str | None = None,
        skipped: int = 0,
        **provenance: Any,
    ) -> Summary:
        """Summarise calibration scores that were computed elsewhere; `fedconformal.summarize` scores outputs itself.

        Parameters
        ----------
        scores
            One finite score for each calibration row of the site.
        kind
            "ranks" (certified, about a kilobyte), "exact", "ddsketch" (certified) or "tdigest" (estimated).
        alpha
            Where precision matters most; the summary is valid at every alpha.
        site
            Name of the site.
        labels, groups
            Class of each row, for promises to every class; columns of values, for promises to every group.
        score, calibration, provenance
            Fields of `Provenance`; `alpha` is binding if a calibration is named.
        skipped
            Number of rows of the site that were left out because a value is missing.

        Examples
        --------
        >>> Summary.of_scores([0.1, 0.4, 0.2], site="clinic-a").count_at_most(0.2)
        (2, 2)
        """
        spec = parse(kind, Summary, maker="build")
        rule = None if score is None else build(score, AnyScore)
        made = provenance_of(score=rule, calibration=calibration, alpha=alpha, **provenance)
        sites = () if site is None else (as_name(site, "site"),)
        level = None if alpha is None else as_alpha(alpha)
        if labels is None and groups is None:
            return spec.cls.build(
                as_scores(scores), alpha=level, sites=sites, provenance=made, skipped=skipped, **spec.values
            )
        if spec.values:
            raise InputError(f"{kind}: parameters do not go with labels or groups; omit them", param="kind")
        from fedconformal.summaries.strata import StratifiedSummary  # which is a summary

        return StratifiedSummary.of_rows(
            scores,
            kind=spec.cls,
            labels=labels,
            groups=groups,
            alpha=level,
            sites=sites,
            provenance=made,
            skipped=skipped,
        )

    @classmethod
    @abstractmethod
    def build(cls, scores: Floats, *, alpha: Fraction | None = None, **about: Any) -> Self:
        """Summarise the checked scores of one site, which may be sorted in place."""

    @property
    @abstractmethod
    def points(self) -> Floats:
        """Scores at which the lower count rises, in ascending order."""

    @property
    def lower_counts(self) -> Integers:
        """Lower count at each point, ending with n; read-only, as summaries may share it."""
        return self.bounds(self.points)[0]

    @abstractmethod
    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        """Bound the number of scores <= q from below and above, for an array of q."""

    def count_at_most(self, q: float) -> tuple[int, int]:
        """Bound the number of scores <= q from below and above."""
        if math.isnan(q):
            raise InputError("q is NaN, expected a number")
        lower, upper = self.bounds(np.array([q], dtype=np.float64))
        return int(lower[0]), int(upper[0])

    @classmethod
    @abstractmethod
    def merge(cls, parts: Sequence[Self], **about: Any) -> Self:
        """Combine the scores of several summaries."""

    @abstractmethod
    def content(self) -> wire.Content:
        """Return the fields of the wire format that depend on the kind."""

    @classmethod
    @abstractmethod
    def from_content(cls, content: wire.Content, **about: Any) -> Self:
        """Check decoded fields and rebuild the summary."""

    def to_bytes(self) -> bytes:
        """Encode in the format of docs/wire-format.md."""
        content, stated = self.content(), self.provenance.to_header()
        shared = wire.SharedHeader(
            **{name: getattr(stated, name) for name in stated.__struct_fields__},
            kind=content.kind or self.name,
            parameters=content.parameters,
            columns=content.columns,
            by_class=content.by_class,
        )
        lengths = () if content.strata else content.lengths
        own = wire.OwnHeader(
            sizes=self.sizes,
            sites=self.sites,
            numbers=content.numbers,
            lengths=lengths,
            strata=content.strata,
            skipped=self.skipped,
        )
        return wire.pack(shared, own, content.arrays)

    @staticmethod
    def from_bytes(data: bytes) -> Summary:
        """Decode a message; anything but the canonical encoding of a valid summary is refused."""
        from fedconformal.summaries.batch import decode  # which knows the kinds

        return decode(bytes(data))

    def __neg__(self) -> Summary:
        """Summarise the negated scores, in which the lower end of an interval is searched."""
        raise InputError(f"{self} sent a {self.name} summary, which has no certain lower end; send ranks or exact")

    def __str__(self) -> str:
        if not self.sites:
            return "a summary without a site name"
        return f"site {self.sites[0]!r}" + (f" and {len(self.sites) - 1} more" if self.sites[1:] else "")

    def __repr__(self) -> str:
        who = f"{len(self.sizes)} sites pooled" if len(self.sizes) > 1 else str(self)
        return f"<{self.name} summary of {self.n} {self.counted} from {who}>"


def provenance_of(*, calibration: str | None = None, alpha: Any = None, **fields: Any) -> Provenance:
    """Return a provenance; its alpha is stated only with the calibration that it binds.

    >>> provenance_of(alpha=0.1).alpha, provenance_of(alpha=0.1, calibration="2027").alpha
    (None, '0.1')
    """
    return Provenance(calibration=calibration, alpha=None if calibration is None else alpha, **fields)


class Encodable(Protocol):
    """Anything with bytes."""

    def to_bytes(self) -> bytes:
        """Encode."""


def digest_of(summary: Encodable) -> str:
    """Return the SHA-256 of the bytes, which identifies a summary in certificates and signatures."""
    return hashlib.sha256(summary.to_bytes()).hexdigest()
