"""A million sites: through a tree of pools by files, through Flower in this process, and with every site apart.

    python benchmarks/scale.py [--cut 10]

A site is a phone with a few rows. It sends all its scores to a pool of 100 sites. A pool summarises the scores of its
sites as its own, about 100 ranks, and sends that to a region of 100 pools; a region puts its pools into one message.
That loses no more than the ranks leave open: `Mixture` and `PAC` count rows, not sites. `NewSite` speaks of a fresh
site, so there every site stands by itself.

Each part runs in a process of its own, for its memory. `--cut 10` takes a tenth of the sites.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np
from common import in_a_fresh_process, memory, save, table

import fedconformal as fc
from fedconformal.summaries.batch import SummaryBatch

ALPHA = 0.1
POOL = REGION = 100
"""Sites in a pool, and pools in a region."""
SHAPES = {"1,000,000 sites of 5": (10**6, 5), "100,000 sites of 100": (10**5, 100)}
ABOUT: dict[str, Any] = {"alpha": ALPHA, "score": fc.LAC(), "model": "sha256:0123456789abcdef", "temperature": 1.0}
NAME = "pool"
GUARANTEES: tuple[fc.Guarantee, ...] = (fc.Mixture(), fc.PAC())


def sites_of(pool: int, rows: int) -> list[bytes]:
    """Return what the sites of one pool send: every site scores in its own way."""
    draws = np.random.default_rng([pool, rows])
    scores = draws.beta(draws.uniform(1, 3, size=(POOL, 1)), 2, size=(POOL, rows))
    return [fc.Summary.of_scores(own, kind="exact", **ABOUT).to_bytes() for own in scores]


def pooled(pool: int, rows: int) -> tuple[bytes, int]:
    """Return what one pool sends, and how many bytes it has got; it reads what its sites send as a stranger's."""
    sent = sites_of(pool, rows)
    scores, _ = SummaryBatch.from_bytes(sent).points()
    return fc.Summary.of_scores(scores, site=f"{NAME}-{pool}", **ABOUT).to_bytes(), sum(map(len, sent))


def several(pools: range, rows: int) -> list[tuple[bytes, int]]:
    """Return what several pools send."""
    return [pooled(pool, rows) for pool in pools]


def in_two_processes(work: Callable[[range], list[Any]], count: int) -> list[Any]:
    """Do the work of all pools, a region at a time."""
    parts = [range(start, min(count, start + REGION)) for start in range(0, count, REGION)]
    with ProcessPoolExecutor(2) as workers:
        return [one for part in workers.map(work, parts) for one in part]


def by_files(sites: int, rows: int, folder: Path) -> dict[str, Any]:
    """Go from the sites to certificates through files of pools and of regions."""
    start = time.perf_counter()
    pools = in_two_processes(partial(several, rows=rows), sites // POOL)
    for pool, (message, _) in enumerate(pools):
        (folder / f"pool-{pool}.fcs").write_bytes(message)
    made = time.perf_counter()
    regions = []
    for first in range(0, len(pools), REGION):
        names = [folder / f"pool-{pool}.fcs" for pool in range(first, min(len(pools), first + REGION))]
        region = folder / f"region-{first // REGION}.fcs"
        region.write_bytes(fc.pool(SummaryBatch.from_bytes([name.read_bytes() for name in names])).to_bytes())
        regions.append(region)
    gathered = time.perf_counter()
    found = SummaryBatch.from_bytes([region.read_bytes() for region in regions])
    promises = [certified(found, guarantee) for guarantee in GUARANTEES]
    return {
        "from sites to pools s": made - start,
        "from pools to regions s": gathered - made,
        "from regions to both certificates s": time.perf_counter() - gathered,
        "bytes a site sends": sum(got for _, got in pools) / sites,
        "bytes a pool sends": sum(len(message) for message, _ in pools) / len(pools),
        "bytes the coordinator gets": sum(region.stat().st_size for region in regions),
        "promises": promises,
        "peak MB": memory("VmHWM"),
    }


def certified(found: Any, guarantee: fc.Guarantee) -> dict[str, Any]:
    """Calibrate, and say what the certificate is like."""
    start = time.perf_counter()
    predictor = fc.calibrate(found, alpha=ALPHA, guarantee=guarantee)
    about = predictor.certificate
    return {
        "guarantee": guarantee.name,
        "seconds": time.perf_counter() - start,
        "threshold": predictor.threshold,
        "coverage at least": about.coverage_at_least,
        "slack": about.slack,
        "sites in the certificate": about.sites,
        "first name": about.summaries[0].sites[0] if about.summaries[0].sites else "",
        "predictor MB": len(predictor.to_bytes()) / 1e6,
    }


def on_flower(sites: int, rows: int) -> dict[str, Any]:
    """Let every pool be a node of Flower's engine in this process; its sites have sent to it before."""
    from flwr.app import Array, ArrayRecord, Context, Message
    from flwr.clientapp import ClientApp

    from fedconformal.engines.flower import Federation, InProcessGrid, calibrate
    from fedconformal.engines.flower.records import fingerprint, reply

    logging.getLogger("flwr").setLevel(logging.ERROR)
    weights = ArrayRecord({"w": Array(np.zeros(1, np.float32))})
    ABOUT["model"] = fingerprint(weights)
    globals()["NAME"] = "site"  # as this engine calls its nodes
    start = time.perf_counter()
    pools = in_two_processes(partial(several, rows=rows), sites // POOL)  # by fork, so that the model is this one
    made = time.perf_counter()
    app = ClientApp()

    @app.query("calibrate")
    def answer(msg: Message, context: Context) -> Message:
        message, _ = pools[int(context.node_config["partition-id"])]
        return reply(msg, context, message)

    result = calibrate(Federation(InProcessGrid(app, len(pools))), weights, alpha=ALPHA, guarantee=fc.Mixture())
    predictor = result.predictor
    return {
        "nodes": len(pools),
        "from sites to pools s": made - start,
        "one calibration over Flower s": time.perf_counter() - made,
        "threshold": predictor.threshold,
        "sites in the certificate": predictor.certificate.sites,
        "peak MB": memory("VmHWM"),
    }


def sent_apart(pools: range, rows: int) -> list[list[bytes]]:
    """Return what all sites of several pools send."""
    return [sites_of(pool, rows) for pool in pools]


def apart(sites: int, rows: int) -> dict[str, Any]:
    """Promise to a fresh site, from the messages of all sites."""
    start = time.perf_counter()
    sent = [one for pool in in_two_processes(partial(sent_apart, rows=rows), sites // POOL) for one in pool]
    made = time.perf_counter()
    result = fc.calibrate(SummaryBatch.from_bytes(sent), alpha=ALPHA, guarantee=fc.NewSite())
    return {
        "sites' own work s": made - start,
        "from messages to the threshold s": time.perf_counter() - made,
        "bytes the coordinator gets": sum(map(len, sent)),
        "threshold": result.threshold,
        "coverage at least": result.certificate.coverage_at_least,
        "peak MB": memory("VmHWM"),
    }


PARTS: dict[str, Callable[[int, int], dict[str, Any]]] = {"Flower": on_flower, "apart": apart}


def alone(part: str, sites: int, rows: int) -> dict[str, Any]:
    """Run one part."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    if part == "files":
        with tempfile.TemporaryDirectory() as folder:
            found = by_files(sites, rows, Path(folder))
    else:
        found = PARTS[part](sites, rows)
    return {**found, "seconds": time.perf_counter() - start}


def main() -> None:
    """Run all parts, print a table for each, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cut", type=int, default=1)
    parser.add_argument("--alone", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        part, sites, rows = options.alone
        print(json.dumps(alone(part, int(sites), int(rows))))
        return
    found: dict[str, Any] = {}
    for shape, (sites, rows) in SHAPES.items():
        found[shape] = {}
        for part in ("files", *PARTS):
            one = in_a_fresh_process("scale.py", "--alone", part, str(sites // options.cut), str(rows))
            found[shape][part] = one
            print(f"\n{shape}{f', cut to 1/{options.cut}' if options.cut > 1 else ''}, {part}\n")
            promises = one.pop("promises", [])
            table(["", ""], [[name, value] for name, value in one.items()])
            if promises:
                print()
                table(list(promises[0]), [list(promise.values()) for promise in promises])
                one["promises"] = promises
    total = {shape: sum(one["seconds"] for one in parts.values()) for shape, parts in found.items()}
    times = ", ".join(f"{shape}: {seconds:.0f} s" for shape, seconds in total.items())
    print(f"\nin all {times}; wanted: each way 60 s, 2 GB")
    save("scale", {"cut": options.cut, "parts": found, "seconds": total})


if __name__ == "__main__":
    main()
