"""Losses by files: from scores and truth at the sites to answers with a limit on the risk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Booleans, Floats
from fedconformal.summaries import LossSummary
from tests.cli.command import Command, site_rows

SITES = [f"s{k}.fcs" for k in range(3)]
LOSS = ("--loss", "false-negative-rate")


def drawn(seed: int, shape: tuple[int, ...] = (60, 6)) -> tuple[Floats, Booleans]:
    rng = np.random.default_rng(seed)
    truth = rng.random(shape) < 0.4
    return np.clip(rng.random(shape) * 0.7 + 0.3 * truth, 0, 1), truth


@pytest.fixture
def sent(here: Path, command: Command) -> Path:
    """Masks of three sites, and their summaries."""
    for k in range(3):
        scores, truth = drawn(k, (40, 8, 9))
        np.save(f"scores-{k}.npy", scores)
        np.save(f"truth-{k}.npy", truth)
        command.ok("summarize", f"scores-{k}.npy", f"truth-{k}.npy", *LOSS, "-o", SITES[k])
    return here


def test_from_masks_to_answers(sent: Path, command: Command) -> None:
    done = command.ok("calibrate", *SITES, "--risk", "0.2", "--guarantee", "every-site", "-o", "rule.json")
    assert "The expected share of a row's true labels that is left out is at most 0.2" in done.out
    command.ok("verify", "rule.json", *SITES)
    command.no("was not given", "verify", "rule.json", *SITES[:2])
    rule = fc.load("rule.json")
    summaries = [LossSummary.from_bytes(Path(site).read_bytes()) for site in SITES]
    assert rule.threshold == fc.calibrate(summaries, risk=0.2, guarantee="every-site").threshold
    command.refuses("limits a loss; give SCORES alone", "predict", "rule.json", "scores-0.npy", "--wide", "-o", "s.csv")
    done = command.ok("predict", "rule.json", "scores-0.npy", "-o", "masks.npz", "--json")
    masks = np.load("masks.npz")["sets"]
    assert np.array_equal(masks, rule.predict(drawn(0, (40, 8, 9))[0]))
    assert done.json["mean_size"] == pytest.approx(masks.mean())
    files = ("scores-1.npy", "truth-1.npy")
    found = command.ok("evaluate", "rule.json", *files, "--json").json
    assert (found["overall"]["rows"], found["overall"]["mean_loss"] <= 0.2) == (40, True)
    command.ok("report", "rule.json", *files, "-o", "page.html")
    assert "A limit on the risk across 3 sites" in Path("page.html").read_text()


def test_images_of_different_sizes(sent: Path, command: Command) -> None:
    images = {f"image-{i:02d}": drawn(i, (4 + i % 3, 5 + i % 4)) for i in range(30)}
    scores: dict[str, Any] = {name: found for name, (found, _) in images.items()}
    truth: dict[str, Any] = {name: known for name, (_, known) in reversed(images.items())}
    np.savez("scores.npz", **scores)
    np.savez("truth.npz", **truth)
    command.ok("summarize", "scores.npz", "truth.npz", *LOSS, "-o", "a.fcs")
    command.ok("calibrate", "a.fcs", "--risk", "0.3", "-o", "rule.json")
    command.ok("predict", "rule.json", "scores.npz", "-o", "masks.npz")
    masks = np.load("masks.npz")
    assert {name: masks[name].shape for name in masks} == {name: one[0].shape for name, one in images.items()}


def test_answer_only_the_easy_rows(sent: Path, command: Command) -> None:
    for k in range(3):
        probs, labels = site_rows(k, rows=400)
        sharp = probs**2 / (probs**2).sum(axis=1, keepdims=True)
        np.savetxt(f"probs-{k}.csv", sharp, delimiter=",")
        np.save(f"labels-{k}.npy", np.where(sharp.max(axis=1) > 0.75, sharp.argmax(axis=1), (labels + 1) % 4))
        options = ("--loss", "selective-error:limit=0.2", "--thresholds", "0.3,0.5,0.7,0.8,0.9,0.95,0.99")
        command.ok("summarize", f"probs-{k}.csv", f"labels-{k}.npy", *options, "-o", SITES[k])
    guarantee = ("--guarantee", "learn-then-test:walks=7", "-o", "rule.json")
    command.refuses("are for the limit 0.2", "calibrate", *SITES, "--risk", "0.1", *guarantee)
    command.ok("calibrate", *SITES, "--risk", "0.2", *guarantee)
    command.ok("predict", "rule.json", "probs-0.csv", "-o", "answers.npy")
    assert set(np.load("answers.npy").sum(axis=1)) == {0, 1}


SUMMARIZE = {
    ("scores-0.npy", "truth-0.npy", "--thresholds", "0,1"): "--thresholds goes with --loss",
    ("scores-0.npy", *LOSS): "a loss needs SCORES and TRUTH; give both files",
    ("scores-0.npy", "truth-0.npy", *LOSS, "--by-class"): "--by-class does not go with --loss",
    ("scores-0.npy", "truth-0.npy", *LOSS, "--id", "x"): "--id does not go with --loss",
    ("scores-0.npy", "truth-0.npy", *LOSS, "--thresholds", "0,x"): "--thresholds: 0,x is no list of numbers",
}
CALIBRATE = {
    (): "loss curves have no scores; calibrate them with risk= (--risk)",
    ("--risk", "0.4", "--alpha", "0.2"): "leave out --alpha and --epsilon",
    ("--safe", "x"): "--safe goes with --risk",
}


def test_mistakes_are_one_line_and_nothing_is_written(sent: Path, command: Command) -> None:
    Path("a.fcs").write_bytes(fc.Summary.of_scores([0.1, 0.2], site="a").to_bytes())
    for words, said in SUMMARIZE.items():
        command.refuses(said, "summarize", *words, "-o", "x.fcs")
    for words, said in CALIBRATE.items():
        command.refuses(said, "calibrate", *SITES, *words, "-o", "x.json")
    command.refuses("sent scores, not losses", "calibrate", "a.fcs", "--risk", "0.4", "-o", "x.json")


def test_no_threshold_is_good_enough(sent: Path, command: Command) -> None:
    done = command.ok("calibrate", *SITES, "--risk", "0.0001", "--safe", "ask a doctor", "-o", "p.json")
    assert "risk=0.0001 cannot be promised at any threshold of the grid" in done.err
    assert "so take the safe action: ask a doctor." in done.out
    command.no("not confirmed", "verify", "p.json", *SITES)  # words of one's own follow from no summary


def test_rows_that_contradict_a_promise_for_nearly_all_draws(sent: Path, command: Command) -> None:
    command.ok("calibrate", *SITES, "--risk", "0.4", "--guarantee", "pac", "-o", "p.json")
    np.save("bad.npy", np.zeros((40, 8, 9)))
    contradicted = "These rows contradict the promise"
    done = command.no(contradicted, "evaluate", "p.json", "bad.npy", "truth-0.npy", "--check")
    assert "as the site of each row is not known" in done.out
    np.save("sites.npy", np.repeat(["s0", "s1", "s2"], [20, 10, 10]))
    stated = command.ok("evaluate", "p.json", "scores-1.npy", "truth-1.npy", "--sites", "sites.npy", "--json").json
    names = np.load("sites.npy")
    Path("sites.csv").write_text("site,row\n" + "".join(f"{name},{i}\n" for i, name in enumerate(names)))
    Path("alone.csv").write_text("\n".join(["site", *names]))
    for option in ("sites.csv:site", "alone.csv"):  # a column by its name, and a header, as for sets
        same = command.ok("evaluate", "p.json", "scores-1.npy", "truth-1.npy", "--sites", option, "--json").json
        assert same == stated
    assert stated["mixture"]["rows"] == 40
    assert command("evaluate", "p.json", "scores-1.npy", "truth-1.npy", "--check").code == 0


def test_show_says_what_a_reader_learns(sent: Path, command: Command) -> None:
    assert "the mean loss of its rows at each of 1,001 thresholds" in command.ok("show", "s0.fcs").out
    command.ok("calibrate", *SITES, "--risk", "0.4", "-o", "p.json")
    shown = command.ok("show", "p.json", "--json").json
    assert shown["holds"]["limit on the risk"] == "0.4"
    # Expected losses are rounded up to few limits, so a reader does not learn the mean loss at every threshold.
    assert "from the expected losses that are promised about the mean loss over all sites" in shown["learns"][0]


def test_losses_of_ones_own_stay_in_python(sent: Path, command: Command) -> None:
    summary = LossSummary.of_losses(np.zeros((60, 3)), thresholds=[0, 1, 2], site="a")
    fc.calibrate([summary], risk=0.4).save("p.json")
    problem = "does not name its loss"
    command.refuses(problem, "predict", "p.json", "scores-0.npy", "-o", "x.npz")
    command.refuses(problem, "evaluate", "p.json", "scores-0.npy", "truth-0.npy")
