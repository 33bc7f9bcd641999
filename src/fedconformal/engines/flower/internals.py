"""Private parts of Flower; `tests/engines/flower/test_internals.py` names each of them.

Apps in one process need the run number of messages and their numbers; a version of Flower that changes either is
refused. The registered names of nodes and the error codes only make names and reasons better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import flwr
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedconformal.errors import InputError

VERSIONS = "flwr>=1.38,<1.43"
"""Those on which the test passes; pyproject.toml asks for the same."""
RUN = 1
SERVER = 1
RAISED = 2
"""Flower's code for a client app that raised."""
EXPIRED = (3, 4)
"""Its codes for a message, or a reply, that has outlived its time."""
NODE_GONE = 5
"""Its code for a node that is not there any more."""


def identify_run() -> None:
    """Say which run messages belong to, unless Flower has said so."""
    try:
        from flwr.supercore.task_identity import TaskIdentity

        if TaskIdentity._run_id is None:
            TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, SERVER, 0
        Message(RecordDict(), SERVER, "query").metadata.__dict__["_message_id"]
    except (ImportError, AttributeError, KeyError, RuntimeError) as error:
        raise InputError(
            f"flwr {flwr.__version__} has changed inside ({error}); take {VERSIONS}, or run the app with flwr run"
        ) from None


def number_message(message: Message, number: str) -> None:
    """Give a message its number."""
    message.metadata.__dict__["_message_id"] = number


def empty_run() -> Any:
    """Return Flower's record of a run, empty."""
    from flwr.supercore.run import Run

    return Run.create_empty(RUN)


def watch_nodes(grid: Grid, see: Callable[[Iterable[int]], object]) -> None:
    """Let `see` know of every list of nodes that anybody gets from this grid."""
    ask = grid.get_node_ids

    def get_node_ids() -> Iterable[int]:
        nodes = list(ask())
        see(nodes)
        return nodes

    vars(grid)["get_node_ids"] = get_node_ids


def registered_names(grid: Grid) -> dict[int, str]:
    """Return the names under which the link's operator has registered the keys of nodes."""
    return {int(node.node_id): str(node.name) for node in grid.get_nodes() if node.name}
