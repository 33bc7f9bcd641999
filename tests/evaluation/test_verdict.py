"""Does the promise still hold: the answers, their words, and where there is none."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal.evaluation import evaluate_sets
from fedconformal.evaluation.intervals import Sample, binomial_tail, stratified_tail
from fedconformal.evaluation.verdict import Verdict, standing
from tests.contracts.tools import changed
from tests.evaluation.certified import certified as certificate_of
from tests.evaluation.certified import evaluated, said

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")

SIZES = {"a": 400, "b": 300, "c": 300}
CLIENTS = np.repeat(list(SIZES), list(SIZES.values()))


def certified(guarantee: Any = "mixture", sizes: dict[str, int] = SIZES) -> fc.Certificate:
    return certificate_of(guarantee, sizes)


def verdict(certificate: fc.Certificate, missed: Any, clients: Any = CLIENTS, **more: Any) -> Verdict:
    """Evaluate rows of which each site misses this share, the first ones."""
    clients = np.asarray(clients)
    covered = np.ones(len(clients), dtype=bool)
    for site in np.unique(clients):
        share = missed if isinstance(missed, float) else missed.get(str(site), 0.0)
        mine = np.flatnonzero(clients == site)
        covered[mine[: round(share * len(mine))]] = False
    return said(evaluated(covered, others=~covered, certificate=certificate, **{"sites": clients, **more}))


def test_the_three_answers() -> None:
    good, bad = verdict(certified(), 0.09), verdict(certified(), 0.2)
    assert (good.kind, bad.kind, good.below, bad.below) == ("no contradiction", "below the promise", False, True)
    assert (good.p or 0) > 0.5
    assert (bad.p or 0) < 1e-6
    assert bad.words.startswith("Below the promise: the sets miss 20.0% of 1,000 rows (p = ")
    assert "at most 10% is promised, and an unlucky calibration explains up to 11.9%" in bad.words
    few = verdict(certified(), 0.1, list("abc") * 5)
    assert few.kind == "too few rows to tell"
    assert "even sets that miss twice as often as promised would not be detected" in few.words


def test_too_few_calibration_rows_are_said() -> None:
    found = verdict(certified(fc.OneSite(site="b"), {"a": 20, "b": 20, "c": 20}), 0.1)
    assert found.kind == "too few rows to tell"
    assert "so more calibration rows are needed" in found.words


def test_it_is_about_the_certified_mixture() -> None:
    """Site a misses half of its rows; with a weight of .01 that is allowed, with .9 it is not."""
    for weight, kind in ((0.01, "no contradiction"), (0.9, "below the promise")):
        weights = (weight, round((1 - weight) / 2, 6), round((1 - weight) / 2, 6))
        found = verdict(certified(fc.Mixture(weights=weights), {"a": 4000, "b": 4000, "c": 4000}), {"a": 0.5})
        assert found.kind == kind


def test_a_site_without_rows_is_named_and_nothing_is_assured() -> None:
    found = verdict(certified(), 0.05, CLIENTS[CLIENTS != "b"])
    assert (found.kind, found.without_rows) == ("too few rows to tell", ["b"])
    assert "there are no rows of b" in found.words
    assert verdict(certified(), 0.5, CLIENTS[CLIENTS != "b"]).below  # as if b were never missed


def test_without_sites_the_assumption_is_said() -> None:
    found = verdict(certified(), 0.09, sites=CLIENTS)
    assert "site of each row is not known" not in found.words
    sets = np.tile([True, False], (1000, 1))
    plain = said(evaluate_sets(sets, np.zeros(1000, dtype=int), certificate=certified()))
    assert plain.kind == "no contradiction"
    assert "as the site of each row is not known" in plain.words


def test_every_site_is_tested_by_itself() -> None:
    sizes = {"a": 2000, "b": 2000, "c": 2000}
    found = verdict(certified(fc.EverySite(), sizes), {"a": 0.05, "b": 0.3})
    assert found.below
    assert [part.kind for part in found.parts] == ["no contradiction", "below the promise", "no contradiction"]
    assert "of 300 rows of site b" in found.words
    close = [verdict(certified(fc.EverySite(), sizes), {"b": missed / 300}) for missed in range(46, 54)]
    least = [min(part.p for part in one.parts) for one in close]
    assert [one.p for one in close] == [min(1.0, 3 * p) for p in least]
    assert [one.below for one in close] == [3 * p <= 0.025 for p in least]
    assert any(0.025 / 3 < p <= 0.025 for p in least)
    absent = verdict(certified(fc.EverySite(), sizes), 0.05, CLIENTS[CLIENTS != "c"])
    assert (absent.kind, absent.without_rows) == ("too few rows to tell", ["c"])


def test_by_class_each_is_tested() -> None:
    certificate = certified(fc.ByClass(), {"a": 2000, "b": 2000})
    labels = np.arange(1000) % 2
    sets = np.ones((1000, 2), dtype=bool)
    sets[:400:2, 0] = False  # 200 of 500 rows of class 0
    found = said(evaluate_sets(sets, labels, certificate=certificate))
    assert found.below
    assert [(part.name, part.kind) for part in found.parts] == [
        ("class 0", "below the promise"),
        ("class 1", "no contradiction"),
    ]
    assert "come from the sites as its calibration rows did" in found.words


@pytest.mark.parametrize(
    ("guarantee", "why"),
    [
        (fc.NewSite(), "how the next one differs"),
        (fc.Robust(liars=1), "which sites are honest"),
        (fc.ByClass(fc.EverySite()), "does not record how many calibration rows of each class"),
    ],
)
def test_where_there_is_no_limit_it_says_so(guarantee: Any, why: str) -> None:
    sizes = {f"site-{k}": 200 for k in range(12)}
    found = verdict(certified(guarantee, sizes), 0.3, np.repeat(list(sizes), 20))
    assert (found.kind, found.p, found.limit) == ("no verdict", None, None)
    assert found.words.startswith("No verdict: ")
    assert why in found.words


def test_nothing_void_is_assured() -> None:
    certificate = certified()
    estimated = changed(certificate, status="estimated")
    expired = changed(certificate, expires="2001-02-03")
    for void, why in ((estimated, "an estimate may err in either direction"), (expired, "expired on 2001-02-03")):
        assert verdict(void, 0.05).kind == "no verdict"
        assert why in verdict(void, 0.05).words
        assert verdict(void, 0.3).below
        assert why in verdict(void, 0.3).words
        assert standing(void)[1] == "caution"
    infinite = certified(sizes={"a": 3})
    assert infinite.threshold == float("inf")
    assert verdict(infinite, 0.0).kind == "no verdict"
    assert standing(infinite)[1] == "caution"
    full = said(evaluated(np.ones(500, dtype=bool), certificate=certificate))
    assert full.kind == "no verdict"
    assert "every label is in every set" in full.words


def test_a_tiny_site_takes_the_promise_from_no_other_site() -> None:
    certificate = certified("every-site", {"a": 400, "b": 3})
    assert certificate.threshold == float("inf")
    assert standing(certificate) == ("not promised to every site", "caution")
    assert "every label is in every set" not in verdict(certificate, 0.05, list("ab" * 200)).words


def test_green_takes_all_of_it() -> None:
    certificate = certified()
    assert standing(certificate) == ("certified", "good")
    assert standing(certificate, verdict(certificate, 0.05)) == ("certified; no contradiction", "good")
    assert standing(certificate, verdict(certificate, 0.3)) == ("below the promise", "bad")
    assert standing(certificate, verdict(certificate, 0.1, list("abc")))[1] == "caution"


def test_clusters_count_as_few_rows() -> None:
    clusters = np.arange(1000) // 100  # all rows of a cluster are missed, or none
    found = verdict(certified(), 0.2, clusters=clusters)
    assert verdict(certified(), 0.2).below
    assert not found.below
    assert "With clusters the test is approximate" in found.words
    assert verdict(certified(), 0.4, clusters=np.arange(1000) // 4).below


def test_noise_for_privacy_takes_its_part() -> None:
    plain = certified()
    little = verdict(msgspec.structs.replace(plain, privacy={"failure": 0.015}), 0.05)
    assert (little.limit or 0) > (verdict(plain, 0.05).limit or 1)
    assert verdict(msgspec.structs.replace(plain, privacy={"failure": 0.03}), 0.3).kind == "no verdict"


def test_tails_are_tails() -> None:
    rng = np.random.default_rng(0)
    rows, shares, miss = np.array([50, 200, 30]), np.array([0.3, 0.5, 0.2]), np.array([0.05, 0.1, 0.3])
    drawn = rng.binomial(rows, miss, (50_000, 3)) / rows @ shares
    rate = float(shares @ miss)
    for x in (0.15, 0.17, 0.2):
        assert np.mean(drawn >= x) < stratified_tail(x, rows, shares, rate) < 1
    assert binomial_tail(10, 100, 0.1) == 1.0  # Hoeffding's condition does not hold
    equal = Sample.of(np.arange(100) >= 20, sites=np.arange(100) % 2, shares=np.array([0.5, 0.5]))
    assert equal.p_value(0.1) == binomial_tail(20, 100, 0.1)


def test_any_column_is_a_group() -> None:
    sets = np.array([[True, False], [False, True], [True, True], [True, False]])
    columns: dict[str, Any] = {"sex": np.array(["f", None, "m", " f"], dtype=object), "age": [60, 70, 60, 60]}
    found = evaluate_sets(sets, [0, 0, 0, 0], groups=columns).by_group
    assert [(group.name, group.rows, group.coverage) for group in found["sex"]] == [
        ("f", 2, 1.0),
        ("m", 1, 1.0),
        ("not given", 1, 0.0),
    ]
    assert [(group.name, group.rows) for group in found["age"]] == [("60", 3), ("70", 1)]
