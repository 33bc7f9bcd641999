"""What is not public in Flower and needed all the same to run its apps in one process.

Messages take the number of their run from `TaskIdentity`, and only the code that delivers a message can number it.
A version of Flower that changes either is refused at once, with advice.
"""

from __future__ import annotations

from typing import Any

import flwr
from flwr.app import Message, RecordDict

from fedconformal.errors import InputError

RUN = 1
SERVER = 1
RAISED = 2
"""Flower's code for a client app that raised."""


def identify_run() -> None:
    """Say which run messages belong to, unless Flower has said so."""
    try:
        from flwr.supercore.task_identity import TaskIdentity

        if TaskIdentity._run_id is None:
            TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, SERVER, 0
        Message(RecordDict(), SERVER, "query").metadata.__dict__["_message_id"]
    except (ImportError, AttributeError, KeyError, RuntimeError) as error:
        raise InputError(
            f"flwr {flwr.__version__} has changed inside ({error}); take flwr>=1.41,<1.43, or the simulation engine"
        ) from None


def number_message(message: Message, number: str) -> None:
    """Give a message its number."""
    message.metadata.__dict__["_message_id"] = number


def empty_run() -> Any:
    """Return Flower's record of a run, empty."""
    from flwr.supercore.run import Run

    return Run.create_empty(RUN)
