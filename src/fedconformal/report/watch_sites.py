"""Sites and groups as small charts, the most evidence first, and the table of their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from fedconformal.monitoring.combine import Combined, CombinedEvidence
from fedconformal.monitoring.history import SiteHistory
from fedconformal.monitoring.text import date
from fedconformal.report.html import card, soft, table
from fedconformal.report.plot import percent
from fedconformal.report.watch_charts import e_value, small

FIRST = 24
"""Small charts that are seen at once; the others can be folded out."""
ALL_POINTS, FEWEST, MOST = 24_000, 24, 80
"""Points of all small charts together, and of one of them."""
HEADS = ("state", "since", "outcomes", "missed", "covered", "watched", "evidence", "waiting", "size", "last day")
KEYS = (
    '<ul class="keys"><li><i></i>coverage since the start; below, evidence</li><li><i class="kr"></i>coverage of late'
    '</li><li><i class="kb"></i>interval</li><li><i class="kp"></i>what is watched; below, the alarm</li></ul>'
)


def site_by_site(found: Combined) -> str:
    """Draw all sites; those that stand out come first."""
    together = found.all_rows
    lines = sorted(together.histories, key=lambda line: line.site not in together.named)  # the rest stays by evidence
    return _drawn("Site by site", found, lines, [_state(together, line) for line in lines])


def group_by_group(found: Combined) -> str:
    """Draw all groups, each over all sites."""
    lines = [one.pooled for one in found.groups]
    states = [
        "alarm" if one.group in found.named_groups else "in doubt" if one.alarm is not None else line.state
        for one, line in zip(found.groups, lines, strict=True)
    ]
    return _drawn("Group by group", found, lines, states) if lines else ""


def _state(together: CombinedEvidence, line: SiteHistory) -> str:
    """Call a site what it is among all: its own alarm alone leaves it in doubt."""
    if line.alarm is None:
        return line.state
    return "alarm" if line.site in together.named or len(together.histories) == 1 else "in doubt"


def _drawn(title: str, found: Combined, lines: Sequence[SiteHistory], states: Sequence[str]) -> str:
    span, floor = (found.first - 1, found.last), _floor(lines)
    points = min(MOST, max(FEWEST, ALL_POINTS // len(lines)))
    drawn = [small(line, span, floor, points, state) for line, state in zip(lines, states, strict=True)]
    more = ""
    if len(drawn) > FIRST:
        rest = f"<summary>The other {len(drawn) - FIRST:,}</summary>"
        more = f'<details>{rest}<div class="sites">{"".join(drawn[FIRST:])}</div></details>'
    scale = f"Coverage from {floor:.0%} to 100%; evidence on a log scale. The most evidence comes first."
    shown = f'{soft(scale)}{KEYS}<div class="sites">{"".join(drawn[:FIRST])}</div>{more}'
    return card(title, shown, _table(title.partition(" ")[0].lower(), lines, states))


def _floor(lines: Sequence[SiteHistory]) -> float:
    """Choose where the axis of coverage begins: three times the limit is seen."""
    return max(0.0, (10 - 30 * max(line.limit for line in lines)) // 1 / 10)


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
