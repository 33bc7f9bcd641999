"""What a site answers: each of these turns its model's outputs, which stay with it, into one small reply.

They take logits, so any model will do; one that gives probabilities passes their logarithms. Where the score is of
numbers, they take what a regressor predicts, and the true numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord
from numpy.typing import ArrayLike

from fedconformal._base.files import write_bytes
from fedconformal._base.groups import Groups
from fedconformal.calibration.certificate import LeftOut
from fedconformal.calibration.choose import AnyPredictor, as_predictor
from fedconformal.calibration.document import read_document
from fedconformal.engines.flower.records import (
    ASK,
    EXAMPLES,
    METRICS,
    RESIDUALS,
    SUMMARY,
    SUMS,
    check_model,
    reply,
    site_of,
)
from fedconformal.engines.flower.sums_site import later_step, site_policy, sums_reply
from fedconformal.federated import temperature
from fedconformal.federated.calibration import FORMAT, Question
from fedconformal.federated.evaluation import counts_of
from fedconformal.federated.risk import read_question
from fedconformal.privacy.policy import Leaving, count_patients
from fedconformal.summaries import Summary, pool

logger = logging.getLogger(__name__)

KEPT = "predictor"


def calibrate_reply(
    msg: Message,
    context: Context,
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    groups: Groups | None = None,
    ids: Iterable[Any] | None = None,
) -> Message:
    """Answer `query.calibrate`: score the rows that were kept for it, and send a summary of the scores.

    In a sums session nothing but masked counts is sent, in many messages. Only the first of them has a model; later
    ones make no use of logits and labels (`later_step` tells).

    Args:
        msg: the server's; it says which score, temperature and kind of summary.
        context: says who this site is.
        logits: of the model in the message, (n, J); or, where a limit on losses is wanted, its scores in [0, 1].
        labels: (n,) class indices; or the truth in the shape of the scores.
        groups: columns with a value a row, such as {"sex": [...]}, for a guarantee by group.
        ids: of the patients, one a row, which stay here: the site's policy may want a number of different ones.
    """
    if later_step(msg):
        return sums_reply(msg, context)
    question = read_question(msg.content.config_records[ASK])
    sums = isinstance(question, Question) and question.kind == SUMS
    if not sums:  # `sums_reply` looks at it itself
        check_model(msg, question.model)
    asked = replace(question, kind="exact") if isinstance(question, Question) and sums else question
    if own := sorted(context.state.array_records.keys() - {RESIDUALS}):
        logger.warning(
            "this site keeps arrays of its own (%s), and its scores carry the fingerprint of the global model; "
            "if the logits are of a personal model, the promise is for that model here, not for the global one",
            ", ".join(own),
        )
    summary = asked.answer(logits, labels, site=site_of(context).name, groups=groups)
    return (sums_reply if sums else summary_reply)(msg, context, summary, patients=count_patients(ids))


def pooled_reply(
    msg: Message, context: Context, summaries: Sequence[Summary], left_out: Sequence[LeftOut] = ()
) -> Message:
    """Answer `query.calibrate` for many sites at once: an aggregator pools their summaries and forwards one."""
    pooled = summary_reply(msg, context, pool(summaries))
    record = pooled.content.config_records[SUMMARY]
    record["left-out"] = [f"{one.site}\n{one.reason}" for one in left_out]  # also if empty: it marks an aggregator
    return pooled


def summary_reply(msg: Message, context: Context, summary: Summary, *, patients: int | None = None) -> Message:
    """Wrap a summary as the server reads it, unless the site's policy is against it."""
    named: Any = msg.content.config_records[ASK].get("guarantee")
    site_policy(context).check(Leaving.of(summary, guarantee=named, patients=patients))
    made = _reply(msg, context, {EXAMPLES: summary.n})
    made.content[SUMMARY] = ConfigRecord({"data": summary.to_bytes(), "format": FORMAT})
    return made


def temperature_reply(msg: Message, context: Context, logits: ArrayLike, labels: ArrayLike) -> Message:
    """Answer `query.temperature`: three sums over the rows that were kept for it, at each inverse temperature asked."""
    points: Any = msg.content.config_records[ASK]["points"]
    sums: dict[str, Any] = temperature.answer(points, logits, labels)
    return _reply(msg, context, {EXAMPLES: len(np.asarray(labels)), **sums})


def evaluate_reply(
    msg: Message, context: Context, logits: ArrayLike, labels: ArrayLike, *, groups: Groups | None = None
) -> Message:
    """Answer `evaluate`: how often the predictor's sets hold the label of the site's own test rows, or every label."""
    counts = counts_of(
        _predictor(msg.content.config_records[ASK]), logits, labels, groups, site_of(context).name
    )._asdict()
    return _reply(msg, context, {EXAMPLES: counts.pop("rows"), **counts})


def keep_predictor(msg: Message, context: Context) -> Message:
    """Answer `query.predictor`: check it and keep it, in the file that `predictor` in the node config names.

    Without such a file it stays in the context's state, for the length of the run.
    """
    data = _predictor(msg.content.config_records[ASK]).to_bytes()
    path = context.node_config.get("predictor")
    if path is None:
        context.state[KEPT] = ConfigRecord({"data": data})
    else:
        write_bytes(Path(str(path)), data)
    return _reply(msg, context, {EXAMPLES: 1})


def _predictor(asked: Any) -> AnyPredictor:
    return as_predictor(read_document(asked["predictor"]))


def _reply(msg: Message, context: Context, metrics: dict[str, Any]) -> Message:
    return reply(msg, context, {METRICS: MetricRecord(metrics)})
