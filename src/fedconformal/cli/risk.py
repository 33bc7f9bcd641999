"""What the commands do with loss curves and the predictors that come from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import ArrayLike, NDArray

from fedconformal import tables
from fedconformal._base.arrays import as_sites
from fedconformal._base.files import TEXT, read_array, read_bytes, read_npz
from fedconformal._base.names import abbreviate, plural
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import threshold_json
from fedconformal.cli.console import logger, print_json, say, table
from fedconformal.cli.losses import evaluated
from fedconformal.errors import InputError, prefix_errors
from fedconformal.evaluation.losses import LossEvaluation
from fedconformal.guarantees import PAC
from fedconformal.summaries import LossSummary
from fedconformal.summaries.provenance import has_expired

Risk = Annotated[
    str | None, typer.Option("--risk", metavar="LIMIT", help="With loss curves: how large the expected loss may be.")
]
Safe = Annotated[
    str | None,
    typer.Option(
        "--safe",
        metavar="TEXT",
        help="With --risk: what to do if no threshold is good enough; it never loses more than LIMIT, nor than the "
        "last threshold.",
    ),
]
ARRAYS = ("losses", "probs")
SAMPLE = 5
KIND = b'"kind": "fedconformal predictor"'


def risk_predictor(path: Path) -> Predictor | None:
    """Read a file if it is a predictor from loss curves."""
    data = read_bytes(path)
    if KIND not in data[:200]:
        return None
    with prefix_errors(path):
        found = Predictor.from_bytes(data)
    return None if found.certificate.risk is None else found


def check_risk(risk: str | None, safe: str | None, *, plain: bool) -> None:
    """Refuse options that do not go with --risk, and --safe without it."""
    if risk is None and safe is not None:
        raise InputError("--safe goes with --risk")
    if risk is not None and not plain:
        raise InputError("--risk is for loss curves; leave out --alpha and --privacy")


class Losses(NamedTuple):
    """Losses and their grid as read, the table that they are from, and which of its rows is the first of them."""

    values: NDArray[Any]
    grid: ArrayLike
    table: tables.Table
    first: int = 0

    @contextmanager
    def in_lines(self) -> Iterator[None]:
        """Name the file, and a row by its line, where a check speaks of losses."""
        with self.table.in_lines(self.first):
            yield


def read_losses(path: Path, thresholds: str | None, encoding: str | None = None) -> Losses:
    """Read losses and their grid: from --thresholds, or else from the header of a table or beside them in an .npz."""
    found = tables.read_table(path, encoding=encoding, arrays=ARRAYS).with_header()
    values = found.numbers(found.columns)
    given = None if thresholds is None else read_grid(thresholds)
    if path.suffix.lower() in (".npy", ".npz"):
        held = read_npz(path) if given is None and path.suffix.lower() == ".npz" else {}
        if given is None and "thresholds" not in held:
            raise InputError(f"{path}: has no thresholds; give them with --thresholds")
        return Losses(values, held["thresholds"] if given is None else given, found)
    if found.names is not None:
        names = [found.names[column] for column in found.columns]
        head = [_number(name, f"{path}: the header") for name in names] if given is None else given
        return Losses(values, head, found)
    # A first line of numbers is the header too, unless the thresholds are given and it is not these.
    if given is None or np.array_equal(values[0], np.asarray(given)):
        return Losses(values[1:], values[0], found, 1)
    return Losses(values, given, found)


def read_grid(given: str) -> ArrayLike:
    """Read thresholds: numbers with commas between them, or one a line in a file."""
    path = Path(given)
    if path.suffix.lower() in (".npy", ".npz"):
        return read_array(path, "thresholds")
    if path.suffix.lower() in TEXT:
        with prefix_errors(path):
            return [_number(one, "a line") for one in read_bytes(path).decode("utf-8", "replace").split()]
    return [_number(one, "--thresholds") for one in given.split(",")]


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where} has {abbreviate(text)}, expected a threshold, a number") from None


def describe_curves(summary: LossSummary) -> dict[str, Any]:
    """Say what a summary of losses holds."""
    places = np.unique(np.linspace(0, len(summary.grid) - 1, SAMPLE).astype(np.int64))
    some = {f"{summary.grid[k]:g}": round(float(summary.mean_losses[k]), 6) for k in places}
    name, parameters = summary.provenance.loss or (None, ())
    return {
        "rows": list(summary.sizes) if len(summary.sizes) > 1 else summary.n,
        "loss": None if name is None else f"{name}{parameters or ''}",
        "bound": summary.bound,
        "thresholds": f"{len(summary.grid)} from {summary.grid[0]:g} to {summary.grid[-1]:g}",
        "mean losses": some,
        "rising": summary.provenance.rising or None,
    }


def shows_curves(summary: LossSummary) -> str:
    """Say what a reader of a summary of losses learns."""
    whose = "the losses of its one row" if summary.n == 1 else "the mean loss of its rows"
    return f"the number of rows of the site, and {whose} at each of {plural(len(summary.grid), 'threshold')}"


def describe_rule(rule: Predictor) -> dict[str, Any]:
    """Say what a predictor from loss curves is about."""
    about = rule.risk
    return {
        "limit of the expected loss": about.limit,
        "bound of a loss": about.bound,
        "threshold": rule.certificate.limit_text,
        "safe action": about.safe,
        "loss": None if about.loss is None else f"{about.loss[0]}{about.loss[1] or ''}",
        "thresholds": f"{about.points} from {about.first:g} to {about.last:g}",
        "least that is promised": round(float(rule.curve.least), 6),
    }


def risk_words(rule: Predictor) -> str:
    """Say which threshold was found, and from what."""
    about = rule.certificate
    return (
        f"threshold {about.limit_text}, {about.status} from {about.scores} rows of "
        f"{plural(about.sites, 'site')}; the best of {plural(rule.risk.points, 'threshold')} promises "
        f"{float(rule.curve.least):.4g} (rounding sums costs at most {about.slack:.2g})"
    )


def evaluate_losses_of(
    path: Path,
    losses: Path,
    truth: Path | None,
    *,
    sites: str | None,
    risk: str | None,
    plain: bool,
    check: bool,
    json: bool,
) -> None:
    """If the predictor is from loss curves, print the mean loss of new rows, over all and by site, and exit.

    The exit code is 1 if `check` and the rows contradict the promise. `plain` says that no other option is given.
    With a truth, `losses` are scores.
    """
    rule = risk_predictor(path)
    if rule is None:
        if risk is not None:
            raise InputError(f"{path}: is not from loss curves; leave out --risk")
        return
    if not plain:
        raise InputError(
            f"{path}: is from loss curves; give LOSSES, or SCORES and TRUTH, and no more than --sites and --risk"
        )
    if has_expired(rule.certificate.provenance.expires):
        logger.warning(
            "the certificate expired on %s; calibrate anew, from new summaries", rule.certificate.provenance.expires
        )
    found = evaluated_rule(rule, losses, truth, sites=sites, risk=risk)
    limit = rule.risk_limit(risk)
    at = rule.curve.threshold(limit)
    above = isinstance(rule.certificate.terms()[0], PAC) and found.judged.low > float(limit)
    if json:
        stated = {"risk": float(limit), "threshold": threshold_json(at)}
        print_json({**stated, **found.to_dict(), "contradicts": above})
    else:
        _say(rule, found, at, above=above)
    raise typer.Exit(int(check and above))


def _say(rule: Predictor, found: LossEvaluation, at: float, *, above: bool) -> None:
    table(("", *found.columns), [one.cells for one in (found.overall, found.mixture) if one is not None])
    if found.by_site:
        say("")
        table(("site", *found.columns), [group.cells for group in found.by_site])
    say("", "low, high: where the mean of such rows is, in 95 of 100 cases, if rows are independent.")
    if found.note:
        say(found.note)
    say(f"threshold {at:.6g}. {rule.certificate.sentence()}")
    if above:
        say("These rows contradict the promise: the low end is above the limit.")
    elif not isinstance(rule.certificate.terms()[0], PAC):
        say(
            "The promise is on average over calibration draws: of one calibration the mean loss may be above the limit "
            "by luck, so these rows alone do not contradict it (the guarantee pac promises it for nearly all draws)."
        )
    say(rule.certificate.statement.caveat)


def evaluated_rule(
    rule: Predictor, losses: Path, truth: Path | None, *, sites: str | None, risk: str | None = None
) -> Any:
    """Return the mean loss of new rows, from their losses, or from their scores and truth."""
    values = _rows(losses, rule) if truth is None else _at_threshold(rule, losses, truth, risk)
    names = None if sites is None else as_sites(_column(Path(sites)), rows=len(values), name=sites)
    with prefix_errors(losses):
        return rule.evaluate(values, sites=names, alpha=risk)


def _at_threshold(rule: Predictor, scores: Path, truth: Path, risk: str | None) -> NDArray[Any]:
    """Work out the loss of each row at the threshold."""
    if rule.loss is None:
        raise InputError("the certificate does not say which loss it limits; give LOSSES instead of scores and truth")
    at = rule.curve.threshold(rule.risk_limit(risk))
    if np.isinf(at):
        raise InputError("there is no threshold to work out losses at; nothing but the safe action is left")
    losses: NDArray[Any] = evaluated(rule.loss, scores, truth, [at])[:, 0]
    return losses


def _rows(path: Path, rule: Predictor) -> NDArray[Any]:
    """Read losses on the grid of the predictor, or one loss a row."""
    if path.suffix.lower() == ".npy":
        array = read_array(path)
        if array.ndim > 2:
            raise InputError(f"{path}: has shape {array.shape}, so it holds no losses; if these are scores, give TRUTH")
        return array
    found = tables.read_table(path, arrays=ARRAYS)
    if len(found.columns) == 1 and rule.risk.points > 1:
        return found.numbers(found.columns)[:, 0]
    read = read_losses(path, None)
    if not np.array_equal(read.grid, rule.curve.thresholds):
        raise InputError(f"{path}: has other thresholds than the predictor; give the losses on its grid")
    return read.values


def _column(path: Path) -> ArrayLike:
    if path.suffix.lower() in (".npy", ".npz"):
        return read_array(path, "sites")
    found = tables.read_table(path)
    return np.array(found.texts(found.columns[0]), dtype=np.str_)
