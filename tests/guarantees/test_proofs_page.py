"""docs/proofs.md has the promise, assumptions, proof and limits of every guarantee."""

import re
from pathlib import Path

import pytest

from tests.contracts.tools import guarantee_examples

ROOT = Path(__file__).parents[2]
PARTS = ["Promise", "Assumptions", "Proof", "Limits"]
TEXT = (ROOT / "docs" / "proofs.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))
PROVED = [name for name in SECTIONS if name != "Notation and one lemma"]
GUARANTEES = {type(one).__name__ for one in guarantee_examples() + guarantee_examples(by_class=True)}


def test_every_guarantee_has_a_section() -> None:
    assert set(PROVED) >= GUARANTEES | {"LearnThenTest"}


@pytest.mark.parametrize("name", PROVED)
def test_a_section_has_its_four_parts_and_a_test(name: str) -> None:
    text = SECTIONS[name]
    assert re.findall(r"^\*\*(Promise|Assumptions|Proof|Limits)\b", text, re.MULTILINE) == PARTS
    assert "∎" in text
    named = re.findall(r"`(tests/[\w/]+\.py)`", text)
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []
