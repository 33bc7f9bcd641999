"""Shared tools of tests: the registered classes, strategies for inputs, checks of refusals."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal import _public
from fedconformal._base import registry
from fedconformal._base.arrays import ALPHA_UNIT, Floats, Integers, as_alpha
from fedconformal.calibration.search import PromiseCurve
from fedconformal.errors import SuspiciousInputWarning
from fedconformal.testing import summed

FEW_MEGABYTES = 4 * 2**20

T = TypeVar("T")


def built_in(base: Callable[..., T]) -> dict[str, type[T]]:
    """Return every score, summary kind or guarantee that is installed, without those that a test defined."""
    found = registry.members(base)
    return {name: cls for name, cls in found.items() if not cls.__module__.startswith("tests.")}


SCORES = built_in(fc.Score)
KINDS = built_in(fc.Summary)
GUARANTEES = built_in(fc.Guarantee)

PUBLIC = {cls.__name__: cls for cls in (*SCORES.values(), *GUARANTEES.values())}
PUBLIC |= {name: getattr(_public, name) for name in fc.__all__ if hasattr(_public, name)}  # without any extra

SITES = ("a", "b", "c")
"""The sites that the examples of guarantees are made for."""

ALPHAS: list[Any] = [
    0.001,
    0.1,
    "0.1",
    np.float32(0.1),
    np.float64(0.2),
    0.3,
    0.30000000000000004,
    1 / 3,
    0.9,
    1 - 1e-15,
]


def checks(examples: int) -> settings:
    """Return Hypothesis settings: the same examples in every run, and no deadline, as the machine is shared.

    With --hypothesis-profile test (`make test`) a quarter of the examples, with quick a tenth.
    """
    return settings(
        max_examples=max(5, examples // {"full": 1, "test": 4}.get(settings.get_current_profile_name(), 10)),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    )


def score_examples() -> list[fc.Score]:
    """Return the examples of every score."""
    return [one for cls in SCORES.values() for one in cls.examples()]


def guarantee_examples(*, by_class: bool = False) -> list[fc.Guarantee]:
    """Return the examples of every guarantee that counts sites, or of those that count each class or group."""
    found = [one for cls in GUARANTEES.values() for one in cls.examples()]
    return [one for one in found if (one.by_class or one.by_group) == by_class]


def promised_many(bound: fc.Guarantee, counts: Integers, sizes: Sequence[int]) -> list[Fraction]:
    """Return what every column of counts promises."""
    group, promise = bound.grouped(sizes)
    return promise(summed(counts, group, sizes))


def strata_examples() -> list[fc.Guarantee]:
    """Return the examples of those that may be kept for every class or group."""
    return [one for one in guarantee_examples() if one.has_strata and getattr(one, "most_scores", None) is None]


def certified_kinds() -> list[str]:
    """Return the kinds of summary that bound counts for sure."""
    return [name for name, cls in KINDS.items() if cls.certified]


def changed(certificate: fc.Certificate, **fields: Any) -> fc.Certificate:
    """Replace fields of a certificate, of its statement or provenance, or of its first promise."""
    for name, value in fields.items():
        if name in certificate.__struct_fields__:
            certificate = msgspec.structs.replace(certificate, **{name: value})
            continue
        for part in ("statement", "provenance"):
            held: Any = getattr(certificate, part)
            if name in held.__struct_fields__:
                new: Any = msgspec.structs.replace(held, **{name: value})
                certificate = msgspec.structs.replace(certificate, **{part: new})
                break
        else:
            first, *others = certificate.promises
            promises = [msgspec.structs.replace(first, **{name: value}), *others]
            certificate = msgspec.structs.replace(certificate, promises=promises)
    return certificate


def altered(predictor: fc.Predictor, **fields: Any) -> fc.Predictor:
    """Replace fields of the certificate of a predictor."""
    return replace(predictor, certificate=changed(predictor.certificate, **fields))


@contextmanager
def peak_memory(most: float) -> Iterator[None]:
    """Demand that no more bytes than this are allocated at a time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def one_curve(holder: fc.Predictor) -> PromiseCurve:
    """Return the promise curve of something that has one threshold for all classes."""
    assert isinstance(holder.curve, PromiseCurve)
    return holder.curve


def coverage_at(curve: PromiseCurve, threshold: float) -> Fraction:
    """Return the coverage that a curve promises at a threshold."""
    index = int(np.searchsorted(curve.thresholds, threshold, side="right"))
    return Fraction(int(curve.promised[index - 1]), ALPHA_UNIT) if index else Fraction(0)


@st.composite
def rows_of_probabilities(draw: st.DrawFn, *, most_rows: int = 6, most_classes: int = 50) -> NDArray[np.floating[Any]]:
    """Draw (n, J) distributions in float32 or float64: with ties, near ties, zeros, one-hot and tiny entries."""
    shape = draw(st.integers(1, most_rows)), draw(st.integers(1, most_classes))
    palette = draw(
        st.sampled_from(
            [
                [0.0, 1.0],
                [1.0, 2.0, 3.0],
                [0.0, 1.0, 1.0 + 1e-13, 1.0 - 1e-13],
                [1e-320, 1e-40, 1e-12, 3e-13, 1.0],
                [0.1, 0.2, 0.7, 0.3],
            ]
        )
    )
    elements: st.SearchStrategy[float] = st.sampled_from(palette)
    if draw(st.booleans()):
        elements = st.floats(0, 1)
    weights = draw(arrays(np.float64, shape, elements=elements))
    weights[weights.sum(axis=1) < 1e-9, draw(st.integers(0, shape[1] - 1))] = 1.0
    probs: NDArray[np.floating[Any]] = weights / weights.sum(axis=1, keepdims=True)
    return probs.astype(draw(st.sampled_from([np.float32, np.float64])))


finite_scores = st.one_of(
    st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0, 1.001, -3.5, -1.0, 5e-324, -5e-324, 2.2e-308, 1e300, -1e300, 1.7e308]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, 1),
)

alphas = st.one_of(
    st.sampled_from([Fraction(i, 100) for i in (1, 5, 10, 20, 25, 30, 50, 90)]),
    st.integers(1, ALPHA_UNIT - 1).map(lambda units: Fraction(units, ALPHA_UNIT)),
    st.floats(0.001, 0.999).map(as_alpha),
)


def vectors(most: int, least: int = 1) -> st.SearchStrategy[Floats]:
    """Draw finite scores of any size and sign, often tied."""
    return st.lists(finite_scores, min_size=least, max_size=most).map(np.array)


def probes(scores: Floats, more: Sequence[float] = ()) -> Floats:
    """Return where counts may change: at, just below and just above every score, and both infinities."""
    with np.errstate(over="ignore"):
        beside = [np.nextafter(scores, -np.inf), np.nextafter(scores, np.inf)]
    return np.unique(np.concatenate([scores, *beside, [-np.inf, 0.0, np.inf], np.asarray(more, dtype=np.float64)]))


def true_counts(scores: Floats, q: Floats) -> NDArray[np.int64]:
    """Count by comparing everything with everything."""
    counts: NDArray[np.int64] = np.count_nonzero(scores[:, None] <= q[None, :], axis=0)
    return counts


class FakeTensor:
    """Behaves as a torch tensor that needs a gradient: numpy may read it only after detach and cpu."""

    def __init__(self, values: Any, *, ready: tuple[str, ...] = ()) -> None:
        self._values = np.asarray(values)
        self._ready = ready

    def detach(self) -> FakeTensor:
        return FakeTensor(self._values, ready=(*self._ready, "detach"))

    def cpu(self) -> FakeTensor:
        return FakeTensor(self._values, ready=(*self._ready, "cpu"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if set(self._ready) != {"detach", "cpu"}:
            raise RuntimeError("call detach().cpu() first")
        return self._values.astype(dtype) if dtype is not None else self._values


@contextmanager
def refused(*fragments: str, param: str | None = None, code: str | None = None) -> Iterator[None]:
    """Demand an InputError in one line that holds these fragments, of this param and code, and no warning before it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SuspiciousInputWarning)
        with pytest.raises(fc.InputError) as caught:
            yield
    message = str(caught.value)
    assert message.strip()
    assert len(message.splitlines()) == 1, message
    assert caught.value.param == param or param is None
    assert caught.value.code == code or code is None
    for fragment in fragments:
        assert fragment in message


def refusal(action: Callable[[], object]) -> str:
    """Demand an InputError without a large allocation; return its message."""
    with peak_memory(FEW_MEGABYTES), pytest.raises(fc.InputError) as caught:
        action()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@contextmanager
def maybe_infeasible() -> Iterator[None]:
    """Let it be said that there are too few scores for some alpha."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.InfeasibleWarning)
        yield
