"""Two messages at once: a deployment starts a process for each, with a copy of the site's context as it was."""

import copy
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message

import fedconformal as fc
from fedconformal.engines.flower import Federation, InProcessGrid, calibrate_by_sums, client
from fedconformal.errors import InputError
from fedconformal.privacy import read_ledger
from fedconformal.privacy.sums.coordinator import invite, read, step
from fedconformal.privacy.sums.messages import Closed, Question, pack
from tests.contracts.tools import refused
from tests.engines.flower.tools import MODEL, ask_for, calibrating_app, data_of, step_of

SITES = 7


class Server:
    """A server that writes its messages by itself."""

    def __init__(self, configs: Any = SITES, **noise: Any) -> None:
        self.nodes = InProcessGrid(calibrating_app(), configs)
        self.contexts: dict[int, Context] = self.nodes._contexts
        self.app = calibrating_app()
        self.state, self.invitation = invite(fc.Mixture(), 0.1, **noise)

    def ask(self, node: int, message: bytes, context: Context | None = None) -> bytes:
        """Let a node answer, with its context or a copy of it."""
        first = message[4:5] == b"I"
        content = step_of(message, ask_for(MODEL, kind="exact"), MODEL) if first else step_of(message)
        return data_of(self.app(Message(content, node, "query.calibrate"), context or self.contexts[node]))

    def entered(self) -> None:
        """Bring the session to the question of its first round."""
        outgoing = dict.fromkeys([f"site-{k}" for k in range(SITES)], self.invitation)
        for _ in range(2):
            sent = [read(self.state, self.ask(2 + int(name[-1]), message)) for name, message in outgoing.items()]
            self.state, outgoing = step(self.state, sent)

    def question(self, sites: range) -> bytes:
        session = self.state.session
        return pack(Question(session.id, 0, 0, session.as_bits(sites)), self.state.signing)

    def closed(self, sites: range) -> bytes:
        session = self.state.session
        return pack(Closed(session.id, session.about(0, 0, session.as_bits(sites))), self.state.signing)


def test_two_lists_at_once_are_not_both_signed() -> None:
    """A sum over all sites, and one without the last: the difference would be the counts of that one."""
    server = Server()
    server.entered()
    one, other = (copy.deepcopy(server.contexts[2]) for _ in range(2))
    server.ask(2, server.question(range(SITES)), one)
    with refused("has answered another message of this run meanwhile; ask one at a time"):
        server.ask(2, server.question(range(SITES - 1)), other)
    server.ask(2, server.closed(range(SITES)), one)
    with refused("has answered another message of this run meanwhile"):
        server.ask(2, server.closed(range(SITES - 1)), other)


def test_a_step_of_a_session_that_a_site_has_not_joined() -> None:
    server = Server()
    server.entered()
    with refused("has not joined a sums session"):
        server.ask(2, server.question(range(SITES)), Server().contexts[2])


def test_a_message_once_more_gets_the_same_answer() -> None:
    """Noise and masks are drawn once, whichever copy of the context is asked."""
    server = Server()
    server.entered()
    copies = [copy.deepcopy(server.contexts[2]) for _ in range(3)]
    question = server.question(range(SITES))
    first = server.ask(2, question, copies[0])
    assert {server.ask(2, question, one) for one in copies} == {first}
    assert server.ask(2, server.closed(range(SITES)), copies[0]) != first


def test_threads_at_once_take_turns() -> None:
    server = Server()
    server.entered()
    found: list[Any] = []

    def one(sites: range) -> None:
        try:
            found.append(server.ask(2, server.question(sites), copy.deepcopy(server.contexts[2])))
        except InputError as error:
            found.append(error)

    threads = [threading.Thread(target=one, args=(range(SITES - k),)) for k in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(type(each).__name__ for each in found) == ["InputError", "bytes"]


def test_an_answer_once_more_spends_epsilon_once(tmp_path: Path) -> None:
    pytest.importorskip("opendp", reason="noise needs opendp")
    ledger = tmp_path / "ledger.json"
    ledger.write_text('{"budget": 3.0}')
    server = Server([{"ledger": str(ledger)}, *({} for _ in range(SITES - 1))], epsilon=1.0)
    before = copy.deepcopy(server.contexts[2])
    join = server.ask(2, server.invitation)
    assert server.ask(2, server.invitation, before) == join
    assert read_ledger(ledger).entries == []
    server.entered()
    question = server.question(range(SITES))
    before = copy.deepcopy(server.contexts[2])
    answer = server.ask(2, question)
    assert server.ask(2, question, before) == answer
    assert [entry.epsilon for entry in read_ledger(ledger).entries] == [1.0]


def test_of_two_sessions_at_once_the_later_one_goes_on() -> None:
    """Without a ledger, too: a copy of the context that knows nothing of the other session opens no second sum."""
    server, second = Server(), Server()
    second.contexts = {node: copy.deepcopy(context) for node, context in server.contexts.items()}
    server.entered()
    second.entered()
    with refused("has answered another message of this run meanwhile"):
        server.ask(2, server.question(range(SITES)))
    second.ask(2, second.question(range(SITES - 1)))


def test_a_run_counts_its_sessions(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("most_sessions = 2\n")
    nodes = InProcessGrid(calibrating_app(), [{"policy": str(policy)} for _ in range(4)])
    for temperature in (1.0, 2.0):
        calibrate_by_sums(Federation(nodes), MODEL, temperature=temperature)
    with pytest.raises(InputError, match="most_sessions = 2, and these rows were in as many sums sessions before"):
        calibrate_by_sums(Federation(nodes), MODEL)


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    server = Server()
    server.ask(2, server.invitation)
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o755)
    with refused("is not this user's own; name a ledger in the node config"):
        client._turn_file(server.contexts[2])
