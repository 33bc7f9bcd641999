"""Linear model on gradient features: the computations of a site in the second stage of TCT.

Yu, Wei, Karimireddy, Ma and Jordan, "TCT: convexifying federated learning using bootstrapped neural tangent kernels",
2022. For L-BFGS (`lbfgs.py`) a site returns the gradient of its loss at theta. For SCAFFOLD (`tct.py`) it takes
M steps of full gradient descent from theta, each corrected by h_k = c_k - c, where c_k is the site's mean gradient over
its last M steps and c the mean over sites. Theta then moves by -rate M c with the new c, as the corrections cancel.

The M steps are exact in sample space. With G = F F', z = F theta and residuals r = softmax(z) - Y,

    z <- z - rate (G r / n - F h),    c_k = F' R,    R = (sum of r over the steps) / (M n),

which costs n^2 J a step instead of 2 n p J. Classes are on the first axis, because products with few rows are faster.
Features are standardised and divided by the square root of their number, so that the trace of G / n is about 1 and one
step size suits any number of features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Loss = Literal["cross-entropy", "squared"]
CURVATURE: dict[Loss, float] = {"cross-entropy": 0.5, "squared": 1.0}
"""Maximum curvature of a row's loss in its logits."""
POWER_STEPS = 100
POWER_TOLERANCE = 1e-4
CONSTANT = 0.3
"""Value of the intercept's feature, comparable to the other features along their principal direction."""
STILL = 1e-6
"""Relative deviation below which a feature counts as constant."""
BLOCK_BYTES = 2**26
"""Size of the blocks in which half precision is converted to float32."""
GRAM_ROWS = 1024
LARGEST_HALF = 65504.0


@dataclass(frozen=True, eq=False)
class Matrix:
    """Rows in single or half precision, with the products that training needs.

    >>> matrix = Matrix(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    >>> matrix.times(torch.tensor([[1.0, 0.0, 0.0]]))
    tensor([[1., 4.]])
    >>> matrix.combine(torch.tensor([[1.0, 1.0]]))
    tensor([[5., 7., 9.]])
    """

    tensor: Tensor

    @property
    def half(self) -> bool:
        """Whether rows are stored in half precision."""
        return self.tensor.dtype == torch.float16

    def write(self, rows: slice, values: Tensor) -> None:
        """Store some rows, in the first columns."""
        self.tensor[rows, : values.shape[1]] = values.clamp(-LARGEST_HALF, LARGEST_HALF) if self.half else values

    def blocks(self, step: int | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Yield blocks of rows as float32; a single block if they are stored as float32."""
        rows, columns = self.tensor.shape
        step = step or (max(1, BLOCK_BYTES // (4 * columns)) if self.half else rows)
        for start in range(0, rows, step):
            index = slice(start, min(start + step, rows))
            yield index, self.tensor[index].float()

    def times(self, matrix: Tensor) -> Tensor:
        """Return `matrix` times the transpose of the rows."""
        return torch.cat([matrix @ block.T for _, block in self.blocks()], dim=1)

    def combine(self, matrix: Tensor) -> Tensor:
        """Return `matrix` times the rows."""
        total = torch.zeros(len(matrix), self.tensor.shape[1], device=matrix.device)
        for rows, block in self.blocks():
            total.addmm_(matrix[:, rows], block)
        return total

    def gram(self, out: Tensor) -> None:
        """Write the inner products of all rows, blockwise; mirrored blocks are computed once."""
        for rows, block in self.blocks(GRAM_ROWS):
            for others, other in self.blocks(GRAM_ROWS):
                if others.start > rows.start:
                    break
                product = block @ other.T
                out[rows, others] = product
                out[others, rows] = product.T


class Moments(NamedTuple):
    """Number of rows, and mean and variance of every feature."""

    rows: int
    mean: Tensor
    variance: Tensor


def merge(parts: Iterable[Moments]) -> Moments:
    """Merge moments in double precision, without cancellation.

    Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.

    >>> one = Moments(1, torch.tensor([1e8]), torch.tensor([0.0]))
    >>> merge([one, Moments(1, torch.tensor([1e8 + 16]), torch.tensor([0.0]))]).variance
    tensor([64.], dtype=torch.float64)
    """
    rows, mean, squares = 0, torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for part in parts:
        total = rows + part.rows
        delta = part.mean.double() - mean
        squares = squares + part.variance.double() * part.rows + delta.square() * (rows * part.rows / total)
        mean = mean + delta * (part.rows / total)
        rows = total
    return Moments(rows, mean, squares / max(rows, 1))


def scale_of(moments: Moments) -> Tensor:
    """Return the scale of centred features; 0 for constant ones."""
    spread = moments.variance.sqrt()
    varying = spread > STILL * moments.mean.abs()
    return torch.where(varying, 1 / (spread * varying.sum().clamp_min(1).sqrt()), 0.0).float()


def residual(z: Tensor, y: Tensor, loss: Loss) -> Tensor:
    """Return the gradient of the loss over the logits, classes first.

    >>> residual(torch.zeros(2, 1), torch.tensor([1]), "cross-entropy")
    tensor([[ 0.5000],
            [-0.5000]])
    """
    # Squared loss has centred targets, as the features are centred; this is the authors' choice.
    r = z.softmax(dim=0) if loss == "cross-entropy" else z + 1 / len(z)
    r[y, torch.arange(len(y), device=y.device)] -= 1
    return r


def mean_loss(z: Tensor, y: Tensor, loss: Loss) -> float:
    """Return the mean loss of logits, classes first."""
    if loss == "squared":
        return float(residual(z, y, loss).square().sum(dim=0).mean() / 2)
    return float((z.logsumexp(dim=0) - z[y, torch.arange(len(y), device=y.device)]).mean())


def loss_and_gradient(features: Matrix, y: Tensor, theta: Tensor, loss: Loss) -> tuple[float, Tensor]:
    """Return the mean loss at theta and its gradient, in one pass over the features."""
    total, gradient = 0.0, torch.zeros_like(theta)
    for rows, block in features.blocks():
        z = theta @ block.T
        total += mean_loss(z, y[rows], loss) * len(block)
        gradient.addmm_(residual(z, y[rows], loss), block)
    return total / len(y), gradient.div_(len(y))


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalDescent:
    """Local steps of SCAFFOLD in one round, with the inner products of all rows in `gram`."""

    features: Matrix
    gram: Tensor
    y: Tensor
    steps: int
    rate: float
    loss: Loss

    def run(self, theta: Tensor, control: Tensor, last: Tensor) -> tuple[Tensor, float]:
        """Return R of this round and the loss at its start, from theta, c and R of the last round."""
        z, control_logits = self.features.times(torch.cat([theta, control])).split(len(theta))
        before = mean_loss(z, self.y, self.loss)
        correction, z, total = (last @ self.gram - control_logits).mul_(self.rate), z.clone(), torch.zeros_like(z)
        for _ in range(self.steps):
            r = residual(z, self.y, self.loss)
            total += r
            z.addmm_(r, self.gram, alpha=-self.rate / len(self.y)).add_(correction)
        return total.div_(self.steps * len(self.y)), before


def largest_eigenvalue(gram: Tensor) -> float:
    """Return the largest eigenvalue of G / n, by power iteration."""
    v = torch.randn(1, len(gram), generator=torch.Generator().manual_seed(0)).to(gram.device)
    value = 0.0
    for _ in range(POWER_STEPS):
        v = (v / v.norm().clamp_min(1e-30)) @ gram
        before, value = value, float(v.norm())
        if abs(value - before) <= POWER_TOLERANCE * value:
            break
    return value / len(gram)
