"""Small models, clients and tasks that worker processes can import."""

import os
import time
from typing import Any

import torch
from torch import Tensor, nn

from fedconformal.training import ClientData


class SmallNet(nn.Module):
    """A bit of everything that can differ between processes; its `view` cannot take images that lie channels last."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.conv = nn.Conv2d(1, 4, 3)
            self.norm = nn.BatchNorm2d(4)
            self.drop = nn.Dropout(0.2)
            self.head = nn.Linear(4 * 36, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.drop(self.norm(self.conv(x)).relu().view(len(x), -1)))
        return logits


class FailsAt(nn.Module):
    """A model that cannot take a row that starts with this number."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number
        self.head = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        if bool((x[:, 0] == self.number).any()):
            raise ArithmeticError("this row\nis cursed")
        logits: Tensor = self.head(x)
        return logits


def images(sizes: tuple[int, ...] = (70, 33, 50, 5), seed: int = 0) -> list[ClientData]:
    """Clients with small random images of three classes that can be learned."""
    rng = torch.Generator().manual_seed(seed)
    clients = []
    for k, n in enumerate(sizes):
        y = torch.randint(0, 3, (n,), generator=rng)
        x = torch.randint(0, 200, (n, 1, 8, 8), generator=rng, dtype=torch.uint8)
        x[torch.arange(n), 0, y] = 255
        clients.append(ClientData(name=f"site-{k}", x=x, y=y))
    return clients


class Doubles:
    """Give back twice the vector plus the client's number; sleep as long as the message says."""

    def __call__(self, client: int, vector: Tensor, out: Tensor, message: Any) -> Any:
        time.sleep(message.get(client, 0.0))
        out.copy_(2 * vector + client)
        return client, torch.get_num_threads()


class Dies:
    """Take the whole process down at one client."""

    def __call__(self, client: int, vector: Tensor, out: Tensor, message: Any) -> Any:
        if client == message:
            os._exit(9)
        out.zero_()


class TakesMemory:
    """Fill and free eight times 4 MB, again and again; tell how many pages the system had to find for that."""

    pages, steps = 8 * 1024, 20

    def __call__(self, client: int, vector: Tensor, out: Tensor, message: Any) -> int:
        import resource

        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(self.steps):
            out.fill_(
                float(torch.stack([part.sum() for part in [torch.ones(self.pages * 128) for _ in range(8)]]).sum())
            )
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
