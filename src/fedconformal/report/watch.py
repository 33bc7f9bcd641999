"""Page of a watch: verdict, next steps, and counts over time by site and by group.

The page is self-contained and has no script. Names of sites and groups are untrusted and escaped wherever they are
written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.names import join_names, plural
from fedconformal.monitoring.combine import Combined, CombinedEvidence, Refused, SiteHistory, combine
from fedconformal.monitoring.messages import Period, day_of
from fedconformal.monitoring.text import chance, date, sentence, to_do
from fedconformal.report.charts import Plot, Point, percent
from fedconformal.report.html import Answer, board, card, fine_print, long_table, page, soft

LEAST_DAYS = 6
"""Minimum length of the axis of days, so that no day is labelled twice."""
POINTS = 100
"""Maximum number of points of a chart."""
PLAIN = (-3, 4)
"""Powers of ten between which an e-value is written out; axis labels have room for few digits."""
POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LEVEL = {"alarm": "bad", "in doubt": "caution", "holds": "good", "too early": ""}
HEADS = ("state", "since", "outcomes", "missed", "covered", "watched", "evidence", "waiting", "size", "last day")
METHOD = (
    "Evidence is recomputed here from the counts of the sites: an e-value of a mixture of bets "
    "against the limit. Rows without an outcome count as covered. Over sites it is the mean of their e-values; sites "
    "are named by e-BH from the evidence on the last day."
)
TITLE = "Is the promise kept?"


def watch_page(periods: Iterable[Period], *, promise: str = "", refused: Iterable[Refused] = ()) -> str:
    """Return a self-contained HTML page from the messages of all sites.

    Parameters
    ----------
    periods
        Messages, possibly none.
    promise
        The sentence of the certificate.
    refused
        Sites with invalid messages, and the reasons.

    Examples
    --------
    >>> "No row yet" in watch_page([])
    True
    """
    sent = list(periods)
    if sent:
        return combined_page(combine(sent, refused=refused), promise=promise)
    empty = Answer("Does it hold?", "No row yet", ["No site has sent a message or predicted a row."])
    return page(TITLE, TITLE, [board([empty])], lede=promise)


def combined_page(found: Combined, *, promise: str = "") -> str:
    """Return the page from combined messages."""
    everything, sites = found.all_rows.pooled, plural(found.all_rows.sites, "site")
    sections = [
        soft(f"{sites}, from {date(found.first)} to {date(found.last)}. Predictor {found.predictor[:12]}."),
        board(_answers(found, everything)),
        "" if everything.coverage is None else _over_time(everything),
        _by_site_and_group(found),
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
    yield Answer("Observed so far", *_seen(everything))
    if found.all_rows.sites > 1:
        yield Answer("Where", *_where(found))


def _seen(line: SiteHistory) -> tuple[str, list[str]]:
    watched = f"The watch raises an alarm for a coverage below {percent(round(1 - line.limit, 4))}."
    if line.coverage is None:
        return "No outcome yet", [f"{plural(line.rows, 'row')} wait for an outcome. {watched}"]
    low, high = line.interval
    texts = [
        f"of {plural(int(line.known[-1]), 'row')} with an outcome are covered. {watched}",
        f"Interval of the coverage, valid at all times: {low:.1%} to {high:.1%}.",
        f"{line.waiting[-1] / line.rows:.0%} of all rows still wait for an outcome.",
    ]
    return f"{line.coverage:.1%}", texts


def _where(found: Combined) -> tuple[str, list[str]]:
    together = found.all_rows
    sites = plural(together.sites, "site")
    texts = [f"{join_names(together.named)}: at the top of the list below."] if together.named else []
    if found.named_groups:
        texts.append(f"Groups that stand out: {', '.join(found.named_groups[:5])}.")
    if not texts:
        good = sum(line.state == "holds" for line in together.histories)
        texts = [f"{good:,} of {sites} show by themselves that the promise holds there."]
    return f"{len(together.named):,} of {sites}" if together.named else "No site stands out", texts


def _over_time(line: SiteHistory) -> str:
    """Return plots of coverage, with interval and limit, and of evidence on a log scale, with the alarm level."""
    # Evenly spaced indices, with the last one and that of the most evidence.
    even = np.linspace(0, len(line.days) - 1, min(len(line.days), POINTS - 1))
    at = np.unique(np.append(even.round().astype(np.int64), int(np.argmax(line.log_e))))
    coverage = soft("Rows of all sites together. The band holds if rows come from the sites in fixed shares.")
    coverage += _coverage_plot(line, at)
    evidence = soft("Wealth of a bet that the miss rate exceeds the limit, with a stake of one. One is no evidence.")
    tens, enough = line.log_e / math.log(10), -math.log10(line.false_alarm)
    y = min(-2.0, math.floor(tens.min())), max(2.0, math.ceil(enough + 0.3), math.ceil(tens.max()))
    title, power = "evidence against the promise over time, on a log scale", lambda tens: e_value(tens * math.log(10))
    plot = _over_days(line, title=title, y=y, y_label="evidence (e-value)", y_text=power)
    plot.line(points(line.days[at], tens[at]), "mean over sites")
    plot.target(enough, f"alarm: {1 / line.false_alarm:,.4g}")
    charts = f'<div class="grid2"><div>{coverage}</div><div>{evidence}{plot.svg()}</div></div>'
    return card("Coverage and evidence over time", charts)


def _over_days(line: SiteHistory, **about: Any) -> Plot:
    first, last = float(line.days[0]), float(line.days[-1])
    style = "%b %Y" if last - first > 366 else "%d %b"
    x = (min(first, last - LEAST_DAYS), last)  # never after the last day of the calendar
    return Plot(x=x, x_label="day (UTC)", x_text=lambda day: f"{day_of(int(day)):{style}}", height=240, **about)


def _coverage_plot(line: SiteHistory, at: Integers) -> str:
    shares = 1 - line.misses / np.maximum(line.known, 1)
    floor = max(0.0, math.floor(10 * min(1 - line.limit, *shares) - 0.5) / 10)
    low, high = line.intervals(at)
    since = np.where(line.known[at] > 0, shares[at], math.nan)
    title = "coverage over time, with its interval and the limit"
    plot = _over_days(line, title=title, y=(floor, 1.0), y_label="coverage", y_text=percent)
    lower, upper, middle = (points(line.days[at], np.maximum(values, floor)) for values in (low, high, since))
    plot.band(lower, upper, "interval, valid at all times")
    plot.line(middle, "since the start")
    plot.target(1 - line.limit, f"watched: {percent(round(1 - line.limit, 4))}")
    return plot.svg()


def _messages(found: Combined) -> str:
    rows = [(one.site, "left out", one.reason) for one in found.refused]
    rows += [(one.site, "sent nothing lately", f"since {date(int(one.days[-1]))}") for one in found.silent]
    withheld = {one.site: one for one in found.withheld}.values()
    rows += [(one.site, "groups withheld", f"until {date(one.last)}: too few outcomes") for one in withheld]
    changed = [one for one in found.all_rows.histories if one.changed is not None]
    rows += [(one.site, "scores changed", f"detected on {date(one.changed)}") for one in changed]
    return card("Messages", f'<div class="facts">{long_table(("site", "what", ""), rows)}</div>') if rows else ""


def _fine_print(found: Combined) -> str:
    texts = [
        chance(found.all_rows),
        METHOD,
        "The interval is valid at all times at once. Rows are assumed to be independent.",
        f"Predictor {found.predictor}.",
    ]
    if found.groups:
        texts.insert(1, f"Groups: {chance(found.groups[0])} Groups are named by e-BH among {len(found.groups)}.")
    return fine_print("".join(map(soft, texts)))


def _by_site_and_group(found: Combined) -> str:
    """Return tables of sites, those that stand out first, and of groups; a site's own alarm means "in doubt"."""
    named = set(found.all_rows.named)
    lines = sorted(found.all_rows.histories, key=lambda line: line.site not in named)  # others stay by evidence
    sites = _table("site", lines, [_state(one, named=one.site in named) for one in lines]) if len(lines) > 1 else ""
    states = [_state(one, named=one.group in found.named_groups) for one in found.groups]
    return sites + (_table("group", [one.pooled for one in found.groups], states) if states else "")


def _state(line: SiteHistory | CombinedEvidence, *, named: bool) -> str:
    return "alarm" if named else line.state if line.alarm is None else "in doubt"


def _table(what: str, lines: Sequence[SiteHistory], states: Sequence[str]) -> str:
    rows = [
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
    ]
    order = soft("The most evidence comes first.")
    return card(f"{what.capitalize()} by {what}", order + long_table((what, *HEADS), rows))


def e_value(log_e: float) -> str:
    """Format an e-value, given its logarithm.

    >>> e_value(0.0), e_value(5.0), e_value(-3.0), e_value(2000.0)
    ('1', '148', '0.05', '10⁸⁶⁸')
    """
    tens = log_e / math.log(10)
    if not PLAIN[0] < tens < PLAIN[1]:
        return f"10{str(math.floor(tens)).translate(POWERS)}"
    return f"{math.exp(log_e):,.0f}" if tens >= 2 else f"{math.exp(log_e):.2g}"


def points(days: Integers, values: Floats) -> list[Point]:
    """Return pairs of day and value, without undefined values."""
    return [(float(x), float(y)) for x, y in zip(days, values, strict=True) if not math.isnan(y)]
