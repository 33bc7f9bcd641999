"""What is not public in Flower: these tests break when a new version changes it."""

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")

from flwr.app import Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedconformal.engines.flower import internals
from fedconformal.errors import InputError
from fedconformal.flower import InProcessGrid
from tests.engines.flower.tools import calibrating_app


def test_messages_have_a_run_and_replies_name_their_message() -> None:
    grid = InProcessGrid(calibrating_app(), 2)
    message = Message(RecordDict(), 2, "query.nothing")
    assert message.metadata.run_id == TaskIdentity.run_id
    (number,) = grid.push_messages([message])
    assert message.metadata.message_id == number
    (reply,) = grid.pull_messages([number])
    assert reply.metadata.reply_to_message_id == number
    assert grid.run.run_id == internals.RUN


def test_a_flower_that_has_changed_inside_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(TaskIdentity, "_run_id")
    with pytest.raises(InputError, match=r"has changed inside .*; take flwr>=1.41,<1.43, or the simulation engine"):
        InProcessGrid(calibrating_app(), 2)
