"""One training step as engines carry it: the question to the sites, the answer of a site, and the mean of answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedconformal.errors import InputError


@dataclass(frozen=True, eq=False)
class Step:
    """Name of a step, the tensors sent to every site, and numbers such as that of the round."""

    what: str
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)


class Update(NamedTuple):
    """The answer of a site: its number of rows, the result, metrics, and whether the result is finite."""

    rows: int
    tensors: Mapping[str, Tensor]
    numbers: Mapping[str, float]
    finite: bool = True


class WeightedMean:
    """Weighted mean of named arrays and numbers, accumulated site by site in double precision.

    A product of a float32 weight and a number of rows is exact in float64, so every engine gets the same bits.

    >>> mean = WeightedMean()
    >>> mean.add(1, {"w": np.float32([0, 4])}, {"loss": 0.5})
    >>> mean.add(3, {"w": np.float32([4, 0])}, {"loss": 1.5})
    >>> mean.arrays({"w": np.zeros(2, np.float32)}), mean.numbers()
    ({'w': array([3., 1.], dtype=float32)}, {'loss': 1.25})
    """

    def __init__(self) -> None:
        self.sites = 0
        self._share = 0.0
        self._arrays: dict[str, NDArray[np.float64]] = {}
        self._numbers: dict[str, float] = {}

    def add(self, share: float, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, float]) -> None:
        """Add the answer of one site; a number counts only if every site sends it."""
        known = numbers if not self.sites else self._numbers
        self._numbers = {
            name: self._numbers.get(name, 0.0) + share * numbers[name] for name in known if name in numbers
        }
        with np.errstate(over="ignore"):
            for name, array in arrays.items():
                if name not in self._arrays:
                    self._arrays[name] = np.zeros(np.shape(array))
                self._arrays[name] += np.multiply(array, share, dtype=np.float64)
        self._share += share
        self.sites += 1

    def arrays(self, like: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the means of these arrays, in their types."""
        means = {}
        for name, array in like.items():
            with np.errstate(over="ignore"):
                means[name] = (self._arrays[name] / self._share).astype(array.dtype)
            if not np.isfinite(means[name]).all():
                raise InputError(f"train: the mean of {name} is too large for {array.dtype}; try a smaller rate")
        return means

    def numbers(self) -> dict[str, float]:
        """Return the means of the numbers."""
        return {name: total / self._share for name, total in self._numbers.items()}
