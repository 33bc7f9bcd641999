"""Summaries by group: what they hold, what they show, and what is refused."""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import msgspec
import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.groups import ALL, MOST_VALUES, NONE
from fedconformal.summaries import ClassSummary, GroupSummary
from fedconformal.summaries.by_group import MAX_GROUPS
from tests.contracts.test_summaries import check_bounds, check_round_trip
from tests.contracts.tools import KINDS, certified_kinds, refused

pytestmark = pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")

RNG = np.random.default_rng(4)
SCORES = RNG.normal(size=700)
LABELS = RNG.choice([0, 3, 7], size=700, p=[0.8, 0.17, 0.03])
SEX = np.where(RNG.random(700) < 0.1, "", RNG.choice(["F", "M"], 700))
AGE = RNG.choice([40.0, 60.0, np.nan], size=700, p=[0.5, 0.3, 0.2])


def made(
    kind: str = "ranks", site: str | None = "a", rows: slice = slice(None), *, by_class: bool = False
) -> GroupSummary:
    more: dict[str, Any] = {"labels": LABELS[rows], "by_class": True} if by_class else {}
    groups = {"sex": SEX[rows], "age": AGE[rows]}
    summary = fc.summarize(SCORES[rows], kind, alpha=0.1, groups=groups, site=site, score=fc.LAC(), **more)
    assert isinstance(summary, GroupSummary)
    return summary


def grouped(scores: Any, kind: str = "ranks", **about: Any) -> GroupSummary:
    summary = fc.summarize(scores, kind, **about)
    assert isinstance(summary, GroupSummary)
    return summary


MASKS = {
    ALL: np.ones(700, dtype=bool),
    "age=40": AGE == 40,
    "age=60": AGE == 60,
    "sex=F": SEX == "F",
    "sex=M": SEX == "M",
    NONE: (SEX == "") & np.isnan(AGE),
}


def test_it_warns_of_what_it_shows() -> None:
    with pytest.warns(fc.ClassCountsWarning, match="how many calibration rows of each group the site has; make"):
        fc.summarize([0.1], groups={"sex": ["F"]})
    with pytest.warns(fc.ClassCountsWarning, match="of each group the site has, and of each class in it") as caught:
        fc.summarize([0.1], groups={"sex": ["F"]}, labels=[0], by_class=True)
    assert len(caught) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_each_group_is_summarised_as_if_alone(kind: str) -> None:
    summary = made(kind)
    assert list(summary.parts) == sorted(MASKS)
    assert (summary.sizes, summary.columns) == ((700,), ("age", "sex"))
    assert summary.certified == KINDS[kind].certified
    for group, part in summary.parts.items():
        alone = fc.summarize(SCORES[MASKS[group]], kind, alpha=0.1)
        assert part.to_bytes() == alone.to_bytes()
        assert summary.sizes_of(group) == alone.sizes
    assert summary.sizes_of("sex=X") == (0,)
    check_round_trip(summary)
    assert repr(summary) == f"<{kind} by group summary of 700 scores from site 'a'>"


@pytest.mark.parametrize("kind", KINDS)
def test_each_class_in_each_group(kind: str) -> None:
    summary = made(kind, by_class=True)
    assert summary.name == f"{kind} by class by group"
    for group, part in summary.parts.items():
        assert isinstance(part, ClassSummary)
        mine = MASKS[group]
        alone = fc.summarize(SCORES[mine], kind, alpha=0.1, labels=LABELS[mine], by_class=True)
        assert part.to_bytes() == alone.to_bytes()
    check_round_trip(summary)


@pytest.mark.parametrize("kind", certified_kinds())
@pytest.mark.parametrize("by_class", [False, True])
def test_it_bounds_all_scores_as_well(kind: str, by_class: bool) -> None:
    check_bounds(made(kind, by_class=by_class), SCORES)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_class", [False, True])
def test_pooling_and_extending_go_group_by_group(kind: str, by_class: bool) -> None:
    first, second = (made(kind, site, rows, by_class=by_class) for site, rows in zip("ab", HALVES, strict=True))
    both = fc.pool([first, second])
    assert isinstance(both, GroupSummary)
    assert (both.sites, both.sizes) == (("a", "b"), (300, 400))
    check_round_trip(both)
    rows = slice(300, None)
    more = first.extend(SCORES[rows], LABELS[rows] if by_class else None, groups={"age": AGE[rows], "sex": SEX[rows]})
    assert more.sizes == (700,)
    check_round_trip(more)
    for group, mine in MASKS.items():
        assert both.parts[group].n == more.parts[group].n == np.count_nonzero(mine)
        if KINDS[kind].certified:
            check_bounds(both.parts[group], SCORES[mine])
            check_bounds(more.parts[group], SCORES[mine])


HALVES = (slice(0, 300), slice(300, None))


def test_a_group_that_comes_later_is_there_after() -> None:
    site = grouped([0.5, 0.7], groups={"sex": ["F", "F"]})
    more = site.extend([0.1, 0.2], groups={"sex": ["M", None]})
    assert {group: part.n for group, part in more.parts.items()} == {ALL: 4, NONE: 1, "sex=F": 2, "sex=M": 1}


def test_the_size_follows_the_groups_that_have_rows() -> None:
    few = grouped(SCORES[:100], "exact", groups={"sex": ["F"] * 100, "age": [None] * 100})
    assert list(few.parts) == [ALL, "sex=F"]
    plain = len(fc.summarize(SCORES[:100], "exact").to_bytes())
    assert len(few.to_bytes()) < 2 * plain + 100


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ({}, "expected columns with a value a row"),
        (["F", "M"], "expected columns with a value a row"),
        ({"sex": ["F"]}, "sex: expected 2 values, one a row"),
        ({"sex": [["F", "M"], ["F", "M"]]}, "sex: expected 2 values"),
        ({"sex": [{1}, {2}]}, "sex: expected a text or a number a row"),
        ({"": ["F", "M"]}, "a column of groups is ''"),
        ({"a=b": ["F", "M"]}, "has a = in its name"),
        ({"sex": ["F", "M"], " sex": ["F", "M"]}, "two columns have the same name"),
        ({"sex": ["F", "x" * 64]}, "1 to 64 printable characters"),
    ],
    ids=repr,
)
def test_bad_groups_are_refused(groups: Any, reason: str) -> None:
    with refused(reason):
        fc.summarize([0.1, 0.2], groups=groups)


def test_very_many_values_are_refused() -> None:
    count = MOST_VALUES + 1
    with refused(f"age: has {count} different values, more than {MOST_VALUES}; give ranges"):
        fc.summarize(np.arange(count), groups={"age": np.arange(count)})
    many = {f"c{k}": np.arange(MOST_VALUES) for k in range(1 + MAX_GROUPS // MOST_VALUES)}
    with pytest.raises(fc.InputError, match="groups: 21 columns with 4201 groups, more than 64 or 4096"):
        fc.summarize(np.arange(MOST_VALUES) / 7, "exact", groups=many)
    with refused("do not go by group"):
        fc.summarize([0.1], "ddsketch", groups={"sex": ["F"]}, parameters={"x": 1})


def test_extending_needs_the_same_columns() -> None:
    site = grouped([0.5], groups={"sex": ["F"]})
    wrong: list[dict[str, Any] | None] = [None, {"age": [1]}, {"sex": ["F"], "age": [1]}]
    for groups in wrong:
        with refused("groups: a summary by group needs sex of every new row"):
            site.extend([0.5], groups=groups)
    with refused("labels: they go with a summary that is by class too"):
        site.extend([0.5], [0], groups={"sex": ["F"]})
    pair = [grouped([0.5], groups={name: ["1"]}, site=site) for name, site in (("sex", "a"), ("age", "b"))]
    with refused("site 'a' is grouped by sex, site 'b' by age"):
        fc.pool(pair)


def test_values_are_one_spelling() -> None:
    site = fc.summarize([0.1, 0.2, 0.3, 0.4, 0.5], groups={"age": np.array([1.0, 2.0, np.nan, 1.0, 2.0])})
    texts = fc.summarize([0.1, 0.2, 0.3, 0.4, 0.5], groups={" age ": ["1", "2 ", "", "1", "2"]})
    objects = fc.summarize([0.1, 0.2, 0.3, 0.4, 0.5], groups={"age": np.array([1, 2.0, None, "1", 2], dtype=object)})
    assert site.to_bytes() == texts.to_bytes() == objects.to_bytes()


def sealed(fields: list[Any], letter: bytes = b"G") -> bytes:
    body = msgspec.msgpack.encode(fields)
    start = b"FCS1" + letter
    return start + zlib.crc32(start + body).to_bytes(4, "little") + body


def message(sizes: list[int], groups: dict[str, bytes], columns: tuple[str, ...] = ("s",)) -> list[Any]:
    return [sizes, [], None, None, None, list(columns), list(groups), list(groups.values())]


def part(n: int, kind: str = "exact", **about: Any) -> bytes:
    return fc.summarize(np.arange(n) / 8, kind, **about).to_bytes()


TWO_SITES = fc.pool([fc.summarize([0.1], "exact"), fc.summarize([0.2], "exact")]).to_bytes()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (message([2], {"s=F": part(2)}), "all rows does not have its sizes"),
        (message([3], {ALL: part(2), "s=F": part(2)}), "all rows does not have its sizes"),
        (message([2], {ALL: part(2), "s=F": part(3)}), "more sites or scores"),
        (message([2], {ALL: part(2), "s=F": part(2), "s=M": part(1)}), "cannot have these sizes"),
        (message([2], {ALL: part(2), "s=F": part(1)}), "cannot have these sizes"),
        (message([2], {ALL: part(2), NONE: part(1), "s=F": part(2)}), "cannot have these sizes"),
        (message([2], {ALL: part(2), NONE: part(2)}, ()), "decoded"),
        (message([2], {"s=F": part(2), ALL: part(2)}), "not ascending"),
        (message([2], {ALL: part(2), "t=F": part(2)}), "not a column of the summary and a value"),
        (message([2], {ALL: part(2), "s=": part(2)}), "not a column of the summary and a value"),
        (message([2], {ALL: part(2), "s=F ": part(2)}), "not a column of the summary and a value"),
        (message([2], {ALL: part(2), "s=\x1b[31m": part(2)}), "printable"),
        (message([2], {ALL: part(2), "s=F": part(2)}, ("s=",)), "="),
        (message([2], {ALL: part(2), "s=F": part(2)}, ("s", "r")), "columns are not ascending"),
        (message([2], {ALL: part(2), "s=F": part(2)}, ("s", "s")), "columns are not ascending"),
        (message([2], {ALL: part(2), "s=F": part(2, site="a")}), "without names"),
        (message([2], {ALL: part(2), "s=F": part(2, score=fc.LAC())}), "without names"),
        (message([2], {ALL: part(2), "s=F": part(2, "ranks")}), "different ways"),
        (message([2], {ALL: part(2), "s=F": TWO_SITES}), "more sites"),
        (message([2], {ALL: part(2), "s=F": b""}), "not a fedconformal summary"),
        (message([2], {ALL: part(2), "s=F": part(2)[:-1]}), "altered"),
        (message([2], {ALL: part(2), **{f"s={i:05}": part(2) for i in range(MAX_GROUPS)}}), "decoded"),
        ([*message([2], {ALL: part(2), "s=F": part(2)})[:-1], [part(2)]], "not ascending, one for each part"),
    ],
)
def test_what_does_not_add_up_is_refused(fields: list[Any], reason: str) -> None:
    with refused(reason):
        fc.Summary.from_bytes(sealed(fields))


def test_nesting_is_refused_before_it_gets_deep() -> None:
    data = sealed(message([2], {ALL: part(2), "s=F": part(2)}))
    assert fc.Summary.from_bytes(data).n == 2
    for _ in range(3000):
        data = sealed(message([2], {ALL: part(2), "s=F": data}))
    with refused("by group itself"):
        fc.Summary.from_bytes(data)
    in_class = sealed([[2], [], None, None, None, [0], [sealed(message([2], {ALL: part(2), "s=F": part(2)}))]], b"C")
    with refused("by class itself"):
        fc.Summary.from_bytes(in_class)


def test_every_changed_byte_is_refused() -> None:
    data = bytearray(made("ranks", rows=slice(0, 12)).to_bytes())
    for position, bit in itertools.product(range(len(data)), (1, 128)):
        changed = bytearray(data)
        changed[position] ^= bit
        with pytest.raises(fc.InputError):
            fc.Summary.from_bytes(bytes(changed))


def test_long_texts_are_kept_apart() -> None:
    """Texts that do not fit into one number are compared as texts wherever their numbers are the same."""
    rng = np.random.default_rng(1)
    values = ["a" * 40, "a" * 39 + "b", "äöü€", "x", "x" * 9]
    column = rng.choice(values, 200)
    site = grouped(np.arange(200) / 7, "exact", groups={"c": column})
    assert {name: part.n for name, part in site.parts.items() if name != ALL} == {
        f"c={value}": np.count_nonzero(column == value) for value in values
    }


def test_two_texts_with_one_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedconformal._base.groups._hashed", lambda texts: (np.zeros(len(texts), np.uint64), False))
    site = grouped([0.1, 0.2, 0.3], groups={"c": ["one", "two", "one"]})
    assert {name: part.n for name, part in site.parts.items()} == {ALL: 3, "c=one": 2, "c=two": 1}
