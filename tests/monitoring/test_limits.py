"""The limit for each source of rows; no other limit is taken in silence."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal.errors import InputError
from fedconformal.guarantees.binomial import rank_bound, shares_bound
from fedconformal.monitoring.limits import limits_of, summary_limit
from tests.monitoring.watches import losses, predictor, rows_of, summaries


def test_the_mixture_gets_its_own_limit_and_a_site_never_does() -> None:
    rule = predictor()
    assert limits_of(rule).rate == pytest.approx(rank_bound(math.ceil(0.9 * 502), 500, 0.025), abs=0.01)
    for site in ("a", "b"):
        with pytest.raises(InputError, match=f"site {site} by itself is not; give the site's own summary, or state"):
            limits_of(rule, site=site)


def test_a_site_is_bounded_by_its_own_scores() -> None:
    """1 - m/n + sqrt(ln(K/b) / (2n)), with m the number of its scores that are surely at most q."""
    rule, (_, own) = predictor(), summaries()
    count = own.count_at_most(float(rule.certificate.threshold))[0]
    found = limits_of(rule, site="b", summaries=[own], failure=0.05)
    assert found.rate == pytest.approx(1 - count / 200 + math.sqrt(math.log(2 / 0.05) / 400), abs=1e-11)
    assert found.rate > 1 - count / 200 + math.sqrt(math.log(2 / 0.05) / 400)
    assert found.failure == 0.025
    assert fc.Monitor.of(rule, site="b", summary=own, failure=0.05).limit == found.rate
    assert summary_limit(90, 100, 0.05) == pytest.approx(0.2223873415, abs=1e-10)


def test_ranks_count_from_below() -> None:
    """A summary of ranks leaves open how many scores are at most q; the lower number counts."""
    sent = [fc.Summary.of_scores(np.linspace(0, 1, 997), site=site, score=fc.LAC(), classes=3) for site in "ab"]
    rule: Any = fc.calibrate(sent, alpha=0.1)
    low, high = sent[0].count_at_most(rule.certificate.threshold)
    assert low < high
    assert limits_of(rule, site="a", summaries=sent[:1]).rate == summary_limit(low, 997, 0.0125)


def test_other_summaries_are_refused() -> None:
    rule, sent = predictor(), summaries()
    with pytest.raises(InputError, match="not that of site a alone"):
        limits_of(rule, site="a", summaries=sent[1:])
    with pytest.raises(InputError, match="not one that this predictor was calibrated from"):
        limits_of(rule, site="a", summaries=[summaries((301,))[0]])
    with pytest.raises(InputError, match="no site of this predictor is called c; there are a, b"):
        limits_of(rule, site="c")
    estimated = [
        fc.Summary.of_scores(np.random.default_rng(0).random(500), site="a", kind="tdigest", score=fc.LAC(), classes=3)
    ]
    with pytest.raises(InputError, match="estimated"):
        limits_of(fc.calibrate(estimated, alpha=0.1), site="a", summaries=estimated)


def test_summaries_of_all_sites_give_each_a_limit() -> None:
    rule, sent = predictor(), summaries()
    found = limits_of(rule, summaries=sent)
    assert found.rate == limits_of(rule, failure=0.0125).rate  # two families of limits, a half each
    assert found.failure == 0.025
    assert found.sites == {
        site: limits_of(rule, site=site, summaries=[one], failure=0.0125).rate
        for site, one in zip("ab", sent, strict=True)
    }


def test_a_tiny_site_does_not_take_the_limits_of_the_others() -> None:
    sent = [
        fc.Summary.of_scores(np.arange(n) / n, site=site, score=fc.LAC(), classes=3)
        for site, n in (("a", 400), ("b", 2))
    ]
    rule: Any = fc.calibrate(sent, alpha=0.1)
    found = limits_of(rule, summaries=sent)
    assert (list(found.sites), found.too_few) == (["a"], ("b",))
    with pytest.raises(InputError, match="site 'b' has too few scores for a limit below 1; state a limit by hand"):
        limits_of(rule, site="b", summaries=sent[1:])


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
def test_the_limits_of_classes_are_not_those_of_sites() -> None:
    probs, labels = rows_of(0, 900)
    truth = np.array(["n", "y", "z"])[labels]
    sent = [
        fc.summarize(probs[k::2], truth[k::2], score=fc.LAC(), classes=["n", "y", "z"], site=site, by_class=True)
        for k, site in enumerate(("n", "b"))  # a site that is called like a class
    ]
    rule = fc.calibrate(sent, alpha=0.1, guarantee=fc.Prevalence())
    found = limits_of(rule)
    assert (found.sites, sorted(found.classes)) == ({}, [0, 1, 2])
    assert found.rate == max(found.classes.values())


def test_two_ends_are_bounded_by_the_sum_of_their_limits() -> None:
    rng = np.random.default_rng(1)
    score = fc.Signed(lower=0.25)
    sent = [fc.Summary.of_scores(rng.normal(size=n), site=site, score=score) for site, n in (("a", 300), ("b", 100))]
    rule = fc.calibrate(sent, alpha=0.1)
    parts = (Fraction(1, 40), Fraction(3, 40))
    each = [fc.Mixture().miss_rate_bounds(part, [300, 100], 0.0125)[0].rate for part in parts]
    assert limits_of(rule).rate == sum(each)
    pac = fc.calibrate(sent, alpha=0.1, guarantee=fc.PAC(failure=0.025))
    assert limits_of(pac).rate == pytest.approx(0.1)
    with pytest.warns(fc.InfeasibleWarning):
        open_ended = fc.calibrate(sent, alpha=0.008)
    lower, upper = open_ended.certificate.promises
    assert (lower.threshold, upper.threshold == "inf") == ("-inf", False)
    upper_limit = fc.Mixture().miss_rate_bounds(Fraction(3, 500), [300, 100], 0.0125)[0].rate
    assert limits_of(open_ended).rate == upper_limit


def test_sites_that_are_promised_coverage_need_no_summary() -> None:
    rule = predictor(fc.EverySite())
    each = {"a": rank_bound(math.ceil(0.9 * 301), 300, 0.0125), "b": rank_bound(math.ceil(0.9 * 201), 200, 0.0125)}
    assert {site: limits_of(rule, site=site).rate for site in "ab"} == each
    found = limits_of(rule)
    assert (found.sites, found.rate) == (each, max(each.values()))
    assert limits_of(predictor(fc.OneSite(site="b")), site="b").rate == rank_bound(math.ceil(0.9 * 201), 200, 0.025)
    with pytest.raises(InputError, match="site a by itself is not"):
        limits_of(predictor(fc.OneSite(site="b")), site="a")
    with pytest.raises(InputError, match="only site b is promised coverage"):
        limits_of(predictor(fc.OneSite(site="b")))
    assert limits_of(predictor(sizes=(300,)), site="a").rate == limits_of(predictor(sizes=(300,))).rate


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
def test_groups_and_classes_share_the_failure() -> None:
    probs, labels = rows_of(0, 600)
    sex = np.where(np.arange(600) % 3 > 0, "F", "M")
    truth = np.array(["n", "y", "z"])[labels]
    said: dict[str, Any] = {"score": fc.LAC(), "classes": ["n", "y", "z"], "site": "a"}
    by_group = fc.summarize(probs, truth, groups={"sex": sex}, **said)
    rule = fc.calibrate([by_group], alpha=0.1, guarantee=fc.ByGroup())
    found = limits_of(rule, failure=0.03)
    assert found.rate == pytest.approx(rank_bound(math.ceil(0.9 * 601), 600, 0.01), abs=1e-11)
    assert found.groups == {
        "sex=F": rank_bound(math.ceil(0.9 * 401), 400, 0.01),
        "sex=M": rank_bound(math.ceil(0.9 * 201), 200, 0.01),
    }
    by_class = fc.summarize(probs, truth, by_class=True, **said)
    rule = fc.calibrate([by_class], alpha=0.1, guarantee=fc.ByClass())
    sizes = np.bincount(labels)
    found = limits_of(rule, failure=0.03)
    assert found.classes == {c: rank_bound(math.ceil(0.9 * (n + 1)), n, 0.01) for c, n in enumerate(sizes.tolist())}
    assert found.rate == max(found.classes.values())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_all_rows_by_group_have_the_limit_of_the_promised_mixture() -> None:
    """One site of 1,000 easy rows and 20 hard ones of one row: sites weigh n_k + 1, and a rank speaks of n_k only."""
    rng = np.random.default_rng(0)
    sent = [
        fc.summarize(
            np.stack([1 - scores, scores], axis=1),
            np.repeat("n", len(scores)),
            groups={"sex": np.repeat("F", len(scores))},
            score=fc.LAC(),
            classes=["n", "y"],
            site=f"s{k}",
        )
        for k, scores in enumerate([np.zeros(1000), *rng.uniform(0.1, 1, (20, 1))])
    ]
    rule = fc.calibrate(sent, alpha=0.0375, guarantee=fc.ByGroup())
    # The threshold is the second smallest of 20 hard scores, and 40 of 1,041 test rows come from hard sites.
    rate = limits_of(rule, failure=0.025).rate
    unlucky = stats.binom.sf(1, 20, max(0.0, 1 - rate * 1041 / 40))
    assert unlucky <= 0.025
    plain = fc.Mixture().miss_rate_bounds(Fraction(375, 10_000), [1000, *[1] * 20], 0.025 / 2)[0].rate  # two groups
    assert rate == plain


def test_losses_are_bounded_without_ranks() -> None:
    sent = [fc.LossSummary.of_losses(losses(n), thresholds=range(5), site=site) for n, site in ((400, "a"), (100, "b"))]
    rule = fc.calibrate(sent, risk=0.2)
    shares = [Fraction(4, 5), Fraction(1, 5)]
    assert limits_of(rule).rate == shares_bound(Fraction(1, 5), [400, 100], shares, 0.025)
    every = fc.calibrate(sent, risk=0.2, guarantee=fc.EverySite())
    assert limits_of(every, site="b").rate == shares_bound(Fraction(1, 5), [100], [Fraction(1)], 0.0125)
    pac = fc.calibrate(sent, risk=0.2, guarantee=fc.PAC(failure=0.05))
    assert limits_of(pac, failure=0.05).rate == 0.2
    with pytest.raises(InputError, match=r"fails for a share of 0.05 of calibrations.*take 0.05 or more"):
        limits_of(pac)
    with pytest.raises(InputError, match="gives no limit where there is more than one threshold, or a loss"):
        limits_of(rule, site="a", summaries=[sent[0]])


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"limit": 0.0}, "limit is 0.0"),
        ({"limit": 1.5}, "limit is 1.5"),
        ({"failure": 0.0}, "failure is 0.0"),
        ({"failure": 0.5}, "failure is 0.5"),
        ({"limit": 0.1, "summaries": summaries()[:1]}, "two limits"),
    ],
)
def test_bad_settings_are_refused(about: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        limits_of(predictor(), **about)


def test_a_limit_by_hand_is_the_users_word() -> None:
    found = limits_of(predictor(fc.NewSite(), sizes=tuple(range(40, 55))), limit=0.2)
    assert (found.rate, found.failure, found.sites) == (0.2, 0.0, {})
    with pytest.raises(InputError, match="state a limit by hand"):
        limits_of(predictor(fc.NewSite(), sizes=tuple(range(40, 55))))
    with pytest.warns(fc.InfeasibleWarning), pytest.raises(InputError, match="nothing can be missed"):
        limits_of(predictor(sizes=(4, 3)), limit=0.2)


def test_the_sites_own_limit_holds_at_the_threshold_of_all() -> None:
    """Two sites that differ; the threshold depends on the scores of both. The count alone, without the root, fails."""
    rng, failures, tries, failure = np.random.default_rng(3), 0, 400, 0.2
    for _ in range(tries):
        easy, hard = rng.random(60), rng.random(60) ** 0.5
        q = np.sort(np.concatenate([easy, hard]))[math.ceil(0.9 * 122) - 1]
        failures += 1 - q**2 > summary_limit(int((hard <= q).sum()), 60, failure)
    assert stats.binomtest(failures, tries, failure, alternative="greater").pvalue > 1e-3


@pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning")
def test_a_site_that_gets_every_label_sets_no_limit() -> None:
    sent = [fc.Summary.of_scores(np.arange(n) / n, score=fc.LAC(), site=name) for name, n in (("a", 500), ("b", 5))]
    assert set(limits_of(fc.calibrate(sent, alpha=0.1, guarantee="every-site")).sites) == {"a"}
