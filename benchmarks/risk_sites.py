"""A limit on the missed share of tumour pixels, at 20 sites that are as unlike as hospitals of a tumour federation.

    PYTHONPATH=. python benchmarks/risk_sites.py

Synthetic images, so that the risk is known. `Mixture` keeps the limit on average and breaks it at
hard sites. `EverySite` keeps it at each site, and costs larger masks. The mean is over 200
splits of every site's images into those that calibrate and those that test. The table goes into docs/risk.md.
"""

# ruff: noqa: T201

from __future__ import annotations

import re
import warnings

import numpy as np
from common import HERE, save

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.errors import HeavySiteWarning
from tests.validity.masks import Site, federation

SITES, IMAGES, SPLITS, RISK = 20, 500, 200, 0.1
GRID = np.arange(501) / 500
PAGE = HERE.parent / "docs" / "risk.md"
START, END = "<!-- risk sites -->", "<!-- /risk sites -->"
LOSS = fc.FalseNegativeRate()
RULES = {
    "Mixture()": fc.Mixture(),
    "EverySite()": fc.EverySite(),
}


def curves(site: Site) -> tuple[Floats, Floats]:
    """Return the loss of every image at every threshold, and how many pixels are predicted for one of the tumour."""
    losses = LOSS.evaluate(site.scores, site.truth, thresholds=GRID)
    predicted = np.stack([LOSS.predict(site.scores, t).mean(axis=(1, 2)) for t in GRID], axis=1)
    return losses, predicted / site.truth.mean(axis=(1, 2))[:, None]


def measured(made: list[Site], splits: int, seed: int = 1) -> dict[str, tuple[Floats, Floats]]:
    """Return for every rule the mean risk at every site, and the mean size."""
    rng = np.random.default_rng(seed)
    known = [curves(site) for site in made]
    found: dict[str, tuple[Floats, Floats]] = {}
    totals = {rule: (np.zeros(len(made)), np.zeros(len(made))) for rule in RULES}
    for _ in range(splits):
        orders = [rng.permutation(len(site.scores)) for site in made]
        held = [order[: site.calibrating] for order, site in zip(orders, made, strict=True)]
        sites = [
            fc.LossSummary.of_losses(losses[rows], thresholds=GRID, loss=LOSS, site=f"site-{k}")
            for k, ((losses, _), rows) in enumerate(zip(known, held, strict=True))
        ]
        for rule, guarantee in RULES.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HeavySiteWarning)
                threshold = fc.calibrate(sites, risk=RISK, guarantee=guarantee).threshold
            column = int(np.searchsorted(GRID, min(1.0, float(threshold))))
            for k, ((losses, sizes), order) in enumerate(zip(known, orders, strict=True)):
                rest = order[made[k].calibrating :]
                totals[rule][0][k] += losses[rest, column].mean() / splits
                totals[rule][1][k] += sizes[rest, column].mean() / splits
    found.update(totals)
    return found


def main() -> None:
    """Measure, print, and put the table into the page."""
    found = measured(federation(SITES, IMAGES), SPLITS)
    rows = [
        "| rule | sites above the limit | mean risk of a site | worst site | predicted for one pixel of tumour |",
        "|---|---|---|---|---|",
    ]
    results = {}
    for rule, (risks, sizes) in found.items():
        above = int((risks > RISK).sum())
        rows.append(f"| {rule} | {above} of {SITES} | {risks.mean():.3f} | {risks.max():.3f} | {sizes.mean():.2f} |")
        results[rule] = {"risks": risks.round(4).tolist(), "sizes": sizes.round(3).tolist()}
    print("\n".join(rows))
    save("risk_sites", results)
    if PAGE.exists():
        text = "\n".join([START, *rows, END])
        page = PAGE.read_text()
        PAGE.write_text(re.sub(f"{START}.*{END}", lambda _: text, page, flags=re.DOTALL))


if __name__ == "__main__":
    main()
