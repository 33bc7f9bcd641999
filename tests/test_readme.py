"""The README's example runs as it stands and prints what it says."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_example_prints_what_the_readme_says() -> None:
    text = README.read_text()
    found = re.search(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", text, re.DOTALL)
    assert found
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(found[1], "README.md", "exec"), {})  # noqa: S102
    assert printed.getvalue() == found[2]
    assert len([line for line in found[1].splitlines() if line.strip()]) <= 12


def test_the_two_commands_come_first() -> None:
    lines = README.read_text().splitlines()
    assert [line.split()[:2] for line in lines[3:5]] == [["make", "demo"], ["make", "test"]]
