"""fedconformal summarize: at a site, from the outputs of a model and the truth to a file of about a kilobyte."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import TEXT, read_bytes, write_bytes
from fedconformal._base.names import as_name
from fedconformal._base.registry import build
from fedconformal.cli.arrays import NO_LABELS, read_grid, read_run, read_scores_and_truth
from fedconformal.cli.console import print_result, progress
from fedconformal.cli.monitor_rows import NewRows, check_new
from fedconformal.cli.options import (
    SPEC,
    Alpha,
    CalibrationId,
    Json,
    Ledger,
    PolicyFile,
    check_output,
    expand_options,
    expand_wildcards,
    refuse,
)
from fedconformal.cli.rows import Columns, warn_of_repeated_ids
from fedconformal.errors import InputError, prefix_errors
from fedconformal.privacy.dp import as_epsilon
from fedconformal.privacy.ledger import rows_of, spending
from fedconformal.privacy.local_dp import NoisyHistogram, noisy_histogram
from fedconformal.privacy.policy import Outgoing, policy_of, read_policy
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore
from fedconformal.summaries import Summary
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.ranks import RankSummary
from fedconformal.summaries.rows import summarize as summarize_rows
from fedconformal.summaries.sql import read_result
from fedconformal.summaries.strata import StratifiedSummary
from fedconformal.tables import Predictions

ONE_ROW_EACH = "every guarantee needs one row of each patient, or coverage can fall far below the promise; keep one"
DEFAULT_ALPHA = "0.1"


@dataclass(frozen=True)
class WrittenSummary:
    """A file for the coordinator; `all_scores` if it shows every score of the site."""

    file: Path
    site: str
    kind: str
    scores: int
    all_scores: bool
    bytes: int
    sha256: str


@expand_options
def summarize(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="PROBS [LABELS]", callback=expand_wildcards, help="Outputs and truth; a run; a result of sql."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The .fcs file, or a directory for a run.")],
    score: Annotated[
        str | None, typer.Option(metavar=SPEC, help="lac, aps, raps:penalty=0.1, ...; residual, cqr.")
    ] = None,
    kind: Annotated[str, typer.Option(metavar=SPEC, help="ranks, exact, tdigest or ddsketch.")] = "ranks",
    alpha: Alpha = DEFAULT_ALPHA,
    loss: Annotated[
        str | None, typer.Option(metavar=SPEC, help="false-negative-rate, selective-error:limit=0.1, ...")
    ] = None,
    thresholds: Annotated[
        str | None, typer.Option(metavar="GRID", help="With --loss: thresholds such as 0,0.1,0.2.")
    ] = None,
    *,
    columns: Columns,
    temperature: Annotated[float | None, typer.Option(help="Divisor of the logits; probs: only recorded.")] = None,
    model: Annotated[str | None, typer.Option(help="Fingerprint of the model, the same at all sites.")] = None,
    site: Annotated[str | None, typer.Option(help="The site's name; by default that of the file.")] = None,
    calibration: CalibrationId = None,
    expires: Annotated[str | None, typer.Option(metavar="DAY", help="The last day of use, such as 2027-06-30.")] = None,
    by_class: Annotated[bool, typer.Option("--by-class", help="Class by class; shows the class counts.")] = False,
    watch: NewRows = None,
    epsilon: Annotated[str | None, typer.Option(help="Write noisy counts (.fcn), with this privacy.")] = None,
    ledger: Ledger = None,
    policy: PolicyFile = None,
    json: Json = False,
) -> None:
    """Write a summary of the scores of a site's calibration rows."""
    source, onnx = _source_of(files, columns, loss), columns.model
    if onnx is not None and model is not None:
        raise InputError("--model is for a model outside of this command; --onnx gives its own fingerprint")
    of_logits = columns.content == "logits" if onnx is None else onnx.gives == "logits"
    terms = Terms(
        score=DEFAULT if score is None else build(score, AnyScore),
        alpha=alpha,
        kind=kind if epsilon is None else "exact",
        by_class=by_class,
        model=model if onnx is None else onnx.fingerprint,
        calibration=calibration,
        expires=expires,
        temperature=1.0 if temperature is None and of_logits else temperature,
    )
    numbers = isinstance(terms.score, RegressionScore) and loss is None
    strata = {"by_class": by_class, "groups": columns.groups}
    named = {columns.given or "labels": columns.given}
    scaled = temperature is not None
    of_rows: dict[str, object] = {**strata, **named, "from": columns.content != "probs", "kind": kind != "ranks"}
    of_rows |= {"epsilon": epsilon, "watch": watch, "temperature": scaled}
    if source == "loss":
        refuse("does not go with --loss; leave it out", **of_rows, score=score)
    if source == "query":
        refuse("is for rows, and this is the result of a query; leave it out, or give it to sql", **of_rows)
    if source == "run":
        refuse("is for tables; a training run has its own sites, and no columns", watch=watch, site=site, **named)
    if epsilon is not None:
        refuse("does not go with --epsilon, which writes noisy counts", **strata, kind=kind != "ranks")
    if numbers:
        reason = "is for classes, and the score is one of numbers"
        refuse(reason, **strata, epsilon=epsilon, temperature=scaled)
    refuse("goes with --epsilon", ledger=epsilon is None and ledger)
    refuse("goes with --loss", thresholds=loss is None and thresholds)
    ending, name = ".fcs" if epsilon is None else ".fcn", output.stem if site is None else site
    inputs, rows = (*files, ledger, policy, watch), None
    if source != "run":
        check_output(output, *inputs, ending=ending)
    if source == "run":
        made = {output / f"{one}{ending}": summary for one, summary in _of_run(files[0], terms, temperature).items()}
    elif loss is not None:
        made = {output: terms.summarize_losses(files, name, loss, thresholds)}
    elif source == "query":
        made = {output: terms.summarize_result(files[0], name, None if score is None else terms.score)}
    else:
        rows = _read(files, terms, columns, watch)
        made = {output: _of_rows(rows, terms, columns, name)}
    # Ids without --id may be names of rows, not of patients.
    patients, directory = None if rows is None or columns.ids is None else len(set(rows.ids or ())), source == "run"
    written = _send(made, inputs, epsilon=epsilon, ledger=ledger, policy=policy, patients=patients, directory=directory)
    used = next(iter(made.values())).provenance.score
    record = {"score": None if used is None else str(used), "loss": loss, "summaries": written}
    what = "scores" if loss is None else "rows"
    lines = [line for one in written for line in _lines(one, what, hidden=not numbers)]
    print_result({**record, "skipped": 0 if rows is None else len(rows.skipped)}, *lines, json=json)


def _send(
    made: dict[Path, Summary],
    inputs: tuple[Path | None, ...],
    *,
    epsilon: str | None,
    ledger: Path | None,
    policy: Path | None,
    patients: int | None,
    directory: bool,
) -> list[WrittenSummary]:
    """Write the files for the coordinator, if the policy allows it and the ledger pays for the noise."""
    for path in made:
        check_output(path, *inputs)
    sent: dict[Path, Summary | NoisyHistogram] = dict(made)
    if epsilon is not None:
        sent = {path: _noisy(summary, epsilon) for path, summary in made.items()}
    rules = policy_of() if policy is None else read_policy(policy)
    for one in sent.values():
        rules.check(Outgoing.of(one, ledger=ledger is not None, patients=patients))
    if epsilon is not None:
        with spending(ledger, rows_of(list(made.values())), float(as_epsilon(epsilon)), "noisy counts"):
            pass
    if directory:
        next(iter(sent)).parent.mkdir(parents=True, exist_ok=True)
    return [_write(path, one) for path, one in sent.items()]


def _source_of(files: list[Path], columns: Columns, loss: str | None) -> str:
    """Return the type of the files: "loss", "rows", a "run", or the result of a "query" of `fedconformal sql`."""
    if len(files) > 2:
        raise InputError(f"{len(files)} files were given; expected PROBS LABELS")
    if loss is not None:
        return "loss"
    if len(files) > 1 or columns.labels is not None:
        return "rows"
    query = files[0].suffix.lower() in TEXT and b"fc_rank" in read_bytes(files[0])[:200]
    if not query and files[0].suffix != ".npz":
        raise InputError(NO_LABELS, where=files[0])
    return "query" if query else "run"


def _lines(one: WrittenSummary, what: str, *, hidden: bool) -> list[str]:
    lines = [f"{one.file}: {one.kind} summary of {one.scores} {what}, {one.bytes} bytes, site {one.site!r}"]
    if one.kind.startswith("ranks") and one.all_scores:
        hide = "; to hide them, use sums over Flower, or --epsilon" if hidden else ""
        lines.append(f"a site as small as this shows all its scores to anyone who reads the file{hide}")
    return lines


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms that the summaries of one command share."""

    score: AnyScore
    alpha: str
    kind: str
    by_class: bool
    model: str | None
    calibration: str | None
    expires: str | None
    temperature: float | None

    @property
    def provenance(self) -> dict[str, Any]:
        """The fields of `Provenance` that options state."""
        return {name: getattr(self, name) for name in ("model", "calibration", "expires", "temperature")}

    def summarize(self, values: Any, truth: Any, **more: Any) -> Summary:
        """Score rows and summarise the scores."""
        about = {"kind": self.kind, "alpha": self.alpha, "by_class": self.by_class, **self.provenance, **more}
        return summarize_rows(values, truth, score=self.score, **about)

    def summarize_losses(self, files: list[Path], site: str, loss: str, thresholds: str | None) -> Summary:
        """Add up the losses of scores and their truth at every threshold."""
        scores, truth = read_scores_and_truth(files[0], files[1] if len(files) > 1 else None)
        with prefix_errors(", ".join(map(str, files))):
            grid = None if thresholds is None else read_grid(thresholds)
            return summarize_rows(scores, truth, loss=loss, thresholds=grid, site=site, **self.provenance)

    def summarize_result(self, path: Path, site: str, score: AnyScore | None) -> Summary:
        """Make the summary of the result of a query, at the query's alpha."""
        found = read_result(path)
        with prefix_errors(path):
            if self.alpha != DEFAULT_ALPHA and as_alpha(self.alpha) != as_alpha(found.terms.alpha):
                raise InputError(f"the query is for alpha {found.terms.alpha}, not {self.alpha}; leave out --alpha")
            return found.summary(site=site, score=score, **self.provenance)


def _read(files: list[Path], terms: Terms, columns: Columns, watch: Path | None) -> Predictions:
    """Read rows of classes or numbers from one or two files; warn of ids that have several."""
    kept = columns.keeping(*columns.group_columns())
    rows = kept.read(terms.score, files[0], files[1] if len(files) > 1 else None, temperature=terms.temperature)
    check_new(watch, rows)
    warn_of_repeated_ids(rows, ONE_ROW_EACH)
    return rows


def _of_rows(rows: Predictions, terms: Terms, columns: Columns, site: str) -> Summary:
    """Summarise the rows of one site; bad rows are named by file and line."""
    groups = {name: columns.values_of(rows, name, "groups") for name in columns.group_columns()} or None
    with rows.table.in_lines():
        about = {"site": site, "classes": rows.classes, "groups": groups, "skipped": len(rows.skipped)}
        return terms.summarize(rows.values, rows.truth, **about)


def _of_run(path: Path, terms: Terms, temperature: float | None) -> dict[str, Summary]:
    """Summarise the validation rows of a training run, each site's by its name; at the run's temperature if None."""
    run = read_run(path, "val", terms.score, temperature)
    terms = replace(terms, temperature=run.temperature)
    found: dict[str, Summary] = {}
    for site in progress(names := np.unique(run.sites), "summarising", len(names)):
        name, mine = as_name(str(site), f"{path}: a site"), run.sites == site
        if name in found:
            raise InputError(f"the site {name!r} is there twice, in two spellings; give it one name", where=path)
        if Path(name).name != name:
            raise InputError(f"the site {name!r} cannot be a file name", where=path)
        with prefix_errors(path):
            found[name] = terms.summarize(run.outputs[mine], run.truth[mine], site=name, trained=name in run.trained)
    return found


def _noisy(summary: Any, epsilon: str) -> NoisyHistogram:
    """Turn an exact summary, which stays here, into noisy counts."""
    return noisy_histogram(summary.values, epsilon=epsilon, site=summary.sites[0], provenance=summary.provenance)


def _shows_all(summary: Summary) -> bool:
    """Whether a summary has every score of its site in it."""
    if isinstance(summary, StratifiedSummary):  # all rows are one of the groups
        return all(map(_shows_all, summary.parts.values()))
    return isinstance(summary, ExactSummary) or (isinstance(summary, RankSummary) and summary.gap == 0)


def _write(path: Path, made: Summary | NoisyHistogram) -> WrittenSummary:
    data = made.to_bytes()
    write_bytes(path, data, private=made.name.startswith(ExactSummary.name))
    digest = hashlib.sha256(data).hexdigest()
    if isinstance(made, NoisyHistogram):
        return WrittenSummary(path, made.site, made.name, made.size, False, len(data), digest)
    return WrittenSummary(path, made.sites[0], made.name, made.n, _shows_all(made), len(data), digest)
