"""Steps of a site in the second stage of TCT: features, standardisation, gradient or local descent."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedconformal.errors import InputError
from fedconformal.training.clients import ClientData, PackedClients, pack
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

if TYPE_CHECKING:
    from fedconformal.training.tct import TCT

ROWS = 256


@dataclass(eq=False, kw_only=True)
class StoredVector:
    """Vector in memory or in a file; a worker process opens the file itself."""

    length: int
    path: Path | None = None
    half: bool = False
    _tensor: Tensor | None = field(default=None, repr=False)

    @classmethod
    def on_disk(cls, length: int, path: Path, *, half: bool) -> StoredVector:
        """Allocate the whole file, so that a full disk is noticed now."""
        size = max(1, length) * (2 if half else 4)
        try:
            with path.open("wb") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    file.truncate(size)
        except OSError as error:
            need = f"{size / 2**30:.1f} GB of features"
            raise InputError(f"{path.parent}: no room for {need} ({error.strerror}); use fewer coordinates") from None
        return cls(length=length, path=path, half=half)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_tensor": self._tensor if self.path is None else None}

    @property
    def tensor(self) -> Tensor:
        """The vector."""
        if self._tensor is None:
            dtype = torch.float16 if self.half else torch.float32
            self._tensor = torch.from_file(str(self.path), shared=True, size=self.length, dtype=dtype)
        return self._tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureStorage:
    """Features and inner products of all sites, in two vectors."""

    sizes: tuple[int, ...]
    columns: int
    counts: tuple[int, ...]
    """Number of inner products of each site; 0 where steps on features are cheaper."""
    features: StoredVector
    products: StoredVector

    @classmethod
    def make(
        cls,
        sizes: Sequence[int],
        columns: int,
        *,
        memory: float,
        folder: Path,
        device: torch.device,
        inner: bool = True,
    ) -> FeatureStorage:
        """Allocate in memory, or above `memory` GB in a folder in half precision; `inner` for inner products."""
        counts = tuple(_products(n, columns) if inner else 0 for n in sizes)
        features, products = sum(sizes) * columns, sum(counts)
        if 4 * (features + products) <= memory * 2**30:
            vectors = [StoredVector(length=n, _tensor=torch.empty(n, device=device)) for n in (features, products)]
        else:
            vectors = [
                StoredVector.on_disk(features, folder / "features", half=True),
                StoredVector.on_disk(products, folder / "products", half=False),
            ]
        return cls(sizes=tuple(sizes), columns=columns, counts=counts, features=vectors[0], products=vectors[1])

    def matrix(self, site: int) -> Matrix:
        """Return the features of one site."""
        start, rows = sum(self.sizes[:site]) * self.columns, self.sizes[site]
        return Matrix(self.features.tensor[start : start + rows * self.columns].view(rows, self.columns))

    def gram(self, site: int) -> Tensor | None:
        """Return the inner products of one site's rows, or None if there are none."""
        *before, count = self.counts[: site + 1]
        start, rows = sum(before), self.sizes[site]
        return self.products.tensor[start : start + count].view(rows, rows) if count else None


def _products(rows: int, columns: int) -> int:
    """Steps on inner products cost rows^2, steps on features twice rows times columns."""
    return rows * rows if rows < 2 * columns else 0


@dataclass(eq=False, kw_only=True)
class LinearTask:
    """Task of the second stage, with the steps "measure", "prepare", and in a round "gradient" or "round".

    The step "round" gets theta and c and returns c_k; R stays at the site, in its columns of `residuals`.
    """

    features: GradientFeatures
    clients: PackedClients
    settings: TCT
    storage: FeatureStorage
    residuals: Tensor
    device: torch.device

    @torch.no_grad()
    def __call__(self, site: int, step: Step) -> Update:
        """Take one step at one site."""
        if step.what == "measure":
            return self._measure(site)
        tensors = {name: tensor.to(self.device) for name, tensor in step.tensors.items()}
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
        found = {"mean": mean.float().cpu(), "variance": variance.float().cpu()}
        return Update(total, found, {}, finite=all(bool(one.isfinite().all()) for one in found.values()))

    def _prepare(self, site: int, mean: Tensor, scale: Tensor) -> Update:
        matrix = self.storage.matrix(site)
        if matrix.half:  # too large to be kept before mean and scale were known
            for rows, block in self._raw(site):
                matrix.write(rows, block.sub_(mean).mul_(scale))
        else:
            matrix.tensor[:, : len(mean)].sub_(mean).mul_(scale)
        matrix.tensor[:, len(mean) :] = CONSTANT  # the intercept's column, if there is one
        if self.settings.solver == "lbfgs":
            return Update(len(matrix.tensor), {}, {})
        gram = self.storage.gram(site)
        if gram is not None:
            matrix.gram(gram)
        return Update(len(matrix.tensor), {}, {"eigenvalue": largest_eigenvalue(matrix, gram)})

    def _gradient(self, site: int, theta: Tensor) -> Update:
        _, y = self.clients.rows(site)
        loss, gradient = loss_and_gradient(self.storage.matrix(site), y.to(self.device), theta, self.settings.loss)
        finite = math.isfinite(loss) and bool(gradient.isfinite().all())
        return Update(len(y), {"gradient": gradient.cpu()}, {"loss": loss}, finite=finite)

    def _round(self, site: int, theta: Tensor, control: Tensor, rate: float) -> Update:
        matrix, (_, y) = self.storage.matrix(site), self.clients.rows(site)
        mine = slice(*self.clients.starts[site : site + 2])
        local = LocalDescent(
            features=matrix,
            gram=self.storage.gram(site),
            y=y.to(self.device),
            steps=self.settings.steps,
            rate=rate,
            loss=self.settings.loss,
        )
        now, before = local.run(theta, control, self.residuals[:, mine].to(self.device))
        mean_gradient = matrix.combine(now)
        finite = bool(mean_gradient.isfinite().all())
        if finite:
            self.residuals[:, mine] = now
        return Update(len(y), {"control": mean_gradient.cpu()}, {"loss": before}, finite=finite)

    def _raw(self, site: int) -> Iterable[tuple[slice, Tensor]]:
        x, _ = self.clients.rows(site)
        for start in range(0, len(x), ROWS):
            rows = slice(start, min(start + ROWS, len(x)))
            yield rows, self.features(self.clients.preprocess(x[rows].to(self.device)))


@contextlib.contextmanager
def linear_task(
    settings: TCT,
    features: GradientFeatures,
    sites: list[ClientData],
    residuals: Tensor,
    device: torch.device,
) -> Iterator[LinearTask]:
    """Create the task of these sites; features on disk exist within the context."""
    try:
        scratch = tempfile.TemporaryDirectory(prefix="fedconformal-", dir=settings.scratch or None)
    except OSError as error:
        where = f"{settings.scratch}: cannot be written ({error.strerror})"
        raise InputError(f"{where}; choose another place in scratch") from None
    with scratch as folder:
        yield LinearTask(
            features=features.to(device),
            clients=pack(sites),
            settings=settings,
            storage=FeatureStorage.make(
                [site.n for site in sites],
                features.count + settings.intercept,
                memory=settings.memory,
                folder=Path(folder),
                device=device,
                inner=settings.solver == "scaffold",
            ),
            residuals=residuals,
            device=device,
        )
