"""Rows of each site as tensors, read from arrays, tensors or torch datasets."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from fedconformal._base.arrays import are_distributions
from fedconformal.errors import InputError
from fedconformal.training.preprocess import Preprocess

CHECKED_ROWS = 32
"""Number of rows on which the outputs of a model are checked before training."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ClientData:
    """Rows of one site, as tensors.

    Parameters
    ----------
    name
        The name of the site.
    x, y
        Rows as uint8 or float32, and class indices.
    preprocess
        Preprocessing of the rows.

    Examples
    --------
    >>> client = ClientData(name="a", x=torch.zeros(3, 2), y=torch.tensor([0, 1, 1]))
    >>> client.n, client.inputs().shape
    (3, torch.Size([3, 2]))
    """

    name: str
    x: Tensor
    y: Tensor
    preprocess: Preprocess = field(default_factory=Preprocess)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)

    def inputs(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """Return preprocessed rows, without augmentation."""
        return self.preprocess(self.x[rows])


def as_clients(clients: Mapping[str, Any] | Sequence[Any]) -> list[ClientData]:
    """Read and check the rows of each site.

    Parameters
    ----------
    clients
        `ClientData`, pairs (x, y) of arrays or tensors, or torch datasets with items (x, y); in a mapping by name.

    Returns
    -------
    list of ClientData

    Examples
    --------
    >>> [client.name for client in as_clients([([[1.0], [2.0]], [0, 1]), ([[3.0]], [1])])]
    ['site-0', 'site-1']
    """
    by_name = clients if isinstance(clients, Mapping) else {f"site-{k}": rows for k, rows in enumerate(clients)}
    read = [_client(rows, name) for name, rows in by_name.items()]
    if not read:
        raise InputError("there are no clients; give at least one")
    first = read[0]
    for client in read[1:]:
        if client.x.shape[1:] != first.x.shape[1:] or client.x.dtype != first.x.dtype:
            kinds = f"{_kind(client.x)}, but {first.name} of {_kind(first.x)}"
            raise InputError(f"{client.name}: has rows of {kinds}; use one kind for all")
        if client.preprocess != first.preprocess:
            raise InputError(f"{client.name}: is preprocessed differently from {first.name}; use one for all")
    return read


def count_classes(model: nn.Module, sites: Sequence[ClientData]) -> int:
    """Return a model's number of logits, after checking that its outputs are logits and cover every label."""
    x, rows = sites[0].inputs(slice(0, CHECKED_ROWS)), min(sites[0].n, CHECKED_ROWS)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            outputs: Tensor = copy.deepcopy(model).cpu().eval()(x)
    except Exception as error:
        problem = f"the model fails on rows of {_kind(x)} ({type(error).__name__}: {' '.join(str(error).split())})"
        raise InputError(f"{sites[0].name}: {problem}", param="model") from error
    if outputs.ndim != 2 or len(outputs) != rows:
        raise InputError(f"the model's outputs have shape {tuple(outputs.shape)}, expected (rows, classes)")
    if rows > 1 and are_distributions(outputs.numpy()):
        raise InputError("the model returns probabilities, expected logits; leave out its last softmax", param="model")
    classes = outputs.shape[1]
    for site in sites:
        if (label := int(site.y.max())) >= classes:
            problem = f"has the class {label}, but the model gives {classes} logits, of classes from 0"
            raise InputError(f"{site.name}: {problem}", param="labels")
    return classes


@dataclass(frozen=True, eq=False, kw_only=True)
class PackedClients:
    """Rows of all sites, concatenated in two tensors that workers receive as shared memory."""

    x: Tensor
    y: Tensor
    starts: tuple[int, ...]
    preprocess: Preprocess

    def rows(self, client: int) -> tuple[Tensor, Tensor]:
        """Return x and y of one site, without a copy."""
        mine = slice(self.starts[client], self.starts[client + 1])
        return self.x[mine], self.y[mine]

    def to(self, device: torch.device) -> PackedClients:
        """Return a copy on another device."""
        return replace(self, x=self.x.to(device), y=self.y.to(device))


def pack(clients: Sequence[ClientData]) -> PackedClients:
    """Concatenate the rows of all sites."""
    starts = (0, *accumulate(client.n for client in clients))
    x, y = torch.cat([client.x for client in clients]), torch.cat([client.y for client in clients])
    return PackedClients(x=x, y=y, starts=starts, preprocess=clients[0].preprocess)


def _client(rows: Any, name: str) -> ClientData:
    if isinstance(rows, ClientData):
        return replace(rows, x=_inputs(rows.x, rows.name), y=_labels(rows.y, len(rows.x), rows.name))
    x, y = _columns(rows, name)
    return ClientData(name=name, x=_inputs(x, name), y=_labels(y, len(x), name))


def _columns(rows: Any, name: str) -> list[Tensor]:
    """Return x and y of a pair, or of a dataset with items (x, y)."""
    pair = isinstance(rows, tuple | list) and len(rows) == 2
    try:
        if not pair and not len(rows):
            rows, pair = ((), ()), True  # refused for having no rows
        columns = rows if pair else zip(*(rows[i] for i in range(len(rows))), strict=True)
        x, y = (torch.as_tensor(part) if pair else torch.stack([*map(torch.as_tensor, part)]) for part in columns)
    except (TypeError, ValueError, RuntimeError, KeyError) as error:
        advice = "give (x, y), a dataset with items (x, y), or ClientData"
        raise InputError(f"{name}: is not rows with labels ({error}); {advice}") from None
    return [x.detach().cpu(), y.detach().cpu()]


def _inputs(x: Tensor, name: str) -> Tensor:
    if x.ndim and not len(x):
        raise InputError(f"{name}: has no rows; leave it out")
    if x.ndim < 2 or x.is_complex():
        raise InputError(f"{name}: x has shape {tuple(x.shape)}, expected (rows, ...) of numbers")
    if x.dtype == torch.uint8:
        return x
    x = x.to(torch.float32)
    finite = x.flatten(1).isfinite().all(dim=1)
    if not finite.all():
        raise InputError(f"{name}: row {int(finite.int().argmin())} of x holds a value that is not finite (NaN or inf)")
    return x


def _labels(y: Tensor, rows: int, name: str) -> Tensor:
    if y.shape == (rows, 1):
        y = y[:, 0]
    if y.shape != (rows,) or y.dtype == torch.bool or y.is_complex():
        raise InputError(f"{name}: y has shape {tuple(y.shape)}, expected one class index for each of {rows} rows")
    y = y.to(torch.float64)
    bad = ~y.isfinite() | (y < 0) | (y != y.floor())
    if bad.any():
        raise InputError(f"{name}: row {int(bad.int().argmax())} of y is {y[bad][0].item():g}, expected a class index")
    return y.to(torch.int64)


def _kind(x: Tensor) -> str:
    return f"shape {tuple(x.shape[1:])} and {str(x.dtype).removeprefix('torch.')}"
