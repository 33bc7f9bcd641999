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
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "fedconformal",
            "summarize",
            "probs-0.npy",
            "labels-0.npy",
            "--site",
            "Zürich",
            "-o",
            "a.fcs",
        ],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Z\\xfcrich" in done.stdout


def test_ctrl_c_says_so(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedconformal.cli.plan.make_plan", interrupted)
    done = command("plan", "--sizes", "10")
    assert (done.code, done.out, done.err) == (130, "", "stopped\n")


def test_the_whole_way_in_json(folder: Path, command: Command) -> None:
    for k in range(3):
        made = command.ok("summarize", f"probs-{k}.npy", f"labels-{k}.npy", "-o", SUMMARIES[k], "--json").json
        assert made["summaries"][0]["site"] == f"site-{k}"
        assert made["summaries"][0]["bytes"] == Path(SUMMARIES[k]).stat().st_size
    certificate = command.ok("calibrate", *SUMMARIES, "-o", "predictor.json", "--json").json["certificate"]
    assert (certificate["promises"][0]["scores"], certificate["promises"][0]["rank"]) == (
        180,
        163,
    )  # ceil(.9 * 180) + 1
    assert command.ok("verify", "predictor.json", *SUMMARIES, "--json").json["confirmed"] is True
    predicted = command.ok("predict", "predictor.json", "test-probs.npy", "-o", "sets.npz", "--json").json
    result = command.ok(
        "evaluate", "predictor.json", "test-probs.npy", "test-labels.npy", "--sites", "test-sites.csv", "--json"
    ).json
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


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_every_format_gives_the_same_bytes(calibrated: Path, command: Command, suffix: str) -> None:
    for k in range(3):
        probs, labels = site_rows(k)
        if suffix == ".npz":
            np.savez("all.npz", probs=probs, labels=labels)
            files = ["all.npz", "all.npz"]
        else:
            lines = [",".join(map(repr, row)) for row in probs.tolist()]
            Path("probs.csv").write_text("0,1,2,3\n" + "\n".join(lines))
            Path("labels.csv").write_text("label\n" + "\n".join(map(str, labels)))
            files = ["probs.csv", "labels.csv"]
        command.ok("summarize", *files, "--site", f"site-{k}", "-o", "again.fcs")
        assert Path("again.fcs").read_bytes() == Path(SUMMARIES[k]).read_bytes()


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
    page = Path("report.html").read_text()
    assert "Every site by itself" in page
    shown = command.ok("show", "p.json", "--json").json
    assert f"site-1: {predictor.thresholds['site-1']}" in shown["holds"]["threshold of each site"]
    Path("odd.csv").write_text("site-9\n" * len(sites))
    bad = command("predict", "p.json", "test-probs.npy", "--sites", "odd.csv", "-o", "bad.npy")
    assert (bad.code, Path("bad.npy").exists()) == (2, False)
    assert "is of site-9, which was not calibrated" in bad.err
    plain = command("predict", "predictor.json", "test-probs.npy", "--sites", "test-sites.csv", "-o", "bad.npy")
    assert "the predictor has one threshold for all sites; leave them out" in plain.err


def test_by_class(folder: Path, command: Command) -> None:
    for k in range(3):
        done = command.ok("summarize", f"probs-{k}.npy", f"labels-{k}.npy", "-o", SUMMARIES[k], "--by-class")
        assert done.err.count("how many calibration rows of each class") == 1
    made = command.ok(
        "calibrate", *SUMMARIES, "-o", "p.json", "--guarantee", "by-class", "--alpha", "0.3", "--json"
    ).json
    assert made["certificate"]["guarantee"] == {"name": "by-class", "guarantee": fc.Mixture().to_dict()}
    assert len(made["certificate"]["promises"]) == 4
    assert (
        "by class"
        in command.ok("calibrate", *SUMMARIES, "-o", "p.json", "--guarantee", "by-class", "--alpha", "0.3").out
    )
    command.ok("verify", "p.json", *SUMMARIES)
    predicted = command.ok("predict", "p.json", "test-probs.npy", "-o", "sets.npz", "--json").json
    assert predicted["threshold"] == [one["threshold"] for one in made["certificate"]["promises"]]
    found = command.ok("evaluate", "p.json", "test-probs.npy", "test-labels.npy", "--json").json
    assert all(group["coverage"] > 0.5 for group in found["by_class"])
    command.ok("calibrate", *SUMMARIES, "-o", "all.json")  # they serve promises to all classes together as well
    command.ok("summarize", "probs-0.npy", "labels-0.npy", "-o", "plain.fcs")
    refused = command("calibrate", "plain.fcs", "-o", "p.json", "--guarantee", "by-class")
    assert (refused.code, "--by-class" in refused.err) == (2, True)
    refused = command("summarize", "probs-0.npy", "-o", "x.fcs", "--by-class", "--chunks")
    assert (refused.code, "does not go with" in refused.err) == (2, True)


def test_infeasible_warns_and_gives_all_labels(calibrated: Path, command: Command) -> None:
    done = command.ok("calibrate", *SUMMARIES, "-o", "other.json", "--alpha", "0.001")
    assert done.err.count("\n") == 1
    assert "820 more in all" in done.err  # 1 / .001 - 180
    predicted = command.ok("predict", "other.json", "test-probs.npy", "-o", "sets.npz", "--json")
    assert predicted.json["threshold"] == "inf"
    assert predicted.err.count("\n") == 1  # said once, however many blocks and alphas ask
    assert np.load("sets.npz")["sets"].all()
    quiet = command.ok("-q", "calibrate", *SUMMARIES, "-o", "other.json", "--alpha", "0.001")
    assert quiet.err == ""
    command.ok("verify", "other.json", *SUMMARIES)


def test_text_for_people(calibrated: Path, command: Command) -> None:
    assert "The sets hold the true label with probability at least 0.9" in (
        command.ok("calibrate", *SUMMARIES, "-o", "other.json").out
    )
    assert "95% interval" in command.ok("evaluate", "predictor.json", "test-probs.npy", "test-labels.npy").out
    assert "shape" in command.ok("-v", "predict", "predictor.json", "test-probs.npy", "-o", "sets.npz").err
    assert command.ok("--version").out == f"fedconformal {fc.__version__}\n"
    assert "summarize" in command.ok().out


def test_chunks_give_the_same_bytes(folder: Path, command: Command) -> None:
    parts = [site_rows(k, rows=200) for k in range(4)]
    for k, (probs, labels) in enumerate(parts):
        np.savez(f"chunk-{k}.npz", probs=probs.astype(np.float32), labels=labels)
    np.save("all-probs.npy", np.concatenate([probs for probs, _ in parts]).astype(np.float32))
    np.save("all-labels.npy", np.concatenate([labels for _, labels in parts]))
    command.ok("summarize", "all-probs.npy", "all-labels.npy", "--site", "a", "-o", "one.fcs")
    command.ok("summarize", "--chunks", *(f"chunk-{k}.npz" for k in range(4)), "--site", "a", "-o", "many.fcs")
    assert Path("one.fcs").read_bytes() == Path("many.fcs").read_bytes()


def test_wildcards_are_expanded_by_the_program(calibrated: Path, command: Command) -> None:
    """As the shells of Windows leave them to the program."""
    command.ok("calibrate", "site-*.fcs", "-o", "all.json")
    assert Path("all.json").read_bytes() == Path("predictor.json").read_bytes()
    Path("site-1.fcs").rename("odd[1].fcs")  # a file of that very name
    assert command.ok("plan", "odd[1].fcs", "--json").json["sizes"] == [60]
