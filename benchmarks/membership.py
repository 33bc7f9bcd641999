"""Membership inference from a published predictor, before and after thresholds are rounded up.

    PYTHONPATH=. python benchmarks/membership.py [--page]

The attacks are those of tests/privacy/membership.py. Its tables go into docs/threat-model.md; `--page` writes them
there again from the saved results, without measuring. With $FEDCONFORMAL_DATA, sets of CIFAR-100 are measured too.
"""

# ruff: noqa: T201

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE, RESULTS, save
from scipy.special import softmax

import fedconformal as fc
from fedconformal._base.arrays import Floats
from tests.privacy.membership import ALPHA, attack, digits, numbers, predictor_of, split

NAME = "membership"
PAGE = HERE.parent / "docs" / "threat-model.md"
START, END = "<!-- membership -->", "<!-- /membership -->"


def synthetic(seed: int, count: int) -> tuple[Floats, Any, Any]:
    """Draw rows of a model of ten classes that is right four times in five; the first are members."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, 3 * count)
    logits = rng.normal(size=(len(labels), 10)) + 2.6 * np.eye(10)[labels]
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), labels, np.arange(len(labels)) < count


DATA = {150: ("digits", digits, 60), 650: ("digits", digits, 15), 5000: ("synthetic", synthetic, 3)}
WHAT = ("one threshold", "by class", "by group", "a limit on losses")
FILE, SCORES, ROWS, TRIALS = "logits/cifar100_tct.npz", (fc.LAC(), fc.APS(), fc.RAPS()), (500, 5000), 10
HEAD = ("data", "rows", "exact: members found", "rounded: members found", "others found", "difference by counts")


def attacked() -> list[dict[str, Any]]:
    """Attack predictors of random splits, exact ones and rounded ones."""
    draws = [
        (f"{name}, {what}", what, rows, splits, partial(split, draw))
        for rows, (name, draw, splits) in DATA.items()
        for what in WHAT
    ]
    draws += [
        (f"diabetes, {what}", what, 150, DATA[150][2], partial(numbers, signed=what == "signed"))
        for what in ("residual", "signed")
    ]
    found = []
    for name, what, rows, splits, draw in draws:
        drawn = [draw(seed, rows) for seed in range(splits)]
        means = {}
        for exact in (True, False):
            each = [attack(predictor_of(what, members, exact=exact), members, others) for members, others in drawn]
            means["exact" if exact else "rounded"] = {
                key: float(np.mean([one[key] for one in each])) for key in each[0]
            }
        found.append({"predictor": name, "rows": rows, "splits": splits, **means})
        print(found[-1])
    return found


def sizes(data: Path) -> list[dict[str, Any]]:
    """Compare the sets of exact and of rounded thresholds on rows that did not calibrate."""
    held, found = np.load(data), []
    probs = softmax(np.concatenate([held["val_logits"], held["test_logits"]]).astype(np.float64), axis=1)
    labels = np.concatenate([held["val_labels"], held["test_labels"]])
    for score in SCORES:
        for rows in ROWS:
            means = []
            for seed in range(TRIALS):
                inside, outside = np.split(np.random.default_rng(seed).permutation(len(labels)), [rows])
                site = fc.Summary.of_scores(
                    score.evaluate(probs[inside], labels[inside]), kind="exact", score=score, site="a"
                )
                for exact in (True, False):
                    made = fc.calibrate([site], alpha=ALPHA, exact=exact)
                    sets = made.predict_set(probs[outside])
                    means.append((sets.sum(axis=1).mean(), sets[np.arange(len(sets)), labels[outside]].mean()))
            exact, rounded = np.mean(means[::2], axis=0).tolist(), np.mean(means[1::2], axis=0).tolist()
            found.append({"score": score.name, "rows": rows, "exact": exact, "rounded": rounded})
            print(found[-1])
    return found


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Write a table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *rows))


def lines(attacks: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Write what was found of each data set: the range over the kinds of predictors."""
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for row in attacks:
        before, after = row["exact"], row["rounded"]
        shares = (before["members found"], after["members found"], after["others found"])
        gain = after["members counted"] - after["others counted"]
        found.setdefault((row["predictor"].split(",")[0], f"{row['rows']:,}"), []).append((*shares, gain))
    return [(*name, *map(spread, zip(*rows, strict=True))) for name, rows in found.items()]


def spread(shares: Sequence[float]) -> str:
    """Write the smallest and the largest share."""
    low, high = f"{min(shares):.1%}", f"{max(shares):.1%}"
    return low if low == high else f"{low} to {high}"


def size_sentence(rows: list[dict[str, Any]]) -> str:
    """Write what rounding costs."""
    costs = [row["rounded"][0] / row["exact"][0] - 1 for row in rows]
    scores = ", ".join(dict.fromkeys(row["score"] for row in rows))
    sizes = " or ".join(dict.fromkeys(f"{row['rows']:,}" for row in rows))
    span = f"{min(costs):.1%} to {max(costs):.1%}"
    return f"Rounding adds {span} to the labels in a set (CIFAR-100, {sizes} rows, {scores})."


def main() -> None:
    """Measure and save, and put the tables into their page."""
    path = RESULTS / f"{NAME}.json"
    if "--page" not in sys.argv:
        warnings.simplefilter("ignore")  # of sets that hold every label, and of counts by class
        data = Path(os.environ.get("FEDCONFORMAL_DATA", "")) / FILE
        kept = json.loads(path.read_text())["results"]["sizes"] if path.exists() else []
        save(NAME, {"attacks": attacked(), "sizes": sizes(data) if data.exists() else kept})
    found = json.loads(path.read_text())["results"]
    parts = table(HEAD, lines(found["attacks"])), size_sentence(found["sizes"])
    before, rest = PAGE.read_text().split(START)
    PAGE.write_text(f"{before}{START}\n{parts[0]}\n\n{parts[1]}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
