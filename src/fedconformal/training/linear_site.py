"""Steps of a site in the second stage of TCT: features, standardisation, gradient or local descent."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
    Moments,
    largest_eigenvalue,
    loss_and_gradient,
    merge,
)
from fedconformal.training.matrices import FeatureStorage
from fedconformal.training.step import Step, Update

if TYPE_CHECKING:
    from fedconformal.training.tct import TCT

ROWS = 256


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
