"""Files: each site sends a small file, such as by e-mail; the coordinator returns a predictor that sites can verify.

Run it with: python examples/files.py
The commands `fedconformal summarize`, `calibrate`, `verify` and `evaluate` do the same without Python code.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fedconformal as fc


def rows_of(seed: int, rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Make probabilities of four classes, and labels."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(4, 0.5), size=rows)
    return probs, (rng.random((rows, 1)) < probs.cumsum(axis=1)).argmax(axis=1)


def write_summary(folder: Path, site: str, seed: int) -> None:
    """Write the file that a site sends: a summary of the scores of its own rows."""
    summary = fc.summarize(*rows_of(seed, 150), score="lac", alpha=0.1, site=site)
    (folder / f"{site}.fcs").write_bytes(summary.to_bytes())


def main() -> None:
    """Calibrate from the files of three clinics, check the result, and use it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed, site in enumerate(("clinic-a", "clinic-b", "clinic-c")):
            write_summary(folder, site, seed)

        # At the coordinator.
        files = sorted(folder.glob("*.fcs"))
        summaries = [fc.Summary.from_bytes(file.read_bytes()) for file in files]
        fc.calibrate(summaries, alpha=0.1).save(folder / "predictor.json")
        print({file.name: f"{file.stat().st_size} bytes" for file in files})

        # Anywhere. `verify` recomputes the certificate, and returns an empty list if nothing is wrong.
        predictor = fc.load(folder / "predictor.json")
        print("problems:", fc.verify(predictor, summaries))
        print(predictor.sentence())
        found = predictor.evaluate(*rows_of(99, 2000))
        print(f"coverage {found.coverage:.3f}, {found.mean_size:.2f} labels per set")


if __name__ == "__main__":
    main()
