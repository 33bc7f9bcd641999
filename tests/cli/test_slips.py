"""Slips of new users, and what is said: each is refused, warned about, or handled and stated.

Classes in another order than an ONNX model has are in tests/serving/test_onnx.py. Rows that calibrated the predictor
cannot be told from new ones: `evaluate` states the assumption.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import Command, write_table

CLASSES = ["no tumour", "benign", "malignant"]
HEADER = ["patient_id", "scan_date", "age", *CLASSES, "diagnosis"]
TABLE = ("--id", "patient_id", "--labels", "diagnosis")
OTHERS = ("--drop", "scan_date,age")


@pytest.fixture
def clinic(here: Path, command: Command) -> Path:
    """A hospital's table as it comes, its slips, and a predictor of three hospitals."""
    for site in range(3):
        rng = np.random.default_rng(site)
        probs = rng.dirichlet(np.full(3, 0.6), 300)
        truth = np.array([rng.choice(3, p=row) for row in probs])
        rows = [
            [f"p{site}-{k}", "2026-01-01", 40 + k % 50, *(f"{p:.6f}" for p in row), CLASSES[label]]
            for k, (row, label) in enumerate(zip(probs, truth, strict=True))
        ]
        write_table(f"{site}.csv", HEADER, rows)
        command.ok("-q", "summarize", f"{site}.csv", *TABLE, *OTHERS, "-o", f"{site}.fcs")
    command.ok("-q", "calibrate", *(f"{site}.fcs" for site in range(3)), "-o", "predictor.json")
    command.ok("-q", "summarize", "2.csv", *TABLE, *OTHERS, "--site", "copy", "-o", "copy.fcs")
    rounded = [[*row[:3], *(f"{p:.2f}" for p in probs[k]), row[6]] for k, row in enumerate(rows)]
    write_table("rounded.csv", HEADER, rounded)
    write_table("percent.csv", HEADER, [[*row[:3], *(100 * probs[k]).round(4), row[6]] for k, row in enumerate(rows)])
    write_table("twice.csv", HEADER, [*rows, *rows[:10]])
    Path("excel.csv").write_bytes("Kürzel,gut,böse\n1,0.5,0.5\n".encode("cp1252"))
    write_table("gap.csv", HEADER, [[*rows[0][:3], "", *rows[0][4:]], *rows[1:]])
    write_table(
        "prob.csv",
        ["patient_id", *(f"prob_{name}" for name in CLASSES), "diagnosis"],
        [[row[0], *row[3:]] for row in rows],
    )
    two = truth < 2
    for name, values in {"p": probs, "p2": probs[two], "same": np.full((300, 3), 1 / 3)}.items():
        np.save(f"{name}.npy", values)
    for name, labels in {"y": truth, "shifted": truth[two] + 1, "reversed": truth[::-1]}.items():
        np.save(f"{name}.npy", labels)
    np.save("hard.npy", np.eye(3)[probs.argmax(axis=1)])
    command.ok("-q", "summarize", "hard.npy", "y.npy", "-o", "hard.fcs")
    command.ok("-q", "summarize", "same.npy", "y.npy", "-o", "same.fcs")
    return here


OUT = ("-o", "x.fcs")
PROPOSED = '--classes "no tumour,benign,malignant"'
UNLIKELY = "less often than the commonest class"
SLIPS: list[tuple[str, int, tuple[str, ...], str]] = [
    ("a column in other capitals", 2, ("0.csv", *TABLE[:3], "Diagnosis", *OTHERS), "did you mean diagnosis?"),
    ("a column without its mark", 2, ("0.csv", *TABLE, "--drop", "scandate"), "did you mean scan_date?"),
    ("a column that is no class", 2, ("0.csv", *TABLE), PROPOSED),
    ("age left in as a class", 2, ("0.csv", *TABLE, "--drop", "scan_date"), PROPOSED),
    ("age as a logit", 2, ("0.csv", *TABLE, "--drop", "scan_date", "--from", "logits"), PROPOSED),
    ("percentages", 2, ("percent.csv", *TABLE, *OTHERS), "these are percentages; divide them by 100"),
    ("two decimals", 0, ("rounded.csv", *TABLE, *OTHERS), "are rounded to 2 decimals"),
    ("labels 1..2 of 3 classes", 0, ("p2.npy", "shifted.npy"), UNLIKELY),
    ("labels reversed", 0, ("p.npy", "reversed.npy"), UNLIKELY),
    ("patients twice", 0, ("twice.csv", *TABLE, *OTHERS), "10 ids with several rows, such as p2-0"),
    ("two complete tables", 2, ("0.csv", "0.csv", "--id", "patient_id"), PROPOSED),
    ("a missing probability", 2, ("gap.csv", *TABLE, *OTHERS), "(--skip-missing)"),
    ("a missing probability and a column that is no class", 2, ("gap.csv", *TABLE), PROPOSED),
    ("two decimals and a column that is no class", 2, ("rounded.csv", *TABLE), PROPOSED),
    ("umlauts from Excel", 2, ("excel.csv", "--labels", "Kürzel"), "(--encoding)"),
    ("columns with a prefix that labels lack", 2, ("prob.csv", *TABLE), "(--classes)"),
]
OTHER_COMMANDS: list[tuple[str, int, tuple[str, ...], str]] = [
    ("alpha 0.9 for 90%", 0, ("calibrate", "0.fcs", "--alpha", "0.9", "-o", "x.json"), "did you mean 0.1?"),
    ("rows of another site", 0, ("calibrate", "2.fcs", "copy.fcs", "-o", "x.json"), "same rows under two names?"),
    ("hard predictions", 0, ("calibrate", "hard.fcs", "-o", "x.json"), "every label is in every set, so the coverage"),
    ("a constant model", 0, ("calibrate", "same.fcs", "-o", "x.json"), "and, for distinct scores, "),
    ("a table to calibrate from", 2, ("calibrate", "0.csv", "-o", "x.json"), "with fedconformal summarize"),
    ("a wildcard", 0, ("calibrate", "[012].fcs", "-o", "x.json"), "certified from 900 scores of 3 sites"),
    ("a wildcard without a file", 2, ("calibrate", "site-*.fcs", "-o", "x.json"), "no file has such a name"),
    ("patients twice in test rows", 0, ("evaluate", "predictor.json", "twice.csv", *TABLE), "10 ids with several rows"),
    ("test rows that calibrated", 0, ("evaluate", "predictor.json", "0.csv", *TABLE),
     "This holds if calibration rows and test rows are independent"),
]  # fmt: skip
ALL = [*((name, code, ("summarize", *words, *OUT), said) for name, code, words, said in SLIPS), *OTHER_COMMANDS]


def test_what_is_said(clinic: Path, command: Command) -> None:
    for name, code, words, said in ALL:
        done = command(*words)
        assert (name, done.code) == (name, code), done.err
        assert said in done.out + done.err, (name, done)
        assert done.err.count("error: ") == (code == 2)
        assert not (code == 2 and any(Path().glob("x.*"))), name
        for path in Path().glob("x.*"):
            path.unlink()
    for words in (
        ("summarize", "0.csv", *TABLE, *OTHERS, *OUT),
        ("evaluate", "predictor.json", "twice.csv", *TABLE, "--cluster", "patient_id"),
    ):
        assert "several rows" not in command.ok(*words).err
