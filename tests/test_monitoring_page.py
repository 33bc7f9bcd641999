"""The commands of docs/monitoring.md run as they stand."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command
from tests.monitoring.watches import CLASSES, predictor, rows_of

PAGE = Path(__file__).parents[1] / "docs" / "monitoring.md"


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    rule: fc.Predictor = predictor()
    rule.save("predictor.json")
    probs, labels = rows_of(9, 40)
    lines = [",".join([f"p{k}", *(f"{p:.6f}" for p in row)]) for k, row in enumerate(probs)]
    Path("predictions.csv").write_text("\n".join([",".join(["id", *CLASSES]), *lines]) + "\n")
    lines = [f"p{k},{CLASSES[label]}" for k, label in enumerate(labels[:30])]
    Path("outcomes.csv").write_text("\n".join(["id,label", *lines]) + "\n")
    found = re.search(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    commands = [shlex.split(line, comments=True) for line in found[1].splitlines()]
    assert [words[2] for words in commands] == ["start", "add", "status", "summarize", "purge", "close"]
    for _, *words in commands:
        assert "30 outcomes" in command.ok(*words).out or words[1] in ("start", "summarize", "purge")
    assert np.isclose(len(Path("clinic-a.fcw").read_bytes()), 100, atol=30)
