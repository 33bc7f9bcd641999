"""Bad input: one line that names the file and the fix, exit code 2, nothing written."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedconformal.cli import app
from tests.cli.command import Command, site_rows

SUMMARIES = [f"site-{k}.fcs" for k in range(3)]
PROBS, LABELS = site_rows(0)


def with_value(value: float, row: int = 7) -> Callable[[], None]:
    def write() -> None:
        changed = PROBS.copy()
        changed[row, 1] = value
        np.save("bad.npy", changed)

    return write


def save(array: object, name: str = "bad.npy") -> Callable[[], None]:
    return lambda: np.save(name, np.asarray(array))


def text(content: str, name: str) -> Callable[[], object]:
    return lambda: Path(name).write_text(content)


SUMMARIZE = [
    ("nan", with_value(float("nan")), ["bad.npy", "labels-0.npy"], ["bad.npy: row 7, column 2 holds nan"]),
    ("inf", with_value(float("inf")), ["bad.npy", "labels-0.npy"], ["bad.npy: row 7, column 2 holds inf"]),
    ("sum", with_value(0.0), ["bad.npy", "labels-0.npy"], ["bad.npy", "row 7", "sums to"]),
    ("negative", with_value(-0.1), ["bad.npy", "labels-0.npy"], ["bad.npy", "row 7", "negative"]),
    ("logits", save(PROBS * 9 - 3), ["bad.npy", "labels-0.npy"], ["row 0", "--from logits"]),
    ("huge", save(PROBS * 1e300), ["bad.npy", "labels-0.npy"], ["bad.npy: row 0 holds a value that is not finite"]),
    (
        "not logits",
        save(PROBS),
        ["bad.npy", "labels-0.npy", "--from", "logits"],
        ["leave out softmax", "(--from probs)"],
    ),
    ("vector", save(PROBS[0]), ["bad.npy", "labels-0.npy"], ["bad.npy: has one column of probabilities", "--positive"]),
    ("cube", save(PROBS[None]), ["bad.npy", "labels-0.npy"], ["shape (1, 60, 4)"]),
    ("empty", save(PROBS[:0]), ["bad.npy", "bad.npy"], ["bad.npy"]),
    ("fewer labels", save(LABELS[:9]), ["probs-0.npy", "bad.npy"], ["bad.npy: has 9 rows, and probs-0.npy has 60"]),
    ("label out of range", save([*LABELS[:-1], 4]), ["probs-0.npy", "bad.npy"], ["row 59 is 4", "0 to 3"]),
    ("fractional label", save([0.5, *LABELS[1:]]), ["probs-0.npy", "bad.npy"], ["row 0 is 0.5"]),
    ("negative label", save([-1, *LABELS[1:]]), ["probs-0.npy", "bad.npy"], ["row 0 is -1"]),
    (
        "names as labels",
        save(["a"] * 60),
        ["probs-0.npy", "bad.npy"],
        ["row 0, column 1 holds 'a'", "--classes"],
    ),
    ("ragged csv", text("0.5,0.5\n1.0\n", "bad.csv"), ["bad.csv", "labels-0.npy"], ["bad.csv: line 2"]),
    ("words in csv", text("0.5,0.5\n0.5,x\n", "bad.csv"), ["bad.csv", "labels-0.npy"], ["bad.csv", "'x'"]),
    ("empty csv", text("", "bad.csv"), ["bad.csv", "labels-0.npy"], ["bad.csv: is empty"]),
    ("no npy", text("hello", "bad.npy"), ["bad.npy", "labels-0.npy"], ["bad.npy", "cannot be read"]),
    ("no npz", text("PK hello", "bad.npz"), ["bad.npz", "labels-0.npy"], ["bad.npz", "cannot be read"]),
    ("other file", text("", "bad.dat"), ["bad.dat", "labels-0.npy"], ["bad.dat", ".csv, .tsv, .txt, .parquet, .npy"]),
    ("absent", lambda: None, ["absent.npy", "labels-0.npy"], ["absent.npy", "No such file"]),
    ("three files", lambda: None, ["probs-0.npy", "labels-0.npy", "labels-1.npy"], ["3 files", "--chunks"]),
    ("chunks of another kind", lambda: None, ["probs-0.npy", "--chunks", "--kind", "exact"], ["kind ranks only"]),
    ("chunks without labels", save(PROBS), ["bad.npy", "--chunks"], ["bad.npy: has 4 columns without names"]),
    ("parquet", text("PAR1", "bad.parquet"), ["bad.parquet", "labels-0.npy"], ["bad.parquet: "]),
    ("no labels", lambda: None, ["probs-0.npy"], ["probs-0.npy", "give LABELS"]),
    (
        "score",
        lambda: None,
        ["probs-0.npy", "labels-0.npy", "--score", "best"],
        ["'best'", "aps, cqr, lac, margin, normalized, raps, residual, saps, signed, topk"],
    ),
    ("kind", lambda: None, ["probs-0.npy", "labels-0.npy", "--kind", "best"], ["'best'", "exact", "ranks"]),
    ("penalty", lambda: None, ["probs-0.npy", "labels-0.npy", "--score", "raps:penalty=-1"], ["penalty is -1"]),
    ("alpha", lambda: None, ["probs-0.npy", "labels-0.npy", "--alpha", "1"], ["alpha is 1", "between 0 and 1"]),
    ("temperature", save(PROBS * 9), ["bad.npy", "labels-0.npy", "--from", "logits", "--temperature", "0"], ["temper"]),
    ("site", lambda: None, ["probs-0.npy", "labels-0.npy", "--site", "a\nb"], ["site is", "printable"]),
    ("option", lambda: None, ["probs-0.npy", "labels-0.npy", "--bogus"], ["--bogus"]),
]


def check(command: Command, arguments: list[str], expected: list[str]) -> None:
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    done = command(*arguments)
    assert done.code == 2, done
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1, done.err
    for words in expected:
        assert words in done.err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("prepare", "arguments", "expected"), [case[1:] for case in SUMMARIZE], ids=[c[0] for c in SUMMARIZE]
)
def test_summarize(
    folder: Path, command: Command, prepare: Callable[[], object], arguments: list[str], expected: list[str]
) -> None:
    prepare()
    check(command, ["summarize", *arguments, "-o", "out.fcs"], expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["summarize", "probs-0.npy", "labels-0.npy", "-o", "out.txt"], ["out.txt", ".fcs"]),
        (["summarize", "probs-0.npy", "labels-0.npy", "-o", "."], ["expected a file that ends in .fcs"]),
        (["summarize", "probs-0.npy", "labels-0.npy", "--site", "", "-o", "out.fcs"], ["site is ''"]),
        (["calibrate", *SUMMARIES, "-o", "out.txt"], ["out.txt", ".json"]),
        (["report", "predictor.json", "-o", "out.txt"], ["out.txt", ".html"]),
        (["predict", "other.json", "test-probs.npy", "-o", "out.npz"], ["it is JSON of another kind"]),
        (["sign", "probs-0.npy", "--key", "new.key", "--new-key"], ["probs-0.npy: this is not a fedconformal summary"]),
    ],
)
def test_other_commands(calibrated: Path, command: Command, arguments: list[str], expected: list[str]) -> None:
    Path("other.json").write_text("{}")
    check(command, arguments, expected)


@pytest.mark.parametrize("group", ["policy", "paper", "flower"])
def test_a_group_without_a_command(command: Command, group: str) -> None:
    if group == "paper":
        pytest.importorskip("fedconformal_paper", reason="the paper is a package of its own")
    done = command(group)
    assert done.code == 2
    assert done.err == f"error: Name one of these commands. (fedconformal {group} --help shows what there is)\n"


def test_a_slip_names_the_help_to_read(command: Command) -> None:
    assert command("summarise", "x.csv").err == (
        "error: No such command 'summarise'. Did you mean 'summarize'? (fedconformal --help shows what there is)\n"
    )
    assert command("zebra").err == "error: No such command 'zebra'. (fedconformal --help shows what there is)\n"
    assert command("calibrate", "a.fcs", "--alpa", "0.1").err.endswith(
        "(fedconformal calibrate --help shows what there is)\n"
    )
    assert "Did you mean 'add'?" in command("monitor", "ad").err


def test_the_paper_is_a_package_of_its_own(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_of_others", dict)
    done = command("paper", "list")
    assert done.code == 2
    assert "pip install ./paper" in done.err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--score", "aps"], ["site-0.fcs and other.fcs", "score"]),
        (["--model", "f00"], ["site-0.fcs and other.fcs", "model None against f00"]),
        (["--temperature", "2"], ["site-0.fcs and other.fcs", "temperature None against 2.0"]),
        (["--site", "site-0"], ["site 'site-0' is there twice", "site-0.fcs, other.fcs"]),
    ],
)
def test_summaries_that_do_not_go_together(
    calibrated: Path, command: Command, options: list[str], expected: list[str]
) -> None:
    command.ok("summarize", "probs-1.npy", "labels-1.npy", "-o", "other.fcs", *options)
    check(command, ["calibrate", "site-0.fcs", "other.fcs", "-o", "out.json"], expected)


def test_scores_with_other_parameters_do_not_go_together(folder: Path, command: Command) -> None:
    for k, score in enumerate(("raps", "raps:penalty=0.5")):
        command.ok("summarize", f"probs-{k}.npy", f"labels-{k}.npy", "--score", score, "-o", f"{k}.fcs")
    check(
        command, ["calibrate", "0.fcs", "1.fcs", "-o", "out.json"], ["0.fcs and 1.fcs", "penalty=0.001", "penalty=0.5"]
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["site-0.fcs", "./site-0.fcs"], ["site-0.fcs", "given twice"]),
        (["site-0.fcs", "absent.fcs"], ["absent.fcs", "No such file"]),
        (["probs-0.npy"], ["probs-0.npy", "not a fedconformal summary"]),
        ([*SUMMARIES, "--alpha", "0"], ["alpha is 0"]),
        ([*SUMMARIES, "--alpha", "x"], ["alpha is x"]),
        (
            [*SUMMARIES, "--guarantee", "best"],
            ["'best'", "every-site, fcp, learn-then-test, mixture, new-site"],
        ),
        ([*SUMMARIES, "--guarantee", "one-site"], ["guarantee one-site needs site"]),
        ([*SUMMARIES, "--guarantee", "one-site:x"], ["'x'", "site-0, site-1, site-2"]),
        ([*SUMMARIES, "--guarantee", "mixture:0.5,0.5"], ["2 were given for 3 sites"]),
        ([*SUMMARIES, "--guarantee", "mixture:0.5,0.5,0.5"], ["sum to 1.5"]),
    ],
)
def test_calibrate(calibrated: Path, command: Command, arguments: list[str], expected: list[str]) -> None:
    check(command, ["calibrate", *arguments, "-o", "out.json"], expected)


def test_truncated_and_altered_summaries(calibrated: Path, command: Command) -> None:
    data = Path("site-1.fcs").read_bytes()
    for changed in (
        b"",
        data[:5],
        data[:100],
        data + b"x",
        data[:50] + b"?" + data[51:],
        b"FCS9" + data[4:],
    ):
        Path("site-1.fcs").write_bytes(changed)
        check(command, ["calibrate", *SUMMARIES, "-o", "out.json"], ["site-1.fcs: "])


def test_the_place_to_write_is_checked(calibrated: Path, command: Command) -> None:
    check(command, ["calibrate", *SUMMARIES, "-o", "absent/out.json"], ["absent/out.json", "cannot be written"])
    check(command, ["predict", "predictor.json", "test-probs.npy", "-o", "out.txt"], ["out.txt", ".npz, .npy or .csv"])


@pytest.mark.parametrize("arguments", [["predict", "-o", "out.npz"], ["evaluate", "test-labels.npy"]])
def test_predictors_that_cannot_be_used(calibrated: Path, command: Command, arguments: list[str]) -> None:
    name, *rest = arguments
    data = Path("predictor.json").read_text()
    for content in ("", "{}", "[]", data[:-20], data.replace('"inf"', "null"), data.replace("0.1", "0.2", 1), "NaN"):
        if content == data:
            continue
        Path("bad.json").write_text(content)
        check(command, [name, "bad.json", "test-probs.npy", *rest], ["bad.json: "])
    check(command, [name, "absent.json", "test-probs.npy", *rest], ["absent.json", "No such file"])


def test_plan(folder: Path, command: Command) -> None:
    for sizes in ("", "a", "0", "3,-1", "1.5"):
        check(command, ["plan", "--sizes", sizes], ["sizes"])


def test_runs_without_their_parts(folder: Path, command: Command) -> None:
    np.savez("logits.npz", val_logits=PROBS * 9, val_labels=LABELS)
    check(command, ["summarize", "logits.npz", "-o", "run"], ["logits.npz", "val_clients"])
    np.savez("logits.npz", val_logits=PROBS * 9, val_labels=LABELS, val_clients=np.zeros(3))
    check(command, ["summarize", "logits.npz", "-o", "run"], ["logits.npz", "val_clients has shape (3,)"])
    np.savez("logits.npz", val_logits=PROBS * 9, val_labels=LABELS, val_clients=np.array(["../x"] * 60))
    check(command, ["summarize", "logits.npz", "-o", "run"], ["'../x'"])


def test_unknown_command(folder: Path, command: Command) -> None:
    check(command, ["bogus"], ["bogus"])
