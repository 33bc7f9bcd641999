"""Calibration on Flower: one message asks every site for a summary of its scores, which stay there.

The certificate names the known sites that are not in it: the promise does not cover them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedconformal._base.names import as_name, shown
from fedconformal.calibration.certificate import LeftOut
from fedconformal.engines.flower.federation import Answer, Federation
from fedconformal.engines.flower.records import (
    ARRAYS,
    ASK,
    EXAMPLES,
    METRICS,
    SITE,
    SUMMARY,
    check_keys,
    fingerprint,
    read_examples,
    read_metrics,
)
from fedconformal.errors import InputError
from fedconformal.federated import calibration as exchange
from fedconformal.federated.calibration import Calibrated, Question, Reader, SiteSummary
from fedconformal.guarantees import ByClass, Guarantee
from fedconformal.scores import DEFAULT, Score

STAGE = "calibrate"
MAX_LEFT_OUT = 10_000
"""The most sites that may be missing behind one aggregator; a certificate names them all."""


def calibrate(
    federation: Federation,
    arrays: ArrayRecord,
    *,
    alpha: Any = 0.1,
    score: Score | None = None,
    guarantee: Guarantee | None = None,
    temperature: float = 1.0,
    kind: str = "ranks",
    min_scores: int = 1,
) -> Calibrated:
    """Ask every site for a summary of its scores, and turn them into a predictor and its certificate.

    Args:
        federation: whom to ask.
        arrays: the trained model.
        alpha: how often the sets may miss.
        score: by default `scores.DEFAULT`, which is LAC.
        guarantee: what is promised, by default `Mixture()`.
        temperature: what the sites divide logits by.
        kind: of summary.
        min_scores: with fewer in all there is no calibration.
    """
    content = ask_for(
        arrays,
        alpha=alpha,
        score=score,
        temperature=temperature,
        kind=kind,
        by_class=isinstance(guarantee, ByClass),
    )
    engine, question = CalibrationOnFlower(federation, content), Question.from_dict(content.config_records[ASK])
    return exchange.calibrate_sites(engine, question, alpha=alpha, guarantee=guarantee, min_scores=min_scores)


def ask_for(
    arrays: ArrayRecord,
    *,
    alpha: Any,
    score: Score | None = None,
    temperature: float = 1.0,
    kind: str = "ranks",
    by_class: bool = False,
) -> RecordDict:
    """Write the question that `calibrate_reply` answers."""
    question = Question(
        model=fingerprint(arrays),
        alpha=alpha,
        score=DEFAULT if score is None else score,
        temperature=temperature,
        kind=kind,
        by_class=by_class,
    )
    return RecordDict({ARRAYS: arrays, ASK: ConfigRecord(question.to_dict())})


def gather(federation: Federation, question: RecordDict) -> tuple[Sequence[Answer[SiteSummary]], list[LeftOut]]:
    """Collect the summaries of all sites, and name the sites without a usable one.

    An aggregator does the same among its own sites, and forwards them with `pooled_reply`.
    """
    asked = Question.from_dict(question.config_records[ASK])
    return exchange.gather(CalibrationOnFlower(federation, question), asked)


@dataclass(frozen=True, eq=False)
class CalibrationOnFlower:
    """Carries the question for summaries, in this message."""

    federation: Federation
    content: RecordDict

    def ask(self, question: Question) -> list[Answer[SiteSummary]]:
        """Ask every site for a summary; those that come together are decoded together."""
        reader = Reader(question)

        def look_ahead(contents: list[RecordDict]) -> None:
            records = [content.get(SUMMARY) for content in contents]
            reader.look_ahead(record.get("data") for record in records if isinstance(record, ConfigRecord))

        def read(content: RecordDict) -> SiteSummary:
            return _read_summary(reader, content)

        return self.federation.ask(STAGE, self.content, "query.calibrate", read, look_ahead=look_ahead)

    def refuse(self, answers: Sequence[Answer[SiteSummary]], reasons: Sequence[str | None]) -> Any:
        """Refuse the answers that have a reason, and return the others."""
        return self.federation.refuse(list(answers), reasons)

    def left_out(self, answers: Iterable[Answer[SiteSummary]]) -> list[LeftOut]:
        """Name the nodes that are known and not among these."""
        return self.federation.left_out(answers)


def _read_summary(reader: Reader, content: RecordDict) -> SiteSummary:
    check_keys(content, METRICS, SUMMARY)
    examples = read_examples(read_metrics(content[METRICS], (EXAMPLES,)))
    record = content[SUMMARY]
    said = dict(record.items()) if isinstance(record, ConfigRecord) else {}
    pooled = "left-out" in said
    left_out = _read_left_out(said.pop("left-out")) if pooled else []
    if said.keys() != {"data", "format"}:
        raise InputError("sent no summary")
    site: Any = content[SITE]["name"] if SITE in content else None
    summary = reader.read(said["data"], said["format"], rows=examples, site=site, pooled=pooled)
    return SiteSummary(summary, left_out)


def _read_left_out(found: Any) -> list[LeftOut]:
    """Read whom an aggregator left out."""
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InputError("does not say properly whom it left out")
    if len(found) > MAX_LEFT_OUT:
        raise InputError(f"says that it left out {len(found)} sites, more than {MAX_LEFT_OUT}")
    parts = [one.partition("\n") for one in found]
    return [LeftOut(site=as_name(site, "a site left out"), reason=shown(reason)) for site, _, reason in parts]
