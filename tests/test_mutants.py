"""The list of mutants fits the code, and the script that tries them tells what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import mutate


def test_every_mutant_has_one_place_and_tests() -> None:
    listed = mutate.mutants()
    for mutant in listed:
        mutate.check([mutant])
        assert mutant.old != mutant.new
        assert mutant.tests
    assert len({(mutant.path, mutant.old, mutant.new) for mutant in listed}) == len(listed)


CODE = "def half(n):\n    return n // 2\n\n\ndef name():\n    return 'a' + ''\n"
TESTS = """
from fedconformal.small import half, name


def test_half():
    assert half(4) == 2


def test_name():
    assert name() == 'a'
"""


def mutant(old: str, new: str, equivalent: str = "") -> mutate.Mutant:
    return mutate.Mutant(path="small.py", old=old, new=new, tests=("tests/test_small.py",), equivalent=equivalent)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a small repository."""
    (tmp_path / "src/fedconformal").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "src/fedconformal/__init__.py").touch()
    (tmp_path / "src/fedconformal/small.py").write_text(CODE, "utf-8")
    (tmp_path / "tests/test_small.py").write_text(TESTS, "utf-8")
    return tmp_path


def test_verdicts(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems = mutate.trial(
        [
            mutant("// 2", "// 3"),
            mutant("// 2", "/ 2"),
            mutant("+ ''", "+ str()", "it is the same text"),
            mutant("'a' + ''", "'b'", "this is not so"),
            mutant("def half(n)", "def third(n)"),
        ],
        tree,
        seconds=60,
    )
    assert sorted(problem.splitlines()[0] for problem in problems) == [
        "broken: small.py: def half(n) -> def third(n)",
        "killed, not equivalent: small.py: 'a' + '' -> 'b'",
        "survived: small.py: // 2 -> / 2",
    ]
    said = capsys.readouterr().out
    assert sum(line.startswith("[") for line in said.splitlines()) == 5
    assert "small.py: + '' -> + str()" in said
    assert (tree / "src/fedconformal/small.py").read_text("utf-8") == CODE  # only copies were changed


def test_a_hang_is_not_a_kill(tree: Path) -> None:
    assert mutate.tried(mutant("return n // 2", "while True: pass"), tree, seconds=3)[0] == "hung"
    assert (tree / "src/fedconformal/small.py").read_text("utf-8") == CODE


def test_tests_that_fail_anyway_are_no_verdict(tree: Path) -> None:
    (tree / "tests/test_small.py").write_text("def test_no():\n    assert False\n", "utf-8")
    with pytest.raises(mutate.ListError, match="do not pass without a mutant"):
        mutate.trial([mutant("// 2", "// 3")], tree, seconds=60)


@pytest.mark.parametrize("old", ["no such text", "return"])
def test_a_text_that_is_not_there_once_is_refused(tree: Path, old: str) -> None:
    with pytest.raises(mutate.ListError, match="expected once"):
        mutate.check([mutant(old, "x")], tree)


def test_missing_tests_and_empty_choices_are_refused(tree: Path) -> None:
    gone = mutate.Mutant(path="small.py", old="// 2", new="// 3", tests=("tests/test_gone.py::test_it",))
    with pytest.raises(mutate.ListError, match="there is no tests/test_gone"):
        mutate.check([gone], tree)
    assert mutate.main(["--only", "no mutant has this text"]) == 2
