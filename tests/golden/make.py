"""How the golden files were made.

The files are the promise: every later release must read them, and must write the same bytes. So they are never
made again. A new kind of summary, or a new version of the format beside the old one, adds a file:

    python -c "from tests.golden.make import write; write('name')"
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fedconformal as fc

HERE = Path(__file__).parent

PROBS = [[0.75, 0.125, 0.125], [0.25, 0.5, 0.25], [0.125, 0.25, 0.625], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
LABELS = [0, 1, 1, 0, 0]


def spread(n: int, scale: float = 1.0) -> list[float]:
    """Return n scores in a scrambled order, each exact in binary, some negative and some above one."""
    return [scale * ((37 * i) % n - n // 8) / 64 for i in range(n)]


def summaries() -> dict[str, fc.Summary]:
    """Make what the .fcs files hold."""
    raps = fc.RAPS(randomized=True, random_state=7, penalty=0.01, free_ranks=2)
    about: dict[str, Any] = {"score": raps, "model": "sha256:0123456789abcdef", "temperature": 1.5}
    a = fc.summarize(spread(40), kind="ranks", alpha=0.1, site="clinic-a", **about)
    b = fc.summarize(spread(25, 0.5), kind="ranks", alpha=0.1, site="Köln 2", **about)
    c = fc.summarize(spread(600), kind="ranks", site="c", score=fc.APS(randomized=True, random_state=3))
    few = [fc.summarize(spread(n), kind="exact", site=f"s{n}", score=fc.APS()) for n in (3, 1, 9)]
    return {
        "exact": fc.summarize([0.5, -1.0, 0.25, 1.75, 0.25], kind="exact", site="clinic-a", score=fc.LAC()),
        "exact-bare": fc.summarize([1.0], kind="exact"),
        "exact-pooled": fc.pool(few),
        "ranks": fc.summarize(spread(300), kind="ranks", alpha=0.1, site="clinic-a", **about),
        "ranks-plain": fc.summarize(spread(250), kind="ranks", site="病院", score=fc.APS()),
        "ranks-pooled": fc.pool([a, b]),
        "ranks-extended": c.extend([0.125, 99.0, -9.0, 0.125]),
    }


def predictor() -> fc.Predictor:
    """Make what predictor.json holds, but for the versions it was made with."""
    score = fc.RAPS(penalty=0.125)
    scores = score.evaluate(PROBS * 4, LABELS * 4)
    sites = [
        fc.summarize(scores[start : start + 10], alpha=0.2, score=score, site=site, model="m-1", temperature=1.5)
        for start, site in ((0, "clinic-a"), (10, "Köln"))
    ]
    return fc.Predictor.of(fc.calibrate(sites, alpha=0.2))


def write(name: str) -> None:
    """Write one file that is not there yet."""
    content = predictor().to_bytes() if name == "predictor" else summaries()[name].to_bytes()
    path = HERE / (f"{name}.json" if name == "predictor" else f"{name}.fcs")
    with path.open("xb") as file:
        file.write(content)
