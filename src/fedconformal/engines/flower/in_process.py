"""Flower apps in one process: the grid hands each message to the client app itself, without Ray or sockets."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from secrets import randbits
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedconformal.engines.flower.internals import RAISED, RUN, SERVER, empty_run, identify_run, number_message
from fedconformal.training.data import Progress


class InProcessGrid(Grid):
    """A grid of nodes that live in this process, each with a context of its own.

    Parameters
    ----------
    client_app
        The app of every node.
    nodes
        The number of nodes, or the node config of each.
    run_config
        The run config that every node sees.
    progress
        Called with the number of nodes that have answered, the number of nodes, and the kind of message.
    """

    def __init__(
        self,
        client_app: ClientApp,
        nodes: int | Sequence[Mapping[str, Any]],
        *,
        run_config: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> None:
        configs: Sequence[Mapping[str, Any]] = [{}] * nodes if isinstance(nodes, int) else nodes
        self._client_app = client_app
        run = randbits(62)  # as on a link, where no two runs have the same number
        self._contexts = {}
        for k, config in enumerate(configs, start=SERVER + 1):
            own = {"partition-id": k - SERVER - 1, "num-partitions": len(configs), **config}
            self._contexts[k] = Context(run, k, own, RecordDict(), dict(run_config or {}))
        self._waiting: dict[str, Message] = {}
        self._count = 0
        self._progress = progress
        identify_run()

    def set_run(self, run: Any) -> None:
        """There is one run only."""

    @property
    def run(self) -> Any:
        """Flower's record of the run, empty."""
        return empty_run()

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Make a message."""
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Return the numbers of all nodes."""
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Take messages; they are delivered when their replies are asked for."""
        numbers = []
        for message in messages:
            self._count += 1
            numbers.append(f"message-{self._count}")
            number_message(message, numbers[-1])
            self._waiting[numbers[-1]] = message
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Deliver these messages and return the replies."""
        numbers, replies = [number for number in message_ids if number in self._waiting], []
        for done, number in enumerate(numbers, 1):
            message = self._waiting.pop(number)
            replies.append(self.deliver(message))
            if self._progress is not None:
                self._progress(done, len(numbers), message.metadata.message_type)
        return replies

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Deliver messages and return the replies; what runs in this process cannot be left behind in time."""
        return self.pull_messages(self.push_messages(messages))

    def deliver(self, message: Message) -> Message:
        """Run the client app on one message; if it raises, the reply says so, as Flower's does."""
        sent = message.content
        # Sites may share one content, and what one does to it must not reach the others.
        message.content = RecordDict({key: record.copy() for key, record in sent.items()})
        try:
            reply: Any = self._client_app(message, self._contexts[message.metadata.dst_node_id])
        except (Exception, SystemExit):  # noqa: BLE001
            return Message(Error(RAISED, traceback.format_exc()), reply_to=message)
        finally:
            message.content = sent
        if isinstance(reply, Message):
            return reply
        return Message(Error(RAISED, f"the client app returned {type(reply).__name__}, no Message"), reply_to=message)


def run_in_process(
    server_app: ServerApp,
    client_app: ClientApp,
    nodes: int | Sequence[Mapping[str, Any]],
    *,
    run_config: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> None:
    """Run both apps to the end."""
    grid = InProcessGrid(client_app, nodes, run_config=run_config, progress=progress)
    server_app(grid=grid, context=Context(RUN, SERVER, {}, RecordDict(), dict(run_config or {})))
