"""Write tests/vectors/wire: inputs, bytes and refusals for every kind of file that sites and coordinators exchange.

Another implementation that makes the same bytes from the same inputs, counts the same in them, and refuses the same
files can take part. `tests/vectors/wire/README.md` says what a case is. Written once: what is there stays, and a new
kind adds cases. `outcome` works a case out with this package; the tests compare.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

import fedconformal as fc
from fedconformal._base import registry
from fedconformal.errors import ClassCountsWarning
from fedconformal.monitoring.messages import Period, read_periods, write_periods
from fedconformal.privacy.signatures import sign
from fedconformal.scores import AnyScore, RegressionScore
from fedconformal.summaries import LossSummary
from fedconformal.summaries.rows import score_rows
from scripts.vector_cases import periods, refused, rows, summaries, twins
from scripts.vector_cases.tools import Case

FOLDER = Path(__file__).parent.parent / "tests" / "vectors" / "wire"

UNREADABLE = ("the summary cannot be decoded", "this is not the state of a period")

EXAMPLES = ("few, some tied", "classes and precision", "signed, few", "pooled", "by class", "by group")
PROBES = 7
"""At how many numbers a summary is asked for counts."""


def numbers(values: Any) -> Any:
    """Return numbers that may be written as text, or by the rule that they follow."""
    if isinstance(values, str):
        return float(values) if values in ("nan", "inf", "-inf") else int(values)
    if not isinstance(values, dict):
        return [numbers(one) for one in values] if isinstance(values, list) else values
    if "classes" in values:
        weights = [
            [
                1 + (i * values["times"] + j * values["plus"] + i * j) % values["modulo"]
                for j in range(values["classes"])
            ]
            for i in range(values["count"])
        ]
        return [[one / sum(row) for one in row] for row in weights]
    return [
        ((i * values["times"]) % values["modulo"] - values["less"]) / values["over"] for i in range(values["count"])
    ]


def score_of(described: dict[str, Any] | None) -> Any:
    """Return a score by its name and parameters."""
    if described is None:
        return None
    about = {name: numbers(value) for name, value in described.items() if name != "name"}
    return registry.find(described["name"], AnyScore)(**about)


def summary_of(given: Case) -> fc.Summary:
    """Make a summary from the input of a case."""
    about = dict(given)
    if "pool" in about:
        return fc.pool([fc.Summary.from_bytes(bytes.fromhex(one)) for one in about["pool"]])
    if "losses" in about:
        loss = about.pop("loss", None)
        described = None if loss is None else (loss[0], tuple(loss[1]))
        return fc.LossSummary.of_losses(numbers(about.pop("losses")), loss=described, **about)
    score = score_of(about.pop("score", None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClassCountsWarning)
        if "probabilities" in about:
            return fc.summarize(numbers(about.pop("probabilities")), about.pop("labels"), score=score, **about)
        if "predictions" in about:
            return fc.summarize(numbers(about.pop("predictions")), numbers(about.pop("y")), score=score, **about)
        return fc.Summary.of_scores(numbers(about.pop("scores")), score=score, **about)


def scores_of(given: Case) -> Any:
    """Return the score of every row, in the order of the rows."""
    score = score_of(given["score"])
    if isinstance(score, RegressionScore):
        return score.evaluate(numbers(given["predictions"]), numbers(given["y"])).tolist()
    scores = score_rows(numbers(given["probabilities"]), given["labels"], score, given.get("classes")).scores
    return scores.tolist()


def counts_of(summary: fc.Summary) -> list[list[Any]]:
    """Return bounds on the number of scores at most q, for some q: from below the smallest to the largest."""
    points = summary.points.tolist()
    some = [points[k * (len(points) - 1) // (PROBES - 1)] for k in range(PROBES)]
    asked = sorted({-1e9, *some, *(a / 2 + b / 2 if math.isinf(a + b) else (a + b) / 2 for a, b in pairwise(some))})
    return [[q, *summary.count_at_most(q)] for q in asked]


def signature_of(given: Case) -> Case:
    """Sign a summary."""
    key = bytes.fromhex(given["key"])
    return msgspec.structs.asdict(sign(fc.Summary.from_bytes(bytes.fromhex(given["signed"])), key))


def outcome(case: Case) -> Case:
    """Work out what a case must give: bytes and what they say, or a refusal."""
    try:
        return _outcome(case)
    except fc.InputError as error:
        return {"refused": reason(str(error))}


def reason(message: str) -> str:
    """Return what a refusal says, without its advice, and without what the library for MessagePack says."""
    start = next((one for one in UNREADABLE if message.startswith(one)), None)
    return start or message.partition(";")[0]


def _outcome(case: Case) -> Case:
    given = case.get("input")
    if given is None:
        data = bytes.fromhex(case["bytes"])
        if case.get("file") == "periods":
            return {"bytes": write_periods(read_periods(data)).hex()}
        summary = fc.Summary.from_bytes(data)
        return {"bytes": summary.to_bytes().hex(), **_said(summary)}
    if "periods" in given:
        return {"bytes": write_periods([msgspec.convert(_period(one), Period) for one in given["periods"]]).hex()}
    if "key" in given:
        return {"signature": signature_of(given)}
    scored = {"scores": scores_of(given)} if "probabilities" in given or "predictions" in given else {}
    summary = summary_of(given)
    return {**scored, "bytes": summary.to_bytes().hex(), **_said(summary)}


def _said(summary: fc.Summary) -> Case:
    if isinstance(summary, LossSummary):
        return {"units": summary.units.tolist()}
    return {"counts": counts_of(summary)}


def _period(given: list[Any]) -> list[Any]:
    """Return the fields of a period, whose first are bytes."""
    return [bytes.fromhex(given[0]), *given[1:]]


def accepted() -> list[Case]:
    """Work out all messages that must be accepted."""
    made = [{**case, **outcome(case)} for case in (*rows.cases(), *summaries.cases())]
    return [case for case in made if "bytes" in case and "refused" not in case]


def examples() -> dict[str, bytes]:
    """Read some messages of every kind, by class, by group and pooled; losses are left out."""
    cases = json.loads((FOLDER / "summaries.json").read_text("utf-8"))
    return {case["name"]: bytes.fromhex(case["bytes"]) for case in cases if any(map(case["name"].endswith, EXAMPLES))}


SOURCES: dict[str, Callable[[], list[Case]]] = {
    "scores": rows.cases,
    "summaries": summaries.cases,
    "periods": periods.cases,
    "refused": refused.cases,
    "twins": lambda: twins.cases(accepted()),
}
"""Cases of each file, without their results."""


def text(name: str) -> str:
    """Return a file: one case a line."""
    made = [{**case, **outcome(case)} for case in SOURCES[name]()]
    return "[\n" + ",\n".join(json.dumps(case, ensure_ascii=False, allow_nan=False) for case in made) + "\n]\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        (FOLDER / f"{name}.json").write_text(text(name), "utf-8")
