"""fedconformal summarize: at a site, from probabilities and labels to a file of about a kilobyte."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import ArrayLike

from fedconformal._base.files import write_bytes
from fedconformal._base.names import as_name
from fedconformal._base.spec import build, parse
from fedconformal.cli.console import print_result, progress
from fedconformal.cli.differential import LocalNoise
from fedconformal.cli.from_ranks import FromRanks, refuse_beside_ranks, result_score, summary_of_ranks
from fedconformal.cli.groups import ByColumns, columns_in, read_groups
from fedconformal.cli.inputs import Alpha, Json, Source, read_run
from fedconformal.cli.options import SPEC, ScoreOption, expand_options
from fedconformal.cli.outputs import Force, check_output, check_outputs
from fedconformal.cli.policy import PolicyFile, check_files
from fedconformal.cli.regression import Task, TaskOption, default_score, is_run, read_numbers
from fedconformal.cli.regression import read_run as read_numbers_of_run
from fedconformal.cli.rows import NONE, Columns, warn_of_repeated_ids
from fedconformal.cli.sign import CalibrationId
from fedconformal.cli.watches import NewRows, check_new
from fedconformal.errors import InputError, prefix_errors
from fedconformal.privacy.local_dp import NoisyHistogram
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore, Residual
from fedconformal.summaries import Summary
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.ranks import RankSummary
from fedconformal.summaries.rows import ScoredRows, score_rows, summarize_chunks
from fedconformal.summaries.rows import summarize as summarize_rows
from fedconformal.summaries.strata import StratifiedSummary
from fedconformal.tables import Predictions

ONE_ROW_EACH = "every guarantee needs one row of each patient, or coverage can fall far below the promise; keep one"


@expand_options
def summarize(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="PROBS [LABELS]",
            help="Probabilities and labels (.csv .tsv .txt .parquet .npy .npz), or one table with --labels COLUMN; "
            "or the logits.npz of a training run; or, with --chunks, any number of files with both. For a score of "
            "numbers: predictions and true numbers, or the predictions.npz of a training run.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The .fcs file, or a directory for a run.")],
    score: ScoreOption = None,
    task: TaskOption = None,
    kind: Annotated[
        str,
        typer.Option(
            metavar=SPEC, help="What the file holds: ranks takes about a kilobyte, exact all scores; tdigest, ddsketch."
        ),
    ] = "ranks",
    alpha: Alpha = "0.1",
    *,
    columns: Columns,
    temperature: Annotated[
        float | None,
        typer.Option(
            help="Divide logits by this; for probabilities, what they were made with. Recorded.",
            show_default="the run's",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Fingerprint of the model; must be the same everywhere.")] = None,
    site: Annotated[str | None, typer.Option(help="The site's name.", show_default="that of the file")] = None,
    calibration: CalibrationId = None,
    expires: Annotated[
        str | None, typer.Option(metavar="DAY", help="The last day to use this summary, such as 2027-06-30.")
    ] = None,
    by_class: Annotated[
        bool,
        typer.Option("--by-class", help="Class by class, for calibrate --guarantee by-class; shows the class counts."),
    ] = False,
    groups: ByColumns = None,
    watch: NewRows = None,
    chunks: Annotated[bool, typer.Option("--chunks", help="One site in many files, read one at a time.")] = False,
    from_ranks: FromRanks = False,
    noise: LocalNoise,
    policy: PolicyFile = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Score a site's calibration rows and write a summary of the scores."""
    run = files[0] if len(files) == 1 and not chunks and columns.label_column is None and not from_ranks else None
    function = result_score(files, score) if from_ranks else _score(score, task, run)
    onnx = columns.model
    if onnx is not None and model is not None:
        raise InputError("--model names a model that is not at hand; --onnx gives its own fingerprint")
    of_logits = columns.content is Source.logits if onnx is None else onnx.gives == "logits"
    noisy = noise.is_wanted()
    numbers = isinstance(function, RegressionScore)
    _check_mixed(function, noisy=noisy, by_class=by_class, groups=groups, onnx=onnx, temperature=temperature)
    if noisy and (kind != "ranks" or by_class or chunks or groups):
        raise InputError("--privacy local writes noisy counts; leave out --kind, --by-class, --groups and --chunks")
    parse(kind, Summary, maker="build")
    request = Request(
        score=function,
        alpha=alpha,
        kind="exact" if noisy else kind,
        model=model if onnx is None else onnx.fingerprint,
        calibration=calibration,
        expires=expires,
        temperature=1.0 if temperature is None and of_logits else temperature,
        by_class=by_class,
    )
    ending = ".fcn" if noisy else ".fcs"
    if chunks and (by_class or groups is not None):
        option = "--by-class" if by_class else "--groups"
        raise InputError(f"--chunks and {option} do not go together; summarise the rows in one piece")
    by, ids = columns_in(groups), set[str]()
    columns = columns.keeping(*by)
    if len(files) > 2 and not chunks:
        raise InputError(f"{len(files)} files were given; expected PROBS LABELS, or many files with --chunks")
    if from_ranks:
        others = {"--kind": kind != "ranks", "--by-class": by_class, "--groups": groups, "--chunks": chunks}
        refuse_beside_ranks({**others, "--task": task, "--privacy": noisy, "--watch": watch}, columns)
        check_output(output, *files, policy, ending=ending, force=force)
        written = {output: summary_of_ranks(files[0], alpha, request.provenance, output.stem if site is None else site)}
    elif chunks or len(files) == 2 or columns.label_column is not None:
        check_output(output, *files, noise.grid, noise.ledger, policy, watch, ending=ending, force=force)
        reader, name = RowReader(request, columns, by, watch, ids), output.stem if site is None else site
        written = {output: reader.summarize_chunks(files, name) if chunks else reader.summarize(files, name)}
    else:
        if site is not None or watch is not None:
            raise InputError(
                f"{'--site' if watch is None else '--watch'} is for tables; a training run has its own sites"
            )
        if columns != NONE and files[0].suffix == ".npz":
            raise InputError("--id, --classes, --groups and the like are for tables; a training run has no columns")
        summaries = summarize_run(files[0], request, temperature)
        written = {output / f"{name}{ending}": summary for name, summary in summaries.items()}
        check_outputs(written, *files, noise.grid, noise.ledger, policy, force=force)
        output.mkdir(parents=True, exist_ok=True)
    sent: dict[Path, Summary | NoisyHistogram] = dict(written)
    if noisy:
        sent = {path: noise.added_to(summary) for path, summary in written.items()}
    check_files(policy, sent.values(), ledger=noise.ledger, patients=len(ids) or None)
    if noisy:
        noise.pay(list(written.values()))
    facts = [_written(path, found) for path, found in sent.items()]
    lines = [line for fact in facts for line in _lines(fact, hidden=not numbers)]
    print_result({"score": None if function is None else str(function), "summaries": facts}, *lines, json=json)


def _check_mixed(function: AnyScore | None, **for_classes: Any) -> None:
    """Refuse options that are for classes beside a score of numbers."""
    options = {"--privacy local": "noisy", "--by-class": "by_class", "--groups": "groups", "--onnx": "onnx"}
    wrong = next((option for option, name in options.items() if for_classes[name]), None)
    if wrong is None and for_classes["temperature"] is not None:
        wrong = "--temperature"
    if isinstance(function, RegressionScore) and wrong is not None:
        raise InputError(f"{wrong} is for classes, and {function.name} scores numbers; leave it out")


def _lines(fact: dict[str, Any], *, hidden: bool) -> list[str]:
    what = f"{fact['kind']} summary of {fact['scores']} scores, {fact['bytes']} bytes"
    lines = [f"{fact['file']}: {what}, site {fact['site']!r}"]
    if fact["kind"].startswith("ranks") and fact["all_scores"]:
        hide = "; to hide them, use sums over Flower, or --privacy local --epsilon E" if hidden else ""
        lines.append(f"a site as small as this shows all its scores to anyone who reads the file{hide}")
    return lines


def _score(name: str | None, task: Task | None, run: Path | None) -> AnyScore:
    """Return the score that was named, or the one that goes with the task; a run says by its file what it is."""
    if name is None and run is not None and task is not Task.classification and is_run(run):
        found: AnyScore = default_score(run)
    else:
        found = build(name or (Residual if task is Task.regression else DEFAULT).name, AnyScore)
    if task is not None and (task is Task.regression) != isinstance(found, RegressionScore):
        raise InputError(
            f"--score {found.name} is for {'labels' if task is Task.regression else 'numbers'}; see --task"
        )
    return found


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the summaries of one command have in common."""

    score: AnyScore | None
    alpha: str
    kind: str = "ranks"
    model: str | None = None
    calibration: str | None = None
    expires: str | None = None
    temperature: float | None = None
    by_class: bool = False

    @property
    def provenance(self) -> dict[str, Any]:
        """The score and the fields of `Provenance`."""
        names = ("score", "model", "calibration", "expires", "temperature")
        return {name: getattr(self, name) for name in names}

    def summarize(self, values: ArrayLike, truth: ArrayLike, **more: Any) -> Summary:
        """Score rows and summarise the scores."""
        about = {"kind": self.kind, "alpha": self.alpha, "by_class": self.by_class, **self.provenance, **more}
        return summarize_rows(values, truth, **about)


class RowReader(NamedTuple):
    """Reads one site's rows from tables; `ids` collects the ids of the patients."""

    request: Request
    columns: Columns
    by: list[str]
    watch: Path | None
    ids: set[str]

    def read(self, file: Path, truth: Path | None, seen: set[str] | None = None, *, again: bool = False) -> Predictions:
        """Read rows of classes or numbers; warn of ids that have several or are in `seen`, but not `again`."""
        request, columns = self.request, self.columns
        if isinstance(request.score, RegressionScore):
            rows = read_numbers(columns, request.score, file, truth)
        else:
            rows = columns.read(file, truth, temperature=request.temperature)
        check_new(self.watch, rows)
        if not again:
            warn_of_repeated_ids(rows, ONE_ROW_EACH, seen)
        if columns.ids is not None:  # row names may be of rows, not of patients
            self.ids.update(rows.ids or ())
        return rows

    def summarize(self, files: Sequence[Path], site: str) -> Summary:
        """Summarise the rows of one or two files; bad rows are named by file and line."""
        rows = self.read(files[0], files[1] if len(files) > 1 else None)
        groups = read_groups(rows, self.by) if self.by else None
        with rows.table.in_lines():
            return self.request.summarize(rows.values, rows.truth, site=site, classes=rows.classes, groups=groups)

    def summarize_chunks(self, files: Sequence[Path], site: str) -> Summary:
        """Summarise the rows of many files, read one at a time, more than once."""
        if self.request.kind != "ranks":
            raise InputError("--chunks makes summaries of the kind ranks only")
        passes = count(1)

        def read() -> Iterator[tuple[str, ScoredRows]]:
            number, seen = next(passes), set[str]()
            for file in progress(files, f"reading, pass {number}", len(files)):
                truth = None if self.columns.label_column is not None else file
                rows = self.read(file, truth, seen, again=number > 1)
                with rows.table.in_lines():
                    yield str(file), score_rows(rows.values, rows.truth, self.request.score or DEFAULT, rows.classes)

        return summarize_chunks(read, alpha=self.request.alpha, site=site, **self.request.provenance)


def summarize_run(path: Path, request: Request, temperature: float | None = None) -> dict[str, Summary]:
    """Summarise the validation rows of a training run, each site's by its name; at the run's temperature if None."""
    values: Any
    truth: Any
    if isinstance(request.score, RegressionScore):
        found = read_numbers_of_run(path, "val")
        sites, trained, values, truth = found.clients, found.trained, found.of(request.score, path), found.y
    else:
        run = read_run(path, "val", temperature)
        request = replace(request, temperature=run.temperature)
        sites, trained, values, truth = run.clients, run.trained, run.probs, run.labels
    ids = np.unique(sites)
    written: dict[str, Summary] = {}
    for one in progress(ids, "summarising", len(ids)):
        mine = sites == one
        name = as_name(str(one) if ids.dtype.kind == "U" else f"client-{one}", f"{path}: a site")
        if name in written:
            raise InputError(f"the site {name!r} is there twice, in two spellings; give it one name", where=path)
        if Path(name).name != name:
            raise InputError(f"the site {name!r} cannot be a file name", where=path)
        with prefix_errors(path):
            written[name] = request.summarize(values[mine], truth[mine], site=name, trained=name in trained)
    return written


def _shows_all(summary: Summary) -> bool:
    """Whether a summary has every score of its site in it."""
    if isinstance(summary, StratifiedSummary):  # of groups, all rows are one
        return all(map(_shows_all, summary.parts.values()))
    return isinstance(summary, ExactSummary) or (isinstance(summary, RankSummary) and summary.gap == 0)


def _written(path: Path, made: Summary | NoisyHistogram) -> dict[str, Any]:
    """Write a file, and say what it holds."""
    data = made.to_bytes()
    write_bytes(path, data, private=made.name.startswith(ExactSummary.name))
    if isinstance(made, NoisyHistogram):
        said = {"site": made.site, "kind": made.name, "scores": made.size}
    else:
        said = {"site": made.sites[0], "kind": made.name, "scores": sum(made.sizes), "all_scores": _shows_all(made)}
    return {"file": str(path), **said, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
