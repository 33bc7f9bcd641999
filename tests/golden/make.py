"""Golden files: format 1 as it was first written; every later release must read and write the same bytes.

python -c "from tests.golden.make import write; write('name')"
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

import fedconformal as fc
from fedconformal.errors import ClassCountsWarning
from fedconformal.summaries import Provenance
from fedconformal.summaries.tdigest import TDigestSummary

HERE = Path(__file__).parent

PROBS = [[0.75, 0.125, 0.125], [0.25, 0.5, 0.25], [0.125, 0.25, 0.625], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
LABELS = [0, 1, 1, 0, 0]
EXTREME = [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, -1.7976931348623157e308, 1e-9, -1e300]


def spread(n: int, scale: float = 1.0) -> list[float]:
    """Return n scores in a scrambled order, each exact in binary, some negative and some above one."""
    return [scale * ((37 * i) % n - n // 8) / 64 for i in range(n)]


def by_class(scores: list[float], **about: Any) -> fc.Summary:
    """Give every fifth score the label 9 and the others 0 or 2."""
    labels = [9 if i % 5 == 0 else 2 * (i % 2) for i in range(len(scores))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClassCountsWarning)
        return fc.Summary.of_scores(scores, labels=labels, **about)


def by_group(scores: list[float], **about: Any) -> fc.Summary:
    """Give two rows of three a sex and every other one an age."""
    sex = [["F", "M", None][i % 3] for i in range(len(scores))]
    age = [["", "60-69"][i % 2] for i in range(len(scores))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClassCountsWarning)
        return fc.Summary.of_scores(scores, groups={"sex": sex, "age": age}, **about)


def summaries() -> dict[str, fc.Summary]:
    """Make what the .fcs files hold."""
    raps = fc.RAPS(randomized=True, random_state=7, penalty=0.01, free_ranks=2)
    about: dict[str, Any] = {"score": raps, "model": "sha256:0123456789abcdef", "temperature": 1.5}
    a = fc.Summary.of_scores(spread(40), kind="ranks", alpha=0.1, site="clinic-a", **about)
    b = fc.Summary.of_scores(spread(25, 0.5), kind="ranks", alpha=0.1, site="Köln 2", **about)
    signed = fc.Signed(scaled=True, lower=0.25)
    few = [fc.Summary.of_scores(spread(n), kind="exact", site=f"s{n}", score=fc.APS()) for n in (3, 1, 9)]
    digests = [fc.Summary.of_scores(spread(n), kind="tdigest", site=f"s{n}", score=fc.LAC()) for n in (60, 1, 25)]
    sketches = [fc.Summary.of_scores(spread(n), kind="ddsketch", site=f"s{n}", **about) for n in (40, 1, 90)]
    return {
        "exact": fc.Summary.of_scores([0.5, -1.0, 0.25, 1.75, 0.25], kind="exact", site="clinic-a", score=fc.LAC()),
        "exact-bare": fc.Summary.of_scores([1.0], kind="exact"),
        "exact-pooled": fc.pool(few),
        "ddsketch": fc.Summary.of_scores([*spread(50), *EXTREME], kind="ddsketch", site="clinic-a", score=fc.APS()),
        "ddsketch-pooled": fc.pool(sketches),
        # Made of means, as another version of fastdigest may gather the same scores in another way.
        "tdigest": TDigestSummary(
            means=np.array([-1.5, -0.75, 0.125, 0.125, 0.625, 2.0]),
            weights=np.array([1, 4, 9, 12, 3, 1]),
            smallest=-1.5,
            largest=2.5,
            sizes=(30,),
            sites=("clinic-a",),
            provenance=Provenance(**about),
        ),
        "tdigest-few": fc.Summary.of_scores([0.5, -1.0, 0.25, 1.75, 0.25], kind="tdigest"),
        "tdigest-pooled": fc.pool(digests),
        "class": by_class(spread(300), kind="ranks", alpha=0.1, site="clinic-a", **about),
        "class-pooled": fc.pool([by_class(spread(n), kind="exact", site=f"s{n}") for n in (30, 1, 7)]),
        "group": by_group(spread(60), kind="ranks", alpha=0.1, site="clinic-a", **about),
        "group-class": by_group(spread(20), kind="exact", labels=[i % 2 for i in range(20)]),
        "group-pooled": fc.pool([by_group(spread(n), kind="exact", site=f"s{n}") for n in (30, 1, 7)]),
        "ranks": fc.Summary.of_scores(spread(300), kind="ranks", alpha=0.1, site="clinic-a", **about),
        "ranks-plain": fc.Summary.of_scores(spread(250), kind="ranks", site="病院", score=fc.APS()),
        "ranks-pooled": fc.pool([a, b]),
        "ranks-signed": fc.Summary.of_scores(spread(300), alpha=0.2, site="clinic-a", score=signed),
    }


def predictor() -> fc.Predictor:
    """Make what predictor.json holds, but for the versions it was made with."""
    score = fc.RAPS(penalty=0.125)
    scores = score.evaluate(PROBS * 4, LABELS * 4)
    sites = [
        fc.Summary.of_scores(
            scores[start : start + 10], alpha=0.2, score=score, site=site, model="m-1", temperature=1.5
        )
        for start, site in ((0, "clinic-a"), (10, "Köln"))
    ]
    return fc.calibrate(sites, alpha=0.2, exact=True)


def write(name: str) -> None:
    """Write one file that is not there yet."""
    content = predictor().to_bytes() if name == "predictor" else summaries()[name].to_bytes()
    path = HERE / (f"{name}.json" if name == "predictor" else f"{name}.fcs")
    with path.open("xb") as file:
        file.write(content)
