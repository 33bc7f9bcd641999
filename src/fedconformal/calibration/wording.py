"""The sentences of certificates, edition by edition.

A guarantee holds its sentences as they are now. `wording.json` keeps, for every older edition, those that have changed
since: by the guarantee's name, each a template of the guarantee's own parameters. So prose may improve, and `verify`
still compares an old certificate with the words that it was written in. To change a sentence, put the old one there
under the edition that it ends with, and raise EDITION once a release.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee

EDITION = 2
"""The edition that is written now."""

UNNAMED = (1, 0)
"""The editions of certificates that name none; 0 is from before the first release."""

CONDITIONS = (
    "The promise is for an alpha fixed beforehand. It says nothing of sites "
    "that sent no summary or were left out. The upper end holds for distinct scores and sets that may be empty; "
    "forcing the top label in keeps the lower end only."
)

INTERVAL_CONDITIONS = (
    "The promise is for an alpha fixed beforehand. It says nothing of sites that sent no summary or were left out. "
    "The largest coverage stated holds for distinct scores, but for the rounding of ends outward."
)
DISTRIBUTION_CONDITIONS = " The predictive distribution holds for each level fixed beforehand, not for all at once."

OF_INTERVALS = (
    ("class or set size", "group or width"),
    ("make the sets larger", "make the intervals wider"),
    ("put every label into every set", "make every interval the whole line"),
)
"""What guarantees say of sets, and what that means for intervals."""

WORDING = ("promise", "assumption", "caveat", "conditions")
"""The fields of a certificate that are sentences."""

Template = dict[str, str]


def reworded(fields: Mapping[str, Any], guarantee: Guarantee, sites: Sequence[str], edition: int) -> dict[str, str]:
    """Return the sentences of a certificate as an edition has them."""
    if not min(UNNAMED) <= edition <= EDITION:
        raise InputError(f"the wording is of edition {edition}, this release knows 1 to {EDITION}; update fedconformal")
    found = {name: str(fields[name]) for name in WORDING if name in fields}
    for older in range(EDITION - 1, edition - 1, -1):
        for now, then in _changes(guarantee, sites, older):
            found = {name: text.replace(now, then) for name, text in found.items()}
    return found


def of_intervals(text: str) -> str:
    """Say of intervals what a guarantee says of sets.

    >>> of_intervals("This is not a promise to a single site, class or set size.")
    'This is not a promise to a single site, group or width.'
    """
    for sets, intervals in OF_INTERVALS:
        text = text.replace(sets, intervals)
    return text


def edition_needed(fields: Mapping[str, Any], guarantee: Guarantee, sites: Sequence[str]) -> int | None:
    """Return the edition to name in a certificate: none if the first one has the same words."""
    now = reworded(fields, guarantee, sites, EDITION)
    return None if reworded(fields, guarantee, sites, UNNAMED[0]) == now else EDITION


def _changes(guarantee: Guarantee, sites: Sequence[str], edition: int) -> list[tuple[str, str]]:
    """List what a guarantee says now, and said in that edition; of one by class, the inner one's words as well."""
    changes = [(CONDITIONS, then) for then in _editions()[str(edition)].get("certificate", {}).values()]
    for one in dict.fromkeys([guarantee, guarantee.kept]):
        for name, template in _editions()[str(edition)].get(one.name, {}).items():
            now = getattr(one, name)
            changes.append((now(sites) if callable(now) else now, template.format_map(asdict(one))))
    return changes


@cache
def _editions() -> dict[str, dict[str, Template]]:
    found: dict[str, dict[str, Template]] = json.loads(Path(__file__).with_name("wording.json").read_text("utf-8"))
    return found
