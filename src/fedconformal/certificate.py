"""What was promised, under which assumption, from which inputs: a record that can be checked again."""

from __future__ import annotations

import math
import platform
from typing import Any, Literal

import msgspec
import numpy as np

from fedconformal._version import __version__

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
    threshold: float | Literal["inf"]
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

    @property
    def limit(self) -> float:
        """The threshold as a number."""
        return math.inf if self.threshold == "inf" else float(self.threshold)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dicts, numbers and strings, as JSON has them."""
        built: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return built

    def sentence(self) -> str:
        """Say the promise in one sentence."""
        verb = "hold" if self.status == "certified" else "are estimated to hold"
        return f"The sets {verb} the true label with probability at least {1 - self.alpha:.10g} {self.promise}."


def threshold_json(threshold: float) -> float | Literal["inf"]:
    """Write a threshold for JSON, which has no infinity."""
    return "inf" if threshold == math.inf else threshold


def versions() -> dict[str, str]:
    """Say which software made this."""
    return {"fedconformal": __version__, "numpy": np.__version__, "python": platform.python_version()}
