"""Membership that sums give away, and the price of small steps in coverage and labels.

    PYTHONPATH=. python benchmarks/sums_leak.py [--page | --sessions]

The attack is that of tests/privacy/attack.py, on ten sites. Its table goes into docs/threat-model.md; `--page` writes
it there again from the saved results, without measuring. `--sessions` measures what many sessions over the same rows
decide, at other temperatures, alphas and reaches.
"""

# ruff: noqa: T201

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
from common import HERE, RESULTS, save

import fedconformal as fc
from fedconformal._base.arrays import Floats, Integers, softmax
from tests.privacy.attack import Draw, Seen, decided, of_digits, watching
from tests.privacy.sums_play import calibrate_by_sums

NAME = "sums_leak"
PAGE = HERE.parent / "docs" / "threat-model.md"
SITES, SPLITS, ALPHA = 10, 20, 0.1
SESSIONS, TEMPERATURES = 103, (0.5, 1.0, 2.0)
HEAD = ("scores", "rows", "members decided", "coverage", "labels a set")


def weak(seed: int) -> tuple[Any, Any, Any]:
    """Scores of a weak model for many classes: close to 1."""
    rng = np.random.default_rng(seed)
    members, others = rng.beta(10, 0.5, (2, 10_000))
    return members, others, others[:, None]


DATA: dict[tuple[str, int], Draw] = {
    **{("digits, LAC", n): of_digits(fc.LAC(), n) for n in (150, 650)},
    **{("digits, APS", n): of_digits(fc.APS(), n) for n in (150, 650)},
    ("a weak model", 10_000): weak,
}


View = tuple[Integers, Integers]
"""Of each candidate the cell that it is in, and of each cell how many rows are in it."""


def view(seen: Seen, candidates: Floats) -> View:
    """Put sums of several sessions over the same scores together: all tell how many rows are up to each edge."""
    up_to: dict[float, int] = {-np.inf: 0}
    for rounds, search, total in seen:
        counts, step = search.below + np.cumsum(total), 1 << search.joined  # of parts that are one, the last counts
        for digit in range(step - 1, len(total), step):
            edge = rounds._edge(search.number + 1, search.digits << rounds.widths[search.number] | digit)
            up_to[edge] = int(counts[digit])
    edges = np.array(sorted(up_to))
    return np.searchsorted(edges, candidates) - 1, np.diff([up_to[edge] for edge in edges.tolist()])


def decided_together(views: list[View], members: int) -> int:
    """Count the members that several views decide: a cell with no more undecided candidates than rows, or with none.

    The first candidates are the members.
    """
    known = np.full(len(views[0][0]), -1)
    while True:
        before = known.copy()
        for cell, rows in views:
            left = rows - np.bincount(cell[known == 1], minlength=len(rows))
            undecided = np.bincount(cell[known < 0], minlength=len(rows))
            known[(known < 0) & (left == 0)[cell]] = 0
            known[(known < 0) & (left == undecided)[cell]] = 1
        if np.array_equal(known, before):
            return int((known[:members] == 1).sum())


def alone(seen: Seen) -> int:
    """Count the cells with a single row."""
    return sum(int((total == 1).sum()) for _, _, total in seen)


def measured() -> list[dict[str, Any]]:
    """Attack sessions on random splits, and compare their thresholds with the exact one."""
    found = []
    for (name, count), draw in DATA.items():
        drawn = [draw(seed) for seed in range(SPLITS)]
        rows = []
        for members, others, labels in drawn:
            with watching() as seen:
                sites = {f"site-{k}": members[k::SITES] for k in range(SITES)}
                threshold = float(calibrate_by_sums(sites, alpha=ALPHA).threshold)
            exact = np.sort(members)[math.ceil((1 - ALPHA) * count)]  # rank ceil((1 - alpha) N) + 1
            size, least = ((labels <= limit).sum(axis=1).clip(1).mean() for limit in (threshold, exact))
            covered = (members <= threshold).mean() - (members <= exact).mean()
            rows.append((decided(seen, members, others), alone(seen), threshold - exact, covered, size / least - 1))
        means = dict(zip(("decided", "alone", "threshold", "coverage", "size"), np.mean(rows, axis=0), strict=True))
        worst = {"most_decided": max(row[0] for row in rows), "most_size": max(row[4] for row in rows)}
        found.append({"scores": name, "rows": count, **means, **worst})
        print(found[-1])
    return found


def repeated(splits: int = 5) -> dict[str, Any]:
    """Attack many sessions of small steps over the same rows of digits, with LAC."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    rows, labels = load_digits(return_X_y=True)
    count, shares = 650, []
    for seed in range(splits):
        train, candidates = np.split(np.random.default_rng(seed).permutation(len(rows))[: 497 + 2 * count], [497])
        model = LogisticRegression(max_iter=200).fit(rows[train] / 16, labels[train])
        logits, views = model.decision_function(rows[candidates] / 16), []
        for place, temperature in enumerate(TEMPERATURES):
            scores = fc.LAC().evaluate(softmax(logits, temperature=temperature), labels[candidates])
            sites = {f"site-{k}": scores[k:count:SITES] for k in range(SITES)}
            turns = range(len(range(place, SESSIONS, len(TEMPERATURES))))
            with watching() as seen:
                for turn in turns:
                    alpha, reach = (turn + 1) / (len(turns) + 1), 2.0 ** (turn % 7 - 3)
                    calibrate_by_sums(sites, alpha=round(alpha, 6), reach=reach)
            views.append(view(seen, scores))
        shares.append(decided_together(views, count) / count)
        print(f"{SESSIONS} sessions over the same {count} rows decide {shares[-1]:.2%} of members")
    mean, most = float(np.mean(shares)), max(shares)
    return {"sessions": SESSIONS, "rows": count, "decided": mean, "most_decided": most}


def said(found: dict[str, Any]) -> str:
    """Say what many sessions decide, beside what one does."""
    rows = json.loads((RESULTS / f"{NAME}.json").read_text())["results"]
    one = next(row for row in rows if (row["scores"], row["rows"]) == ("digits, LAC", 650))
    many = (
        f"{found['sessions']} sessions over the same {found['rows']} rows (digits, LAC) decide {found['decided']:.1%}"
    )
    alone = f"where the table says {one['decided'] / one['rows']:.2%}"
    return f"{many} of members, at most {found['most_decided']:.1%} in one split, {alone}"


def put(mark: str, text: str) -> None:
    """Put a text into the page, between its marks."""
    start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, rest = PAGE.read_text().split(start)
    PAGE.write_text(f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}")


def table(rows: list[dict[str, Any]]) -> str:
    """Write a row for each kind of scores."""
    lines = [HEAD, ("---",) * len(HEAD)]
    for row in rows:
        size = f"{row['size']:+.1%}, at most {row['most_size']:+.1%}" if row["scores"] != "a weak model" else ""
        share = f"{row['decided'] / row['rows']:.2%}, at most {row['most_decided'] / row['rows']:.2%}"
        lines.append((row["scores"], f"{row['rows']:,}", share, f"{row['coverage']:+.2%}", size))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Measure and save, and put the table into its page."""
    if "--sessions" in sys.argv:
        save("sums_sessions", repeated())
    elif "--page" not in sys.argv:
        save(NAME, measured())
    rows = json.loads((RESULTS / f"{NAME}.json").read_text())["results"]
    put("measured", table(rows))
    put("sessions", said(json.loads((RESULTS / "sums_sessions.json").read_text())["results"]))


if __name__ == "__main__":
    main()
