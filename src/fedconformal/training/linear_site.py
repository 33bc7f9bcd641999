"""Steps of a site in the second stage of TCT: features, standardisation, gradient or local descent."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedconformal.errors import InputError
from fedconformal.training.clients import PackedClients
from fedconformal.training.features import GradientFeatures
from fedconformal.training.linear_stage import (
    CONSTANT,
    LocalDescent,
    Matrix,
    Moments,
    largest_eigenvalue,
    loss_and_gradient,
    merge,
)
from fedconformal.training.step import Step, Update

ROWS = 256
"""Rows whose features are computed together."""


class FeatureStorage:
    """Features and, if `inner`, inner products of all sites; above `memory` GB in files, with half precision."""

    def __init__(
        self, sizes: Sequence[int], columns: int, *, memory: float, folder: Path, device: torch.device, inner: bool
    ) -> None:
        self.sizes, self.columns, self.device, self.inner = tuple(sizes), columns, device, inner
        features, products = self._lengths()
        self.folder = folder if 4 * (features + products) > memory * 2**30 else None
        if self.folder is None:
            self.features, self.products = (torch.empty(n, device=device) for n in (features, products))
        else:
            self.device = torch.device("cpu")
            allocate(folder / "features", 2 * features)
            allocate(folder / "products", 4 * products)
            self._map(folder)

    def _lengths(self) -> tuple[int, int]:
        return sum(self.sizes) * self.columns, sum(n * n for n in self.sizes) if self.inner else 0

    def _map(self, folder: Path) -> None:
        def mapped(name: str, size: int, dtype: torch.dtype) -> Tensor:
            return torch.from_file(str(folder / name), shared=True, size=size, dtype=dtype) if size else torch.empty(0)

        features, products = self._lengths()
        self.features = mapped("features", features, torch.float16)
        self.products = mapped("products", products, torch.float32)

    def __getstate__(self) -> dict[str, object]:
        mapped = () if self.folder is None else ("features", "products")
        return {name: value for name, value in vars(self).items() if name not in mapped}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        if self.folder is not None:
            self._map(self.folder)

    def matrix(self, site: int) -> Matrix:
        """Return the features of one site."""
        start, rows = sum(self.sizes[:site]) * self.columns, self.sizes[site]
        return Matrix(self.features[start : start + rows * self.columns].view(rows, self.columns))

    def gram(self, site: int) -> Tensor:
        """Return the inner products of one site's rows."""
        start, rows = sum(n * n for n in self.sizes[:site]), self.sizes[site]
        return self.products[start : start + rows * rows].view(rows, rows)


def allocate(path: Path, size: int) -> None:
    """Allocate a whole file, so that a full disk fails before the computation."""
    try:
        with path.open("wb") as file:
            if size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        need, advice = f"{size / 2**30:.1f} GB of features", "use fewer coordinates, or another folder in $TMPDIR"
        raise InputError(f"{path.parent}: no room for {need} ({error.strerror}); {advice}") from None


@dataclass(eq=False, kw_only=True)
class LinearTask:
    """Task of the second stage: "measure", "prepare", then "gradient" or "round", whose R stays in `residuals`."""

    features: GradientFeatures
    clients: PackedClients
    settings: Any
    """The `TCT`, whose module imports this one."""
    storage: FeatureStorage
    residuals: Tensor

    @torch.no_grad()
    def __call__(self, site: int, step: Step) -> Update:
        """Run one step at one site."""
        if step.what == "measure":
            return self._measure(site)
        tensors = {name: tensor.to(self.storage.device) for name, tensor in step.tensors.items()}
        if step.what == "prepare":
            return self._prepare(site, tensors["mean"], tensors["scale"])
        if step.what == "gradient":
            return self._gradient(site, tensors["theta"])
        return self._round(site, tensors["theta"], tensors["control"], step.numbers["step"])

    def _measure(self, site: int) -> Update:
        matrix, parts = self.storage.matrix(site), []
        for rows, block in self._raw(site):
            if not matrix.half:
                matrix.write(rows, block)
            variance, mean = torch.var_mean(block, dim=0, correction=0)
            parts.append(Moments(len(block), mean, variance))
        total, mean, variance = merge(parts)
        moments = {"mean": mean.float().cpu(), "variance": variance.float().cpu()}
        return Update(total, moments, {}, finite=all(bool(moment.isfinite().all()) for moment in moments.values()))

    def _prepare(self, site: int, mean: Tensor, scale: Tensor) -> Update:
        matrix = self.storage.matrix(site)
        if matrix.half:  # too large to be stored before mean and scale are known
            for rows, block in self._raw(site):
                matrix.write(rows, block.sub_(mean).mul_(scale))
        else:
            matrix.tensor[:, : len(mean)].sub_(mean).mul_(scale)
        matrix.tensor[:, len(mean) :] = CONSTANT  # the intercept's column, if there is one
        if self.settings.solver == "lbfgs":
            return Update(len(matrix.tensor), {}, {})
        gram = self.storage.gram(site)
        matrix.gram(gram)
        return Update(len(matrix.tensor), {}, {"eigenvalue": largest_eigenvalue(gram)})

    def _gradient(self, site: int, theta: Tensor) -> Update:
        _, y = self.clients.rows(site)
        matrix, y = self.storage.matrix(site), y.to(self.storage.device)
        loss, gradient = loss_and_gradient(matrix, y, theta, self.settings.loss)
        finite = math.isfinite(loss) and bool(gradient.isfinite().all())
        return Update(len(y), {"gradient": gradient.cpu()}, {"loss": loss}, finite=finite)

    def _round(self, site: int, theta: Tensor, control: Tensor, rate: float) -> Update:
        matrix, (_, y) = self.storage.matrix(site), self.clients.rows(site)
        mine = slice(*self.clients.starts[site : site + 2])
        local = LocalDescent(
            features=matrix,
            gram=self.storage.gram(site),
            y=y.to(self.storage.device),
            steps=self.settings.steps,
            rate=rate,
            loss=self.settings.loss,
        )
        now, before = local.run(theta, control, self.residuals[:, mine].to(self.storage.device))
        mean_gradient = matrix.combine(now)
        finite = bool(mean_gradient.isfinite().all())
        if finite:
            self.residuals[:, mine] = now
        return Update(len(y), {"control": mean_gradient.cpu()}, {"loss": before}, finite=finite)

    def _raw(self, site: int) -> Iterator[tuple[slice, Tensor]]:
        x, _ = self.clients.rows(site)
        for start in range(0, len(x), ROWS):
            rows = slice(start, min(start + ROWS, len(x)))
            yield rows, self.features(self.clients.preprocess(x[rows].to(self.storage.device)))
