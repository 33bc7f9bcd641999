"""Many summaries decoded together: the same as one by one, and as strict."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.summaries import SummaryBatch
from fedconformal.summaries.ranks import RankSummary, scheduled_ranks
from fedconformal.summaries.summary import digest_of
from scripts.vector_cases.tools import File, floats
from scripts.vector_cases.twins import TWINS
from scripts.vectors import FOLDER, examples
from tests.contracts.tools import KINDS, checks, refused

REFUSED = {
    f"{file}: {case['name']}": bytes.fromhex(case["bytes"])
    for file in ("refused", "twins")
    for case in json.loads((FOLDER / f"{file}.json").read_text("utf-8"))
}
SCORE = fc.RAPS()
PLAIN = fc.Summary.of_scores(np.arange(1, 201) / 200, alpha=0.1, score=SCORE, site="a")
EXACT = fc.Summary.of_scores([0.25, 0.5], kind="exact", score=SCORE, site="a")
SIZES = [1, 2, 99, 100, 101, 127, 128, 255, 256, 257, 1000, 65_535, 65_536, 70_000]
NAMES = ["a", "b" * 31, "c" * 32, "d" * 64, "Köln", "\U0001f3e5" * 63, "日" * 64]


def is_columnar(batch: SummaryBatch) -> bool:
    """Say whether messages were decoded together."""
    return batch._columns is not None


def check_same(sent: list[bytes]) -> SummaryBatch:
    together, alone = SummaryBatch.from_bytes(sent), [fc.Summary.from_bytes(data) for data in sent]
    one_by_one = SummaryBatch(alone)
    assert len(together) == len(sent)
    for name in ("sites", "sizes", "names", "gaps", "kinds", "certified", "digests"):
        assert getattr(together, name) == getattr(one_by_one, name)
    assert {*together.provenances} == {*one_by_one.provenances}
    if all(summary.name != "losses" for summary in alone):
        assert together.lengths() == one_by_one.lengths()
        for mine, theirs in zip(together.points(), one_by_one.points(), strict=True):
            assert mine.tolist() == theirs.tolist()
    assert [one.to_bytes() for one in together] == sent
    assert repr(together) == repr(alone)
    return together


def test_all_kinds_come_out_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    provenances: list[dict[str, Any]] = [{}, {"score": SCORE, "model": "m"}, {"temperature": 1.0}]
    made = [
        fc.Summary.of_scores(
            rng.normal(size=rng.integers(1, 300)).round(2),
            kind=sorted(KINDS)[rng.integers(len(KINDS))],
            alpha=[None, 0.1, 0.25][rng.integers(3)],
            site=f"site {i}",
            **provenances[rng.integers(3)],
        )
        for i in range(60)
    ]
    assert not is_columnar(check_same([summary.to_bytes() for summary in made]))
    check_same(list(examples().values()))
    assert len(SummaryBatch.from_bytes([])) == 0


@pytest.mark.parametrize("kind", ["ranks", "exact"])
@pytest.mark.parametrize("about", [{}, {"score": SCORE, "model": "m", "temperature": 1.5}, {"classes": ["no", "yes"]}])
def test_sizes_and_names_of_all_lengths_are_columnar(kind: str, about: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    names = NAMES + [f"site {i}" for i in range(len(NAMES), len(SIZES))]
    sites = [
        fc.Summary.of_scores(rng.normal(size=n), kind=kind, alpha=0.1, site=site, **about)
        for n, site in zip(SIZES, names, strict=True)
    ]
    batch = check_same([site.to_bytes() for site in sites])
    assert is_columnar(batch)
    assert batch.provenances == [sites[0].provenance]


def test_sites_without_a_name_are_numbered() -> None:
    sites = [fc.Summary.of_scores([0.1 * k, 0.5], score=SCORE) for k in range(3)]
    together = check_same([site.to_bytes() for site in sites])
    assert (together.sites, together.names) == ([(), (), ()], ["#1", "#2", "#3"])


@pytest.mark.parametrize("kind", ["ranks", "exact"])
@pytest.mark.parametrize(
    "guarantee", [fc.Mixture(), fc.Mixture(weights="uniform"), fc.EverySite(), fc.NewSite(), fc.FCP()]
)
def test_calibration_is_the_same(kind: str, guarantee: fc.Guarantee) -> None:
    rng = np.random.default_rng(1)
    sites = [
        fc.Summary.of_scores(rng.normal(k / 9, size=150 + k).round(2), kind=kind, alpha=0.1, score=SCORE, site=f"s{k}")
        for k in range(40)
    ]
    together = SummaryBatch.from_bytes([site.to_bytes() for site in sites])
    assert is_columnar(together)
    mine, plain = (fc.calibrate(some, alpha=0.1, guarantee=guarantee) for some in (together, sites))
    assert mine.certificate == plain.certificate
    assert mine.content()["curves"] == plain.content()["curves"]


def test_no_summary_is_created_to_calibrate() -> None:
    sites = [
        fc.Summary.of_scores(np.arange(50) / 50, site=f"s{i}", calibration="c", expires="2099-01-01") for i in range(3)
    ]
    together = SummaryBatch.from_bytes([site.to_bytes() for site in sites])
    fc.calibrate(together)
    assert "_summaries" not in vars(together)


ODD_SITES = [["a "], [""], ["a\n"], ["x" * 65], [], ["a", "b"]]
ODD_EXACT: list[dict[str, Any]] = [
    {"arrays": [floats(0.25, np.nan)]},
    {"arrays": [floats(-np.inf, 0.5)]},
    {"arrays": [floats(-0.0, 0.5)]},
    {"arrays": [floats(0.5, 0.25)]},
    {"arrays": [floats(0.25)]},
    {"arrays": [floats(0.25, 0.5, 0.75)]},
    {"arrays": [floats(0.25, 0.5, 0.75)], "lengths": [2]},
    {"arrays": [floats(0.25, 0.5)[:-4]], "lengths": [2]},
    {"lengths": [1]},
    {"sizes": [1]},
    {"sizes": [1, 1]},
    {"numbers": [0]},
    *({"sites": sites} for sites in ODD_SITES),
]


REFUSED |= {str(change): File(EXACT).having(**change) for change in ODD_EXACT}
REFUSED |= {name: corrupt(EXACT.to_bytes()) for name, corrupt in TWINS.items()}


@pytest.mark.parametrize("what", list(REFUSED))
def test_what_is_refused_by_itself_is_refused_among_others(what: str) -> None:
    data = REFUSED[what]
    with pytest.raises(fc.InputError) as alone:
        fc.Summary.from_bytes(data)
    beside = [replace(EXACT, sites=(f"site {i}",)).to_bytes() for i in range(5)]
    with refused(f"summary 4 of 6: {alone.value}"):
        SummaryBatch.from_bytes([*beside[:3], data, *beside[3:]])


def test_the_refused_one_is_named_by_its_file() -> None:
    with refused("b.fcs: "):
        SummaryBatch.from_bytes([PLAIN.to_bytes(), b"FCS"], ["a.fcs", "b.fcs"])


OTHERS = {
    "another penalty": replace(PLAIN, provenance=fc.Summary.of_scores([1.0], score=fc.RAPS(penalty=0.002)).provenance),
    "another alpha": fc.Summary.of_scores(np.arange(1, 201) / 200, alpha=0.2, score=SCORE, site="a"),
    "a pooled one": fc.pool([PLAIN, replace(PLAIN, sites=("b",))]),
    "another kind": EXACT,
    "no name": replace(PLAIN, sites=()),
}


@pytest.mark.parametrize("what", list(OTHERS))
def test_messages_with_different_headers_are_decoded_one_by_one(what: str) -> None:
    mixed = [replace(PLAIN, sites=("y",)), OTHERS[what], replace(PLAIN, sites=("z",))]
    assert not is_columnar(check_same([site.to_bytes() for site in mixed]))


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=130), min_size=2, max_size=6), st.booleans())
@checks(60)
def test_any_scores_come_out_as_by_themselves(scores: list[list[float]], exact: bool) -> None:
    kind = "exact" if exact else "ranks"
    sites = [
        fc.Summary.of_scores(some, kind=kind, alpha=0.1, score=SCORE, site=f"s{k}") for k, some in enumerate(scores)
    ]
    assert is_columnar(check_same([site.to_bytes() for site in sites]))


@pytest.mark.parametrize("n", [2**31 - 1, 2**31, 2**32 - 1])
def test_the_largest_sizes_are_read(n: int) -> None:
    schedule = (100, Fraction(1, 10))
    ranks = scheduled_ranks(n, *schedule)
    values = np.arange(len(ranks)) / 128
    sites = [RankSummary.scheduled(values, schedule, sizes=(n,), sites=(site,)) for site in "ab"]
    together = SummaryBatch.from_bytes([site.to_bytes() for site in sites])
    assert is_columnar(together)
    assert together.points()[1].astype(np.int64).cumsum()[: len(ranks)].tolist() == ranks.tolist()


def test_no_ranks_are_worked_out_for_a_short_message() -> None:
    before = scheduled_ranks.cache_info().currsize
    for n in (5000, 5001, 5002):
        with refused("holds 1 scores, expected about 100 ranks"):
            SummaryBatch.from_bytes([File(PLAIN).having([floats(0.5)], sizes=[n])])
    assert scheduled_ranks.cache_info().currsize == before


def test_scores_of_a_message_are_not_written_to_by_another() -> None:
    other = replace(PLAIN, sites=("b",))
    first, second = SummaryBatch.from_bytes([PLAIN.to_bytes(), other.to_bytes()])
    assert fc.pool([first, second]).n == 400
    assert (digest_of(first), digest_of(second)) == (digest_of(PLAIN), digest_of(other))
