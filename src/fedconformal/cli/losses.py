"""Scores and their truth, and the predictors that limit a loss."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal import tables
from fedconformal._base.arrays import as_sites
from fedconformal._base.files import TEXT, read_array, read_bytes, read_npz, write_bytes
from fedconformal._base.names import abbreviate, plural
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import threshold_json
from fedconformal.cli.console import print_json, print_result, say, table
from fedconformal.cli.options import warn_of_expiry
from fedconformal.errors import InputError, prefix_errors
from fedconformal.evaluation.losses import LossEvaluation
from fedconformal.guarantees import PAC

ARRAYS = ("scores", "probs", "truth", "labels", "masks")
"""What the array of an .npz is called, if it holds all rows; else each array is an image."""


def read_scores(path: Path, like: Any = None) -> Any:
    """Read scores or their truth: an array, a table, or the images of an .npz, in the order of those of `like`."""
    if path.suffix.lower() == ".npz":
        held = read_npz(path)
        if len(held) > 1 and not set(held) & set(ARRAYS):
            names = list(like) if isinstance(like, dict) else sorted(held)
            if set(names) != set(held):
                odd = min(set(names) ^ set(held))
                raise InputError(f"{path}: the images of scores and truth have different names, such as {odd!r}")
            return {name: held[name] for name in names}
    if path.suffix.lower() in (".npy", ".npz"):
        return read_array(path, *ARRAYS)
    found = tables.read_table(path)
    values = found.numbers(found.columns)
    return values[:, 0] if len(found.columns) == 1 else values


def read_scores_and_truth(scores: Path, truth: Path | None) -> tuple[Any, Any]:
    """Read two files of the same rows."""
    if truth is None:
        raise InputError("a loss needs SCORES and TRUTH; give both files")
    rows = read_scores(scores)
    known = read_scores(truth, rows)
    if isinstance(rows, dict) != isinstance(known, dict):
        raise InputError(
            f"{truth}: holds {len(known)} arrays in another form than {scores}; give both in the same form"
        )
    return _listed(rows), _listed(known)


def _listed(rows: Any) -> Any:
    """Return images as a list, and an array as it is."""
    return list(rows.values()) if isinstance(rows, dict) else rows


def read_grid(given: str | None) -> ArrayLike | None:
    """Read thresholds: numbers with commas between them, or one a line in a file."""
    if given is None:
        return None
    path = Path(given)
    if path.suffix.lower() in (".npy", ".npz"):
        return read_array(path, "thresholds")
    text = path.suffix.lower() in TEXT
    parts = read_bytes(path).decode("utf-8", "replace").split() if text else given.split(",")
    try:
        return [float(part) for part in parts]
    except ValueError:
        where = given if text else "--thresholds"
        raise InputError(f"{where}: {abbreviate(given)} is no list of numbers such as 0,0.1,0.2") from None


def describe_risk(rule: Predictor) -> str:
    """Say which threshold was found, and from what."""
    about = rule.certificate
    return (
        f"threshold {about.limit_text}, {about.status} from {about.scores} rows of "
        f"{plural(about.sites, 'site')}; the best of {plural(rule.risk.points, 'threshold')} promises "
        f"{float(rule.curve.least):.4g} (rounding sums costs at most {about.slack:.2g})"
    )


def predict_decisions(rule: Predictor, scores: Path, output: Path, *, risk: str | None, json: bool) -> None:
    """Write the decisions of a loss at the threshold."""
    if output.suffix not in (".npz", ".npy"):
        raise InputError(f"{output}: expected a name that ends in .npz or .npy")
    rows = read_scores(scores)
    with prefix_errors(scores):
        found = rule.predict(_listed(rows), risk=risk)
    if isinstance(rows, dict) and output.suffix == ".npy":
        raise InputError(f"{output}: images of different sizes do not fit into an .npy file; write an .npz file")
    buffer, threshold = io.BytesIO(), rule.curve.threshold(rule.risk_limit(risk))
    if output.suffix == ".npy":
        np.save(buffer, found)
    else:
        held = dict(zip(rows, found, strict=True)) if isinstance(rows, dict) else {"sets": found}
        np.savez_compressed(buffer, **held)
    write_bytes(output, buffer.getvalue())
    share = float(np.mean([one.mean() for one in found])) if len(found) else 0.0
    facts = {"output": str(output), "rows": len(found), "risk": float(rule.risk_limit(risk)), "predicted": share}
    words = f"wrote {output}: answers to {len(found)} rows, {share:.1%} of the entries are predicted on average"
    safe = [f"no threshold is good enough, so this is the safe action: {rule.risk.safe}"] if np.isinf(threshold) else []
    print_result({**facts, "threshold": threshold_json(threshold)}, words, *safe, json=json)


def evaluate_risk(
    rule: Predictor, scores: Path, truth: Path | None, *, sites: str | None, risk: str | None = None
) -> Any:
    """Return the mean loss of new rows at the threshold, over all and by site."""
    found, labels = read_scores_and_truth(scores, truth)
    names = None if sites is None else as_sites(_column(Path(sites)), rows=len(found), name=sites)
    with prefix_errors(f"{scores}, {truth}"):
        return rule.evaluate(found, labels, sites=names, alpha=risk)


def print_risk(
    rule: Predictor, scores: Path, truth: Path | None, *, sites: str | None, risk: str | None, json: bool
) -> bool:
    """Print the mean loss of new rows; return whether they contradict the promise."""
    warn_of_expiry(rule)
    found: LossEvaluation = evaluate_risk(rule, scores, truth, sites=sites, risk=risk)
    limit, pac = rule.risk_limit(risk), isinstance(rule.certificate.terms()[0], PAC)
    at, above = rule.curve.threshold(limit), pac and found.judged.low > float(limit)
    if json:
        stated = {"risk": float(limit), "threshold": threshold_json(at)}
        print_json({**stated, **found.to_dict(), "contradicts": above})
        return above
    table(("", *found.columns), [one.cells for one in (found.overall, found.mixture) if one is not None])
    if found.by_site:
        say("")
        table(("site", *found.columns), [group.cells for group in found.by_site])
    say("", "low, high: where the mean of such rows is, in 95 of 100 cases, if rows are independent.")
    say(*filter(None, [found.note]), f"threshold {at:.6g}. {rule.certificate.sentence()}")
    if above:
        say("These rows contradict the promise: the low end is above the limit.")
    elif not pac:
        say(
            "The promise is on average over calibration draws: of one calibration the mean loss may be above the limit "
            "by luck, so these rows alone do not contradict it (the guarantee pac promises it for nearly all draws)."
        )
    say(rule.certificate.statement.caveat)
    return above


def _column(path: Path) -> NDArray[Any]:
    if path.suffix.lower() in (".npy", ".npz"):
        return read_array(path, "sites")
    found = tables.read_table(path)
    return np.array(found.texts(found.columns[0]), dtype=np.str_)
