"""Stratified summaries: their parts, pooling, extension, and refusals; tests/vectors/wire has the hostile bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.groups import ALL, MOST_VALUES, NONE
from fedconformal.errors import ClassCountsWarning
from fedconformal.summaries import StratifiedSummary
from fedconformal.summaries.format import MAX_GROUPS
from fedconformal.summaries.strata import StratumKey
from fedconformal.testing import check_bytes, check_counts
from tests.contracts.tools import KINDS, refused

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")

RNG = np.random.default_rng(4)
SCORES = RNG.normal(size=700)
LABELS = RNG.choice([0, 3, 7], size=700, p=[0.8, 0.17, 0.03])
SEX = np.where(RNG.random(700) < 0.1, "", RNG.choice(["F", "M"], 700))
AGE = RNG.choice([40.0, 60.0, np.nan], size=700, p=[0.5, 0.3, 0.2])


def grouped(scores: Any, **about: Any) -> StratifiedSummary:
    summary = fc.Summary.of_scores(scores, **about)
    assert isinstance(summary, StratifiedSummary)
    return summary


def made(by: str, kind: str, site: str = "a", rows: slice = slice(None)) -> StratifiedSummary:
    """Stratify some rows by class, by group, or by both."""
    about: dict[str, Any] = {"labels": LABELS[rows]} if "class" in by else {}
    if "group" in by:
        about["groups"] = {"sex": SEX[rows], "age": AGE[rows]}
    return grouped(SCORES[rows], kind=kind, alpha=0.1, site=site, score=fc.LAC(), **about)


MASKS = {
    ALL: np.ones(700, dtype=bool),
    "age=40": AGE == 40,
    "age=60": AGE == 60,
    "sex=F": SEX == "F",
    "sex=M": SEX == "M",
    NONE: (SEX == "") & np.isnan(AGE),
}


def test_it_warns_of_what_it_shows() -> None:
    for what, about in {
        "class": {"labels": [0]},
        "group": {"groups": {"sex": ["F"]}},
        "group and class": {"groups": {"sex": ["F"]}, "labels": [0]},
    }.items():
        with pytest.warns(ClassCountsWarning, match=f"rows of each {what} the site has; make") as caught:
            fc.Summary.of_scores([0.1], **about)  # type: ignore[arg-type]
        assert len(caught) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_each_stratum_is_summarised_as_if_alone(kind: str) -> None:
    grouped_by, classes, both = (made(by, kind) for by in ("by group", "by class", "by class by group"))
    assert list(grouped_by.groups) == list(both.groups) == sorted(MASKS)
    assert [label for _, label in classes.parts] == [0, 3, 7]
    assert (grouped_by.columns, classes.columns, classes.sizes) == (("age", "sex"), (), (700,))
    for summary, name in ((grouped_by, "by group"), (classes, "by class"), (both, "by class by group")):
        assert summary.certified == KINDS[kind].certified
        for (group, label), part in summary.parts.items():
            mine = MASKS[group or ALL] & ((label is None) | (label == LABELS))
            alone = fc.Summary.of_scores(SCORES[mine], kind=kind, alpha=0.1)
            assert part.to_bytes() == alone.to_bytes()
            assert summary.sizes_of(group, label) == alone.sizes
        assert repr(summary) == f"<{kind} {name} summary of 700 scores from site 'a'>"
        assert summary.lower_counts.tolist() == summary.bounds(summary.points)[0].tolist()
        check_bytes(summary)
    assert grouped_by.sizes_of("sex=X") == classes.sizes_of(label=1) == (0,)
    for group, mine in MASKS.items():
        within = both.in_group(group)
        assert isinstance(within, StratifiedSummary)
        rows = int(np.count_nonzero(mine))
        assert (within.n, both.sizes_of(group)) == (rows, (rows,))
        assert grouped_by.in_group(group) is grouped_by.parts[StratumKey(group)]
    assert both.in_group("sex=X").sizes == (0,)


def test_a_class_that_one_site_lacks_has_no_rows_there() -> None:
    sites = [grouped([0.1, 0.2], labels=labels, site=site) for site, labels in (("a", [0, 0]), ("b", [0, 1]))]
    both = fc.pool(sites)
    assert isinstance(both, StratifiedSummary)
    assert (both.sizes_of(label=0), both.sizes_of(label=1)) == ((2, 1), (0, 1))
    check_bytes(both)
    check_bytes(fc.pool([both, grouped([0.5], labels=[7], site="c")]))


def test_scores_alone_have_no_strata() -> None:
    with refused("needs more than scores"):
        StratifiedSummary.build(np.array([0.1]))


@pytest.mark.parametrize("kind", KINDS)
def test_pooling_goes_stratum_by_stratum(kind: str) -> None:
    for by in ("by group", "by class", "by class by group"):
        first, second = (made(by, kind, site, rows) for site, rows in (("a", slice(0, 300)), ("b", slice(300, None))))
        both = fc.pool([first, second])
        assert isinstance(both, StratifiedSummary)
        assert (both.sites, both.sizes) == (("a", "b"), (300, 400))
        check_bytes(both)
        for key in both.parts:
            assert both.sizes_of(*key) == (*first.sizes_of(*key), *second.sizes_of(*key))
        check_counts(both, SCORES)
        for group in both.groups if both.columns else ():
            check_counts(both.in_group(group or ALL), SCORES[MASKS[group or ALL]])


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ({}, "expected columns by name"),
        (["F", "M"], "columns by name"),
        ({"sex": [{1}, {2}]}, "sex: expected a text or a number per row"),
        ({"": ["F", "M"]}, "a column of groups is ''"),
        ({"sex": ["F", "M"], " sex": ["F", "M"]}, "two columns have the same name"),
        ({"sex": ["F", "x" * 64]}, "1 to 64 printable characters"),
    ],
    ids=repr,
)
def test_bad_groups_are_refused(groups: Any, reason: str) -> None:
    with refused(reason):
        fc.Summary.of_scores([0.1, 0.2], groups=groups)


def test_very_many_values_are_refused() -> None:
    count = MOST_VALUES + 1
    with refused(f"age: has {count} different values, more than {MOST_VALUES}; give ranges"):
        fc.Summary.of_scores(np.arange(count), groups={"age": np.arange(count)})
    many = {f"c{k}": np.arange(MOST_VALUES) for k in range(1 + MAX_GROUPS // MOST_VALUES)}
    with pytest.raises(fc.InputError, match="groups: 21 columns with 4201 groups, more than 64 or 4096"):
        fc.Summary.of_scores(np.arange(MOST_VALUES) / 7, kind="exact", groups=many)


def test_only_the_same_columns_pool() -> None:
    pair = [grouped([0.5], groups={name: ["1"]}, site=site) for name, site in (("sex", "a"), ("age", "b"))]
    with refused("site 'a' is grouped by sex, site 'b' by age"):
        fc.pool(pair)


def test_values_are_one_spelling() -> None:
    site = fc.Summary.of_scores([0.1, 0.2, 0.3, 0.4, 0.5], groups={"age": np.array([1.0, 2.0, np.nan, 1.0, 2.0])})
    texts = fc.Summary.of_scores([0.1, 0.2, 0.3, 0.4, 0.5], groups={" age ": ["1", "2 ", "", "1", "2"]})
    objects = fc.Summary.of_scores(
        [0.1, 0.2, 0.3, 0.4, 0.5], groups={"age": np.array([1, 2.0, None, "1", 2], dtype=object)}
    )
    assert site.to_bytes() == texts.to_bytes() == objects.to_bytes()
