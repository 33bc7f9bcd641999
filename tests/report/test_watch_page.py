"""The page of a watch: what it says in each state, that names cannot break out, and that it stays small."""

import re
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from fedconformal.monitoring.combine import Combined, CombinedEvidence, Refused, SiteHistory
from fedconformal.monitoring.messages import LAST_DAY, Period
from fedconformal.report import watch_page
from fedconformal.report.watch import combined_page
from tests.monitoring.streams import START, history, messages

HOSTILE = "<script>document.title='x'</script>\"onload='x'&"
GROUPS = {"sex=F": 1.0, "sex=M": 1.0}


def federation(sites: int = 4, *, drifts: str = "clinic-2") -> list[Period]:
    names = [f"clinic-{i}" for i in range(sites)]
    rates = {name: [0.06] * 10 + [0.4 if name == drifts else 0.06] * 10 for name in names}
    return [period for name in names for period in messages(name, rates[name], groups=GROUPS)]


def test_what_to_do_is_on_the_first_screen() -> None:
    page = watch_page(federation(), promise="At least 90% of sets hold the label.")
    assert page.index("What to do next") < page.index("Observed so far") < page.index("<svg")
    assert "Do not rely on the sets at clinic-2" in page
    assert "At least 90% of sets hold the label." in page
    for part in ("Coverage and evidence over time", "Group by group"):
        assert f"<h2>{part}</h2>" in page
    assert page.index("<td>clinic-2</td>") < page.index("<td>clinic-0</td>")
    assert page.count('role="img"') == page.count("<svg") == 2


@pytest.mark.parametrize(
    ("periods", "big"),
    [
        (federation(drifts=""), "Holds"),
        (messages("a", [0.1] * 2, rows=4), "Too early"),
        (messages("a", [0.1] * 5, labels=0), "No outcome yet"),
        (messages("a", [0.1], rows=0), "Too early"),
        ([], "No row yet"),
    ],
)
def test_each_state_has_its_words(periods: list[Period], big: str) -> None:
    page = watch_page(periods)
    assert f'<p class="big">{big}' in page
    assert "nan" not in re.sub("<style>.*?</style>", "", page)
    assert "inf" not in re.sub("<style>.*?</style>|<.*?>", "", page)


def test_nothing_is_drawn_before_the_first_outcome() -> None:
    assert "<svg" not in watch_page(messages("a", [0.1] * 5, labels=0))


@pytest.mark.parametrize(("first", "last"), [(LAST_DAY, LAST_DAY), (0, LAST_DAY), (0, 0)])
def test_the_first_and_the_last_day_of_the_calendar_are_drawn(first: int, last: int) -> None:
    page = watch_page([replace(period, first=first, last=last) for period in messages("a", [0.1])])
    assert page.count("<svg") == 2
    assert ("9999-12-31" in page) == (last == LAST_DAY)
    assert page.count("m-3,0h6") == 1  # the coverage of the only day


def test_names_cannot_break_out() -> None:
    periods = [replace(period, site=HOSTILE[:60]) for period in messages("a", [0.5] * 9, groups={HOSTILE: 1.0})]
    late = [replace(period, site=f"{HOSTILE[:40]}2") for period in messages("b", [0.1] * 2)]
    page = watch_page([*periods, *late], refused=[Refused(HOSTILE, HOSTILE)], promise=HOSTILE)
    assert "<script" not in page
    assert "\"onload='" not in page
    assert "script-src" not in page
    assert "default-src 'none'" in page
    assert "&lt;script&gt;" in page


def thousand() -> Combined:
    """Make 1,000 sites of 365 days with three groups, without a message."""
    rng = np.random.default_rng(1)

    def line(site: str) -> SiteHistory:
        new = rng.poisson(20, 365)
        return history(site, np.append(0.0, new.cumsum()), np.append(0.0, rng.binomial(new, 0.1).cumsum()))

    found = [
        CombinedEvidence.of(group, [line(f"hospital-of-some-town-{i:04}") for i in range(sites)])
        for group, sites in (("", 1000), ("age=65-", 20), ("sex=F", 20), ("sex=M", 20))
    ]
    days: dict[str, Any] = {"first": START, "last": START + 364}
    return Combined(predictor="0" * 64, **days, all_rows=found[0], groups=tuple(found[1:]), named_groups=())


@pytest.mark.slow
def test_a_thousand_sites_over_a_year_stay_below_two_megabytes() -> None:
    page = combined_page(thousand())
    assert len(page.encode()) < 2_000_000
    assert page.count("<svg") == 2
    assert "<summary>976 more</summary>" in page
    assert max(path.count("L") for path in re.findall(r'<path class="s0" d="(.*?)"', page)) <= 100
    assert page.count("<style>") == 1
