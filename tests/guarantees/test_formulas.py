"""Each guarantee against its formula, written out a second time."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats
from tests.contracts.tools import alphas, checks, promised_many, refused
from tests.guarantees.plain_fractions import form, in_class, of_mixture, total


def made(scores: list[Floats], kind: str = "exact") -> list[fc.Summary]:
    return [fc.Summary.of_scores(part, kind=kind, site=f"s{k}") for k, part in enumerate(scores)]


@pytest.mark.parametrize(
    ("sizes", "paper", "rank"), [([10] * 100, 990, 901), ([5] * 200, 1080, 901), ([1000] * 5, 4505, 4501)]
)
def test_ranks_at_one_tenth(sizes: list[int], paper: int, rank: int) -> None:
    """A rank above N is infinite: the paper's, at 200 sites of five rows."""
    assert fc.FCP().rank(Fraction(1, 10), sizes) == (paper, sum(sizes) + len(sizes))
    assert fc.Mixture().rank(Fraction(1, 10), sizes) == (rank, sum(sizes))
    band = fc.Mixture().band(Fraction(1, 10), sizes)
    assert (band.least, band.most) == (Fraction(rank - 1, sum(sizes)), Fraction(rank, sum(sizes)))


@pytest.mark.parametrize("guarantee", [fc.FCP(), fc.NewSite(), fc.WorstCase()], ids=repr)
def test_some_have_no_classes(guarantee: fc.Guarantee) -> None:
    with refused(param="guarantee"):
        guarantee.bind((), [20, 20], "class")


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8), st.integers(0, 3)), min_size=1, max_size=6),
    st.sampled_from(["rows", "uniform", "given"]),
    alphas,
)
@checks(200)
def test_any_mixture_against_plain_fractions(sites: list[tuple[int, int, int]], how: str, alpha: Fraction) -> None:
    """Sites of any sizes, also without rows, and any shares."""
    sizes, lacking = [n for n, _, _ in sites], [min(n, m) for n, _, m in sites]
    parts = {"rows": sizes, "uniform": [1] * len(sizes)}.get(how, [part for _, part, _ in sites])
    if not sum(parts):
        return
    weights = tuple(part / sum(parts) for part in parts)
    shares = [Fraction(part, sum(parts)) for part in parts]
    if how == "given":
        exact = [Fraction(repr(weight)) for weight in weights]
        shares = [weight / sum(exact) for weight in exact]
    mixture = fc.Mixture(weights=weights if how == "given" else how)
    counts = [n - less for n, less in zip(sizes, lacking, strict=True)]
    assert mixture.promised(counts, sizes) == of_mixture(shares, counts, sizes)
    assert promised_many(mixture, np.array([counts, sizes]).T, sizes)[1] == of_mixture(shares, sizes, sizes)
    rows, price = form([shares], sizes)
    unseen = total([w / n for w, n, size in zip(shares, rows, sizes, strict=True) if not (price and size)])
    if mixture.sites_apart:
        assert mixture.band(alpha, sizes).most == min(Fraction(1), 1 - alpha + 2 * price + unseen)
    of_class = [m // 2 for m in counts], [n // 2 for n in sizes]
    assert mixture.bind((), sizes, "class").promised(*of_class) == in_class([shares], *of_class, sizes)


def test_neither_price_is_always_the_smaller() -> None:
    """Uniform shares: of a site of one row and five of 200, the sum of 1/(6 (n_k + 1)); of 20 sites of ten, 1/200."""
    uniform = fc.Mixture(weights="uniform")
    few, many = [1, *[200] * 5], [10] * 20
    assert uniform.promised(few, few) == 1 - Fraction(1, 12) - Fraction(5, 6 * 201)
    assert uniform.promised(many, many) == 1 - Fraction(1, 200)
    assert float(1 - uniform.promised(few, few)) == pytest.approx(0.0875, abs=1e-4)
    for tie in (fc.Mixture(), uniform):  # both prices are one row: a tie is a swap
        assert [tie.promised(counts, [1, 1]) for counts in ([1, 1], [1, 0])] == [Fraction(1, 2), 0]


def test_a_share_on_a_site_without_rows_may_be_covered_or_not() -> None:
    sizes, mixture = [0, 100, 100], fc.Mixture(weights=(0.05, 0.475, 0.475))
    assert mixture.promised(sizes, sizes) == Fraction(95, 100) - Fraction(475, 100_000)
    assert mixture.band(Fraction(1, 10), sizes).most == Fraction(95, 100) + 2 * Fraction(475, 100_000)


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        (
            fc.Mixture(),
            "so every label is in every set; calibration scores needed: 2 more in all, at any site",
        ),
        (fc.OneSite(site="b"), "calibration scores needed: 7 more at site 'b'"),
        (fc.EverySite(), "calibration scores needed: 3 more at site 'a', 7 more at site 'b'"),
        (fc.Mixture(weights="uniform"), "calibration scores needed: 3 more at site 'b'"),  # 1/2 of 1/5
    ],
    ids=repr,
)
def test_the_warning_says_how_many_more_and_where(guarantee: fc.Guarantee, words: str) -> None:
    a, b = (
        fc.Summary.of_scores(range(6), kind="exact", site="a"),
        fc.Summary.of_scores([0.5, 1.5], kind="exact", site="b"),
    )
    with pytest.warns(fc.InfeasibleWarning) as caught:
        fc.calibrate([a, b], alpha=0.1, guarantee=guarantee)
    (warning,) = caught
    assert str(warning.message).startswith("alpha=0.1 ")
    assert str(warning.message).endswith(words)
    assert warning.filename == __file__  # it points at the caller


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
@pytest.mark.parametrize("guarantee", [fc.ByClass(), fc.ByGroup(), fc.Prevalence({0: 1.0}), None], ids=repr)
def test_the_warning_points_at_the_caller(guarantee: fc.Guarantee | None) -> None:
    """By class, by group, over classes and for losses; for one threshold see above."""
    few = fc.Summary.of_scores([0.1, 0.2], kind="exact", labels=[0, 0])
    if isinstance(guarantee, fc.ByGroup):
        few = fc.Summary.of_scores([0.1, 0.2], kind="exact", groups={"sex": ["F", "F"]})
    losses: dict[str, Any] = {"summaries": [fc.LossSummary.of_losses([[1.0]], thresholds=[1])], "risk": 0.5}
    scores: dict[str, Any] = {"summaries": [few], "alpha": 0.1, "guarantee": guarantee}
    with pytest.warns(fc.InfeasibleWarning) as caught:
        fc.calibrate(**(losses if guarantee is None else scores))
    assert {warning.filename for warning in caught if warning.category is fc.InfeasibleWarning} == {__file__}


def test_a_long_list_of_sites_is_cut_short() -> None:
    sites = [fc.Summary.of_scores([0.5], kind="exact") for _ in range(9)]
    with pytest.warns(fc.InfeasibleWarning, match="8 more at site number 5, and likewise at 4 more sites$"):
        fc.calibrate(sites, alpha=0.1, guarantee=fc.EverySite())


@pytest.mark.parametrize(
    ("guarantee", "message"),
    [
        (fc.OneSite(site="z"), "no site is called 'z'; there are a, b"),
        (fc.OneSite(site=2), "site is 2, expected its name or a position from 0 to 1"),
        (fc.OneSite(site=-1), "site is -1"),
        (fc.Mixture(weights=(1.0,)), "weights: 1 were given for 2 sites"),
        (fc.Mixture(weights=(0.5, 0.25, 0.25)), "weights: 3 were given for 2 sites"),
    ],
    ids=repr,
)
def test_a_guarantee_that_does_not_fit_the_sites(guarantee: fc.Guarantee, message: str) -> None:
    sites = [fc.Summary.of_scores([0.5], site="a"), fc.Summary.of_scores([0.5], site="b")]
    with pytest.raises(fc.InputError) as caught:
        fc.calibrate(sites, guarantee=guarantee)
    assert message in str(caught.value)


@pytest.mark.parametrize("site", [None, True, 1.5, ["a"], b"a"])
def test_a_site_is_a_name_or_a_position(site: object) -> None:
    with pytest.raises(fc.InputError, match="expected a site's name or its position"):
        fc.OneSite(site=site)  # type: ignore[arg-type]


def test_slack_of_the_summaries_is_in_the_band() -> None:
    rng = np.random.default_rng(3)
    scores = [rng.normal(size=1000), rng.normal(size=400)]
    rough = made(scores, kind="ranks")
    gaps = [summary.gap for summary in rough]
    N, K = 1400, 2
    for guarantee, slack in (
        (fc.Mixture(), Fraction(sum(gaps), N)),
        (fc.FCP(), Fraction(sum(gaps), N + K)),
        (fc.OneSite(site=1), Fraction(gaps[1], 401)),
        (
            fc.Mixture(weights=(0.25, 0.75)),
            Fraction(1, 4) * Fraction(gaps[0], 1000) + Fraction(3, 4) * Fraction(gaps[1], 400),
        ),
        (fc.EverySite(), max(Fraction(gaps[0], 1001), Fraction(gaps[1], 401))),
    ):
        exact, sent = (
            fc.calibrate(sites, alpha=0.1, guarantee=guarantee, exact=True) for sites in (made(scores), rough)
        )
        assert sent.threshold >= exact.threshold
        assert sent.certificate.slack == float(slack) > 0
        assert sent.certificate.target == exact.certificate.target
        assert sent.certificate.coverage_at_least == exact.certificate.coverage_at_least
        if not isinstance(guarantee, fc.EverySite):
            assert sent.certificate.coverage_at_most == pytest.approx(exact.certificate.coverage_at_most + float(slack))


def test_one_site_takes_parts_of_rows() -> None:
    assert fc.OneSite(site=1).promised_many(np.array([[9], [40]]), [10, 5], 10) == [Fraction(2, 3)]
