"""fedconformal monitor: start a watch, add rows and outcomes, show its status, send messages and combine them."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedconformal._base.arrays import Floats
from fedconformal._base.files import read_bytes, write_bytes
from fedconformal._base.names import join_names, plural
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.console import logger, note, print_json, print_result, progress, say, table, tracking
from fedconformal.cli.monitor_rows import SITE, TIME, WatchReader
from fedconformal.cli.options import (
    Json,
    PolicyFile,
    PredictorFile,
    Trusted,
    check_output,
    expand_options,
    expand_wildcards,
    load_predictor,
    refuse,
)
from fedconformal.cli.rows import Columns
from fedconformal.cli.verify import one_site, signature_of
from fedconformal.errors import InputError, prefix_errors
from fedconformal.federated.watch import outgoing
from fedconformal.monitoring import combine as combination
from fedconformal.monitoring.events import DAY, NO_OUTCOMES
from fedconformal.monitoring.limits import limits_of
from fedconformal.monitoring.messages import Period, day_of, read_periods, write_periods
from fedconformal.monitoring.monitor import ALARM
from fedconformal.monitoring.store import Watch
from fedconformal.monitoring.text import Status, date, sentence, to_dict, to_do
from fedconformal.privacy.policy import policy_of, read_policy
from fedconformal.privacy.signatures import check_periods, read_trusted
from fedconformal.report.watch import combined_page
from fedconformal.summaries import Summary

monitor = typer.Typer(help="Watch whether the promise is still kept, as outcomes come in.")

File = Annotated[Path, typer.Argument(metavar="WATCH", help="The file of the watch (.db).")]
SHOWN = 20
"""Maximum number of sites and groups in a table; --json has all."""
REMARKS = {
    "repeated": "that came before with the same value: counted once",
    "conflicting": "that came before with another value: the first one counts",
    "early": "of rows that were not added yet: counted when these come",
    "late": "of a day that is past or was sent: counted on the first open day",
    "unscored": "without probabilities: not searched for changes of scores",
}


@expand_options
def start(
    watch: File,
    predictor: PredictorFile,
    site: Annotated[str | None, typer.Option(help="The one site that rows come from.")] = None,
    summary: Annotated[
        list[Path] | None,
        typer.Option("--summary", metavar="FILE", help="A site's own summary (.fcs), for its own limit."),
    ] = None,
    limit: Annotated[float | None, typer.Option(help="A miss rate of your own.")] = None,
    reference: Annotated[Path | None, typer.Option(help="Calibration rows, to detect changes of scores.")] = None,
    *,
    columns: Columns,
    failure: Annotated[float, typer.Option(help="Chance that the limit does not hold.")] = 0.025,
    false_alarm: Annotated[float, typer.Option(help="Chance of a false alarm.")] = 0.025,
    json: Json = False,
) -> None:
    """Begin to watch a predictor; the file is bound to it."""
    refuse("goes with --reference", **{columns.given or "from": reference is None and columns.given})
    rule, summaries = load_predictor(predictor), []
    for path in summary or ():
        with prefix_errors(path):
            summaries.append(Summary.from_bytes(read_bytes(path)))
    limits = limits_of(rule, failure=failure, site=site, summaries=summaries, limit=limit)
    scores = None if reference is None else _scores(rule, columns, reference)
    with Watch.start(watch, rule, limits, false_alarm=false_alarm, site=site, scores=scores) as created:
        about = created.settings
    record = {"watch": watch, "predictor": about.predictor, "site": about.site, "limits": limits}
    record |= {"false_alarm": false_alarm, "changes": scores is not None}
    whom = "all rows" if site is None else f"site {site}"
    lines = [f"started {watch}: {whom}, at most {limits.rate:.4g} missed; {limits.basis}"]
    own = len(limits.sites) + len(limits.groups) + len(limits.classes)
    lines += [f"{own} sites, groups or classes have limits of their own"] * bool(own)
    if limits.too_few:
        logger.warning(
            "%s: too few scores for a limit of their own; their rows are only counted", join_names(limits.too_few)
        )
    print_result(record, *lines, f"false alarms ever: at most {false_alarm + limits.failure:g}", json=json)


def _scores(rule: Predictor, columns: Columns, path: Path) -> Floats:
    """Return the top-label scores of the calibration rows, the reference of change detection."""
    if rule.certificate.intervals or rule.certificate.risk is not None:
        raise InputError("--reference is for predictors of sets, and this one is of another kind; leave it out")
    if getattr(rule.score, "randomized", False):
        raise InputError("--reference needs a score without random draws, which would look like changes; leave it out")
    rows = columns.read_for(rule, path)
    lowest: Floats = rule.score.evaluate_all(rows.table.values.astype(np.float32)).min(axis=1)
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
        Path | None, typer.Argument(metavar="OUTCOMES", help="Outcomes: id, time, label (or loss).")
    ] = None,
    *,
    columns: Columns,
    time: Annotated[str, typer.Option(metavar="COLUMN", help="The column with times.")] = TIME,
    sites: Annotated[str, typer.Option(metavar="COLUMN|FILE", help="The site of each row.")] = SITE,
    forget: Annotated[
        int | None,
        typer.Option(min=0, metavar="DAYS", help="Then forget rows older than this; those that wait count as covered."),
    ] = None,
    json: Json = False,
) -> None:
    """Add rows and outcomes. If one file is refused, nothing is added."""
    if answered is None and forget is None:
        raise InputError("give a file with rows that were answered, one with outcomes, or both")
    with Watch.open(watch) as held:
        reader = WatchReader(held, columns, time=time, site=sites)
        one_file = answered is not None and outcomes is None
        if answered is not None and one_file:
            has_rows, has_outcomes = reader.holds(answered)
            answered, outcomes = answered if has_rows else None, answered if has_outcomes else None
        with tracking("reading"):
            rows = None if answered is None else reader.read_predicted(answered)
            some = one_file and rows is not None
            received = NO_OUTCOMES if outcomes is None else reader.read_outcomes(outcomes, some=some)
        with tracking("adding"):
            counts = held.add(rows, received)
        purged = None if forget is None else held.purge(int(clock.time() // DAY) - forget)
        current = held.status()
    for what, remark in REMARKS.items():
        number = getattr(counts, what)
        if number:
            logger.warning("%s %s", plural(number, "row" if what == "unscored" else "outcome"), remark)
    lines = [f"added {plural(counts.rows, 'row')} and {plural(counts.counted, 'outcome')}"]
    forgotten = None if purged is None else {"rows": purged.purged, "waiting": purged.purged_waiting}
    if forgotten is not None:
        lines.append(f"forgot {plural(forgotten['rows'], 'row')}, {forgotten['waiting']} of which still waited")
    record = {"added": counts, "forgotten": forgotten, "verdict": current.verdict}
    print_result(record, *lines, current.sentence, json=json)


def status(watch: File, json: Json = False) -> None:
    """Show whether the promise holds. Exit with 1 on an alarm."""
    with Watch.open(watch) as held:
        state, about = held.status(), held.settings
    if json:
        print_json({**state.to_dict(), "predictor": about.predictor, "site": about.site, "basis": about.basis})
    else:
        raised = [
            f"{stream.called}: alarm since {date(stream.alarm_day)} (row {stream.alarm_at})"
            for stream in state.streams
            if stream.verdict == ALARM
        ]
        say(state.sentence, *raised[:SHOWN], f"The limit is {state.streams[0].limit:.4g}: {about.basis}.")
        _print_streams(state)
        say("", *filter(None, [state.scores]))
        forgotten = state.counts.purged_waiting
        say(*[f"{forgotten} rows were forgotten while they waited; they count as covered."] * bool(forgotten))
    raise typer.Exit(int(state.verdict == ALARM))


def _print_streams(state: Status) -> None:
    order = sorted(state.streams[1:], key=lambda stream: (stream.verdict != ALARM, stream.number))
    rows = []
    for stream in [state.streams[0], *order[:SHOWN]]:
        low, high = stream.interval
        rate = f"{stream.misses / stream.known:.3g}" if stream.known else ""
        counts = (str(stream.known), f"{stream.misses:.6g}", str(stream.waiting))
        rows.append((stream.called, stream.verdict, *counts, rate, f"{low:.3g} to {high:.3g}", f"{stream.limit:.3g}"))
    say("")
    table(("", "verdict", "known", "missed", "waiting", "rate", "interval", "limit"), rows)
    if len(order) > SHOWN:
        say(f"and {len(order) - SHOWN} more, which --json has")


def send(
    watch: File,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the messages (.fcw).")],
    policy: PolicyFile = None,
    json: Json = False,
) -> None:
    """Write the messages of a site: counts of each day, and no rows.

    A day is sent once, and what comes later counts on a later day. If a policy asks for a least number of rows, the
    days since the last message are one period.
    """
    check_output(output, watch, policy, ending=".fcw")
    rules = policy_of() if policy is None else read_policy(policy)
    least = max(rules.least_rows, rules.least_patients)
    with Watch.open(watch) as held:
        periods = held.send(by_day=least <= 1, least=least, check=lambda new: rules.check(outgoing(new)))
    if periods[-1].withheld:
        note(f"groups, classes and sites are withheld: one of them has fewer than {least} new outcomes")
    data, (first, to) = write_periods(periods), (str(day_of(day)) for day in (periods[0].first, periods[-1].last))
    write_bytes(output, data)
    words = f"wrote {output}: {plural(len(periods), 'message')}, {first} to {to}, {len(data)} bytes"
    record = {"output": output, "messages": len(periods), "bytes": len(data), "first": first, "last": to}
    print_result({**record, "withheld": periods[-1].withheld}, words, json=json)


def combine(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Messages of sites (.fcw), or one watch (.db).", callback=expand_wildcards
        ),
    ],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the page (.html).")] = None,
    signed: Trusted = None,
    json: Json = False,
) -> None:
    """Show whether the promise holds over all sites. Exit with 1 on an alarm."""
    if output is not None:
        check_output(output, *files, ending=".html")
    promise = ""
    if len(files) == 1 and files[0].suffix == ".db":
        with Watch.open(files[0]) as held:
            periods, promise = held.history(), held.predictor.sentence()
        if not periods:
            raise InputError(f"{files[0]}: nothing was added so far; monitor add adds rows and outcomes")
    else:
        periods = list(_read_periods(files, None if signed is None else read_trusted(signed)))
    with tracking("combining sites"):
        combined = combination.combine(periods, one_watch=len(files) == 1)
    lines = [sentence(combined), *(f"- {step}" for step in to_do(combined))]
    if output is not None:
        data = combined_page(combined, promise=promise).encode()
        write_bytes(output, data)
        lines.append(f"wrote {output}: {len(data) / 1000:.0f} kB, opens in a browser without a network")
    stated = {"sentence": lines[0], "to_do": to_do(combined), **to_dict(combined)}
    print_result(stated, *lines, json=json)
    raise typer.Exit(int(combined.alarm))


def _read_periods(files: Sequence[Path], trusted: Mapping[str, str] | None) -> Iterator[Period]:
    """Read all messages; errors name a file that is invalid, not signed, or about another predictor."""
    predictor = b""
    for path in progress(files, "reading", len(files)):
        data = read_bytes(path)
        with prefix_errors(path):
            periods = read_periods(data)
            if trusted is not None and (wrong := check_periods(signature_of(path), one_site(periods), data, trusted)):
                raise InputError(wrong)
            for period in periods:
                predictor = predictor or period.predictor
                combination.check_predictor(period, predictor)
                yield period


for function in (start, add, status, send, combine):
    monitor.command(function.__name__)(function)
