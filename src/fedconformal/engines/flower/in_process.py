"""Flower apps in one process: create an app from the template, load it like `flwr run`, run it without Ray or sockets.

The grid passes each message to the client app directly. It needs private parts of Flower (the run number and the ids of
messages), which `tests/engines/flower/test_in_process.py` names; a version that changes them is refused.
"""

from __future__ import annotations

import importlib
import sys
import tomllib
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from secrets import randbits
from typing import Any

import flwr
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedconformal._base.files import read_bytes, write_bytes
from fedconformal.errors import InputError
from fedconformal.training.data import Progress

VERSIONS = "flwr>=1.38,<1.43"
"""Versions of Flower on which the tests pass, as in pyproject.toml."""
RUN, SERVER = 1, 1
RAISED = 2
"""Flower's error code for an exception in the client app."""
PACKAGE = "conformal_app"
FILES = {
    "README.md": "README.md",
    "pyproject.toml": "app.toml",
    **{f"{PACKAGE}/{name}": name for name in ("__init__.py", "client_app.py", "server_app.py", "task.py")},
}
"""Files of an app, with their names in the template."""

Settings = Mapping[str, Any]
"""A run config or a node config of Flower."""


def make_app(folder: Path) -> list[Path]:
    """Copy the template into a new or empty directory, and return the files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already; choose another directory")
    try:
        (folder / PACKAGE).mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created ({error.strerror}); choose another directory") from None
    template = resources.files("fedconformal.engines.flower") / "template"
    for target, source in FILES.items():
        write_bytes(folder / target, (template / source).read_bytes())
    return sorted(folder / target for target in FILES)


@dataclass(frozen=True, kw_only=True)
class App:
    """The [tool.flwr.app] table of an app's pyproject.toml: its two components and the run config."""

    folder: Path
    client: str
    server: str
    config: Settings

    @classmethod
    def read(cls, folder: Path, overrides: Settings | None = None) -> App:
        """Read an app; overrides have to be keys of its run config."""
        path, changes = folder / "pyproject.toml", dict(overrides or {})
        data = read_bytes(path)
        try:
            about = tomllib.loads(data.decode())["tool"]["flwr"]["app"]
            parts, config = about["components"], dict(about.get("config", {}))
            client, server = str(parts["clientapp"]), str(parts["serverapp"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # not TOML, or a table is missing
            problem = f"has no [tool.flwr.app.components] with clientapp and serverapp ({error})"
            raise InputError(f"{path}: {problem}; make an app with fedconformal flower init") from None
        for key in changes:
            if key not in config:
                raise InputError(f"{key} is not in [tool.flwr.app.config] of {path}; there are {', '.join(config)}")
        return cls(folder=folder, client=client, server=server, config=config | changes)

    def load(self) -> tuple[ClientApp, ServerApp]:
        """Import the client app and the server app."""
        folder = str(self.folder.resolve())
        names = {reference.partition(":")[0].partition(".")[0] for reference in (self.client, self.server)}
        for module in [key for key in sys.modules if key.partition(".")[0] in names]:
            if not str(getattr(sys.modules[module], "__file__", "")).startswith(folder):
                del sys.modules[module]  # the package of another app, under the same name
        sys.path.insert(0, folder)
        try:
            return _load(self.client, ClientApp), _load(self.server, ServerApp)
        finally:
            sys.path.remove(folder)


def _load(reference: str, kind: Any) -> Any:
    module, _, name = reference.partition(":")
    try:
        component = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise InputError(f"{reference}: cannot be imported ({type(error).__name__}: {error})") from error
    if not isinstance(component, kind):
        raise InputError(f"{reference}: is {type(component).__name__}, expected a {kind.__name__}")
    return component


class InProcessGrid(Grid):
    """A grid of nodes in this process, each with its own context.

    Parameters
    ----------
    client_app
        The app of every node.
    nodes
        The number of nodes, or the node config of each.
    run_config
        The run config of every node.
    progress
        Called with the number of answers, the number of nodes and the type of message.
    """

    def __init__(
        self,
        client_app: ClientApp,
        nodes: int | Sequence[Settings],
        *,
        run_config: Settings | None = None,
        progress: Progress | None = None,
    ) -> None:
        configs = [{}] * nodes if isinstance(nodes, int) else nodes
        self._client_app = client_app
        run = randbits(62)  # unique, as on a SuperLink
        self._contexts = {}
        for k, config in enumerate(configs):
            own = {"partition-id": k, "num-partitions": len(configs), **config}
            node = k + SERVER + 1
            self._contexts[node] = Context(run, node, own, RecordDict(), dict(run_config or {}))
        self._waiting: dict[str, Message] = {}
        self._count = 0
        self._progress = progress
        _identify_run()

    def set_run(self, run: Any) -> None:
        """Do nothing, because there is only one run."""

    @property
    def run(self) -> Any:
        """An empty record of the run."""
        from flwr.supercore.run import Run

        return Run.create_empty(RUN)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Return a new message."""
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Return the numbers of all nodes."""
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Queue messages, which are delivered when their replies are pulled."""
        numbers = []
        for message in messages:
            self._count += 1
            numbers.append(f"message-{self._count}")
            message.metadata.__dict__["_message_id"] = numbers[-1]
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
        """Deliver messages and return the replies; the timeout is ignored within one process."""
        return self.pull_messages(self.push_messages(messages))

    def deliver(self, message: Message) -> Message:
        """Run the client app on one message; an exception becomes an error reply, as in Flower."""
        sent = message.content
        # Sites may share one content; a change by one of them must not affect the others.
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


def _identify_run() -> None:
    """Set the run of messages, unless Flower has set it."""
    try:
        from flwr.supercore.task_identity import TaskIdentity

        if TaskIdentity._run_id is None:
            TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, SERVER, 0
        Message(RecordDict(), SERVER, "query").metadata.__dict__["_message_id"]
    except (ImportError, AttributeError, KeyError, RuntimeError) as error:
        raise InputError(
            f"flwr {flwr.__version__} has changed internally ({error}); take {VERSIONS}, or run the app with flwr run"
        ) from None


def run_in_process(
    server_app: ServerApp,
    client_app: ClientApp,
    nodes: int | Sequence[Settings],
    *,
    run_config: Settings | None = None,
    progress: Progress | None = None,
) -> None:
    """Run both apps until the server app returns."""
    grid = InProcessGrid(client_app, nodes, run_config=run_config, progress=progress)
    server_app(grid=grid, context=Context(RUN, SERVER, {}, RecordDict(), dict(run_config or {})))
