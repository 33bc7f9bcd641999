"""The page of a watch: does the promise hold, at which sites and since when, and what to do next.

One file with everything in it and no script. Names of sites and groups come from outside and are escaped wherever they
are written. However many sites and days there are, each small chart has some dozens of points in whole numbers and all
share one style, so that 1,000 sites over a year stay below 2 MB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from fedconformal.monitoring.combine import Combined, Refused, combine
from fedconformal.monitoring.history import SiteHistory
from fedconformal.monitoring.messages import Period
from fedconformal.monitoring.text import chance, count, date, sentence, to_do
from fedconformal.report.document import document, resource
from fedconformal.report.html import answer, card, columns, soft, table
from fedconformal.report.plot import percent
from fedconformal.report.time_plot import thinned
from fedconformal.report.watch_charts import (
    LEVEL,
    coverage_plot,
    e_value,
    evidence_plot,
    numbers,
    size_plot,
    waiting_plot,
)
from fedconformal.report.watch_sites import group_by_group, site_by_site

ROWS = 30
"""Of a table behind a chart."""
MOST_NOTES = 100
"""Gaps that are listed one by one."""
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
    one_watch: bool = False,
    more: Sequence[str] = (),
) -> str:
    """Return the whole page as HTML, from the messages of all sites.

    Args:
        periods: may be none yet.
        promise: what the predictor promises, in a sentence.
        refused: sites whose messages could not be used, and why.
        one_watch: whether all messages are of one watch, as for `combine`.
        more: other parts of the page, as HTML.

    >>> "No row yet" in watch_page([])
    True
    """
    sent = list(periods)
    if sent:
        return combined_page(combine(sent, refused=refused, one_watch=one_watch), promise=promise, more=more)
    empty = answer(TITLE, "No row yet", ["Nothing was sent or predicted so far, so there is nothing to watch."])
    return document(TITLE, [f"<h1>{TITLE}</h1>", _lede(promise), empty, *more])


def combined_page(found: Combined, *, promise: str = "", more: Sequence[str] = ()) -> str:
    """Return the same page, from messages that are combined already."""
    everything, sites = found.all_rows.pooled, count(found.all_rows.sites, "site")
    parts = [
        f"<h1>{TITLE}</h1>",
        _lede(promise),
        soft(f"{sites}, from {date(found.first)} to {date(found.last)}. Predictor {found.predictor[:12]}."),
        _board(found, everything),
        columns(_over_time(everything)),
        site_by_site(found),
        group_by_group(found),
        _messages(found),
        *more,
        _fine_print(found),
    ]
    return document(f"watch of {sites}", parts, style=resource("watch.css"))


def _lede(text: str) -> str:
    return f'<p class="lede">{escape(text)}</p>' if text else ""


def _board(found: Combined, everything: SiteHistory) -> str:
    level = LEVEL[found.state]
    mark = f'<span class="badge {level}">since {date(found.since)}</span>' if found.since is not None else ""
    steps = "".join(f"<li>{escape(text)}</li>" for text in to_do(found))
    said = sentence(found) if found.alarm else sentence(found).partition(": ")[2]
    answers = (
        answer("Does it hold?", found.state.capitalize(), [f"{said[0].upper()}{said[1:]}."], mark=mark, kind=level),
        f'<section class="card answer {level}"><h2>What to do next</h2><ul>{steps}</ul></section>',
        answer("What is seen", *_seen(everything)),
        answer("Where", *_where(found)),
    )
    return f'<div class="board">{"".join(answers)}</div>'


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
        texts.append(f"{name}: {numbers(line)}" + (f", since {date(line.alarm)}." if line.alarm is not None else "."))
    if len(together.named) > 5:
        texts.append(f"And {len(together.named) - 5} more, on top of the list below.")
    if found.named_groups:
        texts.append(f"Groups that stand out: {', '.join(found.named_groups[:5])}.")
    if not texts:
        good = sum(line.state == "holds" for line in together.histories)
        texts = [f"{good:,} of {sites} show by themselves that the promise holds there."]
    return f"{len(together.named):,} of {sites}" if together.named else "No site stands out", texts


def _over_time(line: SiteHistory) -> Iterator[str]:
    at = thinned(line, ROWS)
    low, high = line.intervals(at)
    rows = [
        (
            date(int(line.days[i])),
            f"{int(line.known[i]):,}",
            f"{line.misses[i]:,.6g}",
            f"{1 - line.misses[i] / line.known[i]:.1%}" if line.known[i] else "",
            f"{one:.1%} to {other:.1%}",
            e_value(float(line.log_e[i])),
            f"{int(line.waiting[i]):,}",
            f"{line.sizes[i] / (line.known[i] + line.waiting[i]):.3g}" if line.known[i] + line.waiting[i] else "",
        )
        for i, one, other in zip(at.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    heads = ("day", "outcomes", "missed", "covered", "interval", "evidence", "waiting", "size")
    shown = table(heads, rows)
    yield card(
        "Coverage over time",
        soft("Rows of all sites together. The band holds if rows come from the sites in fixed shares.")
        + (coverage_plot(line) if line.coverage is not None else soft("No outcome yet.")),
        shown,
    )
    yield card(
        "Evidence over time",
        soft("What a stake of one becomes by betting that more than the limit is missed. One is no evidence.")
        + evidence_plot(line),
        shown,
    )
    yield card("Rows without outcome", soft("They count as covered until it comes.") + waiting_plot(line))
    if line.sizes[-1]:
        yield card("Sizes", soft("Longer sets say less.") + size_plot(line))


def _messages(found: Combined) -> str:
    rows = [(one.site, "left out", one.reason) for one in found.refused]
    rows += [(one.site, "sent nothing lately", f"since {date(one.last)}") for one in found.silent]
    rows += [(gap.site, "message missing", f"{date(gap.first)} to {date(gap.last)}") for gap in found.gaps[:MOST_NOTES]]
    rows += [
        (one.site, "groups withheld", f"{date(one.first)} to {date(one.last)}: too few outcomes")
        for one in found.withheld[:MOST_NOTES]
    ]
    for line in found.all_rows.histories:
        own = line.self_report
        for what, changed in (("scores", own.changed), ("top scores", own.unlabelled_changed)):
            if changed is not None:
                text = f"{what} differ since {date(changed[1])}, noticed on {date(changed[0])}"
                rows.append((line.site, "says", text))
    if len(found.gaps) > MOST_NOTES:
        rows.append(("", "message missing", f"{len(found.gaps) - MOST_NOTES:,} more"))
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
    inside = "".join(soft(text) for text in texts)
    return f'<section class="card fine"><details><summary><h2>Fine print</h2></summary>{inside}</details></section>'
