"""Outputs of a trained model on every site's rows, in the format of the calibration commands, and its accuracy.

The validation rows of each site are halved at random: one half fits the temperature, the other gives the conformal
scores, because coverage needs scores of rows that were not used for fitting.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedconformal._base.arrays import Integers, softmax
from fedconformal._base.registry import build
from fedconformal.calibration.temperature import fit_temperature
from fedconformal.scores import Score
from fedconformal.summaries import Summary, summarize
from fedconformal.training.clients import as_clients, count_classes
from fedconformal.training.config import Config
from fedconformal.training.data import Dataset, Sites
from fedconformal.training.preprocess import Preprocess

BATCH = 256


@dataclass(frozen=True, kw_only=True)
class Result:
    """Quality of a trained classifier on the test rows of all sites; `seconds` since the last start of the training."""

    accuracy: float
    temperature: float
    temperature_at_bound: bool
    clients: int
    rows: dict[str, int]
    seconds: float = 0.0


class Answers(NamedTuple):
    """Logits, labels and site indices of some rows."""

    logits: NDArray[np.float32]
    labels: Integers
    clients: Integers

    def take(self, index: Integers) -> Answers:
        """Return the answers for these rows."""
        return Answers(self.logits[index], self.labels[index], self.clients[index])


def predict(model: nn.Module, x: Tensor, preprocess: Preprocess) -> NDArray[np.float32]:
    """Return the outputs of a model, computed in batches on its device."""
    device = next((p.device for p in [*model.parameters(), *model.buffers()]), torch.device("cpu"))
    with torch.no_grad():
        return np.concatenate([model(preprocess(part.to(device))).float().cpu().numpy() for part in x.split(BATCH)])


def summarize_sites(
    model: nn.Module,
    datasets: Mapping[str, Any] | Sequence[Any],
    score: Score | str = "lac",
    *,
    temperature: float = 1.0,
    **options: Any,
) -> list[Summary]:
    """Score the calibration rows of every site with a torch model, and summarise the scores.

    Parameters
    ----------
    model
        Returns logits; evaluated in eval mode.
    datasets
        Rows of each site: (x, y), a torch dataset with items (x, y), or `ClientData`; with site names in a mapping.
    score
        The score, or its spec string such as "raps:penalty=0.1".
    temperature
        Divisor of the logits, fitted on other rows.
    options
        Other options of `fedconformal.summarize`, such as alpha and classes.

    Returns
    -------
    list of Summary

    Examples
    --------
    >>> rows = torch.tensor([[4.0, 0.0], [0.0, 2.0]]), [0, 1]
    >>> [summary.n for summary in summarize_sites(nn.Identity(), {"north": rows, "south": rows})]
    [2, 2]
    """
    rule: Score = build(score, Score)
    clients = as_clients(datasets)
    names = list(datasets) if isinstance(datasets, Mapping) else [client.name for client in clients]
    count_classes(model, clients)
    summaries, training = [], model.training
    model.eval()
    try:
        for name, client in zip(names, clients, strict=True):
            logits = predict(model, client.x, client.preprocess)
            probs = softmax(logits, temperature=temperature, sure=True)
            summaries.append(
                summarize(probs, client.y.numpy(), score=rule, site=name, temperature=temperature, **options)
            )
    finally:
        model.train(training)
    return summaries


def calibrated_outputs(
    config: Config, dataset: Dataset, sites: Sites, val: Answers, test: Answers
) -> tuple[bytes, Result]:
    """Fit the temperature; return the bytes of logits.npz and the result."""
    first, rest = halves(sites, config.trainer.seed)
    if config.settings.temperature == "none":
        first, rest = first[:0], np.arange(len(sites.val))
    fitting = val.take(first)
    masks = [fitting.clients == k for k in np.unique(fitting.clients)]
    temperature = fit_temperature(
        [fitting.logits[mine] for mine in masks],
        [fitting.labels[mine] for mine in masks],
        method=config.settings.temperature,
    )
    rows = {"train": len(dataset.train), "temperature": len(first), "calibration": len(rest), "test": len(test.labels)}
    result = Result(
        accuracy=float(np.mean(test.logits.argmax(axis=1) == test.labels)),
        temperature=temperature.value,
        temperature_at_bound=temperature.at_bound,
        clients=len(sites),
        rows=rows,
    )
    parts = {"val": val.take(rest), "test": test, "temp": fitting}
    arrays = {"names": np.array(sites.names, np.str_), "trained": np.isin(np.arange(len(sites)), sites.train)}
    arrays["temperature"] = np.array(result.temperature)
    for part, answers in parts.items():
        arrays |= {f"{part}_{name}": values for name, values in answers._asdict().items()}
    return npz(arrays), result


def halves(sites: Sites, seed: int) -> tuple[Integers, Integers]:
    """Halve each site's validation rows at random; return the indices for the temperature and for the scores.

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


def npz(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return the bytes of an .npz file with these arrays."""
    np.savez(file := io.BytesIO(), **arrays)  # type: ignore[arg-type]
    return file.getvalue()
