"""A site's part of a sums session over Flower: each message of the server is one step, and one message goes back.

The scores, the site's keys and its progress are kept in the context's state, at the site, from one message to the next;
a deployment starts a new process for each. The model comes with the first message only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from flwr.app import ConfigRecord, Context, Message

from fedconformal._base.float_bits import score_of
from fedconformal.engines.flower.records import ARRAYS, ASK, SUMS, reply
from fedconformal.errors import InputError
from fedconformal.privacy.ledger import rows_of, spending
from fedconformal.privacy.policy import Leaving, Policy
from fedconformal.privacy.policy_file import policy_of
from fedconformal.privacy.sums.memory import note, recalled, rows_digest
from fedconformal.privacy.sums.messages import Invite, letter_of
from fedconformal.privacy.sums.site import renewed, site_from, step
from fedconformal.privacy.sums.state import SiteState, decode_state, encode_state
from fedconformal.summaries import Summary, summarize

FORMAT = "fcm2"
KEPT = "fedconformal.sums"


def later_step(msg: Message) -> bool:
    """Tell whether this asks for a later step of a sums session, which needs neither model nor rows."""
    return msg.content.config_records[ASK].get("kind") == SUMS and ARRAYS not in msg.content


def sums_reply(
    msg: Message,
    context: Context,
    summary: Summary | None = None,
    *,
    key: bytes | None = None,
    trusted: Mapping[str, str] | None = None,
) -> Message:
    """Take one step of a sums session.

    Args:
        msg: the server's message.
        context: this site's; its state keeps the scores and keys of the session.
        summary: all scores, at the first step; it stays here.
        key: this site's private key (`fedconformal.privacy.new_key`), by which others know it; it is not kept.
        trusted: the public keys that all sites have to join with, by site; a session with another one is refused.
    """
    message = msg.content.config_records[SUMS]["data"]
    if not isinstance(message, bytes):
        raise InputError("the message of the sums session is missing")
    state = _kept(context) if summary is None else _fresh(context, summary, trusted)
    if summary is None and letter_of(message) == Invite.letter.encode():  # another session, with new keys
        state = renewed(state)
    before = state
    state, sent = step(state, message, key)
    site_policy(context).check(Leaving.of_sums(state))
    if letter_of(message) == Invite.letter.encode():
        _pay(context, state)
    note(before, state)
    context.state[KEPT] = ConfigRecord({"data": encode_state(state)})
    return reply(msg, context, {SUMS: ConfigRecord({"data": sent, "format": FORMAT})})


def _fresh(context: Context, summary: Summary, trusted: Mapping[str, str] | None) -> SiteState:
    """Make a site that knows what its ledger (`ledger` in the node config), or else this run, remembers."""
    state, ledger = site_from(summary, trusted), context.node_config.get("ledger")
    if ledger is not None:
        return recalled(state, Path(str(ledger)))
    known = _kept(context) if KEPT in context.state else state
    same = rows_digest(known) == rows_digest(state)
    return msgspec.structs.replace(state, summed=known.summed) if same else state


def site_policy(context: Context) -> Policy:
    """Return the policy in the file that `policy` in the node config names, or FEDCONFORMAL_POLICY."""
    named = context.node_config.get("policy")
    return policy_of(None if named is None else str(named))


def _pay(context: Context, state: SiteState) -> None:
    """Enter epsilon in the file that `ledger` in the node config names: a site that joins will answer."""
    path, epsilon = context.node_config.get("ledger"), None if state.invite is None else state.invite.epsilon
    if path is not None and epsilon is not None:
        own = summarize([score_of(int(key)) for key in state.keys], kind="exact", site=state.name)
        with spending(Path(str(path)), rows_of([own]), epsilon, "noisy sum"):
            pass


def _kept(context: Context) -> SiteState:
    if KEPT not in context.state:
        raise InputError("this site has not joined a sums session, or has lost its state")
    return decode_state(context.state.config_records[KEPT]["data"], SiteState)  # type: ignore[arg-type]
