"""Feature matrices in memory, or on disk where they do not fit, shared with worker processes without a copy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from fedconformal.errors import InputError

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
        """Yield blocks of rows as float32; a single block if they are stored so."""
        rows, columns = self.tensor.shape
        step = step or (max(1, BLOCK_BYTES // (4 * columns)) if self.half else rows)
        for start in range(0, rows, step):
            some = slice(start, min(start + step, rows))
            yield some, self.tensor[some].float()

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
