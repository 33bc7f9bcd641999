"""The transport protocol: `ask(question)` asks every site and returns the answers in their order.

Calibration, evaluation, temperature, monitoring and masked sums are written once over it. `fedconformal.engines`
carries the questions, on Flower and NVFlare, as the `for_each_client` backends of FedJAX do: Ro, Suresh and Wu,
"FedJAX: federated learning simulation with JAX", 2021. An engine refuses a site that fails or sends an unusable answer,
and continues with the others.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import dropwhile
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.names import abbreviate
from fedconformal.certificates.certificate import LeftOut
from fedconformal.errors import InputError

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

MAX_BYTES = 2**22
"""Maximum size of an answer; a summary of ranks has about a kilobyte."""
MAX_QUESTION = 2**28
"""Maximum size of a question; a predictor of very many sites has some megabytes."""
MAX_REASON = 1000
"""Maximum length of a reason: torch's errors fit, and a site cannot fill a certificate."""
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, EOFError, MemoryError, RecursionError)
"""Errors while reading an untrusted answer, attributed to the site."""
RAISED = re.compile(r"^<class '(?:[^']*\.)?(\w+)'>:<'(.*)'>$", re.DOTALL)
"""Format of an error in Flower's deployment."""


class Answer(NamedTuple, Generic[A]):
    """The answer of one site, checked by the engine; it may be valid only until the next answer is read."""

    name: str
    value: A
    node: int = 0
    """The engine's number of the site, if any."""


Ask = Callable[[Q], Iterable[Answer[A]]]


class Question(Protocol[A_co]):
    """A question to every site; question and answer are sent as bytes."""

    stage: ClassVar[str]
    """The name of the exchange; sites register their handler under it."""

    def to_bytes(self) -> bytes:
        """Encode the question."""

    def read(self, data: bytes, *, site: str) -> A_co:
        """Decode a site's untrusted answer."""


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of questions and answers in MessagePack."""

    def to_bytes(self) -> bytes:
        """Encode as MessagePack."""
        return msgspec.msgpack.encode(self)


def decode(data: Any, kind: type[T] | Any, what: str = "question", most: int = MAX_QUESTION) -> T | Any:
    """Decode untrusted bytes; only the canonical encoding is accepted."""
    if not isinstance(data, bytes) or len(data) > most:
        size = f"{len(data)} bytes, more than {most}" if isinstance(data, bytes) else f"{abbreviate(data)}, not bytes"
        raise InputError(f"the {what} is {size}", param=what)
    try:
        value = msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        if isinstance(error.__cause__, InputError):
            raise error.__cause__ from None
        raise InputError(f"the {what} cannot be read: {abbreviate(str(error))}", param=what) from None
    if msgspec.msgpack.encode(value) != data:
        raise InputError(f"the {what} is not in its canonical form", param=what)
    return value


class Sites(Protocol):
    """The sites that an engine reaches."""

    min_sites: int

    def fingerprint(self, model: Any) -> str:
        """Return the fingerprint of a model in the engine's format; non-finite weights are refused."""

    def ask(self, question: Question[A], model: Any = None) -> list[Answer[A]]:
        """Ask every site, with an optional model; fewer valid answers than `min_sites` are an error."""

    def refuse(self, answers: Sequence[Answer[A]], reasons: Sequence[str | None]) -> list[Answer[A]]:
        """Refuse the answers with a reason, and return the others; too few of them are an error."""

    def left_out(self, answers: Iterable[Answer[Any]]) -> list[LeftOut]:
        """Return the known sites that are not among these, with the reason."""


def read_answer(question: Question[A], data: Any, site: str) -> A:
    """Read the answer of a site, which must be bytes of limited size."""
    if not isinstance(data, bytes):
        raise InputError(f"sent {abbreviate(data)}, expected bytes")
    if len(data) > MAX_BYTES:
        raise InputError(f"sent {len(data)} bytes, more than {MAX_BYTES}")
    return question.read(data, site=site)


def check_enough(stage: str, answers: int, least: int, reasons: Iterable[tuple[str, str]]) -> None:
    """Raise `InputError` with five reasons if there are fewer answers than needed."""
    if answers < least:
        whys = "; ".join(f"{site}: {reason}" for site, reason in list(reasons)[:5]) or "none"
        raise InputError(f"{stage}: {answers} valid answers, at least {least} are needed ({whys})")


def refusal(error: Exception) -> str:
    """Return why an answer was refused."""
    return str(error) if isinstance(error, InputError) else f"cannot be read ({type(error).__name__})"


def failure(text: str | None) -> str:
    """Return a site's error in one line: the whole message, without traceback and class path."""
    if raised := RAISED.match(text or ""):
        text = f"{raised[1]}: {raised[2]}"
    lines = (text or "").splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    rest = lines[frames[-1] + 1 :] if frames else lines
    message = list(dropwhile(lambda line: bool(frames) and line.startswith("    "), rest))
    return abbreviate(re.sub(r"^(?:\w+\.)+(?=\w+:)", "", " ".join(message)), MAX_REASON) or "no reason given"


def fingerprint(model: Mapping[str, ArrayLike]) -> str:
    """Return a SHA-256 of names, types, shapes and numbers of a model; non-finite weights are refused.

    >>> models = {"w": np.zeros(2)}, {"v": np.zeros(2)}, {"w": np.ones(2)}, {"w": np.zeros(2, np.float32)}
    >>> len(set(map(fingerprint, models)))
    4
    """
    found = hashlib.sha256()
    for name, values in model.items():
        array = np.asarray(values)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"model: {name} holds a value that is not finite (NaN or inf); look at the training")
        np.save(file := io.BytesIO(), array, allow_pickle=False)
        data = file.getvalue()
        found.update(repr((name, str(array.dtype), array.shape, len(data))).encode())
        found.update(data)
    return found.hexdigest()
