"""What was promised, under which assumption, from which inputs: a record that can be checked again."""

from __future__ import annotations

import math
import platform
from typing import Any, Literal

import msgspec
import numpy as np

from fedconformal._version import __version__
from fedconformal.validation import Floats

CONDITIONS = (
    "The promise is for an alpha fixed beforehand. It says nothing of sites "
    "that sent no summary or were left out. The upper end holds for distinct scores and sets that may be empty; "
    "forcing the top label in keeps the lower end only."
)


class SummaryRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One summary that was used: who sent it, how many scores, and the SHA-256 of its bytes."""

    sites: tuple[str, ...]
    sizes: tuple[int, ...]
    kind: str
    sha256: str


class SignatureRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who signed a summary: the site, its public key, and the signature, both in hexadecimal digits."""

    site: str
    key: str
    signature: str


Threshold = float | Literal["inf"]


class ClassRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is promised to one class, where each has a threshold of its own."""

    label: int
    scores: int
    threshold: Threshold
    rank: int | None
    rank_out_of: int | None
    slack: float
    coverage_at_least: float
    coverage_at_most: float


class LeftOut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site that is known of but not in the calibration, and why; the promise does not cover it."""

    site: str
    reason: str


class Certificate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is promised; it states the target and the theorem's band, never the count that came out."""

    format: Literal[1] = 1
    status: Literal["certified", "estimated"]
    promise: str
    assumption: str
    caveat: str
    conditions: str = CONDITIONS
    alpha: float
    guarantee: dict[str, Any]
    threshold: Threshold | list[Threshold]
    target: str
    rank: int | None
    rank_out_of: int | None
    clients: int
    scores: int
    slack: float
    coverage_at_least: float
    coverage_at_most: float
    score: dict[str, Any] | None
    seed: int | None
    model: str | None
    temperature: float | None
    summaries: list[SummaryRecord]
    versions: dict[str, str]
    classes: list[ClassRecord] | None = None
    """For a promise given the class."""
    privacy: dict[str, Any] | None = None
    """For a release with differential privacy or from sums only: what is claimed, and what is outside the claim."""
    signatures: list[SignatureRecord] | None = None
    """Who sent the summaries, where they were signed."""
    left_out: list[LeftOut] | None = None
    """Sites that dropped out or were refused, where an engine knows of them."""

    @property
    def limit(self) -> float | Floats:
        """The threshold as a number, or as an array with one for each class."""
        if isinstance(self.threshold, list):
            return np.array([float(threshold) for threshold in self.threshold])
        return float(self.threshold)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dicts, numbers and strings, as JSON has them."""
        built: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        for field in ("classes", "privacy", "signatures", "left_out"):
            if built[field] is None:
                del built[field]
        return built

    def sentence(self) -> str:
        """Say the promise in one sentence."""
        verb = "hold" if self.status == "certified" else "are estimated to hold"
        return f"The sets {verb} the true label with probability at least {1 - self.alpha:.10g} {self.promise}."


def threshold_json(threshold: float | Floats) -> Any:
    """Write a threshold, or one for each class, for JSON, which has no infinity."""
    if isinstance(threshold, np.ndarray):
        return [threshold_json(float(limit)) for limit in threshold]
    return "inf" if threshold == math.inf else threshold


def threshold_text(threshold: float | Floats) -> str:
    """Write a threshold for people; where there is one for each class, from the least to the largest.

    >>> threshold_text(0.25), threshold_text(np.array([0.5, np.inf, 0.25]))
    ('0.25', '0.25 to inf by class')
    """
    if isinstance(threshold, np.ndarray):
        return f"{threshold.min():.6g} to {threshold.max():.6g} by class"
    return f"{threshold:.6g}"


def versions() -> dict[str, str]:
    """Say which software made this."""
    return {"fedconformal": __version__, "numpy": np.__version__, "python": platform.python_version()}
