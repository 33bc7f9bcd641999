"""Which nodes a run has seen, which site each of them is, and who took part: the promise does not cover the others.

A name belongs to the first node that answered under it, for the whole run. It is bound to a node's key if the operator
registers the key with it: `flwr supernode register node-0.pub LINK --name clinic-a`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.serverapp import Grid

from fedconformal._base.names import name_key
from fedconformal.certificates.certificate import LeftOut
from fedconformal.engines.flower.internals import registered_names, watch_nodes
from fedconformal.errors import InputError

GONE = "is not connected any more"


@dataclass(kw_only=True)
class Stage:
    """Who took part in a stage, who was refused and why, and what crossed the wire."""

    name: str
    exchanges: int = 0
    took_part: dict[str, int] = field(default_factory=dict)
    refused: dict[tuple[str, str], None] = field(default_factory=dict)
    sent: int = 0
    received: int = 0
    messages: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        return {
            "stage": self.name,
            "exchanges": self.exchanges,
            "took_part": self.took_part,
            "refused": [{"site": site, "reason": reason} for site, reason in self.refused],
            "bytes": {
                "sent": self.sent,
                "received": self.received,
                "per_site_sent": round(self.sent / max(1, self.messages) * self.exchanges),
                "per_site_received": round(self.received / max(1, self.messages) * self.exchanges),
            },
        }


class Roster:
    """The nodes that a grid has ever listed, also to a strategy that asks it by itself."""

    def __init__(self, grid: Grid) -> None:
        self.connected: set[int] = set()
        self._grid = grid
        self._seen: set[int] = set()
        self._names: dict[int, str] = {}
        self._owners: dict[str, int] = {}
        self._registered: set[int] = set()
        self._why: dict[int, str] = {}
        watch_nodes(grid, self._see)
        grid.get_node_ids()

    def _see(self, nodes: Iterable[int]) -> None:
        self.connected = set(nodes)
        new = self.connected - self._seen
        self._seen |= new
        for node in new:  # a node that says no name goes by its number, which is nobody else's
            self._owners.setdefault(name_key(self.name(node)), node)
        for node, name in registered_names(self._grid).items() if new else ():
            if node in new:
                self.keep(node, name)
                self._registered.add(node)

    @property
    def gone(self) -> list[int]:
        """The nodes that were there and are not."""
        return sorted(self._seen - self.connected)

    def name(self, node: int) -> str:
        """Return the site's name, or the node's number until it is known."""
        return self._names.get(node) or f"node-{node}"

    def registered(self, node: int) -> str | None:
        """Return the name under which the operator has registered the node's key."""
        return self._names[node] if node in self._registered else None

    def check(self, node: int, name: str) -> None:
        """Refuse a name that is another node's, or another than the node had."""
        own = self._names.get(node, name)
        if own != name and node in self._registered:
            raise InputError(f"calls itself {name}, and its key is registered as {own}; give it site={own!r}")
        if own != name:
            raise InputError(f"calls itself {name} now and was {own} before")
        if self._owners.get(name_key(name), node) != node:
            raise InputError(f"calls itself {name}, which is the name of a node that was there before")

    def keep(self, node: int, name: str) -> None:
        """Keep a name for a node; its number is none."""
        if name != self.name(node):
            self._names[node] = name
            self._owners.setdefault(name_key(name), node)

    def refuse(self, node: int, reason: str) -> None:
        """Keep why a node is not in what comes out."""
        self._why[node] = reason

    def left_out(self, inside: Iterable[int]) -> list[LeftOut]:
        """Name the nodes that are known and not among these, with the reason."""
        outside = sorted((self.name(node), node) for node in self._seen.difference(inside))
        return [LeftOut(site=name, reason=self._why.get(node, "was not asked")) for name, node in outside]
