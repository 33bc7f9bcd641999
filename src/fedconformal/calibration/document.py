"""The JSON file of a predictor: its kind, its content, and a SHA-256 that shows any change.

There is a class for every kind of answer, and `load` finds it by the kind that the file names.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

from fedconformal._base import registry
from fedconformal._base.files import naming, read_bytes, write_bytes
from fedconformal._base.names import shown
from fedconformal.calibration.certificate import Certificate
from fedconformal.errors import AlteredError, InputError

CLASSES = {
    "fedconformal predictor": ("fedconformal.calibration.predictor", "Predictor"),
    "fedconformal interval predictor": ("fedconformal.calibration.interval_predictor", "IntervalPredictor"),
    "fedconformal risk predictor": ("fedconformal.calibration.risk_predictor", "RiskPredictor"),
}
"""By kind, the module and the class that reads it; imported when a file asks for it."""


class Document(ABC):
    """What is saved in a JSON file, with a certificate in it."""

    kind: ClassVar[str]
    certificate: Certificate

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """Return what the file holds, besides its kind and its SHA-256."""

    @classmethod
    @abstractmethod
    def of_content(cls, content: dict[str, Any]) -> Self:
        """Check what a file holds, which may be hostile, and rebuild what was saved."""

    @property
    def thresholds(self) -> dict[str, Any]:
        """The certified threshold of every site, class or group, by its name; none if there is one for all.

        Of two thresholds, for the ends of intervals, the lower one is first.
        """
        return self.certificate.thresholds

    def to_bytes(self) -> bytes:
        """Write as JSON, with a SHA-256 of the content that shows any change."""
        content = {"kind": self.kind, **self.content()}
        content["sha256"] = _digest(content)
        # json indents in Python code, which takes twice as long.
        plain = json.dumps(content, allow_nan=False, ensure_ascii=False).encode()
        return msgspec.json.format(plain, indent=1) + b"\n"

    def digest(self) -> str:
        """Return the SHA-256 of the content, as the file has it: by this a predictor is named elsewhere."""
        return _digest({"kind": self.kind, **self.content()})

    def save(self, path: str | Path) -> None:
        """Write to a JSON file."""
        write_bytes(Path(path), self.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read hostile JSON: anything malformed or changed is refused, and so is another kind."""
        found = read_document(data)
        if not isinstance(found, cls):
            raise InputError(f"not a {cls.kind}: it is a {found.kind}")
        return found


def check_score(stated: dict[str, Any] | None, certificate: Certificate, base: Any) -> Any:
    """Build the score that a file names, and refuse it if another one was certified."""
    found, certified = [None if one is None else registry.build(one, base) for one in (stated, certificate.score)]
    if certificate.score is not None and found != certified:
        raise InputError("the predictor's score is not the one that was certified")
    return certified


def load(path: str | Path) -> Any:
    """Read a predictor that was saved, of any kind."""
    with naming(path):
        return read_document(read_bytes(Path(path)))


def read_document(data: bytes) -> Document:
    """Read hostile JSON of any kind that there is: anything malformed or changed is refused."""
    try:
        content = json.loads(data, parse_constant=_refuse_constant)
        if not isinstance(content, dict) or content.get("kind") not in CLASSES:
            raise InputError("it is JSON of another kind")
        stated = content.pop("sha256", None)
        digest = _digest(content)
        json.dumps(content, ensure_ascii=False).encode()  # half a character could not be shown
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"not a fedconformal predictor: {shown(str(error))}") from None
    if stated != digest:
        raise AlteredError("the predictor was altered after it was made (its SHA-256 does not match)")
    module, name = CLASSES[content.pop("kind")]
    try:
        found: Document = getattr(importlib.import_module(module), name).of_content(content)
    except msgspec.ValidationError as error:
        raise InputError(f"the predictor is malformed: {error}") from None
    found.certificate.terms()  # refuses a guarantee that is none
    return found


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")
