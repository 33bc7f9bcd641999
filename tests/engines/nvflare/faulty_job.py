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

from fedconformal._base.arrays import Floats, Integers
from fedconformal.engines.nvflare import NVFlareSites, calibrate, calibrate_reply

SITES = ["site-0", "site-1", "site-2"]
BAD = "site-2"
WEIGHTS = {"w": np.eye(4, dtype=np.float32)}
LATE = 5.0


def site_logits(site: str, rows: int = 40) -> tuple[Floats, Integers]:
    """Logits and labels of one site."""
    rng = np.random.default_rng(SITES.index(site))
    labels = rng.integers(0, 4, rows)
    return rng.normal(size=(rows, 4)) + 2 * np.eye(4)[labels], labels


def fail(reply: bytes) -> Any:
    raise ValueError("the disk is full")


def late(reply: bytes) -> Any:
    time.sleep(LATE + 2)
    return reply


FAULTS: dict[str, tuple[Callable[[bytes], Any], str]] = {
    "none": (bytes, ""),
    "raises": (fail, "failed: ValueError: the disk is full"),
    "nothing": (lambda _: None, "sent None, expected bytes"),
    "late": (late, f"gave no answer within {LATE:g} s"),
}


class Site:
    """One site of three goes through the faults, call by call."""

    def __init__(self) -> None:
        self._faults = iter(FAULTS.values())

    @collab.publish
    def calibrate(self, question: bytes, weights: dict[str, Any]) -> Any:
        reply = calibrate_reply(question, weights, *site_logits(collab.site_name))
        fault, _ = next(self._faults, FAULTS["none"])
        return fault(reply) if collab.site_name == BAD else reply


class Server:
    """Calibrates once for each fault."""

    @collab.main
    def run(self) -> None:
        found: dict[str, Any] = {}
        for name in FAULTS:
            result = calibrate(NVFlareSites(min_sites=1, timeout=LATE if name == "late" else 60.0), WEIGHTS)
            found[name] = result.certificate.to_dict()
        folder = Path(collab.workspace.get_result_root(collab.fl_ctx.get_job_id()))
        (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    recipe = CollabRecipe("faulty", server=Server(), client=Site(), sync_task_timeout=300)
    recipe.run(SimEnv(clients=SITES))
