"""Write docs/licences.md from the metadata of the packages in constraints.txt.

    python scripts/licences.py

Run it in an environment with all extras (`make lint` makes one).
"""

# ruff: noqa: T201

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "licences.md"

PLACE = {
    "python_version": "3.11",
    "python_full_version": "3.11.0",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "sys_platform": "linux",
    "os_name": "posix",
}
"""Platform of constraints.txt, so that the page is the same on every machine."""

SPELLINGS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License v2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
PERMISSIVE = {
    *("0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MIT-0"),
    *("MIT-CMU", "PSF-2.0", "Public Domain", "Zlib"),
}
NOT_STATED = "not stated"
CORE = "Core"

TOP = """# Licences of the dependencies

Written by `scripts/licences.py` from the metadata of the packages in `constraints.txt`: those of the core, and those of
extras and development tools that are not plainly permissive. fedconformal itself is under Apache-2.0. Wheels that
bundle other projects, such as OpenSSL or OpenBLAS, have their licence files inside. A build of torch for graphics cards
brings NVIDIA libraries with licences of their own.
"""
NOTE = f"""## Not plainly permissive

MPL-2.0 asks to publish changes to the files under it; fedconformal makes none. Where the metadata state no licence
("{NOT_STATED}"), ask the authors before you redistribute the package.
"""


def pinned() -> list[str]:
    """Return the names in constraints.txt, and torch, whose pin is in the Makefile."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return sorted([*(line.split("==")[0] for line in lines if not line.startswith("#")), "torch"], key=plain)


def plain(name: str) -> str:
    """Return the one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence_of(name: str) -> str:
    """Return what the metadata of an installed package states: an expression, a word, or else its classifiers."""
    about = metadata.metadata(name)
    (expression,) = about.get_all("License-Expression", [""])
    if expression:
        return str(expression)
    (stated,) = about.get_all("License", ["UNKNOWN"])
    if stated != "UNKNOWN" and len(stated) < 80:  # some put the whole text there
        return ", ".join(SPELLINGS.get(word, word) for word in stated.split(", "))
    marks = [mark.split(" :: ")[-1] for mark in about.get_all("Classifier", []) if mark.startswith("License ::")]
    return ", ".join(sorted({SPELLINGS.get(mark, mark) for mark in marks})) or NOT_STATED


def permissive(licence: str) -> bool:
    """Whether nothing is asked but to keep notices; of alternatives one is enough, of parts all must be."""
    parts = re.split(r" AND |, ", re.sub(r"[()]| WITH [\w-]+", "", licence))
    return all(any(word in PERMISSIVE for word in part.split(" OR ")) for part in parts)


def needed(requirements: Iterable[str]) -> set[str]:
    """Return the plain names of what these requirements bring, and what that brings in its turn."""
    waiting, seen = [Requirement(text) for text in requirements], set()
    while waiting:
        wanted = waiting.pop()
        for extra in ("", *wanted.extras):
            if (key := (plain(wanted.name), extra)) in seen:
                continue
            seen.add(key)
            try:
                lines = metadata.requires(wanted.name) or []
            except metadata.PackageNotFoundError:
                continue
            more = [Requirement(line) for line in lines]
            waiting += [one for one in more if one.marker is None or one.marker.evaluate(PLACE | {"extra": extra})]
    return {name for name, _ in seen}


def licences() -> dict[str, str]:
    """Return the licence of every pinned package that is installed."""
    found = {}
    for name in pinned():
        try:
            found[name] = licence_of(name)
        except metadata.PackageNotFoundError:  # one that is there only while another is built
            continue
    return found


def core() -> list[str]:
    """Return the pinned packages that come with every installation."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = needed(project["dependencies"])
    return [name for name in pinned() if plain(name) in wanted]


def page() -> str:
    """Return the page."""
    found = licences()
    odd = [f"- {name}: {licence}" for name, licence in found.items() if not permissive(licence)]
    return "\n".join([TOP, NOTE, *odd, "", f"## {CORE}", "", *(f"- {name}: {found[name]}" for name in core()), ""])


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE}", file=sys.stderr)
