"""The page of a watch: verdict, next steps, and counts over time by site and by group.

One file with everything in it and no script. Names of sites and groups come from outside and are escaped wherever they
are written. Only the sites with the most evidence have charts of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal.monitoring.combine import Combined, Refused, SiteHistory, combine
from fedconformal.monitoring.messages import Period
from fedconformal.monitoring.text import chance, count, date, sentence, to_do
from fedconformal.report.charts import Point, TimePlot, percent, shortened
from fedconformal.report.html import Answer, board, card, fine_print, page, soft, table

POINTS = 100
"""Points of a chart, at most."""
MOST_NOTES = 100
"""Messages without groups that are listed one by one."""
FIRST = 24
"""Sites or groups that have a small chart; the others are in the numbers."""
SMALL = (-3.0, 4.0)
"""Powers of ten between which evidence is drawn in a small chart."""
LONGEST = 26
PLAIN = 6
"""Evidence beyond ten to this power is written as a power."""
POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LEVEL = {"alarm": "bad", "in doubt": "caution", "holds": "good", "too early": ""}
HEADS = ("state", "since", "outcomes", "missed", "covered", "watched", "evidence", "waiting", "size", "last day")
KEYS = (
    '<ul class="keys"><li><i></i>coverage since the start; below, evidence</li>'
    '<li><i class="kb"></i>interval</li><li><i class="kp"></i>what is watched; below, the alarm</li></ul>'
)
METHOD = (
    "Evidence is worked out here from the counts that sites send, not taken from them: an e-value of a mixture of bets "
    "against the limit. Rows without an outcome count as covered. Over sites it is the mean of their e-values; sites "
    "are named by e-BH on what their evidence is worth now, on the last day."
)
TITLE = "Is the promise kept?"


def watch_page(
    periods: Iterable[Period],
    *,
    promise: str = "",
    refused: Iterable[Refused] = (),
) -> str:
    """Return the whole page as HTML, from the messages of all sites.

    Parameters
    ----------
    periods
        Messages; there may be none yet.
    promise
        The sentence of the certificate.
    refused
        Sites whose messages could not be used, and why.

    Examples
    --------
    >>> "No row yet" in watch_page([])
    True
    """
    sent = list(periods)
    if sent:
        return combined_page(combine(sent, refused=refused), promise=promise)
    empty = Answer(TITLE, "No row yet", ["Nothing was sent or predicted so far, so there is nothing to watch."])
    return page(TITLE, TITLE, [board([empty])], lede=promise)


def combined_page(found: Combined, *, promise: str = "") -> str:
    """Return the same page, from messages that are combined already."""
    everything, sites = found.all_rows.pooled, count(found.all_rows.sites, "site")
    sections = [
        soft(f"{sites}, from {date(found.first)} to {date(found.last)}. Predictor {found.predictor[:12]}."),
        board(_answers(found, everything)),
        _over_time(everything),
        _by_site(found),
        _by_group(found),
        _messages(found),
        _fine_print(found),
    ]
    return page(f"watch of {sites}", TITLE, sections, lede=promise)


def _answers(found: Combined, everything: SiteHistory) -> Iterator[Answer]:
    level, said = LEVEL[found.state], sentence(found) if found.alarm else sentence(found).partition(": ")[2]
    since = "" if found.since is None else f"since {date(found.since)}"
    state = found.state.capitalize()
    yield Answer("Does it hold?", state, [f"{said[0].upper()}{said[1:]}."], badge=since, level=level)
    yield Answer("What to do next", steps=to_do(found), level=level)
    yield Answer("What is seen", *_seen(everything))
    if found.all_rows.sites > 1:
        yield Answer("Where", *_where(found))


def _seen(line: SiteHistory) -> tuple[str, list[str]]:
    watched = f"The watch is against a coverage below {percent(round(1 - line.limit, 4))}."
    if line.coverage is None:
        return "No outcome yet", [f"{count(line.rows, 'row')} wait for an outcome. {watched}"]
    low, high = line.interval
    texts = [
        f"of {count(int(line.known[-1]), 'row')} with an outcome are covered. {watched}",
        f"The coverage behind it is between {low:.1%} and {high:.1%}, at all times at once.",
        f"{line.waiting[-1] / line.rows:.0%} of all rows still wait for an outcome.",
    ]
    return f"{line.coverage:.1%}", texts


def _where(found: Combined) -> tuple[str, list[str]]:
    together = found.all_rows
    sites = count(together.sites, "site")
    texts = []
    by_name = {line.site: line for line in together.histories}
    for name in together.named[:5]:
        line = by_name[name]
        texts.append(f"{name}: {_numbers(line)}" + (f", since {date(line.alarm)}." if line.alarm is not None else "."))
    if len(together.named) > 5:
        texts.append(f"And {len(together.named) - 5} more, on top of the list below.")
    if found.named_groups:
        texts.append(f"Groups that stand out: {', '.join(found.named_groups[:5])}.")
    if not texts:
        good = sum(line.state == "holds" for line in together.histories)
        texts = [f"{good:,} of {sites} show by themselves that the promise holds there."]
    return f"{len(together.named):,} of {sites}" if together.named else "No site stands out", texts


def _over_time(line: SiteHistory) -> str:
    coverage = soft("Rows of all sites together. The band holds if rows come from the sites in fixed shares.")
    x, lowest = (
        (float(line.days[0]), float(line.days[-1])),
        1 - max(line.limit, *(line.misses / np.maximum(line.known, 1))),
    )
    floor = max(0.0, math.floor(10 * lowest - 0.5) / 10)
    coverage += _coverage_plot(line, x, floor) if line.coverage is not None else soft("No outcome yet.")
    evidence = soft("What a stake of one becomes by betting that more than the limit is missed. One is no evidence.")
    tens, enough = line.log_e / math.log(10), -math.log10(line.false_alarm)
    y = min(-2.0, math.floor(tens.min())), max(2.0, math.ceil(enough + 0.3), math.ceil(tens.max()))
    evidence += _evidence_plot(line, x, y)
    charts = f'<div class="grid2"><div>{coverage}</div><div>{evidence}</div></div>'
    return card("Coverage and evidence over time", charts)


def _messages(found: Combined) -> str:
    rows = [(one.site, "left out", one.reason) for one in found.refused]
    rows += [(one.site, "sent nothing lately", f"since {date(int(one.days[-1]))}") for one in found.silent]
    rows += [
        (one.site, "groups withheld", f"{date(one.first)} to {date(one.last)}: too few outcomes")
        for one in found.withheld[:MOST_NOTES]
    ]
    for line in found.all_rows.histories:
        if line.changed is not None:
            rows.append((line.site, "says", f"scores differ, noticed on {date(line.changed)}"))
    return card("Messages", f'<div class="facts">{table(("site", "what", ""), rows)}</div>') if rows else ""


def _fine_print(found: Combined) -> str:
    texts = [
        chance(found.all_rows),
        METHOD,
        "The interval holds at all times at once. Rows are taken to be independent.",
        f"Predictor {found.predictor}.",
    ]
    if found.groups:
        texts.insert(1, f"Groups: {chance(found.groups[0])} Groups are named by e-BH among {len(found.groups)}.")
    return fine_print("".join(map(soft, texts)))


def _by_site(found: Combined) -> str:
    """Draw all sites; those that stand out come first. Its own alarm alone leaves a site in doubt."""
    named = set(found.all_rows.named)
    lines = sorted(found.all_rows.histories, key=lambda line: line.site not in named)  # the rest stays by evidence
    states = [line.state if line.alarm is None else "alarm" if line.site in named else "in doubt" for line in lines]
    return _drawn("Site by site", found, lines, states) if len(lines) > 1 else ""


def _by_group(found: Combined) -> str:
    """Draw all groups, each over all sites."""
    lines = [one.pooled for one in found.groups]
    states = [
        "alarm" if one.group in found.named_groups else "in doubt" if one.alarm is not None else one.state
        for one in found.groups
    ]
    return _drawn("Group by group", found, lines, states) if lines else ""


def _drawn(title: str, found: Combined, lines: Sequence[SiteHistory], states: Sequence[str]) -> str:
    floor = max(0.0, (10 - 30 * max(line.limit for line in lines)) // 1 / 10)  # three times the limit is seen
    drawn = [
        _small(line, (found.first - 1, found.last), floor, state)
        for line, state in zip(lines[:FIRST], states, strict=False)
    ]
    scale = f"Coverage from {floor:.0%} to 100%; evidence on a log scale. The most evidence comes first."
    scale += f" The other {len(lines) - FIRST:,} are in the numbers." if len(lines) > FIRST else ""
    shown = f'{soft(scale)}{KEYS}<div class="sites">{"".join(drawn)}</div>'
    return card(title, shown, _table(title.partition(" ")[0].lower(), lines, states))


def _table(what: str, lines: Sequence[SiteHistory], states: Sequence[str]) -> str:
    rows = (
        (
            line.site,
            state,
            date(line.alarm),
            f"{int(line.known[-1]):,}",
            f"{line.misses[-1]:,.6g}",
            "" if line.coverage is None else f"{line.coverage:.1%}",
            percent(round(1 - line.limit, 4)),
            e_value(line.now),
            f"{int(line.waiting[-1]):,}",
            f"{line.sizes[-1] / line.rows:.3g}" if line.rows else "",
            date(int(line.days[-1])),
        )
        for line, state in zip(lines, states, strict=True)
    )
    return table((what, *HEADS), rows)


def _coverage_plot(line: SiteHistory, x: Point, floor: float, **about: Any) -> str:
    """Draw coverage since the start with its interval, and the limit."""
    at = thinned(line)
    low, high = line.intervals(at)
    since = np.divide((line.known - line.misses)[at], line.known[at], out=high - np.nan, where=line.known[at] > 0)
    title = f"{line.site}: coverage over time, with its interval and the limit"
    plot = TimePlot(title=title, x=x, y=(floor, 1.0), y_label="coverage", y_text=percent, **about)
    lower, upper, middle = (points(line.days[at], np.maximum(values, floor)) for values in (low, high, since))
    plot.band(lower, upper, "interval, at all times at once")
    plot.line(middle, "since the start")
    plot.target(1 - line.limit, f"watched: {percent(round(1 - line.limit, 4))}")
    return plot.svg()


def _evidence_plot(line: SiteHistory, x: Point, y: Point, **about: Any) -> str:
    """Draw evidence on a log scale with the level of the alarm."""
    at, title = thinned(line), f"{line.site}: evidence against the promise over time, on a log scale"
    plot = TimePlot(title=title, x=x, y=y, y_label="evidence (e-value)", y_text=_power_of_ten, **about)
    plot.line(points(line.days[at], np.clip(line.log_e[at] / math.log(10), *y)), "mean over sites")
    plot.target(-math.log10(line.false_alarm), f"alarm: {1 / line.false_alarm:,.4g}")
    return plot.svg()


def _small(line: SiteHistory, x: Point, floor: float, state: str) -> str:
    """Draw a site or a group: coverage above, evidence below, on the same scales as all others."""
    name, bare = shortened(line.site, LONGEST), {"width": 240, "bare": True}
    charts = _coverage_plot(line, x, floor, height=64, **bare) + _evidence_plot(line, x, SMALL, height=40, **bare)
    caption = f'<b title="{escape(line.site)}">{escape(name)}</b><span class="badge {LEVEL[state]}">{state}</span>'
    return f"<figure><figcaption>{caption}</figcaption>{charts}<p>{escape(_numbers(line))}</p></figure>"


def _numbers(line: SiteHistory) -> str:
    """Say in one line how a site does."""
    if line.coverage is None:
        return f"no outcome yet, {count(line.rows, 'row')}"
    wait = line.waiting[-1] / line.rows
    return f"{line.coverage:.1%} of {int(line.known[-1]):,}, {wait:.0%} wait, evidence\u00a0{e_value(line.now)}"


def e_value(log_e: float) -> str:
    """Write an e-value, from its logarithm.

    >>> e_value(0.0), e_value(5.0), e_value(-3.0), e_value(2000.0)
    ('1', '148', '0.05', '10⁸⁶⁸')
    """
    tens = log_e / math.log(10)
    if not -PLAIN < tens < PLAIN:
        return _power_of_ten(math.floor(tens))
    value = math.exp(log_e)
    return f"{value:.2g}" if tens < 0 else f"{value:.3g}" if tens < 2 else f"{value:,.0f}"


def _power_of_ten(value: float) -> str:
    """Write ten to this power.

    >>> [_power_of_ten(value) for value in (-2, 0, 3, 12)]
    ['0.01', '1', '10³', '10¹²']
    """
    if abs(value) <= 2:
        return f"{10.0**value:,.10g}"
    return f"10{f'{value:g}'.translate(POWERS)}"


def thinned(line: SiteHistory) -> Integers:
    """Choose places of a line evenly; the last, and that of the most evidence, are among them."""
    even = np.linspace(0, len(line.days) - 1, min(len(line.days), POINTS - 1))
    return np.unique(np.append(even.round().astype(np.int64), int(np.argmax(line.log_e))))


def points(days: Integers, values: Floats) -> list[Point]:
    """Pair days and values, without those that are not defined."""
    return [(float(x), float(y)) for x, y in zip(days, values, strict=True) if not math.isnan(y)]
