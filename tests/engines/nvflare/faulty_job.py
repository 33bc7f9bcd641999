"""A job with a site that goes wrong in another way at each call; what the server made of it goes to a file.

It runs in processes of its own, on NVFlare's simulator.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from nvflare.collab import CollabRecipe, collab
from nvflare.recipe import SimEnv

import fedconformal as fc
from fedconformal._base.arrays import Floats, Integers
from fedconformal.engines.nvflare import (
    NVFlareSites,
    calibrate,
    calibrate_reply,
    evaluate,
    evaluate_reply,
    watch,
    watch_reply,
)
from fedconformal.errors import InputError
from fedconformal.federated.ask import MAX_BYTES
from fedconformal.monitoring.messages import Period, Stream, write_periods
from fedconformal.monitoring.streams import Tally
from fedconformal.report import watch_page

SITES = ["site-0", "site-1", "site-2"]
BAD = "site-2"
WEIGHTS = {"w": np.eye(4, dtype=np.float32)}
LATE = 5.0


def site_logits(site: str, rows: int = 40) -> tuple[Floats, Integers]:
    """Logits and labels of one site."""
    rng = np.random.default_rng(SITES.index(site))
    labels = rng.integers(0, 4, rows)
    return rng.normal(size=(rows, 4)) + 2 * np.eye(4)[labels], labels


def fail(reply: dict[str, Any]) -> Any:
    raise ValueError("the disk is full")


def late(reply: dict[str, Any]) -> Any:
    time.sleep(LATE + 2)
    return reply


def made_like(was: fc.Summary, site: str, **others: Any) -> fc.Summary:
    """Make a summary of other scores with the same provenance, but for what differs."""
    kept = ("score", "model", "temperature", "classes", "precision")
    about: dict[str, Any] = {name: getattr(was.provenance, name) for name in kept} | others
    return fc.Summary.of_scores(np.linspace(0, 1, was.n), site=site, **about)


def another_site(reply: dict[str, Any]) -> dict[str, Any]:
    return reply | {"data": made_like(fc.Summary.from_bytes(reply["data"]), "site-0").to_bytes()}


def another_model(reply: dict[str, Any]) -> dict[str, Any]:
    was = fc.Summary.from_bytes(reply["data"])
    return reply | {"data": made_like(was, BAD, model="0" * 64).to_bytes()}


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "none": (dict, ""),
    "raises": (fail, "failed: ValueError: the disk is full"),
    "truncated": (lambda reply: reply | {"data": reply["data"][:-9]}, "truncated or altered"),
    "wrong count": (lambda reply: reply | {"rows": 39}, "40 scores and says that it has 39 rows"),
    "too large": (lambda reply: reply | {"data": bytes(MAX_BYTES + 1)}, f"more than {MAX_BYTES}"),
    "another site": (another_site, "is site-2 and sent a summary of site 'site-0'"),
    "another model": (another_model, "sent scores of something else: model"),
    "another format": (lambda reply: reply | {"format": "fcs9"}, "sent no message in the format fcs1"),
    "one key more": (lambda reply: reply | {"loss": 0.5}, "sent no message in the format fcs1"),
    "bytes alone": (lambda reply: reply["data"], "expected a reply of calibrate"),
    "nothing": (dict.clear, "sent None, expected a reply of calibrate"),
    "late": (late, f"gave no answer within {LATE:g} s"),
}


def site_periods(site: str) -> list[Period]:
    """What the watch of a site counted in two days; at site-1 too much is missed."""
    first, second = (Tally(n, n * (3 if site == "site-1" else 1) // 15, 2, 2 * n) for n in (300, 600))
    days = ((Tally(), first), (first, second))
    return [
        Period(bytes(32), site, 20758 + i, 20758 + i, (Stream(0.1, 0.025, 0.0, before, after),))
        for i, (before, after) in enumerate(days)
    ]


def renamed(reply: dict[str, Any]) -> dict[str, Any]:
    return reply | {"data": write_periods(site_periods("site-0"))}


WATCH_FAULTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "none": (dict, ""),
    "raises": (fail, "failed: ValueError: the disk is full"),
    "truncated": (lambda reply: reply | {"data": reply["data"][:-9]}, "ends within a message"),
    "another site": (renamed, "is site-2 and sent messages of site-0"),
    "bytes alone": (lambda reply: reply["data"], "expected a reply of watch"),
}


class Site:
    """One site of three goes through the faults, call by call."""

    def __init__(self) -> None:
        self._faults = iter(FAULTS.values())
        self._watch_faults = iter(WATCH_FAULTS.values())

    @collab.publish
    def calibrate(self, question: dict[str, Any], weights: dict[str, Any]) -> Any:
        reply = calibrate_reply(question, weights, *site_logits(collab.site_name))
        fault, _ = next(self._faults, FAULTS["none"])
        return fault(reply) if collab.site_name == BAD else reply

    @collab.publish
    def evaluate(self, question: dict[str, Any], weights: dict[str, Any]) -> Any:
        reply = evaluate_reply(question, *site_logits(collab.site_name))
        return reply | {"covered": 1_000_000} if collab.site_name == BAD else reply

    @collab.publish
    def watch(self, question: dict[str, Any]) -> Any:
        site = collab.site_name
        reply = watch_reply(question, lambda: site_periods(site))
        fault, _ = next(self._watch_faults, WATCH_FAULTS["none"])
        return fault(reply) if site == BAD else reply


class Server:
    """Calibrates once for each fault, and once with more sites wanted than there are good ones."""

    @collab.main
    def run(self) -> None:
        found: dict[str, Any] = {}
        for name in FAULTS:
            result = calibrate(NVFlareSites(min_sites=1, timeout=LATE if name == "late" else 60.0), WEIGHTS)
            found[name] = result.certificate.to_dict()
        try:
            calibrate(NVFlareSites(min_sites=4, timeout=60.0), WEIGHTS)
        except InputError as error:
            found["too few"] = str(error)
        for name in WATCH_FAULTS:
            seen = watch(NVFlareSites(min_sites=1, timeout=60.0), "00" * 32)
            page = watch_page(seen.periods, refused=seen.refused)
            found[f"watch {name}"] = {"refused": [list(one) for one in seen.refused], "page": page}
        found["evaluation"] = evaluate(NVFlareSites(timeout=60.0), WEIGHTS, result.predictor)
        folder = Path(collab.workspace.get_result_root(collab.fl_ctx.get_job_id()))
        (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    recipe = CollabRecipe("faulty", server=Server(), client=Site(), sync_task_timeout=300)
    recipe.run(SimEnv(clients=SITES))
