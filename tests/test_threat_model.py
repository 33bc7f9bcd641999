"""Every test that the threat model points to is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_claim_points_to_a_test_that_exists() -> None:
    text = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 20
    assert [name for name in sorted(named) if f"def {name}(" not in code] == []
    files = set(re.findall(r"`(tests/[\w/]+\.py)`", text))
    assert [name for name in sorted(files) if not (ROOT / name).is_file()] == []
