"""What an algorithm needs from an engine: `ask(question)` asks every site and returns the answers in their order.

An algorithm in this package is written once and gets `ask`. Who carries the question is in `fedconformal.engines`:
processes on this machine, Flower, NVFlare. FedJAX does the same with its `for_each_client` backends: Ro, Suresh and Wu,
"FedJAX: federated learning simulation with JAX", 2021.

An engine refuses a site that fails or sends what cannot be used, and goes on with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class Answer(NamedTuple, Generic[A]):
    """What one site answered; the engine has checked it. It may be valid only until the next one is taken."""

    name: str
    value: A
    node: int = 0
    """By which an engine knows the site, if not by its name."""


Ask = Callable[[Q], Iterable[Answer[A]]]
