"""Replies of a site: each turns its model's outputs, which stay with it, into one small message."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message
from numpy.typing import ArrayLike

from fedconformal._base.files import write_bytes
from fedconformal._base.groups import Groups
from fedconformal.engines.flower.records import ARRAYS, ASK, TCT_STATE, fingerprint, reply, site_of
from fedconformal.engines.flower.sums_site import later_step, site_policy, sums_reply
from fedconformal.errors import InputError
from fedconformal.federated.evaluation import EvaluationQuestion
from fedconformal.federated.questions import Outputs, ScoreQuestion, read_question
from fedconformal.federated.sums import SUMS
from fedconformal.federated.temperature import TemperatureQuestion
from fedconformal.federated.watch import Source, WatchQuestion
from fedconformal.privacy.policy import count_patients
from fedconformal.summaries import Summary

logger = logging.getLogger(__name__)

KEPT = "predictor"


def calibrate_reply(
    msg: Message,
    context: Context,
    outputs: ArrayLike,
    truth: ArrayLike,
    *,
    probabilities: bool = False,
    classes: Sequence[str] | None = None,
    groups: Groups | None = None,
    ids: Iterable[Any] | None = None,
) -> Message:
    """Answer `query.calibrate`: score rows that nothing was fitted to, and send a summary of the scores.

    In a sums session only masked counts are sent, in many messages. Only the first of them has a model; later ones use
    neither outputs nor truth (`later_step` tells).

    Parameters
    ----------
    msg
        The server's question.
    context
        Of this site.
    outputs
        (n, J) logits of the model in the message; a regressor's predictions; scores in [0, 1] for a loss.
    truth
        (n,) class indices or names; true numbers; the truth in the shape of the scores.
    probabilities
        Whether the outputs are probabilities, which may be zero.
    classes
        The class names in the order of the site's label indices.
    groups
        Columns with one value a row, such as {"sex": [...]}, for a guarantee by group.
    ids
        Patient ids, one a row; they stay here, for the site's policy.
    """
    if later_step(msg):
        return sums_reply(msg, context)
    question = read_question(msg.content.config_records[ASK])
    if own := sorted(context.state.array_records.keys() - {*TCT_STATE}):
        logger.warning(
            "this site keeps arrays of its own (%s), and its scores carry the fingerprint of the global model; "
            "if the logits are of a personal model, the promise is for that model here, not for the global one",
            ", ".join(own),
        )
    site = site_of(context, msg).name
    rows = Outputs(outputs=outputs, truth=truth, probabilities=probabilities, classes=classes, groups=groups, ids=ids)
    if isinstance(question, ScoreQuestion) and question.kind == SUMS:
        summary = replace(question, kind="exact").summarize(rows, site=site)
        return sums_reply(msg, context, summary, patients=count_patients(ids))
    return reply(msg, context, question.answer(rows, site=site, **_asked(msg, context)))


def _asked(msg: Message, context: Context) -> dict[str, Any]:
    """Return the fingerprint of the message's model, and the policy of the site."""
    return {"model": fingerprint(msg.content.array_records[ARRAYS]), "policy": site_policy(context)}


def summary_reply(msg: Message, context: Context, summary: Summary) -> Message:
    """Answer `query.calibrate` with a summary that is there already."""
    question = read_question(msg.content.config_records[ASK])
    return reply(msg, context, question.reply(summary, policy=site_policy(context)))


def temperature_reply(msg: Message, context: Context, logits: ArrayLike, labels: ArrayLike) -> Message:
    """Answer `query.temperature`: three sums over the rows that were kept for it, at each inverse temperature asked."""
    question = TemperatureQuestion.from_dict(msg.content.config_records[ASK])
    return reply(msg, context, question.answer(logits, labels, **_asked(msg, context)))


def evaluate_reply(
    msg: Message,
    context: Context,
    outputs: ArrayLike,
    truth: ArrayLike,
    *,
    probabilities: bool = False,
    groups: Groups | None = None,
    ids: Iterable[Any] | None = None,
) -> Message:
    """Answer `query.evaluate`: count how often sets or intervals hold the truth of the site's own test rows."""
    question = EvaluationQuestion.from_dict(msg.content.config_records[ASK])
    rows = Outputs(outputs=outputs, truth=truth, probabilities=probabilities, groups=groups, ids=ids)
    return reply(msg, context, question.answer(rows, site=site_of(context, msg).name, **_asked(msg, context)))


def keep_predictor(msg: Message, context: Context) -> Message:
    """Answer `query.broadcast`: check it and keep it, in the file that `predictor` in the node config names.

    Without such a file it stays in the context's state, for the length of the run.
    """
    data = EvaluationQuestion.from_dict(msg.content.config_records[ASK]).predictor.to_bytes()
    path = context.node_config.get("predictor")
    if path is None:
        context.state[KEPT] = ConfigRecord({"data": data})
    else:
        write_bytes(Path(str(path)), data)
    return reply(msg, context, {})


def watch_reply(msg: Message, context: Context, source: Source | None = None) -> Message:
    """Answer `query.watch`: send the counts of the site's monitor, nothing about a row.

    Parameters
    ----------
    msg
        The server's question.
    context
        Of this site.
    source
        A .fcw file, or a function that returns the messages sent so far, such as `Watch.sent`; by default the file that
        `watch` in the node config names.
    """
    named: Any = context.node_config.get("watch") if source is None else source
    if named is None:
        raise InputError("this site names no watch: pass a source, or give it watch='FILE.fcw' in the node config")
    question = WatchQuestion.from_dict(msg.content.config_records[ASK])
    return reply(msg, context, question.answer(named, site=site_of(context, msg).name, policy=site_policy(context)))
