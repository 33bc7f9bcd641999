"""Outputs of a trained model on the rows of every site, as the calibration commands read them, and their quality.

The validation rows of each site are halved at random: one half fits the temperature, the other gives the conformal
scores, because coverage needs scores of rows that nothing was fitted to. A regressor has no temperature.
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
from fedconformal.federated.questions import COLUMNS, for_score
from fedconformal.scores import AnyScore, RegressionScore
from fedconformal.summaries import Summary, summarize
from fedconformal.training.clients import as_clients, count_classes
from fedconformal.training.config import Config
from fedconformal.training.data import Dataset, Sites
from fedconformal.training.preprocess import Preprocess

BATCH = 256


@dataclass(frozen=True, kw_only=True)
class Result:
    """Quality of a trained classifier.

    Attributes:
        accuracy: on the test rows of all sites.
        temperature: divisor of the logits.
        temperature_at_bound: whether it is at the end of its range.
        clients: number of sites.
        rows: numbers of rows to train, to fit the temperature, to calibrate and to test.
        seconds: duration of the training since its last start.
    """

    accuracy: float
    temperature: float
    temperature_at_bound: bool
    clients: int
    rows: dict[str, int]
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RegressionResult:
    """Quality of a trained regressor.

    Attributes:
        target: name of the predicted number.
        columns: names of the outputs, such as lower and upper.
        mean_absolute_error: on the test rows of all sites, of the prediction or of the middle of lower and upper.
        root_mean_squared_error: likewise.
        clients: number of sites.
        rows: numbers of rows to train, to calibrate and to test.
        seconds: duration of the training since its last start.
    """

    target: str
    columns: tuple[str, ...]
    mean_absolute_error: float
    root_mean_squared_error: float
    clients: int
    rows: dict[str, int]
    seconds: float = 0.0


class Answers(NamedTuple):
    """Logits, labels and site indices of some rows; of a regressor, predictions and true values."""

    logits: NDArray[np.float32]
    labels: NDArray[Any]
    clients: Integers

    def take(self, index: Integers) -> Answers:
        """Return the answers on some of the rows."""
        return Answers(self.logits[index], self.labels[index], self.clients[index])


def predict(model: nn.Module, x: Tensor, preprocess: Preprocess) -> NDArray[np.float32]:
    """Return the outputs of a model, computed in batches on its device."""
    device = next((p.device for p in [*model.parameters(), *model.buffers()]), torch.device("cpu"))
    with torch.no_grad():
        return np.concatenate([model(preprocess(part.to(device))).float().cpu().numpy() for part in x.split(BATCH)])


def summarize_sites(
    model: nn.Module,
    datasets: Mapping[str, Any] | Sequence[Any],
    score: AnyScore | str = "lac",
    *,
    temperature: float = 1.0,
    **options: Any,
) -> list[Summary]:
    """Score the calibration rows of every site with a torch model, and summarise the scores.

    Parameters
    ----------
    model
        Returns logits, or predictions with a score of numbers; evaluated in eval mode.
    datasets
        Rows of each site: (x, y), a torch dataset with items (x, y), or `ClientData`; with site names in a mapping.
    score
        The score, or its spec string such as "raps:penalty=0.1".
    temperature
        Divisor of the logits, fitted on other rows.
    options
        Other options of `fedconformal.summarize`, such as alpha and classes.

    Examples
    --------
    >>> rows = torch.tensor([[4.0, 0.0], [0.0, 2.0]]), [0, 1]
    >>> [summary.n for summary in summarize_sites(nn.Identity(), {"north": rows, "south": rows})]
    [2, 2]
    """
    rule: AnyScore = build(score, AnyScore)
    numbers = isinstance(rule, RegressionScore)
    clients = as_clients([*datasets.values()] if isinstance(datasets, Mapping) else datasets, numbers=numbers)
    names = list(datasets) if isinstance(datasets, Mapping) else [client.name for client in clients]
    if not numbers:
        count_classes(model, clients)
    summaries, training = [], model.training
    model.eval()
    try:
        for name, client in zip(names, clients, strict=True):
            outputs: NDArray[Any] = predict(model, client.x, client.preprocess)
            if isinstance(rule, RegressionScore):
                outputs = for_score(outputs, rule)
            else:
                outputs, options["temperature"] = softmax(outputs, temperature=temperature, sure=True), temperature
            summaries.append(summarize(outputs, client.y.numpy(), score=rule, site=name, **options))
    finally:
        model.train(training)
    return summaries


def classification_outputs(
    config: Config, dataset: Dataset, sites: Sites, val: Answers, test: Answers
) -> tuple[str, bytes, Result]:
    """Fit the temperature; return name and bytes of the file of logits, and the accuracy."""
    apart, kept = halves(sites, config.trainer.seed)
    if config.settings.temperature == "none":
        apart, kept = apart[:0], np.arange(len(sites.val))
    fitting = val.take(apart)
    masks = [fitting.clients == k for k in np.unique(fitting.clients)]
    temperature = fit_temperature(
        [fitting.logits[mine] for mine in masks],
        [fitting.labels[mine] for mine in masks],
        method=config.settings.temperature,
    )
    rows = {"train": len(dataset.train), "temperature": len(apart), "calibration": len(kept), "test": len(test.labels)}
    result = Result(
        accuracy=float(np.mean(test.logits.argmax(axis=1) == test.labels)),
        temperature=temperature.value,
        temperature_at_bound=temperature.at_bound,
        clients=len(sites),
        rows=rows,
    )
    parts = {"val": val.take(kept), "test": test, "temp": fitting}
    return "logits.npz", _bytes_of(parts, sites, temperature=result.temperature), result


def regression_outputs(
    _config: Config, dataset: Dataset, sites: Sites, val: Answers, test: Answers
) -> tuple[str, bytes, RegressionResult]:
    """Return name and bytes of the file of predictions, and their errors."""
    columns = COLUMNS[test.logits.shape[1]]
    middle = test.logits[:, columns.index("prediction")] if "prediction" in columns else test.logits.mean(axis=1)
    errors = middle.astype(np.float64) - test.labels
    target = "" if dataset.target is None else dataset.target.name
    result = RegressionResult(
        target=target,
        columns=columns,
        mean_absolute_error=float(np.abs(errors).mean()),
        root_mean_squared_error=float(np.sqrt(np.square(errors).mean())),
        clients=len(sites),
        rows={"train": len(dataset.train), "calibration": len(dataset.val), "test": len(dataset.test)},
    )
    keys = ("predictions", "targets")
    return "predictions.npz", _bytes_of({"val": val, "test": test}, sites, keys, columns=columns, target=target), result


def halves(sites: Sites, seed: int) -> tuple[Integers, Integers]:
    """Halve each site's validation rows at random: positions for the temperature, and for the scores.

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


def _bytes_of(
    parts: Mapping[str, Answers], sites: Sites, keys: tuple[str, str] = ("logits", "labels"), **more: Any
) -> bytes:
    """Return an .npz file with outputs, truth and sites of each part; sites with training rows are marked."""
    arrays = {"names": np.array(sites.names, np.str_), "trained": np.isin(np.arange(len(sites)), sites.train)}
    arrays |= {key: np.array(value) for key, value in more.items()}
    for part, answers in parts.items():
        arrays |= dict(zip((f"{part}_{keys[0]}", f"{part}_{keys[1]}", f"{part}_clients"), answers, strict=True))
    return npz(arrays)
