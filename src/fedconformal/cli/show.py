"""fedconformal show: what a file of ours holds, in plain words, and who could learn what from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from fedconformal._base.files import read_bytes
from fedconformal._base.names import abbreviate, plural
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate, SignatureRecord, combined, threshold_json
from fedconformal.certificates.text import guarantee_name
from fedconformal.cli.console import print_result
from fedconformal.cli.options import Json
from fedconformal.cli.privacy import describe_privacy
from fedconformal.errors import InputError, prefix_errors
from fedconformal.monitoring.messages import LENGTH, day_of, read_periods
from fedconformal.monitoring.messages import MAGIC as PERIODS
from fedconformal.monitoring.store import Watch
from fedconformal.privacy.ledger import ChargedRows, Ledger
from fedconformal.privacy.local_dp import NoisyHistogram
from fedconformal.privacy.policy import WORDS, parse_policy
from fedconformal.privacy.signatures import Seal
from fedconformal.scores import RegressionScore
from fedconformal.summaries import LossSummary, Summary
from fedconformal.summaries.format import MAGIC, NOISY
from fedconformal.summaries.provenance import Provenance
from fedconformal.summaries.strata import StratifiedSummary
from fedconformal.summaries.summary import digest_of

PLAIN = "Nothing in it is encrypted or noisy. Send it over a channel that the site's rules allow."
READER = "Anyone with this file"
EVERY_SCORE = "every calibration score of the site"
SHOWS = {
    "exact": EVERY_SCORE,
    "ranks": "{} of the site's calibration scores, and what share of its scores is below each",
    "ddsketch": "how many of the site's scores are in each of many narrow ranges, and the smallest and the largest",
    "tdigest": "means of neighbouring scores of the site, and the smallest and the largest score",
}
SQLITE = b"SQLite format 3\0"
SAMPLE = 5
"""Thresholds whose mean loss is shown."""

SCORE_OF_A_NUMBER = (
    "A score follows from the model's prediction and the true value of one row, and is as large as its error: anyone "
    "who has the prediction can work out the true value."
)
SCORE = (
    "A score follows from the model's output and the true label of one row; anyone who has the row may recognise it."
)


class Shown(NamedTuple):
    """What a file is, what it holds, and who could learn what from it."""

    what: str
    holds: dict[str, Any]
    learns: list[str]


def show(
    file: Annotated[Path, typer.Argument(help="Any file that fedconformal wrote.")],
    json: Json = False,
) -> None:
    """Say in plain words what a file holds, and who could learn what from it."""
    data = read_bytes(file)
    with prefix_errors(file):
        found = _watch(file) if data.startswith(SQLITE) else described(data)
    width = max(map(len, found.holds), default=0)
    held = [f"  {name:<{width}}  {_text(value)}" for name, value in found.holds.items()]
    facts = {"file": str(file), **found._asdict()}
    print_result(facts, f"{file}: {found.what}", *held, *found.learns, json=json)


def described(data: bytes) -> Shown:
    """Recognise a file by its content, and describe it.

    >>> described(bytes(32)).what
    'a private key'
    """
    for known, describe in KINDS:
        if known(data):
            return describe(data)
    return _policy(data)


def _key(_: bytes) -> Shown:
    learns = "Anyone with this file can sign in its owner's name: keep it where it was made, and never send it."
    return Shown("a private key", {}, [learns])


def _provenance(found: Provenance) -> dict[str, Any]:
    return {
        "score": None if found.score is None else str(found.score),
        "model": found.model,
        "temperature": found.temperature,
        "classes": found.classes,
        "precision": found.precision,
        "for the calibration": found.calibration,
        "at alpha": found.alpha,
        "expires": found.expires,
        "estimated": found.estimated or None,
        "the model was trained on this site": found.trained or None,
    }


def _summary(summary: Summary, data: bytes) -> Shown:
    provenance, kind = summary.provenance, summary.name.partition(" by ")[0]
    holds = {
        "format version": int(data[3:4]),
        "kind": summary.name,
        "sites": list(summary.sites) or "no names",
        "scores": list(summary.sizes) if len(summary.sizes) > 1 else summary.n,
        "rows left out for missing values": summary.skipped or None,
        **_provenance(provenance),
        "sha256": digest_of(summary),
    }
    if isinstance(summary, LossSummary):
        whose = "the losses of its one row" if summary.n == 1 else "the mean loss of its rows"
        both = f"the number of rows of the site, and {whose} at each of {plural(len(summary.grid), 'threshold')}"
        holds = _stated({**holds, **_curves(summary), "scores": None})
        return Shown("the sums of a site's calibration losses", holds, [f"{READER} learns {both}.", PLAIN])
    shows = SHOWS.get(kind, "what is in the summary").format(len(summary.points))
    learns = [f"{READER} learns {shows}, and how many there are."]
    learns.append(SCORE_OF_A_NUMBER if isinstance(provenance.score, RegressionScore) else SCORE)
    if isinstance(summary, StratifiedSummary):
        what = "group" if summary.columns else "class"
        rows: dict[str, int] = {}
        for (group, label), part in summary.parts.items():
            key = str(label if group is None else group)
            rows[key] = rows.get(key, 0) + part.n
        holds[f"rows of each {what}"] = rows
        within = ", and of each class in it" if summary.columns and summary.by_class else ""
        learns.append(f"It also shows how many calibration rows of each {what} the site has{within}.")
        learns.append(f"Of a {what} with up to about a hundred rows it shows all scores, whatever the kind.")
    learns.append(PLAIN)
    return Shown("the summary of a site's calibration scores", _stated(holds), learns)


def _curves(summary: LossSummary) -> dict[str, Any]:
    places = sorted({round(k * (len(summary.grid) - 1) / (SAMPLE - 1)) for k in range(SAMPLE)})
    name, parameters = summary.provenance.loss or (None, ())
    return {
        "rows": list(summary.sizes) if len(summary.sizes) > 1 else summary.n,
        "loss": None if name is None else f"{name}{parameters or ''}",
        "bound": summary.bound,
        "thresholds": f"{len(summary.grid)} from {summary.grid[0]:g} to {summary.grid[-1]:g}",
        "mean losses": {f"{summary.grid[k]:g}": round(float(summary.mean_losses[k]), 6) for k in places},
        "rising": summary.provenance.rising or None,
    }


def _noisy(found: NoisyHistogram) -> Shown:
    holds = {
        "site": found.site,
        "scores": found.size,
        "epsilon": found.epsilon,
        "cells": len(found.grid),
        **_provenance(found.provenance),
    }
    learns = (
        f"{READER} learns the number of scores exactly, and little of each row: noise was added at the site, with "
        f"differential privacy at epsilon {found.epsilon:g} for one row."
    )
    return Shown("noisy counts of a site's calibration scores", _stated(holds), [learns])


def _json(data: bytes) -> Shown:
    """Recognise a JSON file by its fields."""
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a file of fedconformal, nor JSON: {error}") from None
    kinds: list[tuple[set[str], Callable[[], Shown]]] = [
        ({"kind", "certificate"}, lambda: _predictor(Predictor.from_bytes(data))),
        ({"budget"}, lambda: _ledger(_as(fields, Ledger))),
        ({"key", "signature"}, lambda: _signature(_as(fields, SignatureRecord if "site" in fields else Seal))),
    ]
    for names, describe in kinds:
        if names <= set(fields):
            return describe()
    if fields and all(isinstance(key, str) and len(key) == 64 for key in fields.values()):
        learns = ["Public keys are no secret. Anyone who can change this file chooses whose summaries pass."]
        return Shown("the public keys that are trusted, by site", {"sites": list(fields)}, learns)
    raise InputError(f"JSON that fedconformal did not write, with the fields {abbreviate(', '.join(fields))}")


def _predictor(predictor: Any) -> Shown:
    about: Certificate = predictor.certificate
    own = _risk(predictor) if about.risk is not None else {}
    holds = {
        "promise": about.sentence(),
        "assumption": about.statement.assumption,
        "caveat": about.statement.caveat,
        "status": about.status,
        "guarantee": guarantee_name(about.guarantee),
        "alpha": None if own else about.alpha,
        "threshold": about.limit_text,
        "threshold of each group": _by_group(about),
        "threshold of each site": _by_site(about),
        "score": None if own else str(predictor.score),
        **own,
        "model": about.provenance.model,
        "temperature": about.provenance.temperature,
        "classes": about.class_names,
        "precision": about.provenance.precision,
        "calibration": about.provenance.calibration,
        "expires": about.provenance.expires,
        "sites": about.sites,
        "rows" if own else "scores": about.scores,
        "sites that outweigh others": [f"{site} ({share:.0%})" for site, share in about.heavy_sites.items()] or None,
        **_before(about),
        "sites left out": [f"{one.site} ({one.reason})" for one in about.left_out or []] or None,
        **_privacy(about.privacy or {}, finite=about.threshold < math.inf),
        "signed by": [used.signature.site for used in about.summaries if used.signature] or None,
        "made with": about.versions.get("fedconformal"),
    }
    if own and about.privacy is None:
        learns = (
            "the names of the sites, how many rows each has, the SHA-256 of each summary, and from the expected losses "
            "that are promised about the mean loss over all sites"
        )
    elif about.privacy is None:
        what = "a few thresholds, rounded up" if not about.exact else "up to 1,024 thresholds, each a score of a site"
        learns = f"the names of the sites, how many scores each has, the SHA-256 of each summary, and {what}"
        learns += "" if about.by != "site" else "; as many again of every site by its name"
    else:
        learns = f"the names of the sites, how many {'rows' if own else 'scores'} each has, and the threshold"
    of = " of intervals" if about.intervals else " that limits a loss" if own else ""
    return Shown(f"a predictor{of} with its certificate", _stated(holds), [f"{READER} learns {learns}."])


def _risk(rule: Predictor) -> dict[str, Any]:
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


def _by_group(about: Certificate) -> dict[str, Any] | None:
    return {name: threshold_json(found) for name, found in about.thresholds.items()} if about.by == "group" else None


def _by_site(about: Certificate) -> dict[str, str] | None:
    """Return the threshold of each site, its rank and its band."""
    if about.by != "site":
        return None
    return {
        str(
            site
        ): f"{' to '.join(f'{one.limit:.6g}' for one in part)} (rank {part[-1].rank} of {part[-1].rank_out_of}, "
        f"coverage {combined(part).coverage_at_least:.4g} to {combined(part).coverage_at_most:.4g})"
        for site, part in about.parts.items()
    }


def _before(about: Certificate) -> dict[str, Any]:
    """Name the predictor that was there before, and why it was replaced."""
    replaced = about.replaces
    if replaced is None:
        return {}
    return {"replaces": f"the predictor with sha256 {replaced.sha256}", "why": replaced.why, "rows": replaced.rows}


def _privacy(claim: dict[str, Any], *, finite: bool) -> dict[str, Any]:
    """Say what is claimed; predictors of plain summaries claim nothing."""
    if not claim:
        return {}
    try:
        dropped = [f"{one['site']} ({one['when']})" for one in claim.get("dropped", [])]
        return {"privacy": "; ".join(describe_privacy(claim, finite=finite)), "dropped out": dropped or None}
    except (KeyError, TypeError, ValueError):  # a predictor may be from anybody
        raise InputError("what the certificate says of privacy cannot be read") from None


def _ledger(ledger: Ledger) -> Shown:
    charged = {entry.site: ChargedRows(entry.site, entry.digest) for entry in ledger.entries}
    spent: dict[str, float] = {site: float(ledger.spent(rows)) for site, rows in charged.items()}
    holds = {"budget": ledger.budget, "releases": len(ledger.entries), "spent": spent or None}
    holds["data sets in sums without noise"] = len(ledger.sessions) or None
    holds["most sums sessions of the same rows"] = ledger.opened(list(ledger.sessions)).count or None
    learns = [f"{READER} learns what was released when on which data, and can change what may still be spent."]
    return Shown("a ledger of spent privacy", _stated(holds), learns)


def _signature(found: SignatureRecord | Seal) -> Shown:
    if isinstance(found, SignatureRecord):
        learns = "learns which key the site signs with. It goes along with the summary of the same name."
        return Shown(
            "a site's signature of its summary", {"site": found.site, "key": found.key}, [f"{READER} {learns}"]
        )
    learns = "can check with verify --coordinator KEY that the predictor is the coordinator's."
    return Shown("a coordinator's signature of a predictor", {"key": found.key}, [f"{READER} {learns}"])


def _policy(data: bytes) -> Shown:
    """Describe a policy; one line begins with a key of it, if it has no more than a slip."""
    if not any(line.lstrip(b"# ").startswith(key.encode()) for line in data.splitlines() for key in WORDS):
        raise InputError("not a file that fedconformal wrote")
    found = parse_policy(data)
    return Shown("a site's policy, on what may leave it", found.to_dict(), found.in_words())


def _periods(data: bytes) -> Shown:
    periods = read_periods(data)
    last = periods[-1]
    whole = last.streams[0]
    holds = {
        "messages": len(periods),
        "sites": sorted({period.site for period in periods}),
        "from": str(day_of(min(period.first for period in periods))),
        "to": str(day_of(max(period.last for period in periods))),
        "predictor": last.predictor.hex(),
        "limit on misses": whole.limit,
        "outcomes known at the end": whole.after.known,
        "missed": whole.after.misses,
        "rows that wait": whole.after.waiting,
        "groups": "withheld: too few outcomes" if last.withheld else [one.group for one in last.streams[1:]] or None,
    }
    learns = (
        f"{READER} learns how many rows the site answered and how many were missed, and the mean size of sets, of all "
        "rows and of each group, period by period; and since when its scores differ, if they do. Nothing about a row."
    )
    return Shown(f"what a site sends of {plural(len(periods), 'period')} of a watch", _stated(holds), [learns])


def _watch(file: Path) -> Shown:
    with Watch.open(file) as watch:
        status, settings, days = watch.status(), watch.settings, watch.days()
    holds = {
        "state": status.sentence,
        "predictor": settings.predictor,
        "site": settings.site,
        "days": None if days is None else f"{day_of(days[0])} to {day_of(days[1])}",
        **{" ".join(name.split("_")): number for name, number in status.counts.items() if number},
    }
    learns = (
        f"{READER} learns the id, time, site and groups of every row that is kept, its set until its label comes, and "
        "then its label. Keep it where it is; a site sends what monitor send writes."
    )
    return Shown("a watch over a predictor", _stated(holds), [learns])


def _as(fields: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(fields, kind, strict=True)
    except msgspec.ValidationError as error:
        raise InputError(f"cannot be read: {error}") from None


def _stated(holds: dict[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in holds.items() if value is not None
    }


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


KINDS: tuple[tuple[Callable[[bytes], bool], Callable[[bytes], Shown]], ...] = (
    (lambda data: data.startswith(MAGIC), lambda data: _summary(Summary.from_bytes(data), data)),
    (lambda data: data.startswith(NOISY), lambda data: _noisy(NoisyHistogram.from_bytes(data))),
    (lambda data: data[LENGTH : LENGTH + len(PERIODS)] == PERIODS, _periods),
    (lambda data: data.startswith(b"{"), _json),
    (lambda data: len(data) == 32, _key),
)
"""How a file is recognised by its content, and what describes it."""
