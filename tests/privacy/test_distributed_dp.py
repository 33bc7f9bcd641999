"""Noise that all sites add together: private by definition, certified by the margins, and hidden by the masks."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import fedconformal as fc
from fedconformal._base.arrays import Floats, keys_of
from fedconformal.privacy.distributed_dp import NoisyRound
from fedconformal.privacy.noise import in_cells, margins, shares
from fedconformal.privacy.sums import site as at_site
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.driver import certify_session
from fedconformal.privacy.sums.messages import Question, Reveal, pack
from fedconformal.privacy.sums.radix import Search
from tests.contracts.tools import maybe_infeasible, refused
from tests.privacy.sums_play import calibrate_by_sums, carried, each, fresh, opened, took

TENTH = Fraction(1, 10)
GRID = np.append(np.linspace(0.1, 1, 15), math.inf)


def made(sizes: tuple[int, ...], epsilon: str, grid: Floats = GRID) -> NoisyRound:
    return NoisyRound(guarantee=fc.Mixture(), alpha=TENTH, sizes=sizes, epsilon=Fraction(epsilon), grid=grid)


def left_of(shares_there: int, shares_made_for: int, epsilon: float) -> Floats:
    """Return the law of the noise that these shares add up to, from -400 to 400: two negative binomial draws apart."""
    p = math.exp(-epsilon / 2)
    one = stats.nbinom.pmf(np.arange(400), shares_there / shares_made_for, 1 - p)
    law: Floats = np.convolve(one, one[::-1])
    return law


def exact_epsilon(law: Floats) -> float:
    """Return the loss of privacy when a row moves from one cell to another: twice the largest log-ratio of neighbours.

    Up to 40 from zero, that is. Of shares that are too few the ratios fall from there on, and of others they rise to
    that of the tails, which is epsilon itself, however many shares there are.
    """
    zero = len(law) // 2
    near = np.log(law[zero - 40 : zero + 41])
    ratios = np.abs(np.diff(near))[40:]
    assert (np.diff(ratios) <= 1e-9).all() or (np.diff(ratios) >= -1e-9).all()
    return float(2 * ratios.max())


@pytest.mark.parametrize("sites", [*range(3, 13), 40, 1000])
@pytest.mark.parametrize("epsilon", ["0.25", "4"])
def test_epsilon_holds_against_a_third_of_the_sites(sites: int, epsilon: str) -> None:
    """Exactly: of the fewest that may answer a third of all subtract their shares, and epsilon is what is left."""
    noisy = made((1,) * sites, epsilon)
    assert noisy.colluding == max(1, math.ceil(sites / 3))
    assert noisy.least <= sites
    kept = noisy.least - noisy.colluding
    assert exact_epsilon(left_of(kept, noisy.honest, float(epsilon))) <= float(epsilon) + 1e-9
    assert exact_epsilon(left_of(kept - 1, noisy.honest, float(epsilon))) > float(epsilon) + 1e-3 if kept > 1 else True
    for more in range(kept, sites + 1, max(1, sites // 7)):
        assert exact_epsilon(left_of(more, noisy.honest, float(epsilon))) <= float(epsilon) + 1e-9
    assert noisy.strength <= 2  # what all sites add is at most the noise of two draws


@pytest.mark.parametrize("sites", [3, 10])
def test_the_honest_sites_alone_send_the_noise_of_one_draw(sites: int) -> None:
    """What the rest of the sites add is known to those who side with the coordinator, so it must not be needed."""
    noisy = made((1,) * sites, "1", np.append(np.linspace(0, 1, 4095), math.inf))
    keys = keys_of(np.array([0.5]))
    sent = [noisy.histogram(Search(), keys).astype(np.int32) for _ in range(noisy.honest)]
    drawn = np.sum(sent, axis=0) - in_cells(keys, noisy.grid) * noisy.honest
    p = math.exp(-1 / 2)
    # More than six standard errors; with shares made for all sites it would be two thirds, or half, of this.
    assert np.var(drawn) == pytest.approx(2 * p / (1 - p) ** 2, rel=0.22)


def test_the_margins_allow_for_the_noise_of_all_sites() -> None:
    plan = made((800, 400, 300), "1").plan
    assert plan is not None
    assert plan.margins.tolist() == margins(Fraction(1), len(GRID), Fraction(3, 2), plan.failure).tolist()
    assert (plan.margins > margins(Fraction(1), len(GRID), Fraction(1), plan.failure)).all()


def sites_of(sizes: tuple[int, ...]) -> dict[str, Floats]:
    return {f"site-{k}": np.random.default_rng(k).random(n) for k, n in enumerate(sizes)}


def test_the_threshold_is_that_of_the_noisy_sum() -> None:
    """Masks cancel and words keep their sign: at an epsilon with hardly any noise the plain quantile comes out."""
    sites = sites_of((300, 200, 100))
    found = calibrate_by_sums(sites, epsilon=1000, grid=GRID)
    scores = np.sort(np.concatenate(list(sites.values())))
    assert found.threshold == GRID[np.searchsorted(GRID, scores[541])]
    negative = made((100, 100, 100), "1")
    words = np.full(len(GRID), -5, dtype=np.int32).view(np.uint32)
    assert negative.advance(Search(), words, frozenset([0, 1, 2])).answer == math.inf


@pytest.mark.parametrize("late", ["site-3", ""])
def test_a_site_that_drops_out_only_raises_the_threshold(late: str) -> None:
    state, question, sites = opened(sites_of((3000,) * 10), late=late, epsilon=5, grid=GRID)
    left, answers = each(sites, {name: question for name in sites if name != "site-3"})
    state, _, _ = carried(*took(state, answers), left)
    # 27,000 of 30,000 scores are left, fewer than the rank and its margin: nothing but +inf is safe.
    assert state.search.answer == math.inf
    certificate = certify_session(state).certificate
    assert certificate.privacy is not None
    assert (certificate.privacy["honest_sites"], certificate.privacy["answered_sites"]) == (5, 9)
    assert [one["site"] for one in certificate.privacy["dropped"]] == ["site-3"]
    assert "the promise still includes that site" in certificate.statement.caveat


def test_a_site_that_vanishes_after_its_answer_has_added_its_noise() -> None:
    """Its counts and its noise are in the sum, by shares, also if a neighbour did not answer; the claim counts it."""
    parts = sites_of((3000,) * 10)
    state, question, sites = opened(parts | {"site-9": np.array([0.5])}, epsilon=100, grid=GRID)
    left, answers = each(sites, {name: question for name in sites if name != "site-9"})
    state, shown, requests = carried(*took(state, answers), left, until=Reveal)
    state, _, _ = carried(state, requests, {name: site for name, site in shown.items() if name != "site-4"})
    scores = np.sort(np.concatenate([part for name, part in parts.items() if name != "site-9"]))
    rank = state.session.guarantee.band(TENTH, state.session.sizes).rank
    assert rank is not None
    assert state.search.answer == GRID[np.searchsorted(GRID, scores[rank - 1])]
    privacy = certify_session(state).certificate.privacy
    assert privacy is not None
    assert privacy["answered_sites"] == 9
    assert [(one["site"], one["when"]) for one in privacy["dropped"]] == [
        ("site-4", "after its answer in round 1"),
        ("site-9", "before its answer in round 1"),
    ]


def test_a_sum_without_enough_noise_stays_hidden() -> None:
    state, question, sites = opened(sites_of((3000,) * 10), epsilon=5, grid=GRID)
    left, answers = each(sites, dict.fromkeys(sites, question))
    with refused("round 0 has been answered"):
        at_site.answer(left["site-0"], question)  # nobody gets two noisy answers
    with refused("only 5 of 10 sites are left; a sum of fewer than 8 stays hidden"):
        took(state, answers[:5])
    session = state.session
    few = "only 8 of 10 sites add noise, at least 9 are needed to keep epsilon against 4 that collude"
    with refused(few):
        took(state, answers[:8])
    for left_over, problem in ((5, "only 5 of 10 sites are left; a sum of fewer than 8 stays hidden"), (8, few)):
        question = pack(Question(session.id, 0, 0, session.as_bits(range(left_over))), state.signing)
        with refused(problem):
            at_site.answer(left["site-0"], question)
    noisy = made((3000,) * 10, "5")
    with refused(few):
        noisy.advance(Search(), np.zeros(len(GRID), dtype=np.uint32), frozenset(range(8)))


@pytest.mark.long
def test_a_sum_that_cannot_be_gives_no_certificate() -> None:
    """Whoever reveals a wrong mask makes the sum any number; noise is never so large."""
    noisy = made((2000,) * 4, "1")
    everybody = frozenset(range(4))
    for cells in ([0, 2000 * 4 + noisy.most_noise + 1], [-noisy.most_noise - 1, 2000 * 4]):
        wrong = np.array([*cells, *[0] * (len(GRID) - 2)], dtype=np.int32).view(np.uint32)
        with refused("the sum is impossible: a site sent something else than its counts with noise"):
            noisy.advance(Search(), wrong, everybody)
    right = np.array([0, 2000 * 4, *[0] * (len(GRID) - 2)], dtype=np.uint32)
    assert noisy.advance(Search(), right, everybody).answer == GRID[1]
    drawn = sum(shares(3_000, noisy.epsilon, noisy.honest) for _ in range(4))
    assert np.abs(drawn).max() < noisy.most_noise / 3


def test_too_few_scores_are_not_asked_for() -> None:
    sites = fresh({name: np.linspace(0, 1, 30) for name in "abc"})
    state, invitation = invite(fc.Mixture(), 0.1, epsilon="0.1")
    state, outgoing = took(state, each(sites, dict.fromkeys(sites, invitation))[1])
    assert (state.search.answer, outgoing) == (math.inf, {})


def test_refusals() -> None:
    with refused("grid: expected 2 to 4096"):
        invite(fc.Mixture(), 0.1, epsilon=1, grid=[1.0, 0.5, math.inf])
    with refused(param="grid"):
        invite(fc.Mixture(), 0.1, grid=GRID)
    with maybe_infeasible():
        assert made((5, 5, 5), "0.1").start.answer == math.inf
    assert made((2**30, 5, 5), "1").dtype == np.dtype("<u8")
