"""fedconformal show: the content of a file by field, and the information that it discloses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from fedconformal._base.files import read_bytes
from fedconformal._base.names import abbreviate, plural
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.console import print_result
from fedconformal.cli.options import Json
from fedconformal.errors import InputError, prefix_errors
from fedconformal.privacy.ledger import Ledger
from fedconformal.privacy.local_dp import NoisyHistogram
from fedconformal.report.cards import certificate_facts
from fedconformal.scores import RegressionScore
from fedconformal.summaries import LossSummary, Summary
from fedconformal.summaries.format import MAGIC, NOISY
from fedconformal.summaries.provenance import Provenance
from fedconformal.summaries.strata import StratifiedSummary
from fedconformal.summaries.summary import digest_of

PLAIN = "Nothing in it is encrypted or noisy. Send it over a channel that the site's rules allow."
KEY_BYTES = 32
"""Length of a private key, which is random: it may begin like any other file."""
READER = "Anyone with this file"
SHOWS = {
    "exact": "every calibration score of the site",
    "ranks": "{} of the site's calibration scores, and the share of its scores below each",
    "ddsketch": "a histogram of the site's scores in narrow bins, and the smallest and the largest score",
    "tdigest": "means of neighbouring scores of the site, and the smallest and the largest score",
}
SCORE_OF_A_NUMBER = (
    "A score follows from the model's prediction and the true value of one row, and is as large as its error: anyone "
    "who has the prediction can work out the true value."
)
SCORE = (
    "A score follows from the model's output and the true label of one row; anyone who has the row may recognise it."
)


class Contents(NamedTuple):
    """Kind of a file, its content by field, and sentences about the disclosed information."""

    what: str
    holds: Mapping[str, Any]
    learns: list[str]


def show(
    file: Annotated[Path, typer.Argument(help="A summary (.fcs, .fcn), predictor, ledger or key.")],
    json: Json = False,
) -> None:
    """Describe a file, and the information that it discloses."""
    data = read_bytes(file)
    with prefix_errors(file):
        description = describe(data)
    holds = {name.replace("_", " "): _text(one) for name, one in description.holds.items() if one or one == 0}
    width = max(map(len, holds), default=0)
    lines = [f"  {name:<{width}}  {value}" for name, value in holds.items()]
    record = {"file": file, "what": description.what, "holds": holds, "learns": description.learns}
    print_result(record, f"{file}: {description.what}", *lines, *description.learns, json=json)


def describe(data: bytes) -> Contents:
    """Describe a file, whose kind is recognised by its content.

    >>> describe(bytes(32)).what
    'a private key'
    """
    if data.startswith(MAGIC[:3]):  # another format is refused there
        return _summary(Summary.from_bytes(data))
    if data.startswith(NOISY):
        return _noisy(NoisyHistogram.from_bytes(data))
    if data.startswith(b"{") and (len(data) != KEY_BYTES or data.isascii()):
        return _json(data)
    if len(data) == KEY_BYTES:
        learns = "Anyone with this file can sign in its owner's name: keep it where it was made, and never send it."
        return Contents("a private key", {}, [learns])
    raise InputError(
        "not a summary, predictor, ledger or key; for others: monitor status, monitor combine, policy check"
    )


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {item}" for name, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _provenance(provenance: Provenance) -> dict[str, Any]:
    return {name: value for name, value in vars(provenance).items() if name != "grid" and value is not False}


def _summary(summary: Summary) -> Contents:
    holds: dict[str, Any] = {
        "kind": summary.name,
        "sites": summary.sites,
        "sizes": summary.sizes,
        "rows_left_out": summary.skipped or None,
        **_provenance(summary.provenance),
        "sha256": digest_of(summary),
    }
    if isinstance(summary, LossSummary):
        whose = "the losses of its one row" if summary.n == 1 else "the mean loss of its rows"
        both = f"the number of rows of the site, and {whose} at each of {plural(len(summary.grid), 'threshold')}"
        return Contents("the sums of a site's calibration losses", holds, [f"{READER} learns {both}.", PLAIN])
    shows = SHOWS.get(summary.name.partition(" by ")[0], "the content of the summary").format(len(summary.points))
    number = isinstance(summary.provenance.score, RegressionScore)
    learns = [f"{READER} learns {shows}, and the number of scores.", SCORE_OF_A_NUMBER if number else SCORE]
    if isinstance(summary, StratifiedSummary):
        holds["rows_of_each"] = {
            ", ".join(str(one) for one in stratum if one is not None): part.n for stratum, part in summary.parts.items()
        }
        each = "group" if summary.columns else "class"
        within = ", and of each class in it" if summary.columns and summary.by_class else ""
        learns.append(f"It also shows how many calibration rows of each {each} the site has{within}.")
        learns.append(f"Of a {each} with up to about a hundred rows it shows all scores, whatever the kind.")
    return Contents("the summary of a site's calibration scores", holds, [*learns, PLAIN])


def _noisy(noisy: NoisyHistogram) -> Contents:
    learns = (
        f"{READER} learns the number of scores exactly, and little of each row: noise was added at the site, with "
        f"differential privacy at epsilon {noisy.epsilon:g} for one row."
    )
    holds = {"site": noisy.site, "scores": noisy.size, "epsilon": noisy.epsilon, "cells": len(noisy.grid)}
    return Contents("noisy counts of a site's calibration scores", holds | _provenance(noisy.provenance), [learns])


def _json(data: bytes) -> Contents:
    """Describe a JSON file, whose kind is recognised by its fields."""
    try:
        fields = msgspec.json.decode(data)
        if "budget" in fields:
            return _ledger(msgspec.convert(fields, Ledger, strict=True))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"cannot be read: {error}") from None
    if {"kind", "certificate"} <= set(fields):
        return _predictor(Predictor.from_bytes(data))
    raise InputError(f"JSON with the fields {abbreviate(', '.join(fields))}; show describes predictors and ledgers")


def _predictor(predictor: Predictor) -> Contents:
    about = predictor.certificate
    words = about.statement
    holds: dict[str, Any] = {"promise": predictor.sentence(), "assumption": words.assumption, "caveat": words.caveat}
    holds |= certificate_facts(predictor)
    if about.by is not None:
        holds[f"threshold_of_each_{about.by}"] = about.thresholds
    counted = "scores" if about.risk is None else "rows"
    if about.risk is not None:
        of, shows = (
            " that limits a loss",
            "from the expected losses that are promised about the mean loss over all sites",
        )
    else:
        of = " of intervals" if about.intervals else ""
        shows = "up to 1,024 thresholds, each a score of a site" if about.exact else "a few thresholds, rounded up"
        shows += "" if about.by != "site" else "; as many again of every site by its name"
    learns = f"the names of the sites, how many {counted} each has"
    learns += ", and the threshold" if about.privacy is not None else f", the SHA-256 of each summary, and {shows}"
    return Contents(f"a predictor{of} with its certificate", holds, [f"{READER} learns {learns}."])


def _ledger(ledger: Ledger) -> Contents:
    learns = f"{READER} learns what was released when on which data, and can change what may still be spent."
    spent = [f"{entry.site}: {entry.epsilon:g} for {entry.purpose}" for entry in ledger.entries]
    return Contents(
        "a ledger of spent privacy", {"budget": ledger.budget, "spent": spent, "sums": len(ledger.sessions)}, [learns]
    )
