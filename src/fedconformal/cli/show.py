"""fedconformal show: the content of a file of ours in plain words, and who could learn what from it."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from fedconformal._base.files import read_bytes
from fedconformal._base.names import abbreviate, plural
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import ProvenanceRecord
from fedconformal.certificates.text import guarantee_name, sentence
from fedconformal.cli.calibrate import describe_privacy
from fedconformal.cli.console import print_result
from fedconformal.cli.options import Json
from fedconformal.errors import InputError, prefix_errors
from fedconformal.monitoring.messages import LENGTH, day_of, read_periods
from fedconformal.monitoring.messages import MAGIC as PERIODS
from fedconformal.monitoring.store import Watch
from fedconformal.privacy.ledger import ChargedRows, Ledger
from fedconformal.privacy.local_dp import NoisyHistogram
from fedconformal.scores import RegressionScore
from fedconformal.summaries import LossSummary, Summary
from fedconformal.summaries.format import MAGIC, NOISY
from fedconformal.summaries.provenance import Provenance
from fedconformal.summaries.strata import StratifiedSummary
from fedconformal.summaries.summary import digest_of

PLAIN = "Nothing in it is encrypted or noisy. Send it over a channel that the site's rules allow."
READER = "Anyone with this file"
SHOWS = {
    "exact": "every calibration score of the site",
    "ranks": "{} of the site's calibration scores, and what share of its scores is below each",
    "ddsketch": "how many of the site's scores are in each of many narrow ranges, and the smallest and the largest",
    "tdigest": "means of neighbouring scores of the site, and the smallest and the largest score",
}
SQLITE = b"SQLite format 3\0"

SCORE_OF_A_NUMBER = (
    "A score follows from the model's prediction and the true value of one row, and is as large as its error: anyone "
    "who has the prediction can work out the true value."
)
SCORE = (
    "A score follows from the model's output and the true label of one row; anyone who has the row may recognise it."
)
EMPTY: tuple[Any, ...] = (None, [], {}, ())


class Shown:
    """A kind of file, what a reader learns, and its content as text by name; empty content is left out."""

    def __init__(self, what: str, *learns: str, **content: Any) -> None:
        self.what, self.learns = what, learns
        self.holds = {name.replace("_", " "): _text(one) for name, one in content.items() if one not in EMPTY}


def show(
    file: Annotated[Path, typer.Argument(help="Any file that fedconformal wrote.")],
    json: Json = False,
) -> None:
    """Describe in plain words what a file holds, and who could learn what from it."""
    data = read_bytes(file)
    with prefix_errors(file):
        found = _watch(file) if data.startswith(SQLITE) else described(data)
    width = max(map(len, found.holds), default=0)
    held = [f"  {name:<{width}}  {value}" for name, value in found.holds.items()]
    record = {"file": file, "what": found.what, "holds": found.holds, "learns": found.learns}
    print_result(record, f"{file}: {found.what}", *held, *found.learns, json=json)


def described(data: bytes) -> Shown:
    """Recognise a file by its content, and describe it.

    >>> described(bytes(32)).what
    'a private key'
    """
    if data.startswith(MAGIC):
        return _summary(Summary.from_bytes(data), data)
    if data.startswith(NOISY):
        return _noisy(NoisyHistogram.from_bytes(data))
    if data[LENGTH : LENGTH + len(PERIODS)] == PERIODS:
        return _periods(data)
    if data.startswith(b"{"):
        return _json(data)
    if len(data) == 32:
        learns = "Anyone with this file can sign in its owner's name: keep it where it was made, and never send it."
        return Shown("a private key", learns)
    raise InputError("not a file that fedconformal wrote; policy check explains a policy")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _provenance(found: Provenance | ProvenanceRecord) -> dict[str, Any]:
    fields = ("model", "temperature", "precision", "calibration", "expires")
    return {name: getattr(found, name) for name in fields}


def _summary(summary: Summary, data: bytes) -> Shown:
    about, kind = summary.provenance, summary.name.partition(" by ")[0]
    losses = isinstance(summary, LossSummary)
    content: dict[str, Any] = {
        "format_version": int(data[3:4]),
        "kind": summary.name,
        "sites": list(summary.sites) or "no names",
        "rows" if losses else "scores": list(summary.sizes) if len(summary.sizes) > 1 else summary.n,
        "loss" if losses else "score": _loss(about.loss) if losses else about.score,
        "rows_left_out_for_missing_values": summary.skipped or None,
        "classes": about.classes,
        **_provenance(about),
        "at_alpha": about.alpha,
        "estimated": about.estimated or None,
        "the_model_was_trained_on_this_site": about.trained or None,
        "sha256": digest_of(summary),
    }
    if isinstance(summary, LossSummary):
        whose = "the losses of its one row" if summary.n == 1 else "the mean loss of its rows"
        both = f"the number of rows of the site, and {whose} at each of {plural(len(summary.grid), 'threshold')}"
        content |= {"bound": summary.bound, "rising": about.rising or None}
        content["thresholds"] = f"{len(summary.grid)} from {summary.grid[0]:g} to {summary.grid[-1]:g}"
        return Shown("the sums of a site's calibration losses", f"{READER} learns {both}.", PLAIN, **content)
    shows = SHOWS.get(kind, "what is in the summary").format(len(summary.points))
    learns = [f"{READER} learns {shows}, and how many there are."]
    learns.append(SCORE_OF_A_NUMBER if isinstance(about.score, RegressionScore) else SCORE)
    if isinstance(summary, StratifiedSummary):
        what = "group" if summary.columns else "class"
        rows: Counter[str] = Counter()
        for (group, label), part in summary.parts.items():
            rows[str(label if group is None else group)] += part.n
        content[f"rows_of_each_{what}"] = dict(rows)
        within = ", and of each class in it" if summary.columns and summary.by_class else ""
        learns.append(f"It also shows how many calibration rows of each {what} the site has{within}.")
        learns.append(f"Of a {what} with up to about a hundred rows it shows all scores, whatever the kind.")
    return Shown("the summary of a site's calibration scores", *learns, PLAIN, **content)


def _loss(stated: Any) -> str | None:
    return None if stated is None else f"{stated[0]}{stated[1] or ''}"


def _noisy(found: NoisyHistogram) -> Shown:
    learns = (
        f"{READER} learns the number of scores exactly, and little of each row: noise was added at the site, with "
        f"differential privacy at epsilon {found.epsilon:g} for one row."
    )
    return Shown(
        "noisy counts of a site's calibration scores",
        learns,
        site=found.site,
        scores=found.size,
        epsilon=found.epsilon,
        cells=len(found.grid),
        score=found.provenance.score,
        classes=found.provenance.classes,
        **_provenance(found.provenance),
    )


def _json(data: bytes) -> Shown:
    """Recognise a JSON file by its fields."""
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a file of fedconformal, nor JSON: {error}") from None
    if {"kind", "certificate"} <= set(fields):
        return _predictor(Predictor.from_bytes(data))
    if "budget" in fields:
        return _ledger(fields)
    if {"key", "signature", "site"} <= set(fields):
        learns = f"{READER} learns which key the site signs with. It goes along with the summary of the same name."
        return Shown("a site's signature of its summary", learns, site=fields["site"], key=fields["key"])
    if {"key", "signature"} <= set(fields):
        learns = f"{READER} can check with verify --coordinator KEY that the predictor is the coordinator's."
        return Shown("a coordinator's signature of a predictor", learns, key=fields["key"])
    if fields and all(isinstance(key, str) and len(key) == 64 for key in fields.values()):
        learns = "Public keys are no secret. Anyone who can change this file chooses whose summaries pass."
        return Shown("the public keys that are trusted, by site", learns, sites=list(fields))
    raise InputError(f"JSON that fedconformal did not write, with the fields {abbreviate(', '.join(fields))}")


def _predictor(predictor: Predictor) -> Shown:
    about = predictor.certificate
    replaced, counted = about.replaces, "scores" if about.risk is None else "rows"
    content: dict[str, Any] = {
        "promise": sentence(about),
        "assumption": about.statement.assumption,
        "caveat": about.statement.caveat,
        "status": about.status,
        "guarantee": guarantee_name(about.guarantee),
        "threshold": about.limit_text,
        f"threshold_of_each_{about.by}": about.thresholds if about.by in ("group", "site") else None,
        **_provenance(about.provenance),
        "classes": about.class_names,
        "sites": about.sites,
        counted: about.scores,
        "sites_that_outweigh_others": [f"{site} ({share:.0%})" for site, share in about.heavy_sites.items()],
        "sites_left_out": [f"{one.site} ({one.reason})" for one in about.left_out or []],
        "signed_by": [used.signature.site for used in about.summaries if used.signature],
        "made_with": about.versions.get("fedconformal"),
    }
    if replaced is not None:
        content |= {"replaces": f"the predictor with sha256 {replaced.sha256}", "why": replaced.why}
    if about.privacy is not None:
        try:
            content["privacy"] = "; ".join(describe_privacy(about.privacy, finite=about.threshold < math.inf))
            content["dropped_out"] = [f"{one['site']} ({one['when']})" for one in about.privacy.get("dropped", [])]
        except (KeyError, TypeError, ValueError):  # a predictor is untrusted
            raise InputError("what the certificate says of privacy cannot be read") from None
    learns = f"the names of the sites, how many {counted} each has"
    if about.risk is not None:
        risk, of = predictor.risk, " that limits a loss"
        content |= {
            "limit_of_the_expected_loss": risk.limit,
            "safe_action": risk.safe,
            "loss": _loss(risk.loss),
            "thresholds": f"{risk.points} from {risk.first:g} to {risk.last:g}",
        }
        shows = "from the expected losses that are promised about the mean loss over all sites"
    else:
        of = " of intervals" if about.intervals else ""
        content |= {"alpha": about.alpha, "score": predictor.score}
        shows = "a few thresholds, rounded up" if not about.exact else "up to 1,024 thresholds, each a score of a site"
        shows += "" if about.by != "site" else "; as many again of every site by its name"
    learns += ", and the threshold" if about.privacy is not None else f", the SHA-256 of each summary, and {shows}"
    return Shown(f"a predictor{of} with its certificate", f"{READER} learns {learns}.", **content)


def _ledger(fields: object) -> Shown:
    try:
        ledger = msgspec.convert(fields, Ledger, strict=True)
    except msgspec.ValidationError as error:
        raise InputError(f"cannot be read: {error}") from None
    charged = {entry.site: ChargedRows(entry.site, entry.digest) for entry in ledger.entries}
    return Shown(
        "a ledger of spent privacy",
        f"{READER} learns what was released when on which data, and can change what may still be spent.",
        budget=ledger.budget,
        releases=len(ledger.entries),
        spent={site: float(ledger.spent(rows)) for site, rows in charged.items()},
        data_sets_in_sums_without_noise=len(ledger.sessions) or None,
        most_sums_sessions_of_the_same_rows=ledger.opened(list(ledger.sessions)).count or None,
    )


def _periods(data: bytes) -> Shown:
    periods = read_periods(data)
    last = periods[-1]
    whole = last.streams[0]
    learns = (
        f"{READER} learns how many rows the site answered and how many were missed, and the mean size of sets, of all "
        "rows and of each group, period by period; and since when its scores differ, if they do. Nothing about a row."
    )
    return Shown(
        f"what a site sends of {plural(len(periods), 'period')} of a watch",
        learns,
        messages=len(periods),
        sites=sorted({period.site for period in periods}),
        first_day=day_of(min(period.first for period in periods)),
        last_day=day_of(max(period.last for period in periods)),
        predictor=last.predictor.hex(),
        limit_on_misses=whole.limit,
        outcomes_known_at_the_end=whole.after.known,
        missed=whole.after.misses,
        rows_that_wait=whole.after.waiting,
        groups="withheld: too few outcomes" if last.withheld else [one.group for one in last.streams[1:]],
    )


def _watch(file: Path) -> Shown:
    with Watch.open(file) as watch:
        status, settings = watch.status(), watch.settings
    learns = (
        f"{READER} learns the id, time, site and groups of every row that is kept, its set until its label comes, and "
        "then its label. Keep it where it is; a site sends what monitor send writes."
    )
    return Shown(
        "a watch over a predictor",
        learns,
        state=status.sentence,
        predictor=settings.predictor,
        site=settings.site,
        days=None if status.days is None else " to ".join(str(day_of(day)) for day in status.days),
        **{name: number for name, number in msgspec.structs.asdict(status.counts).items() if number},
    )
