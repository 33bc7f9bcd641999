"""Write docs/scale.md from the last run of benchmarks/scale.py: what a million sites take, and 10^8 on paper.

python benchmarks/scale_page.py
"""

# ruff: noqa: T201

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "scale.md"
PHONES, BIG_POOL, REGION = 10**8, 10**4, 100

HEAD = """# A million sites

A million phones with five rows each get one threshold in {most:.0f} seconds on this machine, their own work included,
with at most {peak:.0f} MB of memory in any process. A phone sends {site:.0f} bytes. The coordinator reads {regions}
messages, {coordinator:.1f} MB in all, and its certificate names pools, not phones.

`python benchmarks/scale.py` measures, `python benchmarks/scale_page.py` writes this page from what it found.
Measured on {date}: {processor}, {cores} cores{cut}.

## How the tree works

A phone sends all its scores to a pool of 100 phones. A pool summarises the scores that it got as its own: about 100
ranks, in about 800 bytes. A region puts the messages of 100 pools into one. The coordinator reads the regions.

This loses nothing but what ranks leave open. `Mixture` and `PAC` promise coverage to the mixture of the sites in
proportion to their rows, and only the number of rows is in their arithmetic: all rows weigh alike, so a pool may count
as one site among other pools. `NewSite` is a promise to a phone that nobody has seen. It needs every phone by itself,
so the coordinator reads a million messages.

A pool sees the scores of its phones. If it must not, let phones add noise (`--privacy local`) or form sums
([threat model](threat-model.md)).

## What was measured
"""


def rows(parts: dict[str, Any]) -> list[str]:
    """Make the rows of one table."""
    files, flower, apart = parts["files"], parts["Flower"], parts["apart"]
    threshold = {one["guarantee"]: one for one in files["promises"]}
    found = {
        "by files: phones and pools": f"{files['from sites to pools s']:.1f} s",
        "by files: pools to regions": f"{files['from pools to regions s']:.1f} s",
        "by files: regions to both certificates": f"{files['from regions to both certificates s']:.1f} s",
        "bytes that a site sends": f"{files['bytes a site sends']:.0f}",
        "bytes that a pool sends": f"{files['bytes a pool sends']:.0f}",
        "bytes that the coordinator reads": f"{files['bytes the coordinator gets']:,}",
        "the predictor, with its certificate": f"{threshold['mixture']['predictor MB']:.1f} MB",
        "sites that the certificate names": f"{threshold['mixture']['sites in the certificate']:,} pools",
        "threshold, `Mixture`": f"{threshold['mixture']['threshold']:.4f}",
        "threshold, `PAC`": f"{threshold['pac']['threshold']:.4f}",
        "what ranks may cost of coverage": f"{threshold['mixture']['slack']:.4f}",
        f"Flower in one process, {flower['nodes']:,} nodes": f"{flower['one calibration over Flower s']:.1f} s",
        "`NewSite`, every site apart: messages to threshold": f"{apart['from messages to the threshold s']:.1f} s",
        "`NewSite`: bytes that the coordinator reads": f"{apart['bytes the coordinator gets']:,}",
        "threshold, `NewSite`": f"{apart['threshold']:.4f}",
        "memory, the most of the three": f"{max(one['peak MB'] for one in parts.values()):.0f} MB",
        "all three, one after the other": f"{sum(one['seconds'] for one in parts.values()):.0f} s",
    }
    return [f"| {what} | {value} |" for what, value in found.items()]


def on_paper(parts: dict[str, Any], sites: int) -> str:
    """Work out what 10^8 phones would take, from what was measured."""
    files = parts["files"]
    own = files["from sites to pools s"] * 2 / sites  # on two cores
    sent, pool = files["bytes a site sends"], files["bytes a pool sends"]
    named = files["promises"][0]["sites in the certificate"]
    region = files["bytes the coordinator gets"] / named * REGION
    last = files["from regions to both certificates s"] / named
    pools = PHONES // BIG_POOL
    return f"""
## On paper: 10^8 phones

Nothing here was run. Each line is a measured number times a count; take pools of {BIG_POOL:,} phones.

| | arithmetic | result |
|---|---|---|
| pools | 10^8 / {BIG_POOL:,} | {pools:,} |
| a phone sends | measured | {sent:.0f} bytes |
| a pool reads | {BIG_POOL:,} x {sent:.0f} bytes | {BIG_POOL * sent / 1e6:.2f} MB |
| a pool works, with its phones' share | {BIG_POOL:,} x {own * 1e6:.0f} µs of one processor | {BIG_POOL * own:.1f} s |
| a pool sends | measured; it does not grow with the rows | {pool:.0f} bytes |
| regions of {REGION} pools | {pools:,} / {REGION} | {pools // REGION} |
| a region sends | measured | {region / 1e3:.0f} kB |
| the coordinator reads | {pools // REGION} x {region / 1e3:.0f} kB | {pools // REGION * region / 1e6:.0f} MB |
| the coordinator works | {pools:,} x {last * 1e3:.2f} ms | {pools * last:.1f} s |
| all phones together send | 10^8 x {sent:.0f} bytes | {PHONES * sent / 1e9:.1f} GB, over {pools:,} pools |

The coordinator has as much to do as with a million phones, as it sees as many pools. What grows is the work of the
pools, which work side by side.
"""


def main() -> None:
    """Write the page."""
    found = json.loads((HERE / "results" / "scale.json").read_text())
    results, machine = found["results"], found["machine"]
    shapes = results["parts"]
    first = next(iter(shapes.values()))
    named = first["files"]["promises"][0]["sites in the certificate"]
    text = HEAD.format(
        most=first["files"]["seconds"],
        peak=max(one["peak MB"] for parts in shapes.values() for one in parts.values()),
        site=first["files"]["bytes a site sends"],
        regions=-(-named // REGION),
        coordinator=first["files"]["bytes the coordinator gets"] / 1e6,
        date=found["date"],
        processor=machine["processor"],
        cores=machine["cores"],
        cut="" if results["cut"] == 1 else f"; with 1/{results['cut']} of the sites",
    )
    for shape, parts in shapes.items():
        text += "\n".join([f"\n### {shape} rows\n", "| | |", "|---|---|", *rows(parts)]) + "\n"
    PAGE.write_text(text + on_paper(first, 10**6 // results["cut"]))
    print(f"written: {PAGE.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
