"""What scores of labels and scores of numbers have in common: a name and parameters, by which files describe them."""

from __future__ import annotations

from abc import ABC
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self


@dataclass(frozen=True, kw_only=True)
class AnyScore(ABC):
    """How badly a prediction fits what came true; low scores conform.

    >>> from fedconformal import CQR, LAC
    >>> isinstance(LAC(), AnyScore), CQR().to_dict()
    (True, {'name': 'cqr'})
    """

    name: ClassVar[str]
    noun: ClassVar[str] = "score"

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return what the contract checks try: the defaults, and what else is worth a check."""
        return (cls(),)

    @property
    def lower_share(self) -> Fraction | None:
        """The share of alpha that a lower end of its own may miss; None if low scores conform, however low."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        return {"name": self.name, **asdict(self)}
