"""Sentences about promises: names of sites, classes and groups are inserted, and never edited."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.groups import group_rows
from fedconformal._base.names import name_key
from fedconformal.certificates import text
from fedconformal.certificates.text import describe_band
from fedconformal.guarantees.guarantee import Audience, Counts, Guarantee
from tests.contracts.tools import checks, guarantee_examples, refused, strata_examples

NEUTRAL = "zqzqz"
"""A name that is part of no sentence."""
WORDS = ["class", "group", "site", "scores", "rows", "set size", "all labels", "sets", "'", '"', "\\", "which", "label"]
names = (
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)
    .flatmap(lambda parts: st.sampled_from(["", "-", " ", "ic-"]).map(lambda between: between.join(parts)))
    .map(name_key)
    .filter(lambda name: name and len(name) < 50)
)
STRATA: list[Callable[[fc.Guarantee], fc.Guarantee]] = [
    lambda inner: inner,
    fc.ByClass,
    fc.ByGroup,
    lambda inner: fc.ByGroup(fc.ByClass(inner)),
]
TENTH = Fraction(1, 10)


@pytest.mark.parametrize("stratified", STRATA)
@pytest.mark.parametrize("render", [text.promise, text.lay_description, text.assumption])
@given(names)
@checks(40)
def test_a_site_is_named_as_it_is_called(
    stratified: Callable[[fc.Guarantee], fc.Guarantee], render: Callable[[fc.Guarantee, list[str]], str], name: str
) -> None:
    """Renaming a site changes its name in a sentence, and nothing else."""
    neutral = render(stratified(fc.OneSite(site=NEUTRAL)), [NEUTRAL])
    expected = neutral.replace(repr(NEUTRAL), repr(name)).replace(NEUTRAL, name)
    assert render(stratified(fc.OneSite(site=name)), [name]) == expected
    assert render(stratified(fc.OneSite(site=0)), [name]) == expected


@pytest.mark.parametrize("answers", [text.SETS, text.INTERVALS, text.LOSSES])
@pytest.mark.parametrize("guarantee", guarantee_examples(), ids=repr)
@given(names)
@checks(10)
def test_needs_name_the_sites_as_they_are_called(answers: text.Vocabulary, guarantee: fc.Guarantee, name: str) -> None:
    bound = guarantee.bind(["a", "b", "c"], [2, 1, 1])
    neutral, renamed = (
        text.shortfall(bound, TENTH, [2, 1, 1], [f"{one}{k}" for k in range(3)], answers=answers)
        for one in (NEUTRAL, name)
    )
    for k in range(3):
        neutral = neutral.replace(repr(f"{NEUTRAL}{k}"), repr(f"{name}{k}"))
    assert renamed == neutral
    assert f"calibration {answers.counted} needed" in renamed or "calibration" not in renamed


@given(names, names)
@checks(60)
def test_classes_are_named_as_they_are_called(name: str, other: str) -> None:
    shown = f"{name}, {other}"
    assert (
        text.without_promise([(None, 0), (None, 1)], [name, other]) == f"to the classes {shown}, which are in every set"
    )
    neutral = fc.Prevalence({NEUTRAL: 1.0})
    renamed = fc.Prevalence({name: 1.0})
    assert text.promise(renamed, []) == text.promise(neutral, []).replace(NEUTRAL, name)


@given(names, names)
@checks(40)
def test_groups_are_named_as_they_are_called_and_names_have_one_line(name: str, other: str) -> None:
    assert text.stratum_called(f"g={name}", 0, [other]) == f"class {other} in g={name}"
    for about in ({"site": f"{name}\n{other}"}, {"classes": [f"{name}\n{other}", "no"]}):
        with refused("printable characters"):
            fc.summarize([[0.5, 0.5]], [0], **about)
    assert f"g={name}\\nx" in group_rows({"g": [f"{name}\nx"]}, rows=1)


def said_of(predictor: fc.Predictor, *outcome: Any, **about: Any) -> list[str]:
    """List all that is said of a predictor, and of some outcomes."""
    certificate, result = predictor.certificate, predictor.evaluate(*outcome, **about)
    verdict, mixture = getattr(result, "verdict", None), getattr(result, "reweighted", None)
    said = [*msgspec.structs.astuple(certificate.statement), predictor.sentence(), describe_band(certificate)]
    said += [text.explain_uninformative(certificate) or "", getattr(result, "note", "")]
    return said + ([verdict.words, mixture.sentence] if verdict and mixture else [])


def all_that_is_said(site: str, other: str, label: str, column: str) -> list[str]:
    """List sentences, warnings, verdicts and advice for sets, intervals and losses, under these names."""
    draws, said = np.random.default_rng(0), list[str]()
    probs, y = draws.dirichlet([1, 1], 40), draws.integers(0, 2, 40)
    guarantee: fc.Guarantee
    truth, groups, first = np.array([label, "no"])[y], {column: ["x"] * 39 + [None]}, [site] * 40
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        about: dict[str, Any] = {"classes": [label, "no"], "by_class": True}
        sets = [
            fc.summarize(probs, truth, site=site, groups=groups, **about),
            fc.summarize(probs[:2], truth[:2], site=other, groups={column: ["x"] * 2}, **about),
        ]
        for guarantee in (fc.ByGroup(), fc.ByGroup(fc.ByClass())):
            said += said_of(
                fc.calibrate(sets, alpha=0.05, guarantee=guarantee), probs, truth, sites=first, groups=groups
            )
        plain = [
            fc.summarize(probs[k:], truth[k:], site=name, classes=[label, "no"]) for k, name in ((0, site), (38, other))
        ]
        for guarantee in (fc.Mixture(), fc.EverySite(), fc.OneSite(site=other), fc.WorstCase()):
            predictor = fc.calibrate(plain, alpha=0.3, guarantee=guarantee)
            said += said_of(predictor, probs, truth, sites=first) + fc.verify(predictor, plain[:1])
        numbers = [
            fc.summarize(y[k:], probs[k:, 0], score="residual", site=name) for k, name in ((0, site), (38, other))
        ]
        for guarantee in (fc.EverySite(), fc.OneSite(site=site)):
            said += said_of(fc.calibrate(numbers, alpha=0.1, guarantee=guarantee), y, probs[:, 0], sites=first)
        masks = y[:, None] == [0, 1]
        losses = [
            fc.summarize(probs[k:], masks[k:], loss="false-negative-rate", site=name)
            for k, name in ((0, site), (38, other))
        ]
        for guarantee in (fc.Mixture(), fc.OneSite(site=other)):
            predictor = fc.calibrate(losses, risk=0.4, guarantee=guarantee)
            said += said_of(predictor, np.full(40, 0.5), sites=first)
    return [*said, *(str(warning.message) for warning in caught)]


@pytest.mark.long
@given(st.tuples(names, names, names, names).filter(lambda four: len({*four, "no"}) == 5))
@checks(10)
def test_everything_names_sites_classes_and_groups_as_they_are_called(hostile: tuple[str, str, str, str]) -> None:
    neutral = tuple(f"{NEUTRAL}{k}" for k in range(4))
    expected = all_that_is_said(*neutral)
    for name, other in zip(neutral, hostile, strict=True):
        assert any(name in sentence for sentence in expected)
        expected = [sentence.replace(repr(name), repr(other)).replace(name, other) for sentence in expected]
    assert all_that_is_said(*hostile) == expected


def test_needs_are_exact_and_in_the_unit_of_the_answers() -> None:
    bound = fc.Mixture().bind(["a", "b"], [2, 1])
    said = text.shortfall(bound, TENTH, [2, 1], ["a", "b"], answers=text.LOSSES)
    assert said == "calibration rows needed: 7 more in all, at any site"


@pytest.mark.parametrize("guarantee", strata_examples(), ids=repr)
def test_a_promise_by_group_says_nothing_of_classes(guarantee: fc.Guarantee) -> None:
    by_group = fc.ByGroup(guarantee)
    sites = ["a", "b", "c"]
    said = [text.promise(by_group, sites), text.assumption(by_group, sites), text.caveat(by_group)]
    bound = by_group.bind(sites, [4, 4, 4])
    said += [text.shortfall(bound, TENTH, [1, 1, 1], sites, stratum="group"), text.why_no_bound(bound, "group")]
    assert "class" not in " ".join(said)


@pytest.mark.parametrize("guarantee", guarantee_examples(), ids=repr)
def test_a_promise_on_intervals_says_nothing_of_sets(guarantee: fc.Guarantee) -> None:
    assert "set size" not in text.caveat(guarantee, text.INTERVALS)
    assert "class" not in text.caveat(guarantee, text.INTERVALS)


def test_a_guarantee_of_another_package_names_its_audience() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Weekends(Guarantee):
        assumption = "weekends are exchangeable"

        def promised(self, counts: Counts, sizes: Counts) -> Fraction:
            return Fraction(sum(counts), sum(sizes) + 1)

        def audience(self, sites: object, stratum: str | None = None) -> Audience:
            return Audience(population="of a weekend")

    said = text.promise(Weekends(), [])
    assert said == "for a test row of a weekend, on average over calibration draws"
    assert text.promise(fc.ByGroup(Weekends()), []) == f"given any group that the row is in, {said}"
    assert text.assumption(Weekends(), []).startswith("weekends are exchangeable; the model was not fitted")
    assert text.lay_description(Weekends(), []) == "the cases that the fine print names"
    assert text.caveat(Weekends()) == ""


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (np.linspace(0, 0.9, 30), "coverage between 0.9032 and, for distinct scores, 0.9032, before"),
        (np.ones(30), "every label is in every set, so the coverage is 1"),
        (np.zeros(3), "every label is in every set, so the coverage is 1"),
    ],
)
@pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning")
def test_sets_that_hold_every_label_have_no_band(scores: Any, words: str) -> None:
    site = fc.Summary.of_scores(scores, site="a", score=fc.LAC(), classes=2)
    assert describe_band(fc.calibrate([site]).certificate).startswith(words)
