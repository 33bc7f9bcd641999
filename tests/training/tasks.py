"""Small models, clients and tasks that worker processes can import."""

import os
import time

import torch
from torch import Tensor, nn

from fedconformal.training import ClientData
from fedconformal.training.step import Step, Update


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


def same(a: nn.Module, b: nn.Module) -> bool:
    """Whether two models have the same weights, bit for bit."""
    left, right = a.state_dict(), b.state_dict()
    return list(left) == list(right) and all(torch.equal(left[name], right[name]) for name in left)


class Doubles:
    """Give back twice the vector plus the site's number; sleep as long as the step says."""

    def __call__(self, site: int, step: Step) -> Update:
        time.sleep(step.numbers.get(f"at_{site}", 0.0))
        return Update(site, {"out": 2 * step.tensors["vector"] + site}, {"threads": torch.get_num_threads()})


class Dies:
    """Take the whole process down at one site."""

    def __call__(self, site: int, step: Step) -> Update:
        if site == step.numbers["site"]:
            os._exit(9)
        return Update(1, {}, {})
