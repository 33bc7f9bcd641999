"""Predictors that promise every class or every group by itself: thresholds, sets, p-values, files, refusals."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base import registry
from fedconformal._base.arrays import Floats
from fedconformal._base.groups import ALL, NONE, group_rows
from fedconformal.certificates import text
from fedconformal.evaluation import evaluate_sets
from fedconformal.summaries import StratifiedSummary
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.strata import StratumKey
from tests.calibration.test_predictor import resealed
from tests.contracts.tools import maybe_infeasible, peak_memory, refused, strata_examples
from tests.evaluation.certified import said
from tests.guarantees.plain_fractions import in_class

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedconformal.errors.ClassCountsWarning", "ignore::fedconformal.errors.InfeasibleWarning"
)

SITES = ("a", "b", "c")
CLASSES = 4


def lettered(rows: str, site: str, **about: Any) -> fc.Summary:
    """Summarise rows such as ".1A .2AB .5-": a score, and the groups that the row is in."""
    parts = [(float(row.rstrip("AB-")), row.lstrip(".0123456789")) for row in rows.split()]
    groups = {letter: ["yes" if letter in held else None for _, held in parts] for letter in "AB"}
    return fc.Summary.of_scores([score for score, _ in parts], kind="exact", site=site, groups=groups, **about)


PAIR = [(".1A .2AB .3B .4A .5- .6A", "one"), (".15A .25B .35AB .8A", "two")]


def limits(result: fc.Predictor) -> dict[str, Any]:
    parts = result.certificate.parts
    return {str(group): one[0].threshold if len(one) == 1 else [q.limit for q in one] for group, one in parts.items()}


def test_the_numbers_on_two_sites() -> None:
    sites = [lettered(rows, site) for rows, site in PAIR]
    result = fc.calibrate(sites, alpha=0.35, guarantee=fc.ByGroup(), exact=True)
    assert limits(result) == {ALL: 0.5, "A=yes": 0.6, "B=yes": 0.35, NONE: "inf"}
    records = {record.group: record for record in result.certificate.promises}
    assert {group: (record.rank, record.rank_out_of) for group, record in records.items()} == {
        ALL: (8, 10),  # one more than the target, 6.5
        "A=yes": (6, 7),  # 4.55
        "B=yes": (4, 4),  # 2.6
        NONE: (2, 1),
    }
    uniform = fc.Mixture(weights="uniform")
    assert limits(fc.calibrate(sites, alpha=0.35, guarantee=fc.ByGroup(uniform), exact=True))["A=yes"] == 0.8
    in_group = uniform.bind((), [6, 4], "group")  # of A there are 4 and 3; the price is the weight of the second
    (first, second) = Fraction(1, 12), Fraction(1, 8)
    assert in_group.promised([4, 2], [4, 3]) == (4 * first + (2 - 1) * second) / (4 * first + 3 * second)
    assert in_group.promised([4, 2], [4, 3]) == in_class([[Fraction(1, 2)] * 2], [4, 2], [4, 3], [6, 4])
    assert in_group.promised([4, 2], [4, 3]) < Fraction("0.65") <= in_group.promised([4, 3], [4, 3])


def rows(seed: int, count: int = 150) -> tuple[Any, Any, dict[str, Any]]:
    """Draw probabilities, labels, of which the last is never seen, and groups."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(CLASSES), count).astype(np.float32)
    labels = np.array([rng.choice(CLASSES - 1, p=p[:-1] / p[:-1].sum()) for p in probs.astype(np.float64)])
    groups = {
        "sex": rng.choice(["F", "M"], count).astype(object),
        "age": rng.choice([40.0, 60.0, np.nan], count, p=[0.5, 0.3, 0.2]),
    }
    groups["sex"][rng.random(count) < 0.3] = None
    return probs, labels, groups


def sites(wanted: fc.Guarantee, score: fc.Score | None = None, kind: str = "ranks") -> list[fc.Summary]:
    """Summarise as a guarantee needs it."""
    found, score = [], score or fc.LAC()
    for seed, site in enumerate(SITES):
        probs, labels, groups = rows(seed)
        about: dict[str, Any] = {"precision": "float32"} | ({"labels": labels} if wanted.by_class else {})
        about |= {"groups": groups} if wanted.by_group else {}
        scores = score.evaluate(probs, labels)
        found.append(fc.Summary.of_scores(scores, kind=kind, score=score, site=site, alpha=0.1, **about))
    return found


def made(wanted: fc.Guarantee, score: fc.Score | None = None, kind: str = "ranks") -> fc.Predictor:
    return fc.calibrate(sites(wanted, score, kind), alpha=0.2, guarantee=wanted, exact=True)


TEST_PROBS, TEST_LABELS, TEST_GROUPS = rows(9, 80)
EXAMPLES = strata_examples()
EVERY = [
    *map(fc.ByClass, EXAMPLES),
    *map(fc.ByGroup, EXAMPLES),
    fc.ByGroup(fc.ByClass()),
    fc.ByGroup(fc.ByClass(fc.PAC())),
]
three = pytest.mark.parametrize("wanted", [fc.ByClass(), fc.ByGroup(), fc.ByGroup(fc.ByClass())], ids=repr)


def largest(predictor: fc.Predictor, alpha: Any) -> Floats:
    """Return the threshold of every label of every row, worked out row by row; +inf of a class that nobody has seen."""
    with maybe_infeasible():
        limits = predictor.threshold_at(alpha)
    found = [limits] * len(TEST_PROBS)
    if predictor.certificate.by == "group":
        known, found = dict(zip(predictor.certificate.parts, limits, strict=True)), []
        for sex, age in zip(TEST_GROUPS["sex"], TEST_GROUPS["age"], strict=True):
            held = [] if sex is None else [f"sex={sex}"]
            held += [] if np.isnan(age) else [f"age={age:.0f}"]
            found.append(np.max([known[group] for group in [ALL, *(held or [NONE])]], axis=0))
    whole = np.array(found).reshape(len(TEST_PROBS), -1)
    unseen = np.full((len(whole), CLASSES - whole.shape[1]), np.inf)
    return whole if whole.shape[1] == 1 else np.concatenate([whole, unseen], axis=1)


@pytest.mark.parametrize("wanted", EVERY, ids=repr)
def test_sets_p_values_and_files_agree(wanted: fc.Guarantee, tmp_path: Path) -> None:
    predictor = made(wanted, fc.RAPS())
    groups = TEST_GROUPS if predictor.certificate.by == "group" else None
    p = predictor.predict_p(TEST_PROBS, groups=groups)
    scores = fc.RAPS().evaluate_all(TEST_PROBS)
    for alpha in (0.05, 0.2, 0.5):
        sets = predictor.predict_set(TEST_PROBS, groups=groups, alpha=alpha, allow_empty=True)
        assert np.array_equal(sets, scores <= largest(predictor, alpha))
        assert np.array_equal(p > alpha, sets)
    predictor.save(tmp_path / "p.json")
    again = fc.load(tmp_path / "p.json")
    assert again.to_bytes() == predictor.to_bytes()
    assert repr(again) == repr(predictor)
    forced = predictor.predict_set(TEST_PROBS, groups=groups)
    assert np.array_equal(again.predict_set(TEST_PROBS, groups=groups), forced)
    assert forced[np.arange(len(forced)), TEST_PROBS.argmax(axis=1)].all()
    assert fc.verify(again, sites(wanted, fc.RAPS())[::-1]) == []


@three
def test_pooled_sites_serve_equal_weights_only(wanted: fc.Guarantee) -> None:
    apart = sites(wanted)
    pooled = [fc.pool(apart[:2]), apart[2]]
    one, other = (fc.calibrate(given, alpha=0.2, guarantee=wanted) for given in (apart, pooled))
    assert one.thresholds == other.thresholds
    uniform = fc.Mixture(weights="uniform")
    weighted = fc.ByGroup(uniform) if wanted.by_group else fc.ByClass(uniform)
    with refused("are pooled", "mixture"):
        fc.calibrate(pooled, alpha=0.2, guarantee=weighted)


def test_all_rows_are_promised_what_they_are_without_groups() -> None:
    for inner in EXAMPLES:
        given = sites(fc.ByGroup(inner))
        plain = fc.calibrate(given, alpha=0.2, guarantee=inner, exact=True)
        assert made(fc.ByGroup(inner)).thresholds[ALL] == plain.threshold
    both, alone = made(fc.ByGroup(fc.ByClass())), made(fc.ByClass())
    assert both.thresholds[ALL] == tuple(alone.thresholds.values())


def test_the_certificate_lists_the_groups() -> None:
    about = made(fc.ByGroup()).certificate
    assert about.status == "certified"
    assert [one.group for one in about.promises] == [ALL, "age=40", "age=60", "sex=F", "sex=M", NONE]
    assert about.threshold == max(one.limit for one in about.promises)
    assert (about.promises[0].scores, about.scores) == (450, 450)
    assert all(one.rank_out_of == one.scores for one in about.promises)
    for inner in (fc.Mixture(), fc.Mixture(weights="uniform"), fc.OneSite(site="a")):
        found = made(fc.ByGroup(inner)).certificate.promises
        assert {one.coverage_at_most for one in found} == {1.0}  # a row takes the largest of its thresholds
    assert "given any group that the row is in, for a test row from the mixture" in text.sentence(about)


def test_too_few_columns_are_refused() -> None:
    predictor = made(fc.ByClass())
    with refused("2 classes"):
        predictor.predict_set([[0.5, 0.5]])
    with refused("2 classes"):
        predictor.predict_p([[0.5, 0.5]])


@pytest.mark.parametrize("last", [4200, 2**20 - 1])
def test_a_short_message_does_not_become_a_long_certificate(last: int) -> None:
    """90 bytes that name a class near 2^20 became a certificate of 214 MB."""
    site = fc.Summary.of_scores([0.5], kind="exact", labels=[last], score=fc.LAC())
    assert len(site.to_bytes()) < 100
    words = f"names class {last}, and only 1 classes have scores; number the classes from 0"
    with peak_memory(2**20), refused(words):
        fc.calibrate([fc.Summary.from_bytes(site.to_bytes())], guarantee=fc.ByClass())


def test_classes_that_are_stated_are_all_there() -> None:
    site = fc.Summary.of_scores([0.5] * 30, kind="exact", labels=[0] * 30, score=fc.LAC(), classes=3)
    certificate = fc.calibrate([site], alpha=0.2, guarantee=fc.ByClass()).certificate
    assert [one.threshold for one in certificate.promises] == [0.5, "inf", "inf"]
    other = fc.Summary.of_scores([0.5] * 30, kind="exact", labels=[3] * 30, score=fc.LAC(), classes=3)
    with refused("has scores of class 3, and there are 3 classes"):
        fc.calibrate([other], alpha=0.2, guarantee=fc.ByClass())


def test_too_few_scores_are_said_with_the_group_and_how_many_more() -> None:
    sites = [lettered(rows, site, score=fc.LAC()) for rows, site in PAIR]
    with pytest.warns(fc.InfeasibleWarning) as caught:
        result = fc.calibrate(sites, alpha=0.35, guarantee=fc.ByGroup())
    assert str(caught[0].message) == (
        "alpha=0.35 cannot be promised to none of the others, where every label is in every set; none of the others: "
        "calibration scores needed: 2 more in all, at any site (3 of each group)"
    )
    with pytest.warns(fc.InfeasibleWarning, match="to none of the others, where every label is in every set"):
        sets = result.predict_set([[0.6, 0.4]] * 2, groups={"A": ["yes", ""], "B": [None, None]})
    assert sets.tolist() == [[True, True], [True, True]]
    about: dict[str, Any] = {"labels": [0, 1] * 10, "groups": {"sex": ["F"] * 5 + ["M"] * 15}}
    few = [fc.Summary.of_scores(np.arange(20) / 20, kind="exact", site=site, **about) for site in "ab"]
    with pytest.warns(fc.InfeasibleWarning, match=r"class \w+ in sex=F: calibration scores needed: \d+ more"):
        fc.calibrate(few, alpha=0.1, guarantee=fc.ByGroup(fc.ByClass()))


@pytest.mark.filterwarnings("error::fedconformal.errors.InfeasibleWarning")
def test_no_warning_for_groups_without_a_row_at_prediction() -> None:
    with pytest.warns(fc.InfeasibleWarning):
        result = fc.calibrate([lettered(*one, score=fc.LAC()) for one in PAIR], alpha=0.35, guarantee=fc.ByGroup())
    result.predict_set([[0.6, 0.4]], groups={"A": ["yes"], "B": [None]})


def test_rows_that_are_promised_nothing_are_refused() -> None:
    predictor, few = made(fc.ByGroup()), TEST_PROBS[:3]
    ask = predictor.predict_set
    with refused("groups: row 1 is in sex=X, as no calibration row", "leave such rows out"):
        ask(few, groups={"sex": ["F", "X", "X"], "age": [40, 40, 40]})
    with refused("needs the columns age, sex of every row, got none"):
        ask(few)
    with refused("needs the columns age, sex of every row, got sex"):
        ask(few, groups={"sex": ["F", "M", "M"]})
    with refused("sex: has shape (1,)"):
        ask(few, groups={"sex": ["F"], "age": [40, 40, 40]})
    with refused("needs the columns"):
        predictor.predict_p(few)
    full = {"sex": ["F"] * 30}
    whole = [fc.Summary.of_scores(np.arange(30) / 30, groups=full, site=site, score=fc.LAC()) for site in "ab"]
    every = fc.calibrate(whole, alpha=0.2, guarantee=fc.ByGroup())
    with refused("row 2 has no value of sex", "correct the value"):
        every.predict_set([[0.5, 0.5]] * 3, groups={"sex": ["F", "F", None]})
    plain = fc.calibrate(sites(fc.ByGroup()), alpha=0.2)
    with refused("not calibrated by group"):
        plain.predict_set(few, groups={"sex": ["F"] * 3})


def test_what_does_not_go_together_is_refused() -> None:
    with refused(param="groups"):
        fc.calibrate([fc.Summary.of_scores([0.1, 0.2], site="a")], guarantee=fc.ByGroup())
    one = fc.Summary.of_scores([0.1, 0.2], site="a", groups={"sex": ["F", "M"]})
    two = fc.Summary.of_scores([0.1, 0.2], site="b", groups={"sex": ["F", "M"], "age": [1, 2]})
    with refused("site 'a' is grouped by sex, site 'b' by age, sex; summarise all sites by the same columns"):
        fc.calibrate([one, two], guarantee=fc.ByGroup())
    with refused(param="by_class"):
        fc.calibrate([one], guarantee=fc.ByGroup(fc.ByClass()))
    both = fc.Summary.of_scores([0.1, 0.2], site="a", labels=[0, 1], groups={"sex": ["F", "M"]})
    with refused("was summarised by group", param="groups"):
        fc.calibrate([both], guarantee=fc.ByClass())
    deep: dict[str, Any] = fc.Mixture().to_dict()
    for level in range(2000):
        deep = {"name": ("by-class", "by-group")[level % 2], "guarantee": deep}
    with refused("is nested in itself"):
        registry.rebuild(deep, fc.Guarantee)


HARMS: dict[str, Callable[[Any, Any], object]] = {
    "a curve": lambda content, _: content["curves"].pop(),
    "a name": lambda _, promises: promises[2].update(group=promises[1]["group"]),
    "all rows": lambda _, promises: promises[0].update(group="sex=Q"),
    "a threshold": lambda _, promises: promises[1].update(threshold=0.123),
    "ragged": lambda content, promises: (promises.pop(1), content["curves"].pop(1)),
    "no groups": lambda _, promises: [promise.pop("group") for promise in promises],
}


@pytest.mark.parametrize("harm", HARMS)
def test_files_that_do_not_fit_are_refused(harm: str) -> None:
    content = made(fc.ByGroup(fc.ByClass() if harm == "ragged" else fc.Mixture())).content()
    HARMS[harm](content, content["certificate"]["promises"])
    with refused():
        fc.Predictor.from_bytes(resealed(content))


def test_each_group_is_tested_by_itself() -> None:
    predictor, (probs, labels, groups) = made(fc.ByGroup(), fc.RAPS(), kind="exact"), rows(20, 2000)
    found = predictor.evaluate(probs, labels, groups={**groups, "shift": np.arange(2000) % 2}, sites=["a"] * 2000)
    assert set(found.by_group) == {"sex", "age", "shift", "promised group"}
    assert {one.name: one.rows for one in found.by_group["promised group"]}.keys() == limits(predictor).keys()
    parts = {part.name: part for part in said(found).parts}
    kinds = {name: part.kind for name, part in parts.items()}
    assert kinds.pop("no other group") == said(found).kind == "too few rows to tell"  # 30 calibration rows
    assert set(kinds.values()) == {"no contradiction"}
    assert set(parts) == {"all groups", "age=40", "age=60", "sex=F", "sex=M", "no other group"}
    assert parts["sex=F"].rows == np.count_nonzero(groups["sex"] == "F")
    assert parts["no other group"].limit > parts["all groups"].limit > 0.2  # fewer scores leave more to luck
    wrong = np.where(groups["sex"] == "F", (labels + 1) % CLASSES, labels)
    below = said(predictor.evaluate(probs, wrong, groups=groups))
    assert below.kind == "below the promise"
    assert "rows of sex=F" in below.words


def test_what_cannot_be_tested_says_why() -> None:
    probs, labels, groups = rows(20, 300)
    for guarantee in (fc.ByClass(), fc.Mixture(weights=(0.5, 0.3, 0.2))):
        assert said(made(fc.ByGroup(guarantee)).evaluate(probs, labels, groups=groups)).kind == "no verdict"
    predictor = made(fc.ByGroup())
    sets = predictor.predict_set(probs, groups=groups)
    untold = said(evaluate_sets(sets, labels, certificate=predictor.certificate))
    assert untold.words == "No verdict: the groups of the rows are not given."


def test_the_estimator_takes_groups() -> None:
    parts = [rows(seed) for seed in range(3)]
    guarantee = fc.ByGroup(fc.Mixture())
    by_site = fc.FederatedConformalClassifier(alpha=0.2, guarantee=guarantee).calibrate(
        dict(zip(SITES, parts, strict=True))
    )
    X, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    groups = {name: np.concatenate([part[2][name] for part in parts]) for name in parts[0][2]}
    ids = np.repeat(SITES, [len(part[1]) for part in parts])
    for verb in ("calibrate", "fit"):
        stacked = fc.FederatedConformalClassifier(alpha=0.2, guarantee=guarantee)
        getattr(stacked, verb)(X, y, sites=ids, groups=groups)
        assert np.array_equal(stacked.threshold_, by_site.threshold_)
    sets = stacked.predict_set(TEST_PROBS, groups=TEST_GROUPS)
    found = stacked.evaluate(TEST_PROBS, TEST_LABELS, groups=TEST_GROUPS)
    assert found.mean_size == sets.sum(axis=1).mean()
    assert set(found.by_group) == {"sex", "age", "promised group"}
    with refused(param="groups"):
        fc.FederatedConformalClassifier(guarantee=guarantee).calibrate({"a": parts[0][:2]})


@pytest.mark.parametrize(
    "values",
    [
        [1.0, "unknown"],
        ["1.00", "unknown"],
        np.array([1.0, 2.5], dtype=np.float32),
        [np.float32(1), None],
        np.array([1.0, None], dtype=object),
        [1, 2],
    ],
)
def test_the_group_of_a_row_does_not_hang_on_the_other_rows(values: Any) -> None:
    """Else a site with one text in the column has a group of its own, and its rows get the threshold of others."""
    assert group_rows({"field": values}, rows=2)["field=1"].tolist() == [0]


def test_a_number_is_in_the_same_group_in_every_precision() -> None:
    for kind in (np.float16, np.float32, np.float64):
        assert "dose=0.1" in group_rows({"dose": np.array([0.1, 7.25], dtype=kind)}, rows=2)


def test_many_groups_of_one_large_pool_do_not_fill_memory() -> None:
    """A small message may claim very many sites, and groups of one row each."""
    sites, groups = 2**13, 100
    parts = {
        ALL: ExactSummary(values=np.full(sites, 0.5), sizes=(1,) * sites),
        NONE: ExactSummary(values=np.full(sites - groups, 0.5), sizes=(0,) * groups + (1,) * (sites - groups)),
    }
    alone = ExactSummary(values=np.array([0.5]), sizes=(1,) + (0,) * (sites - 1))
    parts |= {f"id={i:03}": alone for i in range(groups)}
    strata = {StratumKey(group): part for group, part in sorted(parts.items())}
    site = StratifiedSummary(parts=strata, columns=("id",), sizes=(1,) * sites)
    with peak_memory(5 * 2**20), pytest.warns(fc.InfeasibleWarning, match="cannot be promised to id=000"):
        found = fc.calibrate([site], guarantee=fc.ByGroup())  # with a list of all sites for each group: 10 MB
    assert len(found.certificate.promises) == groups + 2
