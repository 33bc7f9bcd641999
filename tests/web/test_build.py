"""The built page: up to date, small, and with a strict content policy."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from scripts import build_page
from tests.cli.command import Command

PAGE = build_page.OUTPUT.read_text("utf-8")


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def inside(tag: str) -> str:
    (found,) = re.findall(rf"<{tag}>(.*?)</{tag}>", PAGE, re.DOTALL)
    return str(found)


def test_it_is_made_from_the_sources_as_they_are() -> None:
    assert f'<meta name="sources" content="{build_page.sources()}">' in PAGE, "run make page"


def test_a_rebuild_gives_the_same_bytes() -> None:
    if not build_page.ESBUILD.exists():
        pytest.skip("esbuild is not installed: make page installs it")
    assert build_page.page() == PAGE


def test_it_is_small() -> None:
    assert len(PAGE.encode()) < build_page.MOST_BYTES


def test_it_forbids_itself_everything_but_its_own_script_and_style() -> None:
    policies = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)"', PAGE)
    own = f"default-src 'none'; script-src {digest(inside('script'))}; style-src {digest(inside('style'))}; "
    own += "form-action 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    assert policies == [own]


def test_it_loads_nothing_and_sends_nothing() -> None:
    assert not re.findall(r"\b(?:src|href|action|style|on\w+)\s*=\s*[\"']", PAGE.replace(inside("script"), ""))
    words = "fetch( XMLHttpRequest WebSocket sendBeacon EventSource import( eval( innerHTML http: https:"
    assert [word for word in words.split() if word in PAGE] == []


def test_the_command_writes_it_and_prints_its_digest(command: Command, tmp_path: Path) -> None:
    path, expected = tmp_path / "p.html", hashlib.sha256(PAGE.encode()).hexdigest()
    assert expected in command.ok("page", "-o", path).out
    assert path.read_text("utf-8") == PAGE
    assert command.ok("page", "-o", path, "--json").json["sha256"] == expected
    assert command("page", "-o", tmp_path / "p.txt").code == 2
