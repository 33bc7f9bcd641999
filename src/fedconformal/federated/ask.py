"""What an algorithm needs from an engine: `ask(question)` asks every site and returns the answers in their order.

An algorithm in this package is written once and gets `ask`. Who carries the question is in `fedconformal.engines`:
processes on this machine, Flower, NVFlare. FedJAX does the same with its `for_each_client` backends: Ro, Suresh and Wu,
"FedJAX: federated learning simulation with JAX", 2021.

An engine refuses a site that fails or sends what cannot be used, and goes on with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

Q = TypeVar("Q")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Answer(Protocol[A_co]):
    """What one site answered; the engine has checked it. It may be valid only until the next one is taken."""

    @property
    def name(self) -> str:
        """The site's name."""

    @property
    def value(self) -> A_co:
        """What it answered."""


class SiteAnswer(NamedTuple, Generic[A]):
    """An answer of an engine that knows its sites by name."""

    name: str
    value: A


Ask = Callable[[Q], Iterable[Answer[A]]]


@dataclass(frozen=True, eq=False)
class Step:
    """A question in training: take one step on your own rows.

    Attributes:
        what: the name of the step.
        tensors: what every site gets.
        numbers: settings of this step, such as the number of the round.
    """

    what: str
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)


class Update(NamedTuple):
    """The answer: how many rows the site has, the result, what was measured, and whether the result is finite."""

    rows: int
    tensors: Mapping[str, Tensor]
    numbers: Mapping[str, float]
    finite: bool = True
