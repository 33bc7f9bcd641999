"""Noise before anything leaves the site: private by OpenDP's account, and still certified."""

from __future__ import annotations

import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from fedconformal.privacy.local_dp import (
    MOVED,
    NoisyHistogram,
    _noise,
    calibrate_locally,
    noisy_histogram,
    tail_margin,
)
from tests.contracts.tools import refusal, refused

GRID = [*np.linspace(0.05, 1, 20).tolist(), math.inf]


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(1, 3)])
def test_opendp_accounts_for_no_more_than_epsilon(epsilon: Fraction) -> None:
    assert 0.999 * epsilon < _noise(epsilon).map(MOVED) <= epsilon


def test_replacing_a_row_moves_one_count() -> None:
    quiet = [noisy_histogram(part, epsilon=1000, site="a", grid=GRID).counts for part in ([0.1, 0.2], [0.1, 0.9])]
    assert (
        np.abs(np.array(quiet[0]) - np.array(quiet[1])).sum() == MOVED
    )  # at this epsilon there is no noise to speak of
    edges = noisy_histogram([0.05, 0.0501, 5.0], epsilon=1000, site="a", grid=GRID)
    assert (edges.counts[0], edges.counts[1], edges.counts[-1]) == (1, 1, 1)  # a score on an edge is at or below it


def test_the_noise_is_as_wide_as_it_should_be() -> None:
    noise = np.array(_noise(Fraction(1))([0] * 20_000))
    p = math.exp(-1 / 2)
    variance = 2 * p / (1 - p) ** 2
    assert abs(noise.var() / variance - 1) < 0.1
    assert abs(noise.mean()) < 5 * math.sqrt(variance / len(noise))


def test_the_margin_bounds_the_tail() -> None:
    terms, failure = 60, Fraction(1, 16)
    margin = tail_margin(Fraction(1), terms, 1, failure)
    sums = np.array(_noise(Fraction(1))([0] * terms * 2000)).reshape(2000, terms).sum(axis=1)
    assert (sums > margin).mean() <= failure
    assert (sums > margin / 4).mean() > failure  # and it is not much too wide


@pytest.mark.parametrize("epsilon", [1, 10])
def test_coverage_is_within_the_certificate(epsilon: int) -> None:
    rng = np.random.default_rng(0)
    coverages = []
    for _ in range(60):
        sites = [
            noisy_histogram(rng.random(3000) ** power, epsilon=epsilon, site=f"{power}", grid=GRID)
            for power in (1.0, 0.5)
        ]
        found = calibrate_locally([NoisyHistogram.from_bytes(site.to_bytes()) for site in sites])
        q = min(found.threshold, 1.0)
        coverages.append((q + q**2) / 2)
        assert found.coverage >= 0.9
    assert np.mean(coverages) >= 0.9
    assert np.mean(coverages) < 1


def test_too_few_rows_take_every_label() -> None:
    assert calibrate_locally([noisy_histogram([0.1] * 20, epsilon=0.1, site="a")]).threshold == math.inf


def test_refusals() -> None:
    a, b = (noisy_histogram([0.1, 0.2], epsilon=1, site=name, grid=GRID) for name in "ab")
    with refused("each once"):
        calibrate_locally([a, a])
    with refused("another grid or epsilon"):
        calibrate_locally([a, noisy_histogram([0.1], epsilon=2, site="c", grid=GRID)])
    assert calibrate_locally([a, b], alpha=1e-15).threshold == math.inf
    data = a.to_bytes()
    for bad in (b"", data[:-1], data + b"\0", b"FCX1" + data[4:], data[:4] + b"\x90"):
        refusal(lambda bad=bad: NoisyHistogram.from_bytes(bad))  # type: ignore[misc]
    for changed in ({"counts": a.counts[:-1]}, {"grid": a.grid[::-1]}, {"size": 0}, {"epsilon": -1.0}, {"site": "\n"}):
        refusal(lambda changed=changed: NoisyHistogram.from_bytes(msgspec.structs.replace(a, **changed).to_bytes()))  # type: ignore[misc]
