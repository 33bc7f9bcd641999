"""The page of licences is written from metadata, and what is not permissive shows."""

from __future__ import annotations

from importlib import metadata

import pytest

from scripts import licences


def test_every_pin_is_listed() -> None:
    assert sorted(licences.rows(), key=licences.plain) == licences.pinned(), "run `python scripts/licences.py`"


def test_the_page_is_what_the_metadata_give() -> None:
    installed = {licences.plain(found.name) for found in metadata.distributions()}
    missing = {name for name in licences.pinned() if licences.plain(name) not in installed} - {"editables"}  # to build
    if missing:
        pytest.skip(f"the page is compared where all extras are; not installed here: {', '.join(sorted(missing))}")
    assert licences.PAGE.read_text("utf-8") == licences.page(), "run `python scripts/licences.py`"


def test_the_core_is_permissive() -> None:
    core = {name: licence for name, (licence, where) in licences.rows().items() if where == licences.CORE}
    assert {"numpy", "scipy", "msgspec", "fastdigest", "typer", "rich"} <= set(core)
    assert [name for name, licence in core.items() if not licences.permissive(licence)] == []


@pytest.mark.parametrize(
    ("licence", "expected"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("MIT AND (GPL-2.0-only OR BSD-3-Clause)", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("BSD, Public Domain", True),
        ("MPL-2.0", False),
        ("MIT AND LGPL-3.0-only", False),
        ("BSD, MPL-2.0", False),
        ("GPL-3.0-only WITH GCC-exception-3.1", False),
        (licences.NOT_STATED, False),
        ("Proprietary", False),
    ],
)
def test_what_is_permissive(licence: str, expected: bool) -> None:
    assert licences.permissive(licence) == expected


def test_what_is_not_permissive_is_named_first() -> None:
    first = licences.PAGE.read_text("utf-8").split("## Core")[0]
    for name, (licence, _) in licences.rows().items():
        assert (f"- {name}: {licence}" in first) != licences.permissive(licence)
