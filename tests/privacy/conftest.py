"""Fixtures for sums sessions."""

import pytest

from tests.privacy.sums_play import Round


@pytest.fixture(scope="module")
def first() -> Round:
    return Round()


@pytest.fixture
def to_the_last_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split cells of few rows too: a session has four rounds, and the threshold is the plain one rounded up."""
    monkeypatch.setattr("fedconformal.privacy.sums.radix.LEAST", 0)
