"""What a file of a sums session is and who learns what from it, for `fedconformal show`."""

from __future__ import annotations

from typing import Any

import msgspec

from fedconformal._base.arrays import ALPHA_UNIT
from fedconformal.errors import InputError
from fedconformal.guarantees.by_class import name_of
from fedconformal.privacy.sums.messages import MAGIC, OLD, PREFIX, Invite, letter_of, unpack
from fedconformal.privacy.sums.session import guarantee_of
from fedconformal.privacy.sums.state import CoordinatorState, SiteState, check_state, decode_state

SHOWN = {
    "J": "of one site its name, its number of scores, its public keys, and the score and model that it used",
    "R": "of all sites that joined their names, numbers of scores and public keys",
    "Q": "in which cell the threshold is, as far as it is known",
    "A": "nothing of the counts, which are masked: only their sum over all sites can be seen",
}
"""What a message shows, by its letter; the others hold sealed shares, signatures and parts of masks."""

STATES = (
    (
        SiteState,
        "a site's state of a sums session",
        "every calibration score of the site and its private keys; it is never sent",
    ),
    (CoordinatorState, "the coordinator's state of a sums session", "its private key; it is never sent"),
)


def session_file(data: bytes) -> tuple[str, dict[str, Any], list[str]] | None:
    """Say what a file of a session is, what it holds and who learns what from it; None if it is no such file."""
    for kind, what, learns in STATES:
        try:
            decode_state(data, kind)
        except InputError:
            continue
        return what, {}, [f"Anyone with this file learns {learns}."]
    try:
        check_state(data)
    except InputError:
        return _message_file(data)
    return "a state of a sums session of another release", {}, ["It may hold scores and keys; sums close wipes it."]


def _message_file(data: bytes) -> tuple[str, dict[str, Any], list[str]] | None:
    try:
        messages = msgspec.msgpack.decode(data, type=list[bytes])
    except (msgspec.DecodeError, RecursionError):
        messages = [data]
    if not messages or not all(one.startswith((MAGIC, OLD)) and len(one) > PREFIX for one in messages):
        return None
    if any(one.startswith(OLD) for one in messages):
        return "messages of a sums session of an older release", {"messages": len(messages)}, []
    letters = [letter_of(one).decode(errors="replace") for one in messages]
    holds: dict[str, Any] = {}
    if letters == ["I"]:
        invite = unpack(messages[0], Invite)
        holds = {"alpha": invite.alpha / ALPHA_UNIT, "guarantee": name_of(guarantee_of(invite).to_dict())}
        if losses := invite.losses:
            holds |= {"limit of the expected loss": losses.limit, "bound of a loss": losses.bound}
            holds |= {"thresholds": len(losses.grid) // 8, "safe action": losses.safe}
        if invite.exponent:
            holds["cells are fine up to"] = 2.0 ** (invite.exponent + 1)
        if invite.epsilon is not None:
            holds |= {"epsilon": invite.epsilon, "cells": len(invite.grid)}
        else:
            holds |= {
                "rounds at most": len(invite.widths),
                "least rows in a cell": invite.least or "1, to the last bit",
            }
        return "the invitation to a sums session", holds, ["It says what will be computed, and nothing of any site."]
    shows = sorted({SHOWN[letter] for letter in letters if letter in SHOWN})
    learns = f"Anyone with this file learns {'; '.join(shows)}." if shows else "It shows nothing of any row."
    return "messages of a sums session", {"messages": len(messages)}, [learns]
