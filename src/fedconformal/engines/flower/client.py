"""Replies of a site: each computes one small message from the model's outputs, which stay at the site.

In a sums session each message of the server is one step with one reply. Scores, the site's keys and its progress are
stored in the context's state, at the site, between messages. A deployment starts a new process with a copy of the
context for each message, so two concurrent messages would see the same state and get inconsistent answers: two lists
of sites, whose sums differ by one site. Therefore messages are answered one at a time, and a file at the site (`Turn`)
records the last one: a copy of an older state is refused.
"""

from __future__ import annotations

import getpass
import hashlib
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from flwr.app import ConfigRecord, Context, Message
from numpy.typing import ArrayLike

from fedconformal._base.arrays import scores_of
from fedconformal._base.files import read_bytes, write_bytes
from fedconformal.calibration.predictor import Predictor, check_coverage
from fedconformal.engines.flower.records import ARRAYS, FEATURES, NETWORK, fingerprint, question_in, reply, site_of
from fedconformal.errors import InputError
from fedconformal.federated.calibration import TemperatureQuestion
from fedconformal.federated.evaluation import EvaluationQuestion, PredictorQuestion
from fedconformal.federated.questions import Outputs, ScoreQuestion
from fedconformal.federated.sums import SumsStep
from fedconformal.federated.watch import Source, WatchQuestion
from fedconformal.privacy.ledger import locked, read_ledger, rows_of, spending
from fedconformal.privacy.policy import Outgoing, Policy, count_patients, policy_of
from fedconformal.privacy.signatures import read_trusted
from fedconformal.privacy.sums.messages import Invite, letter_of
from fedconformal.privacy.sums.site import enter_sums, recall_sessions, row_digests, site_from, step, with_new_keys
from fedconformal.privacy.sums.state import SiteState, decode_state, encode_state
from fedconformal.summaries import Summary

logger = logging.getLogger(__name__)

SUMS = "fedconformal.sums"
"""Name of the record of a session in a site's state."""


def calibrate_reply(msg: Message, context: Context, outputs: ArrayLike, truth: ArrayLike, **rows: Any) -> Message:
    """Answer `query.calibrate` with a summary of the scores of rows that were not used for fitting.

    In a sums session only masked counts are sent, in many messages. Only the first of them has a model; later ones need
    neither outputs nor truth (see `later_step`).

    Parameters
    ----------
    msg, context
        The server's question, and the context of this site.
    outputs
        (n, J) logits of the model in the message; or a regressor's predictions.
    truth
        (n,) class indices or names; or true numbers.
    **rows
        `probabilities=True` if the outputs are probabilities; `classes`, the names in the order of the label indices;
        `groups`, columns for a guarantee by group; `ids` of patients, for the site's policy, which are not sent.
    """
    question = question_in(msg, ScoreQuestion | SumsStep)
    if isinstance(question, SumsStep) and question.scores is None:
        return sums_reply(msg, context)
    if own := sorted(context.state.array_records.keys() - {NETWORK, FEATURES}):
        logger.warning(
            "this site keeps arrays of its own (%s), and its scores carry the fingerprint of the global model; "
            "if the logits are of a personal model, the promise is for that model here, not for the global one",
            ", ".join(own),
        )
    found, site = Outputs(outputs=outputs, truth=truth, **rows), site_of(context, msg).name
    if isinstance(question, SumsStep) and question.scores is not None:
        summary = question.scores.summarize(found, site=site)
        return sums_reply(msg, context, summary, patients=count_patients(found.ids))
    return reply(msg, context, question.answer(found, site=site, model=_model_of(msg), policy=site_policy(context)))


def evaluate_reply(msg: Message, context: Context, outputs: ArrayLike, truth: ArrayLike, **rows: Any) -> Message:
    """Answer `query.evaluate` with counts of sets or intervals on the site's own test rows.

    The parameters are those of `calibrate_reply`.
    """
    question: EvaluationQuestion = question_in(msg, EvaluationQuestion)
    found, site = Outputs(outputs=outputs, truth=truth, **rows), site_of(context, msg).name
    return reply(msg, context, question.answer(found, site=site, model=_model_of(msg), policy=site_policy(context)))


def temperature_reply(msg: Message, context: Context, outputs: ArrayLike, truth: ArrayLike, **rows: Any) -> Message:
    """Answer `query.temperature` with three sums over the rows held out for it, at each inverse temperature.

    The parameters are those of `calibrate_reply`.
    """
    question: TemperatureQuestion = question_in(msg, TemperatureQuestion)
    found = Outputs(outputs=outputs, truth=truth, **rows)
    return reply(msg, context, question.answer(found, model=_model_of(msg), policy=site_policy(context)))


def keep_predictor(msg: Message, context: Context) -> Message:
    """Answer `query.broadcast`: check the predictor, and write it to the file `predictor` of the node config."""
    data = check_coverage(Predictor.from_bytes(question_in(msg, PredictorQuestion).predictor)).to_bytes()
    if (path := _named(context, "predictor")) is not None:
        write_bytes(path, data)
    return reply(msg, context, b"")


def watch_reply(msg: Message, context: Context, source: Source | None = None) -> Message:
    """Answer `query.watch` with the counts of the site's monitor.

    Parameters
    ----------
    msg, context
        The server's question, and the context of this site.
    source
        A .fcw file, or a function that returns the messages sent so far, such as `Watch.sent`; by default the file
        `watch` of the node config.
    """
    origin = source or _named(context, "watch")
    if origin is None:
        raise InputError("this site names no watch: pass a source, or give it watch='FILE.fcw' in the node config")
    question: WatchQuestion = question_in(msg, WatchQuestion)
    return reply(msg, context, question.answer(origin, site=site_of(context, msg).name, policy=site_policy(context)))


def later_step(msg: Message) -> bool:
    """Return whether this is a later step of a sums session, which needs neither model nor rows."""
    return ARRAYS not in msg.content


def sums_reply(
    msg: Message, context: Context, summary: Summary | None = None, *, patients: int | None = None
) -> Message:
    """Run one step of a sums session; `summary` holds all scores at the first step, and is not sent.

    In the node config, `key` is the file of the site's lasting private key, and `signed` that of the public keys
    required of all sites.
    """
    message = question_in(msg, SumsStep).message
    if summary is not None and _model_of(msg) != summary.provenance.model:
        raise InputError("the model in the message is not the one in the question")
    path = _turn_file(context)
    with locked(path, wait=True):
        last = msgspec.msgpack.decode(read_bytes(path), type=Turn) if path.exists() else None
        if last is not None and last.asked == hashlib.sha256(message).digest():
            return reply(msg, context, last.reply)
        state = _stored_state(context, last) if summary is None else _new_state(context, summary, last, patients)
        invited, key = letter_of(message) == Invite.letter.encode(), _named(context, "key")
        if invited and summary is None:  # another session, with new keys
            state = with_new_keys(state)
        before = state
        state, sent = step(state, message, read_bytes(key) if invited and key else None)
        site_policy(context).check(Outgoing.of_sums(state))
        _pay(_named(context, "ledger"), before, state)
        enter_sums(before, state)
        turn = Turn(
            state.signing.public, state.asked, sent, row_digests(state), state.summed, state.sessions + state.counts
        )
        write_bytes(path, msgspec.msgpack.encode(turn), private=True)  # before anything is sent
        context.state[SUMS] = ConfigRecord({"data": encode_state(state)})
    return reply(msg, context, sent)


class Turn(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """The last message that a site answered in a run, and the run's record of its rows, without secrets."""

    signing: bytes
    asked: bytes
    reply: bytes
    rows: list[str]
    """Digests that identify the rows."""
    summed: str
    sessions: int


def _turn_file(context: Context) -> Path:
    """Return the path of the run's `Turn`: next to the ledger, or in a private folder of this user."""
    name = f".sums-{hashlib.sha256(f'{context.run_id} {context.node_id}'.encode()).hexdigest()[:32]}"
    if (ledger := _named(context, "ledger")) is not None:
        return ledger.resolve().with_name(name)
    user = getattr(os, "getuid", getpass.getuser)()
    folder = Path(tempfile.gettempdir()) / f"fedconformal-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise InputError(f"{folder}: cannot be created ({error.strerror}); name a ledger in the node config") from None
    if hasattr(os, "getuid") and (status.st_uid != user or status.st_mode & 0o077):
        raise InputError(f"{folder}: is not this user's own; name a ledger in the node config")
    return folder / name


def _new_state(context: Context, summary: Summary, last: Turn | None, patients: int | None) -> SiteState:
    """Return a new site with the records of its ledger (`ledger` of the node config), or else of this run."""
    signed, ledger = _named(context, "signed"), _named(context, "ledger")
    state = site_from(summary, read_trusted(signed) if signed else None)
    state = msgspec.structs.replace(state, patients=patients)
    if ledger is not None:
        return recall_sessions(state, ledger)
    if last is None or set(last.rows).isdisjoint(row_digests(state)):
        return state
    return msgspec.structs.replace(state, summed=last.summed, sessions=last.sessions)


def _stored_state(context: Context, last: Turn | None) -> SiteState:
    """Return the stored state, which must be that of the last answer."""
    if SUMS not in context.state or last is None:
        raise InputError("this site has not joined a sums session, or has lost its state")
    state = decode_state(context.state.config_records[SUMS]["data"])  # type: ignore[arg-type]
    if (state.signing.public, state.asked) != (last.signing, last.asked):
        raise InputError("this site has answered another message of this run meanwhile; ask one at a time")
    return state


def _pay(ledger: Path | None, before: SiteState, state: SiteState) -> None:
    """Enter epsilon in the ledger with the first answer, which others may open; check it at the invitation."""
    epsilon = None if state.invite is None else state.invite.epsilon
    answers = before.stage == "waiting" and state.stage == "answered"
    if ledger is not None and epsilon is not None and (answers or before.invite is None):
        rows = rows_of([Summary.of_scores(scores_of(state.keys), kind="exact", site=state.name)])
        if not answers:
            read_ledger(ledger).spend(rows, epsilon, "noisy sum")
            return
        with spending(ledger, rows, epsilon, "noisy sum"):
            pass


def _model_of(msg: Message) -> str:
    return fingerprint(msg.content.array_records[ARRAYS])


def _named(context: Context, what: str) -> Path | None:
    """Return the path of a file in the node config."""
    return Path(str(context.node_config[what])) if what in context.node_config else None


def site_policy(context: Context) -> Policy:
    """Return the policy in the file `policy` of the node config, or in FEDCONFORMAL_POLICY."""
    return policy_of(_named(context, "policy"))
