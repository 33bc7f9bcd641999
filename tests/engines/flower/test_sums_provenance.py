"""A server that asks one site the real question, and all others one whose scores it knows, opens no sum.

Before rosters had the provenance of the scores, it subtracted the constants and read the histogram of the one site, in
every round, whatever the sites' policies, pinned keys and ledgers said.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

import fedconformal as fc
from fedconformal._base.arrays import keys_of, softmax
from fedconformal.engines.flower import InProcessGrid, calibrate_reply, sums_reply
from fedconformal.engines.flower.records import ARRAYS, question_in, site_of
from fedconformal.errors import InputError
from fedconformal.federated.questions import ScoreQuestion
from fedconformal.federated.sums import SumsStep
from fedconformal.privacy import new_key, public_key
from fedconformal.privacy.sums import coordinator
from fedconformal.privacy.sums.coordinator import read
from fedconformal.privacy.sums.messages import letter_of
from fedconformal.summaries import Provenance
from tests.engines.flower.tools import CLASSES, MODEL, ask_for, data_of, site_logits, step_of
from tests.privacy.attack import watching

SITES, TARGET, ROWS = 5, 3, 60
Asked = tuple[ScoreQuestion, ArrayRecord]
ZERO = ArrayRecord({"weights": Array(np.zeros((CLASSES, CLASSES), dtype=np.float32))})
STRICT = 'sums_only = true\nleast_sites = 5\nleast_rows = 50\nledger = "mandatory"\n'


def scoring_app() -> ClientApp:
    """An app whose logits follow from the model of the message."""
    app = ClientApp()

    @app.query("calibrate")
    def calibrate(msg: Message, context: Context) -> Message:
        features, labels = site_logits(site_of(context).partition, ROWS)
        weights = msg.content.array_records[ARRAYS]["weights"].numpy() if ARRAYS in msg.content else np.eye(CLASSES)
        return calibrate_reply(msg, context, features @ weights, labels)

    return app


@pytest.fixture
def nodes(tmp_path: Path) -> InProcessGrid:
    """Sites with a strict policy, a ledger, and the keys of all."""
    keys = [new_key() for _ in range(SITES)]
    (tmp_path / "keys.json").write_text(json.dumps({f"site-{k}": public_key(key) for k, key in enumerate(keys)}))
    (tmp_path / "policy.toml").write_text(STRICT)
    configs = []
    for k, key in enumerate(keys):
        (tmp_path / f"{k}.key").write_bytes(key)
        (tmp_path / f"{k}.json").write_text('{"budget": 1.0}')
        named = {"key": f"{k}.key", "ledger": f"{k}.json", "signed": "keys.json", "policy": "policy.toml"}
        configs.append({what: str(tmp_path / file) for what, file in named.items()})
    return InProcessGrid(scoring_app(), configs)


class TwoFaced:
    """A server with one question for the target and another for all others; it keeps what is sent."""

    def __init__(self, nodes: InProcessGrid, other: Asked) -> None:
        self._nodes = nodes
        real = ask_for(MODEL, kind="exact"), MODEL
        self._asked = {f"site-{k}": real if k == TARGET else other for k in range(SITES)}
        self.refused: list[str] = []

    def play(self) -> None:
        """Play a session to its end, or until too few sites go on."""
        state, invitation = coordinator.invite(fc.Mixture(), 0.1)
        outgoing = dict.fromkeys(self._asked, invitation)
        while outgoing:
            found = [self._sent(state, name, message) for name, message in outgoing.items()]
            state, outgoing = coordinator.step(state, [one for one in found if one is not None])

    def _sent(self, state: Any, name: str, message: bytes) -> Any:
        content = step_of(message, *self._asked[name]) if letter_of(message) == b"I" else step_of(message)
        sent = self._nodes.create_message(content, "query.calibrate", 2 + int(name[-1]), "0")
        (reply,) = self._nodes.send_and_receive([sent])
        if reply.has_error():
            self.refused.append(str(reply.error.reason).splitlines()[-1])
            return None
        return read(state, data_of(reply))


def leaked(seen: Any) -> int:
    """Count the sums that are the histogram of the target and known constants."""
    logits, labels = site_logits(TARGET, ROWS)
    own = keys_of(fc.LAC().evaluate(softmax(logits), labels))
    known = keys_of(np.full((SITES - 1) * ROWS, 1 - 1 / CLASSES))
    read_off = [total - rounds.histogram(search, known) for rounds, search, total in seen]
    target = [rounds.histogram(search, own) for rounds, search, _ in seen]
    return sum(np.array_equal(one, other) for one, other in zip(read_off, target, strict=True))


OTHERS: dict[str, Asked] = {
    "temperature": (ask_for(MODEL, kind="exact", temperature=20.0), MODEL),
    "zero weights": (ask_for(ZERO, kind="exact"), ZERO),
}


def hostile(patch: pytest.MonkeyPatch, chosen: int) -> None:
    patch.setattr(coordinator, "combine_provenances", lambda provenances, _names: provenances[chosen])


@pytest.mark.parametrize(("trick", "chosen", "other"), [("temperature", 0, 1), ("zero weights", TARGET, SITES - 1)])
def test_a_question_to_one_site_alone_gives_no_sum(
    nodes: InProcessGrid, trick: str, chosen: int, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any provenance on the roster; with one for each, masks do not cancel (test_attacks_questions.py)."""
    hostile(monkeypatch, chosen)
    server = TwoFaced(nodes, OTHERS[trick])
    with watching() as seen, pytest.raises(InputError):
        server.play()
    assert seen == []
    assert sum("the roster is for other scores than those of site" in one for one in server.refused) == other


def test_without_the_refusal_every_sum_shows_the_site(nodes: InProcessGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile(monkeypatch, TARGET)
    monkeypatch.setattr(Provenance, "difference", lambda *_: None)
    server = TwoFaced(nodes, OTHERS["zero weights"])
    with watching() as seen:
        server.play()
    assert leaked(seen) == len(seen) == 4


def test_the_model_of_a_message_is_the_one_that_scores_are_of(nodes: InProcessGrid) -> None:
    """An app that takes the server's word for the fingerprint would bind nothing."""
    app = ClientApp()

    @app.query("calibrate")
    def calibrate(msg: Message, context: Context) -> Message:
        asked = question_in(msg, SumsStep).scores
        summary = fc.Summary.of_scores([0.5] * ROWS, kind="exact", site=site_of(context).name)
        return sums_reply(msg, context, replace(summary, provenance=asked.provenance))

    server = TwoFaced(InProcessGrid(app, SITES), (ask_for(MODEL, kind="exact"), ZERO))
    with pytest.raises(InputError, match="there are 1 sites"):
        server.play()
    assert all("the model in the message is not the one in the question" in one for one in server.refused)
