"""A site's part of a sums session over Flower: each message of the server is one step, and one message goes back.

The scores, the site's keys and its progress are kept in the context's state, at the site, from one message to the next.
The model comes with the first message only.

A deployment starts a new process for each message, with a copy of the context, so two messages at once would each find
the same state and get answers that do not go together: two lists of sites, whose sums differ by one site. So one at a
time is answered, and a file at the site (`Turn`) says which was the last: a copy of an older state answers nothing.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import tempfile
from pathlib import Path

import msgspec
from flwr.app import ConfigRecord, Context, Message

from fedconformal._base.files import read_bytes, write_bytes
from fedconformal._base.float_bits import scores_of
from fedconformal.engines.flower.records import ARRAYS, ASK, fingerprint, reply
from fedconformal.errors import InputError
from fedconformal.federated.sums import FORMAT
from fedconformal.privacy.ledger import locked, read_ledger, rows_of, spending
from fedconformal.privacy.policy import Outgoing, Policy, policy_of
from fedconformal.privacy.signatures import read_trusted
from fedconformal.privacy.sums.messages import Invite, letter_of
from fedconformal.privacy.sums.site import known_by, note, recalled, renewed, site_from, step
from fedconformal.privacy.sums.state import SiteState, decode_state, encode_state
from fedconformal.summaries import Summary

KEPT = "fedconformal.sums"


class Turn(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """The last message that a site answered in a run, and what the run remembers of its rows; no secrets."""

    signing: bytes
    """The public key of the session."""
    asked: bytes
    """The SHA-256 of the message."""
    reply: bytes
    rows: list[str]
    """By what they are known."""
    summed: str
    sessions: int


def later_step(msg: Message) -> bool:
    """Tell whether this asks for a later step of a sums session, which needs neither model nor rows."""
    return "message" in msg.content.config_records[ASK] and ARRAYS not in msg.content


def sums_reply(
    msg: Message, context: Context, summary: Summary | None = None, *, patients: int | None = None
) -> Message:
    """Take one step of a sums session; `summary` holds all scores, at the first step, and stays here.

    In the node config, `key` names the file of the private key by which other sites know this one, and `signed` that of
    the public keys that all sites have to join with.
    """
    message = msg.content.config_records[ASK].get("message")
    if not isinstance(message, bytes):
        raise InputError("the message of the sums session is missing")
    if summary is not None and fingerprint(msg.content.array_records[ARRAYS]) != summary.provenance.model:
        raise InputError("the model in the message is not the one that is asked about")
    path = _turn_file(context)
    with locked(path, wait=True):
        last = msgspec.msgpack.decode(read_bytes(path), type=Turn) if path.exists() else None
        repeated = last is not None and last.asked == hashlib.sha256(message).digest()
        if last is not None and repeated:
            sent = last.reply
        else:
            sent = _answered(context, message, summary, last, path, patients)
    return reply(msg, context, {"data": sent, "format": FORMAT})


def _answered(
    context: Context, message: bytes, summary: Summary | None, last: Turn | None, path: Path, patients: int | None
) -> bytes:
    """Take the step, and keep the state and whose turn it was before anything is sent."""
    state = _kept(context, last) if summary is None else _fresh(context, summary, last)
    invited, key = letter_of(message) == Invite.letter.encode(), _named(context, "key")
    if invited and summary is None:  # another session, with new keys
        state = renewed(state)
    elif invited:
        state = msgspec.structs.replace(state, patients=patients)
    before = state
    state, sent = step(state, message, read_bytes(key) if invited and key else None)
    site_policy(context).check(Outgoing.of_sums(state))
    _pay(context, before, state)
    note(before, state)
    done = Turn(state.signing.public, state.asked, sent, known_by(state), state.summed, state.sessions + state.counts)
    write_bytes(path, msgspec.msgpack.encode(done), private=True)
    context.state[KEPT] = ConfigRecord({"data": encode_state(state)})
    return sent


def _turn_file(context: Context) -> Path:
    """Return where whose turn it was is kept for this run: beside the ledger, or in a folder of this user's own."""
    name = f".sums-{hashlib.sha256(f'{context.run_id} {context.node_id}'.encode()).hexdigest()[:32]}"
    if (ledger := _named(context, "ledger")) is not None:
        return ledger.resolve().with_name(name)
    user = getattr(os, "getuid", getpass.getuser)()
    folder = Path(tempfile.gettempdir()) / f"fedconformal-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); name a ledger in the node config") from None
    if hasattr(os, "getuid") and (found.st_uid != user or found.st_mode & 0o077):
        raise InputError(f"{folder}: is not this user's own; name a ledger in the node config")
    return folder / name


def _fresh(context: Context, summary: Summary, last: Turn | None) -> SiteState:
    """Make a site that knows what its ledger (`ledger` in the node config), or else this run, remembers."""
    signed, ledger = _named(context, "signed"), _named(context, "ledger")
    state = site_from(summary, read_trusted(signed) if signed else None)
    if ledger is not None:
        return recalled(state, ledger)
    if last is None or set(last.rows).isdisjoint(known_by(state)):
        return state
    return msgspec.structs.replace(state, summed=last.summed, sessions=last.sessions)


def _named(context: Context, what: str) -> Path | None:
    """Return the path of a file that the node config names."""
    return Path(str(context.node_config[what])) if what in context.node_config else None


def site_policy(context: Context) -> Policy:
    """Return the policy in the file that `policy` in the node config names, or FEDCONFORMAL_POLICY."""
    return policy_of(_named(context, "policy"))


def _pay(context: Context, before: SiteState, state: SiteState) -> None:
    """Enter epsilon in the file that `ledger` in the node config names, before noisy counts leave; look there first.

    An invitation alone spends nothing. The first answer does, as others may open it without this site.
    """
    path, epsilon = _named(context, "ledger"), None if state.invite is None else state.invite.epsilon
    answers = before.stage == "waiting" and state.stage == "answered"
    if path is not None and epsilon is not None and (answers or before.invite is None):
        rows = rows_of([Summary.of_scores(scores_of(state.keys), kind="exact", site=state.name)])
        if not answers:
            read_ledger(path).spend(rows, epsilon, "noisy sum")
            return
        with spending(path, rows, epsilon, "noisy sum"):
            pass


def _kept(context: Context, last: Turn | None) -> SiteState:
    """Return the state, if it is that of the last answer."""
    if KEPT not in context.state or last is None:
        raise InputError("this site has not joined a sums session, or has lost its state")
    state = decode_state(context.state.config_records[KEPT]["data"], SiteState)  # type: ignore[arg-type]
    if (state.signing.public, state.asked) != (last.signing, last.asked):
        raise InputError("this site has answered another message of this run meanwhile; ask one at a time")
    return state
