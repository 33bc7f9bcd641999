"""Coverage of the certified mixture, from test rows that are another one."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal.evaluation import evaluate_sets
from fedconformal.evaluation.claims import Reweighted
from fedconformal.evaluation.intervals import Sample, stratified_interval
from tests.contracts.tools import refused
from tests.evaluation.certified import certified as certificate_of
from tests.evaluation.certified import evaluated

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")

SIZES = {"a": 9, "b": 19, "c": 69}
ROWS = {"a": 40, "b": 10, "c": 50}
HITS = {"a": 20, "b": 9, "c": 50}
SITES = np.repeat(list(ROWS), list(ROWS.values()))
COVERED = np.concatenate([np.arange(ROWS[site]) < HITS[site] for site in ROWS])
SHARE = {site: HITS[site] / ROWS[site] for site in ROWS}


def certified(guarantee: Any = "mixture", *, named: bool = True) -> fc.Certificate:
    """Calibrate three sites of 9, 19 and 69 scores."""
    return certificate_of(guarantee, SIZES, alpha=0.2, named=named)


def mixed(certificate: fc.Certificate, rows: Any = slice(None), **more: Any) -> Reweighted:
    given = {"sites": SITES[rows], **more}
    found = evaluated(COVERED[rows], certificate=certificate, **given).reweighted
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("guarantee", "weights", "words"),
    [
        ("mixture", (9, 19, 69), "in proportion to n_k"),
        (fc.FCP(), (10, 20, 70), "in proportion to n_k + 1"),
        (fc.Mixture(weights="uniform"), (1, 1, 1), "each site equally likely"),
        (fc.Mixture(weights=(0.5, 0.2, 0.3)), (5, 2, 3), "with weights [0.5, 0.2, 0.3]"),
        (fc.PAC(), (9, 19, 69), "in proportion to n_k"),
        (fc.OneSite(site="b"), (0, 1, 0), "of site 'b'"),
        (fc.OneSite(site=2), (0, 0, 1), "of site 'c'"),
        (fc.ByClass(fc.Mixture(weights="uniform")), (1, 1, 1), "each site equally likely"),
    ],
)
def test_it_is_the_mean_of_the_sites(guarantee: Any, weights: tuple[int, ...], words: str) -> None:
    found = mixed(certified(guarantee))
    expected = np.average(list(SHARE.values()), weights=weights)
    assert found.coverage == pytest.approx(expected, abs=1e-12)
    assert found.low is not None
    assert found.high is not None
    assert found.low < expected < found.high or expected in (found.low, found.high)
    assert found.mixture in (words, f"from the mixture of the sites, {words}")
    assert f"{words}: {expected:.4f}, 95% interval {found.low:.3f} to {found.high:.3f}" in found.sentence


def test_the_interval_is_that_of_the_weighted_mean() -> None:
    number, weights = np.searchsorted(list(SIZES), SITES), np.array([9, 19, 69]) / 97
    found = mixed(certified())
    assert (found.low, found.high) == stratified_interval(np.array(list(SHARE.values())), np.bincount(number), weights)
    clusters = np.arange(100) // 5
    clustered = Sample.of(COVERED, sites=number, shares=weights, clusters=clusters).coverage_interval()
    found = mixed(certified(), clusters=clusters)
    assert (found.low, found.high) == clustered


@pytest.mark.parametrize(
    "guarantee",
    [fc.EverySite(), fc.NewSite(), fc.WorstCase(contamination=0.1), fc.Robust(liars=0), fc.ByClass(fc.PAC())],
)
def test_a_guarantee_without_one_mixture_has_none(guarantee: Any) -> None:
    found = mixed(certified(guarantee))
    assert (found.coverage, found.low, found.mixture) == (None, None, None)
    assert "names no single one" in found.sentence


def test_a_site_without_test_rows_is_named() -> None:
    found = mixed(certified(), SITES != "b")
    assert found.coverage is None
    assert "there are no test rows of b" in found.sentence
    without_weight = certified(fc.Mixture(weights=(0.5, 0.0, 0.5)))
    assert mixed(without_weight, SITES != "b").coverage == pytest.approx(0.75)


def test_rows_of_a_site_outside_the_mixture_do_not_count() -> None:
    found = mixed(certified(fc.OneSite(site="a")))
    assert found.coverage == 0.5


def test_without_names_or_clients_it_is_not_given() -> None:
    unnamed = mixed(certified(named=False))
    assert "the certified sites have no names" in unnamed.sentence
    nobody = mixed(certified(), sites=None)
    assert "needs the site of each test row" in nobody.sentence
    others = mixed(certified(), sites=np.zeros(100, dtype=int))
    assert "no test rows of a, b, c" in others.sentence
    assert evaluate_sets([[True]], [0], sites=["a"]).reweighted is None


def test_a_made_up_certificate_is_refused() -> None:
    real = certified()
    empty = [msgspec.structs.replace(used, sizes=(-1,)) for used in real.summaries]
    with refused("the certificate is malformed"):
        mixed(msgspec.structs.replace(real, summaries=empty))
    with refused("weights: 2 were given for 3 sites"):
        mixed(msgspec.structs.replace(real, guarantee=fc.Mixture(weights=(0.5, 0.5)).to_dict()))
    huge = [msgspec.structs.replace(used, sizes=(10**400,)) for used in real.summaries]
    found = mixed(msgspec.structs.replace(real, summaries=huge))
    assert found.coverage == pytest.approx(np.mean(list(SHARE.values())))
