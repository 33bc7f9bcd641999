"""The transport protocol: `ask(question)` asks every site and returns the answers in their order.

Calibration, evaluation, temperature, monitoring and masked sums are written once over it. `fedconformal.engines`
carries the questions, on Flower and NVFlare, as the `for_each_client` backends of FedJAX do: Ro, Suresh and Wu,
"FedJAX: federated learning simulation with JAX", 2021. An engine refuses a site that fails or sends an unusable answer,
and continues with the others.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import dropwhile
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from fedconformal._base.names import abbreviate
from fedconformal.certificates.certificate import LeftOut
from fedconformal.errors import InputError

Q = TypeVar("Q")
A = TypeVar("A")

MAX_BYTES = 2**22
"""Largest payload of an answer; a summary of ranks has about a kilobyte."""
MAX_REASON = 1000
"""Characters of a reason: whole errors of torch fit, and a site cannot fill a certificate."""
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, EOFError, MemoryError, RecursionError)
"""Errors of reading an answer from outside; each of them is the site's fault."""
RAISED = re.compile(r"^<class '(?:[\w.]*\.)?(\w+)'>:<'(.*)'>$", re.DOTALL)
"""An error as Flower's deployment reports it."""


class Answer(NamedTuple, Generic[A]):
    """The answer of one site, checked by the engine; it may be valid only until the next one is taken."""

    name: str
    value: A
    node: int = 0
    """The engine's own number of the site, if it has one."""


Ask = Callable[[Q], Iterable[Answer[A]]]


class Question(ABC, Generic[A]):
    """A question to every site, in plain values that the messages of every engine can hold."""

    stage: ClassVar[str]
    """The name of the exchange; sites register their handler under it."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the question in plain values."""

    @abstractmethod
    def read(self, reply: Mapping[str, Any], *, site: str) -> A:
        """Read a site's reply, which may be hostile."""


class Sites(Protocol):
    """The sites that an engine reaches."""

    min_sites: int

    def fingerprint(self, model: Any) -> str:
        """Return the fingerprint of a model in the engine's own form; refuse weights that are not finite."""

    def ask(self, question: Question[A], model: Any = None) -> list[Answer[A]]:
        """Ask every site, with the model if there is one; fewer good answers than `min_sites` are an error."""

    def refuse(self, answers: Sequence[Answer[A]], reasons: Sequence[str | None]) -> list[Answer[A]]:
        """Refuse the answers that have a reason, and return the others; too few of them are an error."""

    def left_out(self, answers: Iterable[Answer[Any]]) -> list[LeftOut]:
        """Return the known sites that are not among these, with the reason."""


def payload(reply: Mapping[str, Any], form: str) -> bytes:
    """Return the bytes of a reply with exactly the keys data and format."""
    data = reply.get("data")
    if set(reply) != {"data", "format"} or reply["format"] != form or not isinstance(data, bytes):
        raise InputError(f"sent no message in the format {form}, as bytes")
    if len(data) > MAX_BYTES:
        raise InputError(f"sent {len(data)} bytes, more than {MAX_BYTES}")
    return data


def refusal(error: Exception) -> str:
    """Return why an answer was refused."""
    return str(error) if isinstance(error, InputError) else f"cannot be read ({type(error).__name__})"


def failure(text: str | None) -> str:
    r"""Return a site's error in one line: the whole message, without traceback and class path.

    >>> failure('Traceback:\n  File "task.py", line 1\n    load()\nmy.errors.NoRows: Missing:\n  w')
    'NoRows: Missing: w'
    >>> failure("<class 'fedconformal.errors.InputError'>:<'labels: has no rows'>")
    'InputError: labels: has no rows'
    """
    if raised := RAISED.match(text or ""):
        text = f"{raised[1]}: {raised[2]}"
    lines = (text or "").splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    rest = lines[frames[-1] + 1 :] if frames else lines
    said = list(dropwhile(lambda line: bool(frames) and line.startswith("    "), rest))
    return abbreviate(re.sub(r"^(?:\w+\.)+(?=\w+:)", "", " ".join(said)), MAX_REASON) or "no reason given"


def fingerprint(arrays: Iterable[tuple[str, str, tuple[int, ...], bytes]]) -> str:
    """Return a SHA-256 of names, types, shapes and .npy bytes of a model."""
    found = hashlib.sha256()
    for name, dtype, shape, data in arrays:
        found.update(repr((name, dtype, shape, len(data))).encode())
        found.update(data)
    return found.hexdigest()
