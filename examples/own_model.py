"""A model and data of your own: three sites with one class each train a network, then calibrate it together.

Run it with: python examples/own_model.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import fedconformal as fc
from fedconformal.training import TCT

ALPHA = 0.1  # allowed miss rate


class Site(Dataset[tuple[Tensor, int]]):
    """Rows of one site, all of one class: points around a corner of a triangle."""

    def __init__(self, label: int, rows: int, seed: int) -> None:
        corner = torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 2.0]])[label]
        self.x = corner + torch.randn(rows, 2, generator=torch.Generator().manual_seed(seed))
        self.label = label

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        return self.x[row], self.label


class Net(nn.Module):
    """Any module that returns logits; no softmax at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.last = nn.Linear(2, 32), nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.hidden(x).relu())
        return logits


def main() -> None:
    """Train on 300 rows of each site, calibrate on 200 others, and look at the sets of 1,000 more."""
    torch.manual_seed(0)
    train, val, test = ({f"site-{k}": Site(k, rows, 3 * rows + k) for k in range(3)} for rows in (300, 200, 1000))
    model = TCT(rounds=10, linear_rounds=20, coordinates=100, workers=1).fit(Net(), list(train.values()))
    predictor = fc.calibrate(fc.summarize_sites(model, val, "lac", alpha=ALPHA), alpha=ALPHA)
    print(predictor.sentence())
    probs = fc.softmax(model(torch.cat([site.x for site in test.values()])))
    found = predictor.evaluate(probs, [site.label for site in test.values() for _ in range(len(site))])
    print(f"coverage {found.coverage:.3f}, {found.mean_size:.2f} labels per set")


if __name__ == "__main__":
    main()
