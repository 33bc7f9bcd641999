"""What could be reached if all rows were in one place: the sites' rows are pooled and trained on as one site.

It is there to be compared with, as it needs what federated training avoids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedconformal.federated.clients import ClientData, pack
from fedconformal.federated.fedavg import FedAvg


@dataclass(frozen=True, kw_only=True)
class Central(FedAvg):
    """Train on the rows of all sites together; a round is some epochs over all of them.

    >>> Central(rounds=3).name
    'central'
    """

    name: ClassVar[str] = "central"

    def _sites(self, clients: list[ClientData]) -> list[ClientData]:
        rows = pack(clients)
        return [ClientData(name="all clients", x=rows.x, y=rows.y, preprocess=rows.preprocess)]
