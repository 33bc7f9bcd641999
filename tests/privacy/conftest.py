"""What several tests of sums sessions look into."""

import pytest

from tests.privacy.sums_play import Round


@pytest.fixture(scope="module")
def first() -> Round:
    return Round()
