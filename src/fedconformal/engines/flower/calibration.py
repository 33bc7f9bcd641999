"""The one round that calibration needs: ask every site for a summary, read it strictly, and find the threshold.

Scores stay at the sites. The certificate names the sites that are known of and not in it: the promise is not theirs.
"""

from __future__ import annotations

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
from fedconformal.federated.calibration import Calibrated, Question, Reader, conclude, spoken_for
from fedconformal.guarantees import ByClass, Guarantee
from fedconformal.scores import DEFAULT, Score
from fedconformal.summaries import Summary

STAGE = "calibrate"
MAX_LEFT_OUT = 10_000
"""So many sites may be missing behind one aggregator; a certificate names them all."""


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
    question = ask_for(
        arrays,
        alpha=alpha,
        score=score,
        temperature=temperature,
        kind=kind,
        by_class=isinstance(guarantee, ByClass),
    )
    answers, left_out = gather(federation, question)
    summaries = [answer.value[0] for answer in answers]
    return conclude(summaries, left_out, alpha=alpha, guarantee=guarantee, min_scores=min_scores)


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


def gather(
    federation: Federation, question: RecordDict
) -> tuple[list[Answer[tuple[Summary, list[LeftOut]]]], list[LeftOut]]:
    """Collect the summaries of all sites, and name those that sent none that can be used.

    An aggregator does the same among its own sites, and forwards them with `pooled_reply`.
    """
    reader = _Reader(question.config_records[ASK])
    answers = federation.ask(STAGE, question, "query.calibrate", reader.read, look_ahead=reader.look_ahead)
    reasons = spoken_for([(answer.site.name, answer.value[0]) for answer in answers])
    answers = federation.without(answers, reasons)
    left_out = federation.left_out(answers)
    covered = {site for answer in answers for site in answer.value[0].sites}
    for answer in answers:
        # Under the aggregator's name, as its sites may have names, or numbers, that others have.
        found = [one for one in answer.value[1] if one.site not in covered]
        left_out += [LeftOut(site=f"{answer.site.name}/{one.site}", reason=one.reason) for one in found]
    return answers, left_out


class _Reader:
    """Takes summaries out of their records, and has them read."""

    def __init__(self, asked: ConfigRecord) -> None:
        self._reader = Reader(Question.from_dict(asked))

    def look_ahead(self, contents: list[RecordDict]) -> None:
        """Decode all at once."""
        records = [content.get(SUMMARY) for content in contents]
        self._reader.look_ahead(record.get("data") for record in records if isinstance(record, ConfigRecord))

    def read(self, content: RecordDict) -> tuple[Summary, list[LeftOut]]:
        """Read one summary."""
        check_keys(content, METRICS, SUMMARY)
        examples = read_examples(read_metrics(content[METRICS], (EXAMPLES,)))
        record = content[SUMMARY]
        said = dict(record.items()) if isinstance(record, ConfigRecord) else {}
        pooled = "left-out" in said
        left_out = _read_left_out(said.pop("left-out")) if pooled else []
        if said.keys() != {"data", "format"}:
            raise InputError("sent no summary")
        site: Any = content[SITE]["name"] if SITE in content else None
        return self._reader.read(said["data"], said["format"], rows=examples, site=site, pooled=pooled), left_out


def _read_left_out(found: Any) -> list[LeftOut]:
    """Read whom an aggregator left out."""
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InputError("does not say properly whom it left out")
    if len(found) > MAX_LEFT_OUT:
        raise InputError(f"says that it left out {len(found)} sites, more than {MAX_LEFT_OUT}")
    parts = [one.partition("\n") for one in found]
    return [LeftOut(site=as_name(site, "a site left out"), reason=shown(reason)) for site, _, reason in parts]
