"""fedconformal evaluate and predict: what intervals assume, clusters, the certified mixture, sets that hold all."""

from pathlib import Path
from typing import Any

import numpy as np

import fedconformal as fc
from fedconformal.evaluation import Evaluation
from tests.cli.command import Command, site_rows

TEST = ("predictor.json", "test-probs.npy", "test-labels.npy", "--sites", "test-sites.csv")


def evaluation(**more: Any) -> Evaluation:
    probs, labels = np.load("test-probs.npy"), np.load("test-labels.npy")
    found: Evaluation = fc.load("predictor.json").evaluate(probs, labels, **more)
    return found


def sites() -> list[str]:
    return Path("test-sites.csv").read_text().split()


def test_intervals_say_what_they_assume(calibrated: Path, command: Command) -> None:
    said = command.ok("evaluate", *TEST).out
    assert "95% interval, if rows are independent." in said
    stated = command.ok("evaluate", *TEST, "--json").json
    assert stated["interval_assumes"] == "rows are independent"
    found = evaluation(sites=sites()).reweighted
    assert found is not None
    assert found.sentence in said
    assert stated["reweighted"]["coverage"] == found.coverage
    assert "needs the site of each test row" in command.ok("evaluate", *TEST[:3]).out
    ids = [f"p{row // 6}" for row in range(180)]
    np.save("clusters.npy", ids)
    expected = evaluation(sites=sites(), clusters=ids).to_dict()
    stated = command.ok("evaluate", *TEST, "--cluster", "clusters.npy", "--json").json
    assert stated["interval_assumes"] == "clusters are independent"
    assert {key: stated[key] for key in expected} == expected
    said = command.ok("evaluate", *TEST, "--cluster", "clusters.npy").out
    assert "95% interval, if clusters are independent." in said


def test_sets_that_hold_every_label_are_said_with_the_reason(here: Path, command: Command) -> None:
    probs, labels = site_rows(0, rows=600, classes=2)
    probs = (64 * probs).round() / 64  # so that both add up to one in float32 too
    for part, mine in {"cal": slice(300), "new": slice(300, None)}.items():
        np.save(f"{part}-probs.npy", probs[mine])
        np.save(f"{part}-labels.npy", labels[mine])
    predict = ("predict", "two.json", "new-probs.npy", "-o", "sets.npz")
    evaluate = ("evaluate", "two.json", "new-probs.npy", "new-labels.npy")
    for score, every in (("raps", True), ("lac", False)):
        command.ok("summarize", "cal-probs.npy", "cal-labels.npy", "--score", score, "-o", "only.fcs")
        command.ok("calibrate", "only.fcs", "-o", "two.json")
        for arguments, count in ((predict, "uninformative"), (evaluate, "full_sets")):
            done, stated = command.ok(*arguments), command.ok(*arguments, "--json").json
            assert f"{stated[count]} of 300 sets hold every label" in done.out
            why = stated["why_uninformative"]
            assert (stated[count] == 300, why is not None) == (every, every)
            assert done.err == (f"WARNING: 300 of 300 sets hold every label: {why}\n" if every else "")


def test_an_alpha_that_the_predictor_was_not_made_for(calibrated: Path, command: Command) -> None:
    done = command.ok("predict", "predictor.json", "test-probs.npy", "-o", "sets.csv", "--alpha", "0.04")
    assert "alpha=0.04 cannot be promised from these scores" in done.err
    assert "its curve has few alphas; calibrate for this one" in done.err


def test_check_says_by_its_exit_code_whether_the_promise_holds(calibrated: Path, command: Command) -> None:
    expected = evaluation(sites=sites()).verdict
    assert expected is not None
    assert not expected.below
    assert command.ok("evaluate", *TEST, "--check").out.startswith(expected.words)
    assert command.ok("evaluate", *TEST, "--check", "--json").json["verdict"]["kind"] == expected.kind
    np.save("wrong.npy", (np.load("test-labels.npy") + 1) % 4)
    wrong = ("evaluate", *TEST[:2], "wrong.npy", *TEST[3:])
    assert command.ok(*wrong).out.startswith("Below the promise: ")
    command.no("Below the promise", *wrong, "--check")
    command.no('"kind": "below the promise"', *wrong, "--check", "--json")
