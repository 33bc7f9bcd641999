"""The same sites on every engine, in this process: Flower's grid, and NVFlare's Collab API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedconformal.monitoring.messages import Period

CLASSES, ROWS = 4, 40
WEIGHTS = {"theta": np.eye(CLASSES, dtype=np.float32)}
"""A model of any app; its parameters may have the names of ours."""


def logits_of(site: str, rows: int = ROWS) -> dict[str, Any]:
    """Return logits, labels and groups of one site."""
    rng = np.random.default_rng(int(site.rpartition("-")[2]))
    labels = rng.integers(0, CLASSES, rows)
    groups = {"sex": rng.choice(["F", "M"], rows), "age": rng.choice(["young", "old"], rows)}
    return {
        "outputs": rng.normal(size=(rows, CLASSES)) + 2 * np.eye(CLASSES)[labels],
        "truth": labels,
        "groups": groups,
    }


@dataclass(frozen=True, kw_only=True)
class SiteApp:
    """The reply of every site to a question; faults change the reply of a site."""

    rows: Callable[[str], dict[str, Any]] = logits_of
    periods: Callable[[str], list[Period]] | None = None
    faults: Mapping[str, Callable[[bytes], Any]] = field(default_factory=dict)
    sites: int = 4

    @property
    def names(self) -> list[str]:
        return [f"site-{k}" for k in range(self.sites)]


def on_flower(app: SiteApp, patch: pytest.MonkeyPatch, folder: Path) -> tuple[Any, Any]:
    """Return the sites and the model on Flower."""
    from flwr.app import Array, ArrayRecord, Context, Message
    from flwr.clientapp import ClientApp

    from fedconformal.engines import flower
    from fedconformal.engines.flower.records import site_of
    from tests.engines.flower.tools import data_of, set_data

    made = ClientApp()

    def changed(reply: Message, context: Context) -> Message:
        if fault := app.faults.get(site_of(context).name):
            set_data(reply, fault(data_of(reply)))
        return reply

    @made.query("calibrate")
    def calibrate(msg: Message, context: Context) -> Message:
        return changed(flower.calibrate_reply(msg, context, **app.rows(site_of(context).name)), context)

    @made.query("evaluate")
    def evaluate(msg: Message, context: Context) -> Message:
        return changed(flower.evaluate_reply(msg, context, **app.rows(site_of(context).name)), context)

    @made.query("watch")
    def watch(msg: Message, context: Context) -> Message:
        site = site_of(context).name
        return changed(flower.watch_reply(msg, context, lambda: app.periods(site)), context)  # type: ignore[misc]

    model = ArrayRecord({name: Array(array) for name, array in WEIGHTS.items()})
    return flower.Federation(flower.InProcessGrid(made, app.sites)), model


def on_nvflare(app: SiteApp, patch: pytest.MonkeyPatch, folder: Path) -> tuple[Any, Any]:
    """Return the sites and the model on NVFlare."""
    from fedconformal.engines import nvflare
    from tests.engines.nvflare.in_process import in_process

    collab = in_process(patch, folder)

    class Client:
        def calibrate(self, question: Any, weights: Any) -> Any:
            return self.changed(nvflare.calibrate_reply(question, weights, **app.rows(collab.site_name)))

        def evaluate(self, question: Any, weights: Any) -> Any:
            return self.changed(nvflare.evaluate_reply(question, weights, **app.rows(collab.site_name)))

        def watch(self, question: Any) -> Any:
            site = collab.site_name
            return self.changed(nvflare.watch_reply(question, lambda: app.periods(site)))  # type: ignore[misc]

        def changed(self, reply: bytes) -> Any:
            return app.faults.get(collab.site_name, bytes)(reply)

    collab.sites, collab.client = app.names, Client()  # type: ignore[assignment]
    return nvflare.NVFlareSites(), WEIGHTS


TRANSPORTS = {"flower": on_flower, "nvflare": on_nvflare}
