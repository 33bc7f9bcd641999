"""The page of licences is written from metadata, and what is not permissive shows."""

from __future__ import annotations

import pytest

from scripts import licences


def test_the_page_is_what_the_metadata_give() -> None:
    missing = set(licences.pinned()) - set(licences.licences()) - {"editables"}  # there while others are built
    if missing:
        pytest.skip(f"the page is compared where all extras are; not installed here: {', '.join(sorted(missing))}")
    assert licences.PAGE.read_text("utf-8") == licences.page(), "run `python scripts/licences.py`"


def test_the_core_is_permissive() -> None:
    assert {"numpy", "scipy", "msgspec", "fastdigest", "typer", "rich"} <= set(licences.core())
    assert [name for name in licences.core() if not licences.permissive(licences.licence_of(name))] == []


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
