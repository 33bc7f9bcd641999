"""What summaries by class and by group have in common: a whole summary for every part, in one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedconformal._base.arrays import Floats
from fedconformal.errors import InputError
from fedconformal.summaries.origin import Origin
from fedconformal.summaries.stack import pool
from fedconformal.summaries.summary import Summary


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PartedSummary(Summary):
    """The calibration scores of one site, or of several that were pooled, part by part."""

    what: ClassVar[str]
    """What a part is: class or group."""
    keys: ClassVar[str]
    """What the message calls the field with what each part is of."""
    nested: ClassVar[bytes]
    """The letters of the kinds that a part cannot be of."""

    parts: Mapping[Any, Summary]

    # Not a class variable as in the other kinds: it follows from the parts, and nobody asks for it by name.
    @property
    def name(self) -> str:  # type: ignore[override]
        """The kind of its parts."""
        return f"{next(iter(self.parts.values())).name} by {self.what}"

    @property
    def certified(self) -> bool:  # type: ignore[override]
        """Whether all parts bound counts for sure."""
        return all(part.certified for part in self.parts.values())

    @classmethod
    def of_scores(cls, scores: Floats, *, alpha: Any = None, **about: Any) -> Any:  # noqa: ARG003
        """Refuse: from scores alone nobody knows their parts."""
        raise InputError(f"a summary by {cls.what} needs the {cls.keys} of the rows; pass them to summarize")

    def sizes_of(self, key: Any) -> tuple[int, ...]:
        """Return every site's number of scores of a part; of pooled sites in any order."""
        held = self.parts[key].sizes if key in self.parts else ()
        return held + (0,) * (len(self.sizes) - len(held))

    @classmethod
    def decoded_parts(cls, keys: Sequence[Any], parts: Sequence[bytes], sizes: Sequence[int]) -> dict[Any, Summary]:
        """Decode the parts of a hostile message: alike, nameless, and none larger than the whole."""
        if len(keys) != len(parts) or list(keys) != sorted(set(keys)):
            raise InputError(f"the summary's {cls.keys} are not ascending, one for each part")
        # Looked at before they are decoded, as the parts of parts of parts could go very deep.
        if any(data[4:5] in cls.nested for data in parts if len(data) > 4):
            raise InputError(f"the summary of a {cls.what} is by {cls.what} itself")
        found = {key: Summary.from_bytes(data) for key, data in zip(keys, parts, strict=True)}
        for key, part in found.items():
            if part.sites or part.origin != Origin():
                raise InputError(f"the summary of {cls.what} {key} is not a plain one without names")
            if len(part.sizes) > len(sizes) or max(part.sizes) > max(sizes):
                raise InputError(f"the summary of {cls.what} {key} has more sites or scores than the whole")
        if len({part.name for part in found.values()}) > 1:
            raise InputError(f"the summary's {cls.keys} are summarised in different ways")
        return found


def pooled_parts(summaries: Sequence[PartedSummary]) -> dict[Any, Summary]:
    """Put the same parts of several summaries together."""
    keys = sorted({key for one in summaries for key in one.parts})
    return {key: pool([one.parts[key] for one in summaries if key in one.parts]) for key in keys}
