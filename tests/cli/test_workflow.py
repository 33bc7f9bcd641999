"""The file workflow as a user would run it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command, site_rows

SUMMARIES = [f"site-{k}.fcs" for k in range(3)]


def test_as_a_module_and_where_a_letter_cannot_be_shown(folder: Path) -> None:
    summarize = ["summarize", "probs-0.npy", "labels-0.npy", "--site", "Zürich", "-o", "a.fcs"]
    program, env = [sys.executable, "-m", "fedconformal", *summarize], {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(program, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Z\\xfcrich" in done.stdout


def test_ctrl_c_says_so(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedconformal.cli.calibrate.make_plan", interrupted)
    done = command("plan", "--sizes", "10")
    assert (done.code, done.out, done.err) == (130, "", "stopped\n")


def test_the_whole_way_in_json(folder: Path, command: Command) -> None:
    for k in range(3):
        made = command.ok("summarize", f"probs-{k}.npy", f"labels-{k}.npy", "-o", SUMMARIES[k], "--json").json
        assert made["summaries"][0]["site"] == f"site-{k}"
        assert made["summaries"][0]["bytes"] == Path(SUMMARIES[k]).stat().st_size
    promise = command.ok("calibrate", *SUMMARIES, "-o", "predictor.json", "--json").json["certificate"]["promises"][0]
    assert (promise["scores"], promise["rank"]) == (180, 163)  # ceil(.9 * 180) + 1
    assert command.ok("verify", "predictor.json", *SUMMARIES, "--json").json["confirmed"] is True
    predicted = command.ok("predict", "predictor.json", "test-probs.npy", "-o", "sets.npz", "--json").json
    test = ("test-probs.npy", "test-labels.npy", "--sites", "test-sites.csv")
    result = command.ok("evaluate", "predictor.json", *test, "--json").json
    assert [group["name"] for group in result["by_site"]] == ["site-0", "site-1", "site-2"]
    assert result["overall"]["mean_size"] == predicted["mean_size"]
    assert result["overall"]["coverage"] > 0.8
    assert command.ok("plan", "--sizes", "60,60,60", "--json").json["options"][0]["rank"] == 163


def test_commands_agree_with_python(calibrated: Path, command: Command) -> None:
    sites = [site_rows(k) for k in range(3)]
    classifier = fc.FederatedConformalClassifier(kind="ranks").calibrate({f"site-{k}": s for k, s in enumerate(sites)})
    assert fc.load("predictor.json").to_bytes() == classifier.predictor.to_bytes()
    command.ok("predict", "predictor.json", "test-probs.npy", "-o", "sets.npy", "--alpha", "0.3")
    expected = classifier.predictor.predict_set(np.load("test-probs.npy"), alpha=0.3)
    assert np.array_equal(np.load("sets.npy"), expected)


def test_every_format_gives_the_same_bytes(calibrated: Path, command: Command) -> None:
    probs, labels = site_rows(0)
    np.savez("all.npz", probs=probs, labels=labels)
    Path("probs.csv").write_text("0,1,2,3\n" + "\n".join(",".join(map(repr, row)) for row in probs.tolist()))
    Path("labels.csv").write_text("label\n" + "\n".join(map(str, labels)))
    for files in (("all.npz", "all.npz"), ("probs.csv", "labels.csv")):
        command.ok("summarize", *files, "--site", "site-0", "-o", "again.fcs")
        assert Path("again.fcs").read_bytes() == Path("site-0.fcs").read_bytes()


def test_a_training_run(folder: Path, command: Command) -> None:
    rng = np.random.default_rng(0)
    parts: dict[str, Any] = {}
    for part in ("val", "test"):
        parts[f"{part}_logits"] = rng.normal(size=(90, 5)) * 3
        parts[f"{part}_labels"] = rng.integers(0, 5, 90)
        parts[f"{part}_clients"] = np.arange(90) % 3
    np.savez("logits.npz", **parts)
    command.ok("summarize", "logits.npz", "-o", "run", "--temperature", "2", "--score", "aps:randomized=true")
    files = sorted(Path("run").iterdir())
    assert [file.name for file in files] == ["client-0.fcs", "client-1.fcs", "client-2.fcs"]
    probs = fc.softmax(parts["val_logits"], temperature=2.0)
    score = fc.APS(randomized=True)
    mine = parts["val_clients"] == 1
    scores = score.evaluate(probs[mine].astype(np.float32), parts["val_labels"][mine])
    about: dict[str, Any] = {"score": score, "temperature": 2.0, "classes": 5, "precision": "float32"}
    expected = fc.Summary.of_scores(scores, alpha=0.1, site="client-1", **about)
    assert files[1].read_bytes() == expected.to_bytes()
    command.ok("calibrate", *files, "-o", "predictor.json", "--alpha", "0.2")
    by_run = command.ok("evaluate", "predictor.json", "logits.npz", "--json").json
    assert [group["rows"] for group in by_run["by_site"]] == [30, 30, 30]
    np.save("test-logits.npy", parts["test_logits"])
    np.save("test-labels.npy", parts["test_labels"])
    by_files = command.ok(
        "evaluate", "predictor.json", "test-logits.npy", "test-labels.npy", "--from", "logits", "--json"
    )
    assert by_files.json["overall"] == by_run["overall"]
    np.save("test-probs.npy", fc.softmax(parts["test_logits"]))
    reminded = command.ok("predict", "predictor.json", "test-probs.npy", "-o", "sets.npz")
    assert "temperature 2" in reminded.err


def test_a_threshold_for_each_site(calibrated: Path, command: Command) -> None:
    """Sites at prediction: from a column or a file, in a report, and refused where they were not calibrated."""
    command.ok("calibrate", *SUMMARIES, "-o", "p.json", "--guarantee", "every-site")
    predictor, probs = fc.load("p.json"), np.load("test-probs.npy")
    sites = Path("test-sites.csv").read_text().split()
    command.ok("predict", "p.json", "test-probs.npy", "--sites", "test-sites.csv", "-o", "sets.npy")
    assert np.array_equal(np.load("sets.npy"), predictor.predict_set(probs, sites=sites))
    test = ("test-probs.npy", "test-labels.npy", "--sites", "test-sites.csv")
    found = command.ok("evaluate", "p.json", *test, "--json").json
    assert found["overall"]["mean_size"] == np.load("sets.npy").sum(axis=1).mean()
    assert found["threshold"] == max(predictor.thresholds.values())
    command.ok("report", "p.json", *test, "-o", "report.html")
    assert "Thresholds by site" in Path("report.html").read_text()
    shown = command.ok("show", "p.json", "--json").json
    assert f"site-1: {predictor.thresholds['site-1']}" in shown["holds"]["threshold of each site"]
    Path("odd.csv").write_text("site-9\n" * len(sites))
    predict = ("test-probs.npy", "-o", "bad.npy", "--sites")
    command.refuses("is of site-9, which was not calibrated", "predict", "p.json", *predict, "odd.csv")


def test_a_page_with_and_without_rows(calibrated: Path, command: Command) -> None:
    stated = command.ok("report", "predictor.json", "-o", "report.html", "--json").json
    page = Path("report.html").read_text()
    assert stated == {"output": "report.html", "bytes": Path("report.html").stat().st_size}
    assert "Prediction sets across 3 sites" in page
    assert "Coverage by site" not in page
    rows = ("test-probs.npy", "test-labels.npy", "--sites", "test-sites.csv")
    command.ok("report", "predictor.json", *rows, "-o", "report.html")
    page = Path("report.html").read_text()
    assert all(word in page for word in ("Coverage by site", "site-2"))
    command.refuses("give LABELS as well", "report", "predictor.json", rows[0], "--sites", "site", "-o", "x.html")
    command.refuses("go with PROBS", "report", "predictor.json", "--labels", "y", "-o", "x.html")


def test_by_class(folder: Path, command: Command) -> None:
    for k in range(3):
        done = command.ok("summarize", f"probs-{k}.npy", f"labels-{k}.npy", "-o", SUMMARIES[k], "--by-class")
        assert done.err.count("how many calibration rows of each class") == 1
    calibrate = ("calibrate", *SUMMARIES, "-o", "p.json", "--guarantee", "by-class", "--alpha", "0.3")
    made = command.ok(*calibrate, "--json").json["certificate"]
    assert made["guarantee"] == {"name": "by-class", "guarantee": fc.Mixture().to_dict()}
    assert len(made["promises"]) == 4
    assert "by class" in command.ok(*calibrate).out
    command.ok("verify", "p.json", *SUMMARIES)
    predicted = command.ok("predict", "p.json", "test-probs.npy", "-o", "sets.npz", "--json").json
    assert predicted["threshold"] == [one["threshold"] for one in made["promises"]]
    found = command.ok("evaluate", "p.json", "test-probs.npy", "test-labels.npy", "--json").json
    assert all(group["coverage"] > 0.5 for group in found["by_class"])
    command.ok("calibrate", *SUMMARIES, "-o", "all.json")  # they serve promises to all classes together as well


def test_infeasible_warns_and_gives_all_labels(calibrated: Path, command: Command) -> None:
    done = command.ok("calibrate", *SUMMARIES, "-o", "other.json", "--alpha", "0.001")
    assert done.err.count("\n") == 1
    assert "820 more in all" in done.err  # 1 / .001 - 180
    predicted = command.ok("predict", "other.json", "test-probs.npy", "-o", "sets.npz", "--json")
    assert predicted.json["threshold"] == "inf"
    assert predicted.err.count("\n") == 1  # said once, however many blocks and alphas ask
    assert np.load("sets.npz")["sets"].all()
    assert command.ok("-q", "calibrate", *SUMMARIES, "-o", "other.json", "--alpha", "0.001").err == ""
    command.ok("verify", "other.json", *SUMMARIES)


def test_text_for_people(calibrated: Path, command: Command) -> None:
    said = command.ok("calibrate", *SUMMARIES, "-o", "other.json").out
    assert "The sets hold the true label with probability at least 0.9" in said
    assert command.ok("--version").out == f"fedconformal {fc.__version__}\n"
    assert "summarize" in command.ok().out
