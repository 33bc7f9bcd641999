"""The end of the demo: four weeks of new images at every site, and a scanner at one site that gets noisier.

Images are drawn with replacement from a site's own test rows. The trained model answers them, labels come the same day,
and from a day on the images of one site have noise on them, as a worn scanner adds it.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Integers
from fedconformal._base.files import read_npz

FIRST = date(2026, 3, 2)
DAYS, A_DAY = 28, 10
"""Days that are watched, and images a day at each site."""
SEED = 1
"""Of all that is drawn here, so that every demo shows the same."""
NOISY, SITE, NOISE = 4, 3, 0.7
"""The first day with noise, the site, and how large it is next to the range of a pixel."""


class Files(NamedTuple):
    """What a site has: rows from before, to compare scores with; rows that were answered, and what came true."""

    before: Path
    answered: Path
    outcomes: Path


def write_stream(run: Path, folder: Path, sites: int) -> list[Files]:
    """Write the files of every site; the same at every call."""
    from fedconformal.training.data import Rows
    from fedconformal.training.outputs import answer
    from fedconformal.training.run import reload

    arrays = read_npz(run / "logits.npz")
    days = np.repeat(np.arange(DAYS), A_DAY)
    folder.mkdir(exist_ok=True)
    found = []
    for site in range(sites):
        rng = np.random.default_rng([SEED, site])
        mine = np.flatnonzero(arrays["test_clients"] == site)
        drawn = rng.choice(mine, len(days))
        logits, labels = arrays["test_logits"][drawn], arrays["test_labels"][drawn]
        if site == SITE:
            model, dataset, _, preprocess = reload(run)
            late = days + 1 >= NOISY
            images = dataset.test.x[drawn[late]]
            scanned = np.clip(images + 255 * NOISE * rng.normal(size=images.shape), 0, 255).astype(np.uint8)
            rows = Rows(x=scanned, y=labels[late])
            logits[late] = answer(model, rows, np.full(len(rows), site), preprocess).logits
        files = Files(*(folder / f"site-{site}-{name}.csv" for name in Files._fields))
        ids = [f"{site}-{k}" for k in range(len(days))]
        times = [(FIRST + timedelta(days=int(day))).isoformat() for day in days]
        _write(files.before, arrays["test_logits"][mine], label=arrays["test_labels"][mine])
        _write(files.answered, logits, id=ids, time=times)
        _write(files.outcomes, np.empty((len(ids), 0)), id=ids, time=times, label=labels)
        found.append(files)
    return found


def _write(path: Path, logits: NDArray[Any], **columns: Sequence[str] | Integers) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, *range(logits.shape[1])])
        writer.writerows([*about, *row] for *about, row in zip(*columns.values(), logits.tolist(), strict=True))
