"""The sites of the nodes, missing sites, and the reasons."""

from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Error, Message

from fedconformal.certificates.certificate import LeftOut
from fedconformal.engines.flower import Federation, InProcessGrid, calibrate
from fedconformal.engines.flower.federation import UNSENT, Roster
from fedconformal.errors import InputError
from tests.engines.flower.tools import MODEL, Moving, calibrating_app, grid


def test_a_site_that_was_there_before_training_and_vanished_is_left_out() -> None:
    here = Moving(calibrating_app(), 4)
    here.away = {2, 3, 4, 5}  # nobody is there yet when the server starts
    federation = Federation(here)
    here.away = set()
    federation.wait(1.0)
    here.away = {4}
    certificate = calibrate(federation, MODEL).certificate
    assert certificate.sites == 3
    assert certificate.left_out == [LeftOut(site="node-4", reason="is not connected any more")]


def test_the_number_of_a_node_is_no_name_for_another() -> None:
    """A node that says no name goes by its number; another under that name would push it out, or be left out for it."""
    roster = Roster()
    one, other, _ = roster.see(Moving(calibrating_app(), 3))
    roster.check(other, f"node-{other}")
    for spelling in (f"node-{other}", f" node-{other} "):
        with pytest.raises(InputError, match="which another node has"):
            roster.check(one, spelling)
    roster.check(one, "clinic-a")


def test_a_node_keeps_its_name_against_a_newcomer_that_comes_first() -> None:
    here = Moving(calibrating_app(), [{"partition-id": k} for k in (1, 0, 1, 2)])
    here.away = {2}
    federation = Federation(here)
    assert calibrate(federation, MODEL).certificate.left_out is None
    here.away = set()
    again = calibrate(federation, MODEL).certificate
    reason = "states the name site-1, which another node has"
    assert again.left_out == [LeftOut(site="node-2", reason=reason)]
    here.away = {4}  # nor does it get the name of one that is away
    left_out = calibrate(federation, MODEL).certificate.left_out
    assert left_out is not None
    assert [one.site for one in left_out] == ["node-2", "site-1"]


def test_a_name_that_is_registered_with_a_key_is_that_nodes() -> None:
    nodes = [{"site": "clinic-b"}, {"site": "clinic-b"}, {"site": "clinic-c"}, {"site": "clinic-x"}, {}]
    here = Moving(calibrating_app(), nodes, names={3: "clinic-b", 4: "clinic-c", 5: "clinic-d"})
    certificate = calibrate(Federation(here), MODEL).certificate
    assert [one.sites for one in certificate.summaries] == [("clinic-b",), ("clinic-c",), ("site-4",)]
    assert certificate.left_out == [
        LeftOut(
            site="clinic-d",
            reason="states the name clinic-x, and its key is registered as clinic-d; give it site='clinic-d'",
        ),
        LeftOut(site="node-2", reason="states the name clinic-b, which another node has"),
    ]


def test_a_site_that_states_no_name_has_that_of_its_registered_key() -> None:
    here = Moving(calibrating_app(), 3, names={2: "clinic-a", 3: "site-2"})
    federation = Federation(here)
    certificate = calibrate(federation, MODEL).certificate
    assert [one.sites for one in certificate.summaries] == [("clinic-a",), ("site-2",)]
    (left_out,) = certificate.left_out or []
    assert left_out.reason == "states the name site-2, which another node has"


def test_a_model_with_nan_is_the_fault_of_no_site() -> None:
    federation = Federation(grid(3))
    broken = ArrayRecord({"weights": Array(np.full((4, 4), np.nan, np.float32))})
    with pytest.raises(InputError, match="model: weights holds a value that is not finite"):
        calibrate(federation, broken)
    assert federation.stages == []


class Full(InProcessGrid):
    """A link that takes no message to node 3, or none at all; like Flower's own grid it sets all numbers beforehand."""

    large = False

    def push_messages(self, messages: Any) -> Any:
        messages = list(messages)
        numbers = zip(messages, super().push_messages(messages), strict=True)
        return [None if m.metadata.dst_node_id == 3 else number for m, number in numbers if not self.large]


def test_a_message_that_could_not_be_sent_is_no_timeout() -> None:
    here = Full(calibrating_app(), 4)
    (left_out,) = calibrate(Federation(here, timeout=0.2), MODEL).certificate.left_out or []
    assert left_out == LeftOut(site="node-3", reason=UNSENT)
    here.large = True
    with pytest.raises(InputError, match=f"0 valid answers.*node-2: {UNSENT}"):
        calibrate(Federation(here, timeout=0.2), MODEL)


def with_error(code: int, reason: str) -> Any:
    """Let a site's reply be an error of Flower's own."""

    def app(message: Message, context: Context) -> Message:
        if context.node_config["partition-id"] == 1:
            return Message(Error(code, reason), reply_to=message)
        return calibrating_app()(message, context)

    return app


TORCH = """Traceback (most recent call last):
  File "client_app.py", line 20, in calibrate
    model.load_state_dict(found)
    ~~~~~~~~~~~~~~~~~~~~~^^^^^^^
RuntimeError: Error(s) in loading state_dict for Net:
\tMissing key(s) in state_dict: "layers.0.weight", "layers.0.bias", "layers.2.weight", "layers.2.bias".
\tUnexpected key(s) in state_dict: "theta".
"""


@pytest.mark.parametrize(
    ("code", "said", "reason"),
    [
        (3, "Message Unavailable - The requested message could not be found.", "timeout: gave no answer within 9 s"),
        (4, "Reply Message Unavailable - expired.", "timeout: gave no answer within 9 s"),
        (5, "Node Unavailable - The destination node failed to report.", "is not connected any more"),
        (2, TORCH, "failed: " + " ".join(TORCH.split("\n", 4)[4].split())),
        (2, "x" * 5000, "failed: " + "x" * 1000 + "..."),
        (2, "<class 'app.task.load.<locals>.NoRows'>:<'of today'>", "failed: NoRows: of today"),
        (0, "", "failed: no reason given"),
    ],
)
def test_a_reason_is_given_in_full_and_a_timeout_is_called_one(code: int, said: str, reason: str) -> None:
    certificate = calibrate(Federation(InProcessGrid(with_error(code, said), 4), timeout=9), MODEL).certificate
    assert certificate.left_out == [LeftOut(site="node-3", reason=reason)]
