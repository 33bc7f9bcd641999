"""With one site the numbers are those of the peers: the same thresholds over 1,000 seeds, or how far apart and why.

    benchmarks/.venv/bin/python benchmarks/peers_agree.py

Every comparison makes rows from a seed, asks MAPIE or crepes and fedconformal for the threshold of the same question,
and says how often both are the same, and how often ours is on the careful side. The table goes into docs/from-mapie.md.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import peers_intervals
from common import HERE, save, table

import fedconformal as fc

SEEDS, RISK, FAILURE = 1000, 0.3, 0.1
ROWS, LABELS = 80, 4
PAGE = HERE.parent / "docs" / "from-mapie.md"
START, END = "<!-- peers agree -->", "<!-- /peers agree -->"
LAMBDAS = np.arange(0, 1, 0.04)


class Case(NamedTuple):
    """A comparison: a name, a peer, a function from a seed to both numbers, and the reason for a difference."""

    what: str
    peer: str
    both: Callable[[int], tuple[float, float]]
    """Ours and theirs, so that more is more careful."""
    why: str


def multi_label(seed: int) -> tuple[Any, Any]:
    """Make scores that are never on the grid, as MAPIE predicts above a threshold and we at it, and a label a row."""
    rng = np.random.default_rng(seed)
    truth = rng.random((ROWS, LABELS)) < 0.4
    truth[np.arange(ROWS), rng.integers(0, LABELS, ROWS)] = True
    scores = 0.6 * rng.beta(2, 2, truth.shape) + rng.uniform(0.25, 0.4) * truth
    return ((np.floor(scores * 1000) + 0.5) / 1000).astype(np.float32), truth


def control(risk: str, seed: int, **more: Any) -> Any:
    """Calibrate MAPIE's controller of many labels."""
    from mapie.risk_control import MultiLabelClassificationController

    scores, truth = multi_label(seed)
    made = MultiLabelClassificationController(
        predict_function=np.asarray, risk=risk, target_level=1 - RISK, predict_params=LAMBDAS, **more
    )
    return made.calibrate(scores.astype(np.float64), truth.astype(int))


def crc(seed: int) -> tuple[float, float]:
    """Recall: MAPIE's CRC, and our mixture of one site. Theirs falls with lambda, ours rises with t = 1 - lambda."""
    scores, truth = multi_label(seed)
    theirs, loss = control("recall", seed, method="crc"), fc.FalseNegativeRate()
    grid = 1 - LAMBDAS[::-1]
    site = fc.LossSummary.of_losses(loss.evaluate(scores, truth, thresholds=grid), thresholds=grid, loss=loss)
    ours = float(fc.calibrate([site], risk=RISK, exact=True).threshold)
    return place(ours, grid), place(1 - float(theirs.best_predict_param[0]), grid)


def place(threshold: float, grid: Any) -> float:
    """Return the number of the grid point, so that 1 - (1 - x) may differ in its last bit."""
    return float(len(grid)) if not np.isfinite(threshold) else float(np.abs(grid - threshold).argmin())


@lru_cache(maxsize=SEEDS)
def precision_losses(seed: int) -> Any:
    """Return the losses that MAPIE works out: one minus precision, and one for a row with nothing predicted."""
    return control("precision", seed, confidence_level=1 - FAILURE)._risks


def ltt(method: Any, walks: int) -> Callable[[int], tuple[float, float]]:
    """Precision: MAPIE's learn-then-test with a correction, and ours with as many walks, from the same losses."""

    def both(seed: int) -> tuple[float, float]:
        from mapie.risk_control import control_fwer
        from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value

        losses = precision_losses(seed)
        p = compute_hoeffding_bentkus_p_value(losses.mean(axis=0), ROWS, RISK)[::-1, 0]  # from the safest
        valid = len(p) - 1 - control_fwer(p, FAILURE, fwer_method=method() if callable(method) else method)
        site = fc.LossSummary.of_losses(losses, thresholds=LAMBDAS, rising=True)
        found = fc.calibrate(
            [site], risk=RISK, guarantee=fc.LearnThenTest(failure=FAILURE, walks=walks), exact=True
        ).threshold
        return place(float(found), LAMBDAS), float(min(valid, default=len(LAMBDAS)))

    return both


def five_starts() -> Any:
    """Return MAPIE's fixed sequences from five places, which keep a state."""
    from mapie.risk_control import FWERFixedSequenceTesting

    return FWERFixedSequenceTesting(n_starts=5)


def unanswered(seed: int) -> tuple[float, float]:
    """Return the share of 1,000 rows without an answer, in hundredths, at a selective error of 0.1."""
    from mapie.risk_control import control_fwer
    from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value

    rng = np.random.default_rng(seed)
    sure, grid = rng.uniform(0.5, 1, 1000), np.arange(50, 100, 5) / 100
    wrong, answered = (rng.random(1000) > sure), sure[:, None] >= grid
    counts = answered.sum(axis=0)
    p = compute_hoeffding_bentkus_p_value((answered & wrong[:, None]).sum(axis=0) / counts, counts, 0.1, binary=True)
    valid = control_fwer(p[:, 0], FAILURE, fwer_method="bonferroni")
    losses = np.where(answered, wrong[:, None], 0.1)
    guarantee = fc.LearnThenTest(failure=FAILURE, walks=len(grid))
    site = fc.LossSummary.of_losses(losses, thresholds=grid, rising=True, loss=fc.SelectiveError(limit=0.1))
    ours = float(fc.calibrate([site], risk=0.1, guarantee=guarantee, exact=True).threshold)
    theirs = grid[min(valid)] if len(valid) else np.inf
    return round(100 * (sure < ours).mean()), round(100 * (sure < theirs).mean())


def cases() -> Iterator[Case]:
    """Yield what to compare."""
    yield Case(
        "recall of many labels, CRC", "MAPIE", crc, "ours takes a bound that equals the limit, MAPIE one below it only"
    )
    yield Case(
        "precision, LTT with Bonferroni's correction",
        "MAPIE",
        ltt("bonferroni", len(LAMBDAS)),
        "sums of losses are rounded up to a millionth of a row",
    )
    yield Case(
        "precision, LTT with 5 walks (MAPIE: fixed sequences with 5 starts)",
        "MAPIE",
        ltt(five_starts, 5),
        "sums of losses are rounded up to a millionth of a row",
    )
    yield Case(
        "precision, LTT: our 10 walks against Holm's correction",
        "MAPIE",
        ltt("bonferroni_holm", 10),
        "another way to correct, with the same promise",
    )
    yield Case(
        "selective error, rows left without an answer (percent of 1,000)",
        "MAPIE",
        unanswered,
        "MAPIE tests a binomial among the answered rows, which is unproved for unlike sites; ours a loss over all rows",
    )
    for one in peers_intervals.listed():
        yield Case(*one)


def measured(case: Case, seeds: int) -> list[Any]:
    """Compare over seeds: how many are the same, how often ours is more careful, how often less, and by how much."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a limit cannot be kept is a number here, the end of the grid
        apart = np.array([np.subtract(*case.both(seed)) for seed in range(seeds)])
    return [
        case.what,
        case.peer,
        f"{(apart == 0).sum()} of {seeds}",
        int((apart > 0).sum()),
        int((apart < 0).sum()),
        f"{apart.mean():.3g}",
        f"{np.abs(apart).max():.3g}",
        case.why,
    ]


def main(seeds: int) -> None:
    """Measure, print, and put the table into the page."""
    head = [
        "compared",
        "with",
        "the same",
        "ours more careful",
        "theirs",
        "mean of ours - theirs",
        "at most",
        "why they may differ",
    ]
    rows = [measured(case, seeds) for case in cases()]
    table(head, rows)
    found = [dict(zip(head, row, strict=True)) for row in rows]
    save("peers_agree", found)
    PAGE.write_text(written(PAGE.read_text(), found))


def written(page: str, found: list[dict[str, Any]]) -> str:
    """Put the comparisons into the page: the number of those that always agree, and the others by their reason."""
    apart = [row for row in found if row["ours more careful"] or row["theirs"]]
    count = f"{len(found) - len(apart)} of {len(found)}"
    lines = [START, f"{count} comparisons of sets, intervals, groups and risks always agree. The others:", ""]
    for reason in dict.fromkeys(row["why they may differ"] for row in apart):
        rows = [row for row in apart if row["why they may differ"] == reason]
        said = [f"{row['compared']} ({row['with']}; the same in {row['the same']})" for row in rows]
        lines.append(f"- {'; '.join(said)}: {reason}")
    text = "\n".join([*lines, END])
    return re.sub(f"{START}.*{END}", lambda _: text, page, flags=re.DOTALL)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
