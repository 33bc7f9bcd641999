"""fedconformal summarize: at a site, from the outputs of a model and the truth to a file of about a kilobyte."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import TEXT, read_bytes, write_bytes
from fedconformal._base.names import as_name
from fedconformal._base.spec import build, parse
from fedconformal.cli.console import print_result, progress
from fedconformal.cli.losses import read_grid, read_scores_and_truth
from fedconformal.cli.monitor_rows import NewRows, check_new
from fedconformal.cli.options import SPEC, Alpha, Json, ScoreOption, expand_options, expand_wildcards, refuse
from fedconformal.cli.outputs import Force, check_output, check_outputs
from fedconformal.cli.policy import PolicyFile, check_files
from fedconformal.cli.privacy import LedgerFile, Noise, SiteNoise
from fedconformal.cli.rows import (
    NONE,
    Columns,
    Groups,
    SkipMissing,
    Source,
    group_columns,
    values_of,
    warn_of_repeated_ids,
)
from fedconformal.cli.runs import default_score, read_run
from fedconformal.cli.sign import CalibrationId
from fedconformal.errors import InputError, prefix_errors
from fedconformal.privacy.local_dp import NoisyHistogram
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore
from fedconformal.summaries import Summary
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.ranks import RankSummary
from fedconformal.summaries.rows import ScoredRows, score_rows, summarize_chunks
from fedconformal.summaries.rows import summarize as summarize_rows
from fedconformal.summaries.sql_result import read_result
from fedconformal.summaries.strata import StratifiedSummary
from fedconformal.tables import Predictions

ONE_ROW_EACH = "every guarantee needs one row of each patient, or coverage can fall far below the promise; keep one"
DEFAULT_ALPHA = "0.1"
ROWS = ("by-class", "groups", "chunks", "kind", "privacy", "watch", "temperature", "labels")
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "loss": ((*ROWS, "score"), "does not go with --loss; leave it out"),
    "query": (ROWS, "is for rows, and this is the result of a query; leave it out, or give it to sql"),
    "run": (("watch", "site", "labels", "groups"), "is for tables; a training run has its own sites, and no columns"),
    "numbers": (("by-class", "groups", "privacy", "temperature"), "is for classes, and the score is one of numbers"),
    "noise": (("by-class", "groups", "chunks", "kind"), "does not go with --privacy local, which writes noisy counts"),
    "plain": (("ledger",), "goes with --privacy local"),
    "chunks": (("by-class", "groups"), "does not go with --chunks; summarise the rows in one piece"),
}
"""Options that an input or another option refuses, and why; labels stands for all options of columns."""


@expand_options
def summarize(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="PROBS [LABELS]",
            callback=expand_wildcards,
            help="Outputs and truth; a run; a result of sql.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The .fcs file, or a directory for a run.")],
    score: ScoreOption = None,
    kind: Annotated[
        str,
        typer.Option(metavar=SPEC, help="ranks, exact, tdigest or ddsketch."),
    ] = "ranks",
    alpha: Alpha = DEFAULT_ALPHA,
    loss: Annotated[
        str | None,
        typer.Option(metavar=SPEC, help="false-negative-rate, selective-error:limit=0.1, ..."),
    ] = None,
    thresholds: Annotated[
        str | None,
        typer.Option(metavar="GRID", help="With --loss: 0,0.1,0.2 or a file, fixed beforehand."),
    ] = None,
    *,
    columns: Columns,
    temperature: Annotated[
        float | None,
        typer.Option(
            help="Divides logits; of probabilities, what they were made with.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Fingerprint of the model, the same everywhere.")] = None,
    site: Annotated[str | None, typer.Option(help="The site's name; by default that of the file.")] = None,
    calibration: CalibrationId = None,
    expires: Annotated[str | None, typer.Option(metavar="DAY", help="The last day of use, such as 2027-06-30.")] = None,
    by_class: Annotated[bool, typer.Option("--by-class", help="Class by class; shows the class counts.")] = False,
    groups: Groups = None,
    watch: NewRows = None,
    skip_missing: SkipMissing = False,
    chunks: Annotated[bool, typer.Option("--chunks", help="One site in many files, read one at a time.")] = False,
    privacy: SiteNoise = None,
    ledger: LedgerFile = None,
    policy: PolicyFile = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Score a site's calibration rows and write a summary of the scores."""
    single = len(files) == 1 and not chunks and columns.label_column is None and loss is None
    is_result = single and _is_query_result(files[0])
    run = files[0] if single and not is_result else None
    noise = Noise.parse(privacy, "local")
    request = Request.of(columns, run, score, model, temperature, alpha=alpha, by_class=by_class, expires=expires)
    request = replace(request, kind=kind if noise is None else "exact", calibration=calibration)
    modes = {"loss": loss is not None, "query": is_result, "run": run is not None, "chunks": chunks}
    modes |= {"noise": noise is not None, "plain": noise is None}
    modes["numbers"] = isinstance(request.score, RegressionScore) and loss is None
    given = {"by-class": by_class, "groups": groups, "chunks": chunks, "kind": kind != "ranks"}
    given |= {"privacy": privacy, "ledger": ledger is not None, "watch": watch is not None, "site": site}
    given |= {"temperature": temperature is not None, "score": score}
    given["labels"] = columns != NONE or (columns.content is not Source.probs and run is None)
    for mode, (options, reason) in REFUSED.items():
        if modes[mode]:
            refuse({f"--{option}": given[option] for option in options}, reason)
    if len(files) > 2 and not chunks:
        raise InputError(f"{len(files)} files were given; expected PROBS LABELS, or many files with --chunks")
    parse(kind, Summary, maker="build")
    ending, name = ".fcs" if noise is None else ".fcn", output.stem if site is None else site
    inputs = (*files, None if noise is None else noise.check().grid, ledger, policy, watch)
    reader = RowReader(request, replace(columns, skip_missing=skip_missing), group_columns(groups), watch)
    if run is not None:
        summaries = summarize_run(run, request, temperature)
        made = {output / f"{one}{ending}": summary for one, summary in summaries.items()}
        check_outputs(made, *inputs, force=force)
    else:
        check_output(output, *inputs, ending=ending, force=force)
        if loss is not None:
            summary = request.summarize_losses(files, name, loss, thresholds)
        elif is_result:
            summary = request.summarize_result(files[0], name, None if score is None else request.score)
        else:
            summary = reader.summarize_chunks(files, name) if chunks else reader.summarize(files, name)
        made = {output: summary}
    sent: dict[Path, Summary | NoisyHistogram] = dict(made)
    if noise is not None:
        sent = {path: noise.added_to(summary) for path, summary in made.items()}
    check_files(policy, sent.values(), ledger=ledger, patients=len(reader.ids) or None)
    if noise is not None:
        noise.pay(list(made.values()), ledger)
    if run is not None:
        output.mkdir(parents=True, exist_ok=True)
    facts = [_write(path, one) for path, one in sent.items()]
    lines = [line for fact in facts for line in _lines(fact, hidden=not modes["numbers"])]
    used = next(iter(made.values())).provenance.score
    stated: dict[str, Any] = {"score": None if used is None else str(used), "loss": loss, "summaries": facts}
    stated["skipped"] = len(reader.skipped)
    print_result(stated, *lines, json=json)


def _is_query_result(path: Path) -> bool:
    """Whether a file is the result of the query that `fedconformal sql` prints."""
    return path.suffix.lower() in TEXT and b"fc_rank" in read_bytes(path)[:200]


def _lines(fact: dict[str, Any], *, hidden: bool) -> list[str]:
    size = next(f"{fact[what]} {what}" for what in ("scores", "rows") if what in fact)
    lines = [f"{fact['file']}: {fact['kind']} summary of {size}, {fact['bytes']} bytes, site {fact['site']!r}"]
    if fact["kind"].startswith("ranks") and fact["all_scores"]:
        hide = "; to hide them, use sums over Flower, or --privacy local:epsilon=E" if hidden else ""
        lines.append(f"a site as small as this shows all its scores to anyone who reads the file{hide}")
    return lines


@dataclass(frozen=True, kw_only=True)
class Request:
    """The terms that the summaries of one command share."""

    score: AnyScore
    alpha: str
    kind: str = "ranks"
    model: str | None = None
    calibration: str | None = None
    expires: str | None = None
    temperature: float | None = None
    by_class: bool = False

    @classmethod
    def of(
        cls,
        columns: Columns,
        run: Path | None,
        score: str | None,
        model: str | None,
        temperature: float | None,
        **about: Any,
    ) -> Request:
        """Return the terms for a table or a run: the score that suits it, and the fingerprint of an ONNX model."""
        onnx = columns.model
        if onnx is not None and model is not None:
            raise InputError("--model names a model that is not at hand; --onnx gives its own fingerprint")
        of_logits = columns.content is Source.logits if onnx is None else onnx.gives == "logits"
        return cls(
            score=build(score, AnyScore) if score is not None else DEFAULT if run is None else default_score(run),
            model=model if onnx is None else onnx.fingerprint,
            temperature=1.0 if temperature is None and of_logits else temperature,
            **about,
        )

    @property
    def provenance(self) -> dict[str, Any]:
        """The fields of `Provenance` that are stated by options."""
        return {name: getattr(self, name) for name in ("model", "calibration", "expires", "temperature")}

    def summarize(self, values: Any, truth: Any, **more: Any) -> Summary:
        """Score rows and summarise the scores."""
        about = {"kind": self.kind, "alpha": self.alpha, "by_class": self.by_class, **self.provenance, **more}
        return summarize_rows(values, truth, score=self.score, **about)

    def summarize_losses(self, files: Sequence[Path], site: str, loss: str, thresholds: str | None) -> Summary:
        """Add up the losses of scores and their truth at every threshold."""
        scores, truth = read_scores_and_truth(files[0], files[1] if len(files) > 1 else None)
        with prefix_errors(", ".join(map(str, files))):
            grid = read_grid(thresholds)
            return summarize_rows(scores, truth, loss=loss, thresholds=grid, site=site, **self.provenance)

    def summarize_result(self, path: Path, site: str, score: AnyScore | None) -> Summary:
        """Make the summary of the result of a query, at the query's alpha."""
        with prefix_errors(path):
            found = read_result(read_bytes(path))
            if self.alpha != DEFAULT_ALPHA and as_alpha(self.alpha) != as_alpha(found.made.alpha):
                raise InputError(f"the query is for alpha {found.made.alpha}, not {self.alpha}; leave out --alpha")
            return found.summary(site=site, score=score, **self.provenance)


@dataclass(frozen=True)
class RowReader:
    """Reads one site's rows from tables; collects the ids of the patients, and the rows with a missing value."""

    request: Request
    columns: Columns
    by: list[str]
    watch: Path | None = None
    ids: set[str] = field(default_factory=set)
    skipped: list[str] = field(default_factory=list)

    def read(self, file: Path, truth: Path | None, seen: set[str] | None = None, *, again: bool = False) -> Predictions:
        """Read rows of classes or numbers; warn of ids that have several or are in `seen`, but not `again`."""
        request, columns = self.request, self.columns.keeping(*self.by)
        if isinstance(request.score, RegressionScore):
            rows = columns.read_numbers(request.score, file, truth, quiet=again)
        else:
            rows = columns.read(file, truth, temperature=request.temperature, quiet=again)
        check_new(self.watch, rows)
        if not again:
            warn_of_repeated_ids(rows, ONE_ROW_EACH, seen)
            self.skipped.extend(rows.skipped)
        if columns.ids is not None:  # row names may be of rows, not of patients
            self.ids.update(rows.ids or ())
        return rows

    def summarize(self, files: Sequence[Path], site: str) -> Summary:
        """Summarise the rows of one or two files; bad rows are named by file and line."""
        rows = self.read(files[0], files[1] if len(files) > 1 else None)
        groups = {name: values_of(rows, name, "groups") for name in self.by} or None
        with rows.table.in_lines():
            about = {"site": site, "classes": rows.classes, "groups": groups, "skipped": len(rows.skipped)}
            return self.request.summarize(rows.values, rows.truth, **about)

    def summarize_chunks(self, files: Sequence[Path], site: str) -> Summary:
        """Summarise the rows of many files, read one at a time, more than once."""
        if self.request.kind != "ranks":
            raise InputError("--chunks makes summaries of the kind ranks only")
        request, passes = self.request, count(1)

        def read() -> Iterator[tuple[str, ScoredRows]]:
            number, seen = next(passes), set[str]()
            for file in progress(files, f"reading, pass {number}", len(files)):
                truth = None if self.columns.label_column is not None else file
                rows = self.read(file, truth, seen, again=number > 1)
                with rows.table.in_lines():
                    yield str(file), score_rows(rows.values, rows.truth, request.score, rows.classes)

        summary = summarize_chunks(read, score=request.score, alpha=request.alpha, site=site, **request.provenance)
        return replace(summary, skipped=len(self.skipped))


def summarize_run(path: Path, request: Request, temperature: float | None = None) -> dict[str, Summary]:
    """Summarise the validation rows of a training run, each site's by its name; at the run's temperature if None."""
    run = read_run(path, "val", request.score, temperature)
    request = replace(request, temperature=run.temperature)
    written: dict[str, Summary] = {}
    for site in progress(names := np.unique(run.sites), "summarising", len(names)):
        name, mine = as_name(str(site), f"{path}: a site"), run.sites == site
        if name in written:
            raise InputError(f"the site {name!r} is there twice, in two spellings; give it one name", where=path)
        if Path(name).name != name:
            raise InputError(f"the site {name!r} cannot be a file name", where=path)
        with prefix_errors(path):
            written[name] = request.summarize(
                run.outputs[mine], run.truth[mine], site=name, trained=name in run.trained
            )
    return written


def _shows_all(summary: Summary) -> bool:
    """Whether a summary has every score of its site in it."""
    if isinstance(summary, StratifiedSummary):  # of groups, all rows are one
        return all(map(_shows_all, summary.parts.values()))
    return isinstance(summary, ExactSummary) or (isinstance(summary, RankSummary) and summary.gap == 0)


def _write(path: Path, made: Summary | NoisyHistogram) -> dict[str, Any]:
    """Write a file, and return its facts."""
    data = made.to_bytes()
    write_bytes(path, data, private=made.name.startswith(ExactSummary.name))
    if isinstance(made, NoisyHistogram):
        about = {"site": made.site, "kind": made.name, "scores": made.size}
    else:
        about = {"site": made.sites[0], "kind": made.name, made.counted: made.n, "all_scores": _shows_all(made)}
    return {"file": str(path), **about, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
