"""Question and answer of one training step, carried by an engine from the server to a site and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Step:
    """A question in training: take one step on the site's own rows.

    Attributes:
        what: the name of the step.
        tensors: sent to every site.
        numbers: settings of this step, such as the number of the round.
    """

    what: str
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)


class Update(NamedTuple):
    """A site's answer: its number of rows, the result, metrics, and whether the result is finite."""

    rows: int
    tensors: Mapping[str, Tensor]
    numbers: Mapping[str, float]
    finite: bool = True
