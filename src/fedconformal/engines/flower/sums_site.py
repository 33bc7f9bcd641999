"""A site's part of a sums session over Flower: each message of the server is one step, and one message goes back.

The scores, the site's keys and its progress are kept in the context's state, at the site, from one message to the next;
a deployment starts a new process for each. The model comes with the first message only.
"""

from __future__ import annotations

from collections.abc import Mapping

from flwr.app import ConfigRecord, Context, Message

from fedconformal.engines.flower.records import ARRAYS, ASK, SUMS, reply
from fedconformal.errors import InputError
from fedconformal.privacy.sums.messages import Invite, letter_of
from fedconformal.privacy.sums.site import renewed, site_from, step
from fedconformal.privacy.sums.state import SiteState, decode_state, encode_state
from fedconformal.summaries import Summary

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
    state = _kept(context) if summary is None else site_from(summary, trusted)
    if summary is None and letter_of(message) == Invite.letter.encode():  # another session, with new keys
        state = renewed(state)
    state, sent = step(state, message, key)
    context.state[KEPT] = ConfigRecord({"data": encode_state(state)})
    return reply(msg, context, {SUMS: ConfigRecord({"data": sent, "format": FORMAT})})


def _kept(context: Context) -> SiteState:
    if KEPT not in context.state:
        raise InputError("this site has not joined a sums session, or has lost its state")
    return decode_state(context.state.config_records[KEPT]["data"], SiteState)  # type: ignore[arg-type]
