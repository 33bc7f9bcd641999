"""fedconformal monitor: is the promise still kept? Start a watch, add rows and outcomes, and ask."""

from __future__ import annotations

import datetime as dt
import time as clock
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedconformal._base.arrays import Floats
from fedconformal._base.files import read_bytes, write_bytes
from fedconformal._base.names import join_names, plural
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.combine import combine
from fedconformal.cli.console import logger, note, print_json, print_result, say, table, tracking
from fedconformal.cli.groups import Needed
from fedconformal.cli.inputs import Json, load_any
from fedconformal.cli.options import expand_options
from fedconformal.cli.outputs import check_output
from fedconformal.cli.policy import PolicyFile, allowed
from fedconformal.cli.risk import risk_predictor
from fedconformal.cli.rows import Columns, Unlabelled
from fedconformal.cli.watched import read_outcomes, read_predicted
from fedconformal.errors import InputError, prefix_errors
from fedconformal.federated.watch import leaving
from fedconformal.monitoring.events import DAY, NO_OUTCOMES
from fedconformal.monitoring.limits import limits_of
from fedconformal.monitoring.messages import EPOCH, day_of, write_periods
from fedconformal.monitoring.monitor import ALARM
from fedconformal.monitoring.store import Watch
from fedconformal.monitoring.text import Status, date
from fedconformal.summaries import Summary

monitor = typer.Typer(help="Watch whether the promise is still kept, as outcomes come in.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(metavar="WATCH", help="The file of the watch (.db).")]
Site = Annotated[str | None, typer.Option(help="The one site that rows come from.", show_default="all sites")]
Summaries = Annotated[
    list[Path] | None,
    typer.Option("--summary", metavar="FILE", help="A site's own summary (.fcs), for a limit of its own; repeatable."),
]
SHOWN = 20
"""Sites and groups in a table; --json has all."""


@expand_options
def start(
    watch: File,
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    site: Site = None,
    summary: Summaries = None,
    limit: Annotated[float | None, typer.Option(help="A limit of your own: how often rows may be missed.")] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="The site's calibration rows, to notice changes of scores.")
    ] = None,
    failure: Annotated[float, typer.Option(help="How often the calibration may have been too lucky.")] = 0.025,
    false_alarm: Annotated[float, typer.Option(help="How often an alarm may be raised by chance.")] = 0.025,
    *,
    columns: Columns,
    json: Json = False,
) -> None:
    """Begin to watch a predictor; the file is bound to it."""
    rule: Predictor = risk_predictor(predictor) or load_any(predictor)
    summaries = []
    for path in summary or ():
        with prefix_errors(path):
            summaries.append(Summary.from_bytes(read_bytes(path)))
    found = limits_of(rule, failure=failure, site=site, summaries=summaries, limit=limit)
    scores = None if calibration is None else _scores(rule, columns, calibration)
    with Watch.start(watch, rule, found, false_alarm=false_alarm, site=site, scores=scores) as made:
        facts = {
            "watch": str(watch),
            "predictor": made.settings.predictor,
            "site": made.settings.site,
            "limit": found.rate,
            "basis": found.basis,
            "failure": found.failure,
            "false_alarm": false_alarm,
            "sites": found.sites,
            "groups": found.groups,
            "too_few": list(found.too_few),
            "changes": scores is not None,
        }
    whom = "all rows" if site is None else f"site {site}"
    lines = [f"started {watch}: {whom}, at most {found.rate:.4g} missed; {found.basis}"]
    own = len(found.sites) + len(found.groups) + len(found.classes)
    lines += [f"{own} sites, groups or classes have limits of their own"] * bool(own)
    if found.too_few:
        logger.warning(
            "%s: too few scores for a limit of their own; rows of there are counted only", join_names(found.too_few)
        )
    lines += [f"false alarms ever: at most {false_alarm + found.failure:g}"]
    print_result(facts, *lines, json=json)


def _scores(rule: Predictor, columns: Columns, path: Path) -> Floats:
    if rule.certificate.intervals or rule.certificate.risk is not None:
        raise InputError("--calibration is for predictors of sets, and this one is of another kind; leave it out")
    if getattr(rule.score, "randomized", False):
        raise InputError(
            "--calibration needs a score without random draws, or they would look like changes; leave it out"
        )
    rows = columns.read_for(rule, path)
    lowest: Floats = rule.score.evaluate_all(rows.values.astype(np.float32)).min(axis=1)
    return lowest


@expand_options
def add(
    watch: File,
    answered: Annotated[
        Path | None,
        typer.Argument(
            metavar="PREDICTIONS",
            help="Rows that were answered: id, time, site, and labels, lower and upper, or probabilities.",
        ),
    ] = None,
    outcomes: Annotated[
        Path | None, typer.Argument(metavar="OUTCOMES", help="What came true: id, time, label (or loss).")
    ] = None,
    labels: Annotated[
        str | None, typer.Option("--labels", metavar="COLUMN", help="The column with what came true.")
    ] = None,
    *,
    columns: Unlabelled,
    groups: Needed = None,
    json: Json = False,
) -> None:
    """Add rows and outcomes, from one file or two; if one is refused, nothing of either is added."""
    if answered is None:
        raise InputError("give a file with rows that were answered, one with outcomes, or both")
    with Watch.open(watch) as held:
        if outcomes is None and _are_outcomes(held, answered, columns, labels):
            answered, outcomes = None, answered
        with tracking("reading"):
            rows = None if answered is None else read_predicted(held, answered, columns, groups)
            came = NO_OUTCOMES if outcomes is None else read_outcomes(held, outcomes, columns, labels)
        with _naming(rows=answered, outcomes=outcomes), tracking("adding"):
            counts = held.add(rows, came)
        found = held.status()
    _remark(counts)
    words = f"added {plural(counts['rows'], 'row')} and {plural(counts['counted'], 'outcome')}"
    print_result({"added": counts, "verdict": found.verdict}, words, found.sentence, json=json)


@contextmanager
def _naming(**files: Path | None) -> Iterator[None]:
    """Name the file that is refused."""
    try:
        yield
    except InputError as error:
        if files.get(error.where or "") is None:
            raise
        raise type(error)(error.problem, param=error.param, code=error.code, where=files[error.where or ""]) from None


def _are_outcomes(watch: Watch, path: Path, columns: Unlabelled, labels: str | None) -> bool:
    """Whether a file that is given alone holds outcomes: it has their column, and nothing that was answered."""
    column = labels or ("label" if watch.predictor.certificate.risk is None else "loss")
    names = columns.open(path, columns.content.value).with_header().names or ()
    return column in names and not {"labels", "lower", "upper"} & {*names}


def _remark(counts: dict[str, int]) -> None:
    words = {
        "repeated": "came before with the same value, and count once",
        "conflicting": "came before with another value; the first one counts",
        "early": "are of rows that were not added yet; they count when these come",
        "late": "are older than the last day; they count on that day",
        "unscored": "have no probabilities, so changes of scores are not looked for in them",
    }
    for what, said in words.items():
        if counts.get(what):
            noun = "row" if what == "unscored" else "outcome"
            logger.warning("%s %s", plural(counts[what], noun), said)


def status(watch: File, json: Json = False) -> None:
    """Say whether the promise holds; exit with 1 on an alarm."""
    with Watch.open(watch) as held:
        found, about = held.status(), held.settings
        purged = found.counts["purged_waiting"]
    if json:
        print_json({**found.to_dict(), "predictor": about.predictor, "site": about.site, "basis": about.basis})
        raise typer.Exit(int(found.verdict == ALARM))
    raised = [
        f"{one.called}: alarm since {date(one.alarm_day)} (row {one.alarm_at})"
        for one in found.streams
        if one.verdict == ALARM
    ]
    say(found.sentence, *raised[:SHOWN], f"The limit is {found.streams[0].limit:.4g}: {about.basis}.")
    _table(found)
    say("", *filter(None, [found.scores]))
    say(*[f"{purged} rows were purged while they waited; they count as covered."] * bool(purged))
    say(*["The watch is closed."] * found.closed)
    raise typer.Exit(int(found.verdict == ALARM))


def _table(found: Status) -> None:
    order = sorted(found.streams[1:], key=lambda one: (one.verdict != ALARM, one.number))
    rows = []
    for one in [found.streams[0], *order[:SHOWN]]:
        low, high = one.interval
        limit = "none" if one.limit is None else f"{one.limit:.3g}"
        rate = "" if one.rate is None else f"{one.rate:.3g}"
        counts = (str(one.known), f"{one.misses:.6g}", str(one.waiting))
        rows.append((one.called, one.verdict, *counts, rate, f"{low:.3g} to {high:.3g}", limit))
    say("")
    table(("", "verdict", "known", "missed", "waiting", "rate", "interval", "limit"), rows)
    if len(order) > SHOWN:
        say(f"and {len(order) - SHOWN} more, which --json has")


def summarize(
    watch: File,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the messages (.fcw).")],
    last: Annotated[
        str | None, typer.Option("--to", metavar="DATE", help="The last day.", show_default="of the last row")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="day", help="One message a day.")] = None,
    policy: PolicyFile = None,
    json: Json = False,
) -> None:
    """Write what a site sends: counts of all periods so far and of a new one, and nothing about a row.

    The new period begins after the last one. A day is sent once, and what comes later counts on a later day.
    """
    check_output(output, watch, policy, ending=".fcw")
    if by not in (None, "day"):
        raise InputError(f"--by is {by}, expected day")
    rules, end = allowed(policy), as_day(last, "--to")
    least = max(rules.least_rows, rules.least_patients)
    with Watch.open(watch) as held:
        found = held.send(end, by_day=by == "day", least=least, check=lambda new: rules.check(leaving(new)))
    if found[-1].withheld:
        note(f"groups, classes and sites are withheld: one of them has fewer than {least} new outcomes")
    data = write_periods(found)
    write_bytes(output, data)
    days = f"{day_of(found[0].first)} to {day_of(found[-1].last)}"
    facts = {"output": str(output), "messages": len(found), "bytes": len(data), "from": str(day_of(found[0].first))}
    facts |= {"to": str(day_of(found[-1].last)), "withheld": found[-1].withheld}
    print_result(facts, f"wrote {output}: {plural(len(found), 'message')}, {days}, {len(data)} bytes", json=json)


def purge(
    watch: File,
    before: Annotated[str | None, typer.Option(metavar="DATE", help="Forget rows answered before this day.")] = None,
    days: Annotated[int | None, typer.Option(min=0, help="Forget rows that are older than this many days.")] = None,
    json: Json = False,
) -> None:
    """Forget rows; counts stay, and rows that still wait count as covered for good."""
    if (before is None) == (days is None):
        raise InputError("say --before DATE or --days N")
    day = as_day(before, "--before") if days is None else int(clock.time() // DAY) - days
    with Watch.open(watch) as held:
        found = held.purge(day or 0)
    words = f"forgot {plural(found['rows'], 'row')}, {found['waiting']} of which still waited and count as covered"
    print_result(dict(found), words, json=json)


def close(watch: File, json: Json = False) -> None:
    """End a watch: nothing is added any more, and status still answers."""
    with Watch.open(watch) as held:
        held.close()
        found = held.status()
    print_result({"closed": True, "verdict": found.verdict}, f"closed {watch}", found.sentence, json=json)


def as_day(text: str | None, option: str) -> int | None:
    """Read a day, as days since 1970."""
    if text is None:
        return None
    try:
        day = (dt.date.fromisoformat(text) - EPOCH).days
    except ValueError:
        day = -1
    if day < 0:
        raise InputError(f"{option} is {text!r:.40}, expected a day such as 2026-11-30")
    return day


for function in (start, add, status, summarize, combine, purge, close):
    monitor.command(function.__name__, cls=getattr(function, "command", None))(function)
