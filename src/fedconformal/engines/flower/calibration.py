"""What the server asks on Flower once a model is trained: summaries, sums for a temperature, and counts of coverage.

One message asks every site for a summary of its scores, which stay there. The certificate names the known sites that
are not in it: the promise does not cover them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import ArrayLike

from fedconformal._base.names import as_name, shown
from fedconformal.calibration.certificate import LeftOut
from fedconformal.calibration.choose import AnyPredictor
from fedconformal.calibration.interval_predictor import IntervalPredictor
from fedconformal.engines.flower.federation import Federation
from fedconformal.engines.flower.records import (
    ARRAYS,
    ASK,
    EXAMPLES,
    FULL,
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
from fedconformal.federated.ask import Answer, Ask
from fedconformal.federated.calibration import Calibrated, Question, Reader, SiteSummary, calibrate_summaries
from fedconformal.federated.evaluation import AnyCounts, Counts, IntervalCounts
from fedconformal.federated.risk import LossQuestion, read_question
from fedconformal.federated.temperature import Sums, check
from fedconformal.guarantees import Guarantee
from fedconformal.losses import Loss
from fedconformal.scores import AnyScore

STAGE = "calibrate"
MAX_LEFT_OUT = 10_000
"""The most sites that may be missing behind one aggregator; a certificate names them all."""


def calibrate(  # noqa: PLR0913
    federation: Federation,
    arrays: ArrayRecord,
    *,
    alpha: Any = 0.1,
    score: AnyScore | str = "lac",
    guarantee: Guarantee | str = "mixture",
    temperature: float = 1.0,
    kind: str = "ranks",
    min_scores: int = 1,
    trained: bool = False,
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
        trained: whether the model was trained on these sites, so that nothing is promised to a new one.
    """
    about = {"alpha": alpha, "score": score, "temperature": temperature, "kind": kind, "trained": trained}
    question = ask_for(arrays, guarantee=guarantee, **about)
    answers, left_out = gather(federation, question)
    summaries = [answer.value.summary for answer in answers]
    return calibrate_summaries(summaries, left_out, alpha=alpha, guarantee=guarantee, min_scores=min_scores)


def calibrate_risk(
    federation: Federation,
    arrays: ArrayRecord,
    *,
    risk: Any,
    loss: Loss | str,
    thresholds: ArrayLike | None = None,
    guarantee: Guarantee | str = "mixture",
    safe: str | None = None,
    min_scores: int = 1,
) -> Calibrated:
    """Ask every site for the sums of its losses, and turn them into a threshold with a limit on the expected loss.

    Args:
        federation: whom to ask.
        arrays: the trained model.
        risk: what the expected loss is to be at most.
        loss: such as `FalseNegativeRate()`.
        thresholds: the grid, fixed beforehand, by default 0, 0.001, ..., 1.
        guarantee: what is promised, by default `Mixture()`.
        safe: what is answered where no threshold is enough; by default what the loss says.
        min_scores: with fewer rows in all there is no calibration.
    """
    asked = LossQuestion.about(fingerprint(arrays), loss, thresholds, guarantee)
    question = RecordDict({ARRAYS: arrays, ASK: ConfigRecord(asked.to_dict())})
    answers, left_out = gather(federation, question)
    summaries = [answer.value.summary for answer in answers]
    wanted = {"risk": risk, "safe": safe, "guarantee": guarantee}
    return calibrate_summaries(summaries, left_out, min_scores=min_scores, **wanted)


def ask_for(arrays: ArrayRecord, **settings: Any) -> RecordDict:
    """Write the question that `calibrate_reply` answers; the settings are those of `Question.about`."""
    return RecordDict({ARRAYS: arrays, ASK: ConfigRecord(Question.about(fingerprint(arrays), **settings).to_dict())})


def gather(federation: Federation, question: RecordDict) -> tuple[Sequence[Answer[SiteSummary]], list[LeftOut]]:
    """Collect the summaries of all sites, and name the sites without a usable one.

    An aggregator does the same among its own sites, and forwards them with `pooled_reply`.
    """
    reader = Reader(read_question(question.config_records[ASK]))

    def look_ahead(contents: list[RecordDict]) -> None:
        """Decode together what comes together."""
        records = [content.get(SUMMARY) for content in contents]
        reader.look_ahead(record.get("data") for record in records if isinstance(record, ConfigRecord))

    read = partial(_read_summary, reader)
    answers = federation.ask(STAGE, question, "query.calibrate", read, look_ahead=look_ahead)
    return exchange.gather(federation, answers)


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
    return [
        LeftOut(site=as_name(site, "a site left out"), reason=shown(reason, exchange.MAX_REASON))
        for site, _, reason in parts
    ]


def ask_temperature(federation: Federation, arrays: ArrayRecord) -> Ask[Sequence[float], Sums]:
    """Ask for sums over the rows that the sites keep for the temperature, with this model."""

    def ask(points: Sequence[float]) -> list[Answer[Sums]]:
        def read(content: RecordDict) -> Sums:
            check_keys(content, METRICS)
            record: dict[str, Any] = dict(content.metric_records[METRICS])
            read_examples(record)
            return check({name: record[name] for name in record if name != EXAMPLES}, points)

        content = RecordDict({ARRAYS: arrays, ASK: ConfigRecord({"points": list(points)})})
        return federation.ask("temperature", content, "query.temperature", read)

    return ask


def ask_evaluation(federation: Federation, arrays: ArrayRecord, predictor: AnyPredictor) -> list[Answer[AnyCounts]]:
    """Ask for counts on the sites' test rows, with this model."""
    content = RecordDict({ARRAYS: arrays, ASK: ConfigRecord({"predictor": predictor.to_bytes()})})
    read = _interval_counts if isinstance(predictor, IntervalPredictor) else _counts
    return federation.ask("evaluate", content, "evaluate", read)


def _interval_counts(content: RecordDict) -> AnyCounts:
    check_keys(content, METRICS)
    values: dict[str, Any] = read_metrics(content[METRICS], [EXAMPLES, "covered", "widths", "infinite"])
    rows = read_examples(values)
    return IntervalCounts(rows, values["covered"], values["widths"], values["infinite"]).check()


def _counts(content: RecordDict) -> AnyCounts:
    check_keys(content, METRICS)
    sent: Any = content[METRICS]
    full = [FULL] if FULL in sent else []  # an older site does not say how many sets hold every label
    values: dict[str, Any] = read_metrics(sent, [EXAMPLES, "covered", "labels", "correct", *full])
    rows = read_examples(values)
    return Counts(rows, values["covered"], values["labels"], values["correct"], values.get(FULL)).check()


def send_predictor(federation: Federation, predictor: AnyPredictor) -> None:
    """Send every site the predictor, to keep."""
    content = RecordDict({ASK: ConfigRecord({"predictor": predictor.to_bytes()})})
    federation.ask("broadcast", content, "query.predictor", lambda reply: check_keys(reply, METRICS))
