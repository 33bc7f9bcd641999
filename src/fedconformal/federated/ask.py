"""What an algorithm needs from an engine: ask every site one question, and get the answers in the order of the sites.

An algorithm in this package is written once, over `Engine`. Who carries the question is in `fedconformal.engines`:
processes on this machine, Flower, NVFlare. FedJAX does the same with its `for_each_client` backends: Ro, Suresh and Wu,
"FedJAX: federated learning simulation with JAX", 2021.

An engine refuses a site that fails or answers what cannot be used, and goes on with the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

Q_contra = TypeVar("Q_contra", contravariant=True)
A_co = TypeVar("A_co", covariant=True)


class Answer(Protocol[A_co]):
    """What one site answered: the site's name, and a value that the engine has checked."""

    @property
    def name(self) -> str:
        """The site's name."""

    @property
    def value(self) -> A_co:
        """What it answered."""


class Engine(Protocol[Q_contra, A_co]):
    """Who carries questions of one kind."""

    def ask(self, question: Q_contra, /) -> Iterable[Answer[A_co]]:
        """Ask every site; an answer may be valid only until the next one is taken."""


@dataclass(frozen=True, eq=False)
class Step:
    """One step of training that every site takes on its own rows.

    Attributes:
        what: the name of the step.
        tensors: what every site gets.
        numbers: settings of this step, such as the number of the round.
    """

    what: str
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)


class Update(NamedTuple):
    """What a site sends back after a step.

    Attributes:
        rows: how many rows it has.
        tensors: the result, in memory that the next step may write to.
        numbers: what was measured, such as the loss.
        finite: whether every number of the result is finite.
    """

    rows: int
    tensors: Mapping[str, Tensor]
    numbers: Mapping[str, float]
    finite: bool = True


TrainingEngine = Engine[Step, Update]
