"""Base class of summaries: bounds on the number of scores at or below any value, and their encoding."""

from __future__ import annotations

import hashlib
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Floats, Integers, as_alpha, as_scores
from fedconformal._base.groups import Groups
from fedconformal._base.names import as_name, first_duplicate
from fedconformal._base.registry import build, parse
from fedconformal.errors import InputError
from fedconformal.scores import AnyScore
from fedconformal.summaries import format as wire
from fedconformal.summaries.provenance import UNKNOWN, Provenance


@dataclass(frozen=True)
class Content:
    """Fields of a summary that depend on its kind: parameters of the shared header, numbers and arrays of the site."""

    arrays: Sequence[NDArray[Any]]
    numbers: tuple[int | float, ...] = ()
    parameters: tuple[bool | int | float | str, ...] = ()
    kind: str = ""
    """Kind of the strata, if any."""
    strata: tuple[wire.StratumHeader, ...] = ()
    columns: tuple[str, ...] = ()
    by_class: bool = False

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of the arrays."""
        return tuple(map(len, self.arrays))

    def expect(self, arrays: int, numbers: int = 0, parameters: int = 0) -> None:
        """Refuse a decoded message with another number of fields."""
        counts = len(self.arrays), len(self.numbers), len(self.parameters), len(self.strata)
        if counts != (arrays, numbers, parameters, 0):
            raise InputError("the summary has too many or too few fields for its kind; ask the site to send it again")

    def counts(self, position: int, what: str) -> Integers:
        """Read an array of counts."""
        words = self.arrays[position]
        if len(words) and words.max() > wire.MAX_SIZE * wire.MAX_SITES:
            raise InputError(f"the summary's {what} hold an impossible count")
        return words.astype(np.int64)

    def scores(self) -> Floats:
        """Read the first array as scores: finite and in ascending order; -0.0 becomes 0.0."""
        values = self.arrays[0].view("<f8").astype(np.float64)
        if not np.isfinite(values).all():
            raise InputError("the summary holds a score that is not finite")
        if not (values[1:] >= values[:-1]).all():
            raise InputError("the summary's scores are not in ascending order")
        return values + 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary(ABC):
    """Summary of the calibration scores of one site, or of several pooled sites.

    `summarize` and `Summary.of_scores` create it. A kind of summary is a subclass with a `name`, in one module;
    `certified` is False if its counts are estimates. `columnar` is True if its messages hold one finite ascending array
    and its lower counts follow from n and the shared header, so that many messages can be decoded together.

    Attributes
    ----------
    sizes, sites
        Number of scores and name of each site; several sizes denote a pool.
    provenance
        Origin of the scores.
    gap
        Bound on the difference between upper and lower counts, fixed before the scores are seen.
    skipped
        Number of rows omitted because of a missing value.
    n
        Total number of scores.

    Examples
    --------
    >>> summary = Summary.of_scores([0.1, 0.4, 0.2], site="clinic-a")
    >>> summary, Summary.from_bytes(summary.to_bytes()).count_at_most(0.2)
    (<ranks summary of 3 scores from site 'clinic-a'>, (2, 2))
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
        if first_duplicate(self.sites) is not None:
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
        """Summarise precomputed calibration scores; `fedconformal.summarize` computes the scores of model outputs.

        Parameters
        ----------
        scores
            Finite scores, one per calibration row of the site.
        kind
            "ranks" (certified, about a kilobyte), "exact", "ddsketch" (certified) or "tdigest" (estimated).
        alpha
            Miscoverage level around which the summary is most precise; it is valid at every alpha.
        site
            Name of the site.
        labels, groups
            Class of each row, for promises to every class; columns of values, for promises to every group.
        score, calibration, provenance
            Fields of `Provenance`, such as precision="float32" if probabilities were float32 when they were scored;
            `alpha` is binding if a calibration is named.
        skipped
            Number of rows of the site that were omitted because of a missing value.

        Examples
        --------
        >>> Summary.of_scores([0.1, 0.4, 0.2], site="clinic-a").count_at_most(0.2)
        (2, 2)
        """
        spec = parse(kind, Summary, maker="build")
        rule = None if score is None else build(score, AnyScore)
        origin = provenance_of(score=rule, calibration=calibration, alpha=alpha, **provenance)
        about: dict[str, Any] = {
            "alpha": None if alpha is None else as_alpha(alpha),
            "sites": () if site is None else (as_name(site, "site"),),
            "provenance": origin,
            "skipped": skipped,
        }
        if labels is None and groups is None:
            return spec.cls.build(as_scores(scores), **about, **spec.values)
        if spec.values:
            raise InputError(f"{kind}: parameters do not go with labels or groups; omit them", param="kind")
        from fedconformal.summaries.strata import StratifiedSummary  # circular import

        return StratifiedSummary.of_rows(scores, kind=spec.cls, labels=labels, groups=groups, **about)

    @classmethod
    def build(cls, scores: Floats, *, alpha: Fraction | None = None, **about: Any) -> Self:  # noqa: ARG003
        """Summarise the validated scores of one site, which may be sorted in place."""
        raise InputError(f"a {cls.__name__} needs more than scores; use its own constructor")

    @property
    @abstractmethod
    def points(self) -> Floats:
        """Scores at which the lower count rises, in ascending order."""

    @property
    def lower_counts(self) -> Integers:
        """Lower count at each point, ending with n; read-only, as summaries may share the array."""
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
    def content(self) -> Content:
        """Return the encoded fields that depend on the kind."""

    @classmethod
    @abstractmethod
    def from_content(cls, content: Content, **about: Any) -> Self:
        """Validate decoded fields and rebuild the summary."""

    def to_bytes(self) -> bytes:
        """Encode in the format of docs/wire-format.md."""
        content, stated = self.content(), self.provenance.to_header()
        shared = wire.SharedHeader(
            **msgspec.structs.asdict(stated),
            kind=content.kind or self.name,
            parameters=content.parameters,
            columns=content.columns,
            by_class=content.by_class,
        )
        own = wire.OwnHeader(
            sizes=self.sizes,
            sites=self.sites,
            numbers=content.numbers,
            lengths=() if content.strata else content.lengths,
            strata=content.strata,
            skipped=self.skipped,
        )
        parts = [wire.MAGIC]
        for header in (encode(shared), encode(own)):
            parts += [len(header).to_bytes(wire.LENGTH, "little"), header]
        for array in content.arrays:
            parts.append(array.astype("<f8" if array.dtype.kind == "f" else "<u8", copy=False).tobytes())
        message = b"".join(parts)
        return message + zlib.crc32(message).to_bytes(wire.LENGTH, "little")

    @staticmethod
    def from_bytes(data: bytes) -> Summary:
        """Decode a message; anything but the canonical encoding of a valid summary is refused."""
        from fedconformal.summaries.batch import decode  # circular import

        return decode(bytes(data))

    def __neg__(self) -> Summary:
        """Return the summary of the negated scores, used for the lower end of intervals."""
        raise InputError(f"{self} sent a {self.name} summary, which has no certain lower end; send ranks or exact")

    def __str__(self) -> str:
        if not self.sites:
            return "a summary without a site name"
        return f"site {self.sites[0]!r}" + (f" and {len(self.sites) - 1} more" if self.sites[1:] else "")

    def __repr__(self) -> str:
        origin = f"{len(self.sizes)} sites pooled" if len(self.sizes) > 1 else str(self)
        return f"<{self.name} summary of {self.n} {self.counted} from {origin}>"


def encode(header: wire.SharedHeader | wire.OwnHeader) -> bytes:
    """Encode a header; msgspec encodes structs with more than 15 optional fields in a longer form than their maps."""
    short = isinstance(header, wire.OwnHeader)
    return wire.ENCODER.encode(header if short else msgspec.to_builtins(header, builtin_types=(bytes,)))


def provenance_of(*, calibration: str | None = None, alpha: Any = None, **fields: Any) -> Provenance:
    """Return a provenance; alpha is recorded only with a calibration, for which it is binding."""
    return Provenance(calibration=calibration, alpha=None if calibration is None else alpha, **fields)


def digest_of(summary: Any) -> str:
    """Return the SHA-256 of the encoded summary, its identifier in certificates and signatures."""
    return hashlib.sha256(summary.to_bytes()).hexdigest()
