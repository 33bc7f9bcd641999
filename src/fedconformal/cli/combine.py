"""fedconformal monitor combine: at the coordinator, what the messages of all sites say, and a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.files import read_bytes, write_bytes
from fedconformal.cli.console import print_result, progress, tracking
from fedconformal.cli.inputs import Json
from fedconformal.cli.outputs import Force, check_output
from fedconformal.cli.sign import Trusted, one_site, signature_of
from fedconformal.errors import InputError, prefix_errors
from fedconformal.monitoring.combine import check_predictor, to_dict
from fedconformal.monitoring.combine import combine as together
from fedconformal.monitoring.messages import Period, read_periods
from fedconformal.monitoring.text import sentence, to_do
from fedconformal.privacy.signatures import check_periods, read_trusted
from fedconformal.report.watch import combined_page


def combine(
    files: Annotated[list[Path], typer.Argument(metavar="PERIODS...", help="What sites sent (.fcw).")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the page (.html).")] = None,
    signed: Trusted = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Say whether the promise holds over all sites, and where it does not; exit with 1 on an alarm."""
    if output is not None:
        check_output(output, *files, ending=".html", force=force)
    periods = list(_read(files, None if signed is None else read_trusted(signed)))
    with tracking("combining sites"):
        found = together(periods, one_watch=len(files) == 1)
    lines = [sentence(found), *(f"- {step}" for step in to_do(found))]
    facts: dict[str, Any] = {"sentence": lines[0], "to_do": to_do(found), **to_dict(found)}
    if output is not None:
        data = combined_page(found).encode()
        write_bytes(output, data)
        lines.append(f"wrote {output}: {len(data) / 1000:.0f} kB, opens in a browser without a network")
        facts |= {"output": str(output), "bytes": len(data)}
    print_result(facts, *lines, json=json)
    if found.alarm:
        raise typer.Exit(1)


def _read(files: Sequence[Path], trusted: Mapping[str, str] | None) -> Iterator[Period]:
    """Read all messages, and name the file that is bad, not signed, or about another predictor."""
    predictor = b""
    for path in progress(files, "reading", len(files)):
        data = read_bytes(path)
        with prefix_errors(path):
            found = read_periods(data)
            if trusted is not None and (wrong := check_periods(signature_of(path), one_site(found), data, trusted)):
                raise InputError(wrong)
            for period in found:
                predictor = predictor or period.predictor
                check_predictor(period, predictor)
                yield period
