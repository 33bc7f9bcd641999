"""What the page writes is what the command line writes, byte for byte, on random tables and options.

`python -m tests.web.identity --count 100000` does the same with as many cases as asked for.
"""

import pytest

from tests.web.identity import differences
from tests.web.modules import needs_node

pytestmark = needs_node


@pytest.mark.long
def test_some_cases() -> None:
    found, seen = differences(0, 400, cells=4000)
    assert not found
    assert seen["byte-identical"] > 370


@pytest.mark.slow
def test_many_cases() -> None:
    found, seen = differences(1_000_000, 5000)
    assert not found
    assert seen["byte-identical"] > 4500
