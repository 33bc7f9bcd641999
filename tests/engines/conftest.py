"""All tests of this folder run on an engine."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/engines/"):
            item.add_marker("engine")
