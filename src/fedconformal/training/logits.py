"""A trained model's answers at every site, as the calibration commands read them: one logits.npz.

Validation rows are cut in two at each site, by chance: one half fits the temperature, the other gives the conformal
scores. The promise of coverage needs scores of rows that nothing was fitted to.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedconformal._base.arrays import Integers
from fedconformal.training.data import Progress, Rows, Sites
from fedconformal.training.preprocess import Preprocess

BATCH = 256


@dataclass(frozen=True, eq=False, kw_only=True)
class Answers:
    """Logits, labels and site positions of some rows; of a regressor, numbers and true values."""

    logits: NDArray[np.float32]
    labels: NDArray[Any]
    clients: Integers

    @property
    def accuracy(self) -> float:
        """How often the highest logit is the label's."""
        return float(np.mean(self.logits.argmax(axis=1) == self.labels))

    def take(self, index: Integers) -> Answers:
        """Return the answers on some of the rows."""
        return Answers(logits=self.logits[index], labels=self.labels[index], clients=self.clients[index])

    def by_client(self) -> list[tuple[NDArray[np.float32], NDArray[Any]]]:
        """Return logits and labels of each site that has rows."""
        return [(self.logits[mine], self.labels[mine]) for k in np.unique(self.clients) for mine in [self.clients == k]]


def answer(
    model: nn.Module, rows: Rows, clients: Integers, preprocess: Preprocess, progress: Progress | None = None
) -> Answers:
    """Ask a model about rows, on the device that it is on."""
    device = next((p.device for p in [*model.parameters(), *model.buffers()]), torch.device("cpu"))
    found = []
    with torch.no_grad():
        for start in range(0, len(rows), BATCH):
            x = preprocess(torch.tensor(rows.x[start : start + BATCH], device=device))
            found.append(model(x).float().cpu().numpy())
            if progress is not None:
                progress(min(start + BATCH, len(rows)), len(rows), "predicting")
    return Answers(logits=np.concatenate(found), labels=rows.y, clients=clients)


def halves(sites: Sites, seed: int) -> tuple[Integers, Integers]:
    """Cut each site's validation rows at random: positions for the temperature, and for the scores.

    A site with an odd number of rows gives the one left over to the scores.

    >>> sites = Sites(names=("a", "b"), train=np.zeros(1, int), val=np.array([0, 0, 0, 1]), test=np.zeros(1, int))
    >>> [len(half) for half in halves(sites, seed=0)]
    [1, 3]
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(sites.val))
    first = [mine[: len(mine) // 2] for k in range(len(sites)) for mine in [order[sites.val[order] == k]]]
    chosen = np.zeros(len(sites.val), np.bool_)
    chosen[np.concatenate(first)] = True
    return np.flatnonzero(chosen), np.flatnonzero(~chosen)


def write_answers(
    parts: Mapping[str, Answers], sites: Sites, keys: tuple[str, str] = ("logits", "labels"), **more: Any
) -> bytes:
    """Return the bytes of an .npz file with the outputs, the truth and the sites of each part.

    `sites` are all sites of the run, of which those with training rows are named as trained on.
    """
    arrays = {"names": np.array(sites.names, np.str_), "trained": np.isin(np.arange(len(sites)), sites.train)}
    arrays |= {key: np.array(value) for key, value in more.items()}
    for part, answers in parts.items():
        arrays[f"{part}_{keys[0]}"] = answers.logits
        arrays[f"{part}_{keys[1]}"] = answers.labels
        arrays[f"{part}_clients"] = answers.clients
    return npz(arrays)


def npz(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return the bytes of an .npz file with these arrays."""
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()
