"""NVFlare's Collab API without its processes: a server's function calls the sites in this one, one after the other.

The simulator takes twenty seconds to start and stop. Pages run on this stand-in at every change; on the simulator
`make prove` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


class Replies(dict[str, Any]):
    """Answers of the sites, and the errors of those that failed; iterating gives pairs, as NVFlare does."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Any]:
        """Give the name of a site with its answer."""
        return iter(self.items())


class Clients:
    """All sites: `clients.train(weights)` calls the function of each, `clients(timeout=1)` is the same group."""

    def __init__(self, collab: Collab) -> None:
        self._collab = collab

    def __call__(self, **_: Any) -> Clients:
        return self

    def __iter__(self) -> Iterator[Any]:
        """Give an object with a name for each site."""
        return iter([SimpleNamespace(name=name) for name in self._collab.sites])

    def __getattr__(self, stage: str) -> Callable[..., Replies]:
        def call(*arguments: Any) -> Replies:
            found = Replies()
            for site in self._collab.sites:
                self._collab.site_name = site
                try:
                    found[site] = getattr(self._collab.client, stage)(*arguments)
                except Exception as error:  # noqa: BLE001
                    found.failures[site] = SimpleNamespace(cause=f"{type(error).__name__}: {error}")
            return found

        return call


class Collab:
    """As much of `collab` as a job needs."""

    def __init__(self, folder: Path) -> None:
        self.sites: list[str] = []
        self.site_name, self.client = "", None
        self.clients = Clients(self)
        self.workspace = SimpleNamespace(get_result_root=lambda _: str(folder))
        self.fl_ctx = SimpleNamespace(get_job_id=lambda: "job")
        self.publish = self.main = lambda function: function

    def recipe(self, _: str, *, server: Any, client: Any, **__: Any) -> Any:
        """Stand in for CollabRecipe."""

        def run(environment: Any) -> Any:
            self.sites, self.client = environment.clients, client
            server.run()
            return SimpleNamespace(get_result=lambda: self.workspace.get_result_root("job"))

        return SimpleNamespace(run=run)


def in_process(patch: pytest.MonkeyPatch, folder: Path) -> Collab:
    """Let jobs run in this process until the patch is undone."""
    collab = Collab(folder)
    patch.setattr("nvflare.collab.collab", collab)
    patch.setattr("nvflare.collab.CollabRecipe", collab.recipe)
    patch.setattr("nvflare.recipe.SimEnv", lambda clients: SimpleNamespace(clients=clients))
    patch.setattr("fedconformal.engines.nvflare.collab", collab)
    return collab
