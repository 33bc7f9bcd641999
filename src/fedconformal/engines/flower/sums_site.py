"""A site's part of a sums session over Flower: each message of the server is one step, and one message goes back.

The scores, the site's keys and its progress are kept in the context's state, at the site, from one message to the next;
a deployment starts a new process for each. The model comes with the first message only.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from flwr.app import ConfigRecord, Context, Message

from fedconformal._base.files import read_bytes
from fedconformal._base.float_bits import scores_of
from fedconformal.engines.flower.records import ARRAYS, ASK, SUMS, reply
from fedconformal.errors import InputError
from fedconformal.privacy.ledger import rows_of, spending
from fedconformal.privacy.policy import Leaving, Policy
from fedconformal.privacy.policy_file import policy_of
from fedconformal.privacy.signatures import read_trusted
from fedconformal.privacy.sums.memory import known_by, note, recalled
from fedconformal.privacy.sums.messages import Invite, letter_of
from fedconformal.privacy.sums.site import renewed, site_from, step
from fedconformal.privacy.sums.state import SiteState, decode_state, encode_state
from fedconformal.summaries import Summary, summarize

FORMAT = "fcm2"
KEPT = "fedconformal.sums"


def later_step(msg: Message) -> bool:
    """Tell whether this asks for a later step of a sums session, which needs neither model nor rows."""
    return msg.content.config_records[ASK].get("kind") == SUMS and ARRAYS not in msg.content


def sums_reply(msg: Message, context: Context, summary: Summary | None = None) -> Message:
    """Take one step of a sums session; `summary` holds all scores, at the first step, and stays here.

    In the node config, `key` names the file of the private key by which other sites know this one, and `signed` that of
    the public keys that all sites have to join with.
    """
    message = msg.content.config_records[SUMS]["data"]
    if not isinstance(message, bytes):
        raise InputError("the message of the sums session is missing")
    state = _kept(context) if summary is None else _fresh(context, summary)
    invited, key = letter_of(message) == Invite.letter.encode(), _named(context, "key")
    if invited and summary is None:  # another session, with new keys
        state = renewed(state)
    before = state
    state, sent = step(state, message, read_bytes(key) if invited and key else None)
    site_policy(context).check(Leaving.of_sums(state))
    if invited:
        _pay(context, state)
    note(before, state)
    context.state[KEPT] = ConfigRecord({"data": encode_state(state)})
    return reply(msg, context, {SUMS: ConfigRecord({"data": sent, "format": FORMAT})})


def _fresh(context: Context, summary: Summary) -> SiteState:
    """Make a site that knows what its ledger (`ledger` in the node config), or else this run, remembers."""
    signed, ledger = _named(context, "signed"), _named(context, "ledger")
    state = site_from(summary, read_trusted(signed) if signed else None)
    if ledger is not None:
        return recalled(state, ledger)
    known = _kept(context) if KEPT in context.state else state
    same = not set(known_by(known)).isdisjoint(known_by(state))
    return msgspec.structs.replace(state, summed=known.summed) if same else state


def _named(context: Context, what: str) -> Path | None:
    """Return the path of a file that the node config names."""
    return Path(str(context.node_config[what])) if what in context.node_config else None


def site_policy(context: Context) -> Policy:
    """Return the policy in the file that `policy` in the node config names, or FEDCONFORMAL_POLICY."""
    return policy_of(_named(context, "policy"))


def _pay(context: Context, state: SiteState) -> None:
    """Enter epsilon in the file that `ledger` in the node config names: a site that joins will answer."""
    path, epsilon = _named(context, "ledger"), None if state.invite is None else state.invite.epsilon
    if path is not None and epsilon is not None:
        own = summarize(scores_of(state.keys), kind="exact", site=state.name)
        with spending(path, rows_of([own]), epsilon, "noisy sum"):
            pass


def _kept(context: Context) -> SiteState:
    if KEPT not in context.state:
        raise InputError("this site has not joined a sums session, or has lost its state")
    return decode_state(context.state.config_records[KEPT]["data"], SiteState)  # type: ignore[arg-type]
