"""Record of measurements as JSON next to the pages, so that results without logits at hand are preserved.

Logits are never committed, so most machines have only others' logits. A table or figure that can be made now replaces
the recorded one, part by part; the rest of the record is preserved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedconformal._base.files import read_bytes, write_bytes
from fedconformal.errors import InputError
from fedconformal_paper.catalogue import FIGURES, TABLES, Entry
from fedconformal_paper.logits import ABSENT
from fedconformal_paper.relative_inefficiency import ratios
from fedconformal_paper.setup import Setup
from fedconformal_paper.table import Table

LOGITS, DATA = "LOGITS", "DATA"
"""Placeholders of the directories of logits and of data, which differ between machines."""

SIZES, RATIOS = "full-results", "relative-inefficiency"
"""The second table is derived from the first, so that the two are always consistent."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Inputs of a figure: logits with deviations from the paper's, data files, and absent inputs."""

    logits: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    """Commands of absent logits, by name."""

    def at_hand(self, now: Drawn) -> bool:
        """Return whether all inputs of the recorded figure are available now.

        >>> Drawn(logits={"a": "2 rounds"}).at_hand(Drawn(logits={"a": "3 rounds", "b": "others' logits"}))
        True
        """
        return set(self.logits) <= set(now.logits) and set(self.files) <= set(now.files)


@dataclass(frozen=True, kw_only=True)
class Record:
    """All tables and figures by name, with the reasons for missing ones."""

    tables: dict[str, Table] = field(default_factory=dict)
    figures: dict[str, Drawn] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a record; empty if there is no file."""
        if not path.exists():
            return cls()
        try:
            return cls.from_dict(json.loads(read_bytes(path)))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path}: is not a record of results; delete it to measure all again") from None

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Record:
        """Return the record of a dictionary from `to_dict`."""
        drawn = {
            name: Drawn(logits=one["logits"], files=tuple(one["files"]), absent=one["absent"])
            for name, one in found["figures"].items()
        }
        tables = {name: Table.from_record(name, one) for name, one in found["tables"].items()}
        return cls(tables=tables, figures=drawn, missing=dict(found["missing"]))

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        drawn = {
            name: {"logits": dict(one.logits), "files": sorted(one.files), "absent": dict(one.absent)}
            for name, one in self.figures.items()
        }
        tables = {name: table.to_record() for name, table in self.tables.items()}
        return {"tables": tables, "figures": drawn, "missing": self.missing}

    def write(self, path: Path, places: Mapping[Path, str]) -> Record:
        """Write the record with placeholders for local paths, and return the record as written."""
        plain = _in_words(self.to_dict(), places)
        text = json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        write_bytes(path, f"{text}\n".encode())
        return Record.from_dict(json.loads(text))


def measured(before: Record, setup: Setup, images: Path) -> tuple[Record, list[str]]:
    """Make all entries that can be made now, keep the others of an earlier record, and return the kept ones."""
    tables, figures, missing = dict(before.tables), dict(before.figures), {}
    kept = []
    work: list[Entry[Table] | Entry[str]] = [*TABLES.values(), *FIGURES.values()]
    work = [entry for entry in work if entry.name != RATIOS]
    for entry in setup.track(work):
        quiet = replace(setup, track=iter, differences={}, files=set())
        image = images / f"{entry.name}.svg"
        there = entry.name in tables or (entry.name in figures and image.exists())
        try:
            made = entry.make(quiet)
        except InputError as error:
            if there:
                kept.append(f"{entry.name} ({error})")
            else:
                missing[entry.name] = str(error)
            continue
        if isinstance(made, Table):
            names: list[str] = []
            if there:
                made, names = made.with_kept(tables[entry.name])
            tables[entry.name] = made
            kept += [f"{entry.name}: {', '.join(names)}"] if names else []
            continue
        now = _drawn(quiet)
        if there and not figures[entry.name].at_hand(now):
            kept.append(entry.name)
            continue
        figures[entry.name] = now
        write_bytes(image, made.encode() + b"\n")
    if SIZES in tables:
        tables[RATIOS] = ratios(Table.from_record(SIZES, tables[SIZES].to_record()))
    return Record(tables=tables, figures=figures, missing=missing), kept


def _drawn(setup: Setup) -> Drawn:
    absent = {name: text.removeprefix(ABSENT) for name, text in setup.differences.items() if text.startswith(ABSENT)}
    logits = {name: text for name, text in setup.differences.items() if name not in absent}
    return Drawn(logits=logits, files=tuple(sorted(setup.files)), absent=absent)


def _in_words(value: Any, places: Mapping[Path, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _in_words(one, places) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_in_words(one, places) for one in value]
    if isinstance(value, str):
        for place, word in places.items():
            value = value.replace(str(place), word)
    return value
