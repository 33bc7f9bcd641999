"""What `fedconformal sums` says to people: which exchange it is, who takes part, how precise the threshold is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.files import naming, read_bytes, write_bytes
from fedconformal._base.names import counted
from fedconformal.calibration.certificate import Certificate
from fedconformal.cli.console import print_result
from fedconformal.cli.inputs import Json
from fedconformal.privacy.signatures import new_key, public_key
from fedconformal.privacy.sums.lost import gone
from fedconformal.privacy.sums.state import CoordinatorState

SHOWS = "to the last bit: who knows a row can often tell from these sums that it is in there"
RECOMMENDED = "with --epsilon the sum itself is differentially private, which is recommended where rows are many"


def key(
    path: Annotated[Path, typer.Argument(metavar="KEY", help="Where the private key is, or is to be; never send it.")],
    json: Json = False,
) -> None:
    """At a site: make the key by which the other sites know this one, or show the public part of one that is there."""
    made = not path.exists()
    if made:
        write_bytes(path, new_key(), private=True)
    with naming(path):
        public = public_key(read_bytes(path))
    print_result(
        {"key": str(path), "public_key": public},
        *([f"wrote {path}: keep it for every session, and never send it"] if made else []),
        f'public key: {public}; send it to the other sites, for KEYS: {{"site": "hex", ...}}',
        json=json,
    )


def read_key(path: Path | None) -> bytes | None:
    """Read the key that a site keeps, if it has one."""
    if path is None:
        return None
    with naming(path):
        private = read_bytes(path)
        public_key(private)
        return private


def exchanges(state: CoordinatorState) -> dict[str, int | None]:
    """Count exchanges: two first, then three in each round; each lost site takes more, so then there is no total."""
    return {
        "exchanges": state.exchanges,
        "most_exchanges": None if gone(state) else 2 + 3 * len(state.session.rounds.widths),
    }


def exchanges_in_words(state: CoordinatorState) -> str:
    """Say which exchange is done."""
    most = exchanges(state)["most_exchanges"]
    return f"exchange {state.exchanges}{'' if most is None else f' of at most {most}'} is done"


def precise(privacy: Mapping[str, Any], *, finite: bool) -> list[str]:
    """Say how precise a finite threshold is, if it comes without noise."""
    precision = privacy.get("precision")
    if precision is None or not finite:
        return []
    rounded = f"rounded up to the edge of a cell, as {precision['stopped']}"
    return [f"the threshold is {'exact to the last bit' if precision['exact'] else rounded}"]


def wide(certificate: Certificate) -> list[str]:
    """Say how to have finer cells, where a score of numbers is beyond those that are fine."""
    precision = (certificate.privacy or {}).get("precision", {})
    far, above = 2 * precision.get("reach", 1), precision.get("above")
    if not certificate.intervals or above is None or certificate.limit <= far:
        return []
    wide = f"above {far:g} cells are wide: the plain threshold is between {above:g} and {certificate.limit:g}"
    return [f"{wide}; start another session with --reach {2 * certificate.limit:.0e}, or more"]


def roster_lines(shown: Mapping[str, Any]) -> list[str]:
    """Say who takes part, so that people can compare it."""
    lines = []
    for one in shown["roster"]:
        kept = "key" if one["kept_key"] else "key of this session only"
        lines.append(f"{one['site']}: {counted(one['scores'], 'score')}, {kept} {one['key'][:16]}")
    return [*lines, f"session {shown['fingerprint']}: compare it with the other sites, by phone; it has to be the same"]
