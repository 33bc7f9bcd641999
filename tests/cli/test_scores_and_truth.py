"""Scores and their truth by files: from a site's losses to answers with a limit on the risk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.arrays import Booleans, Floats
from tests.cli.command import Command, site_rows


def labels_of(seed: int, shape: tuple[int, ...] = (60, 6)) -> tuple[Floats, Booleans]:
    rng = np.random.default_rng(seed)
    truth = rng.random(shape) < 0.4
    return np.clip(rng.random(shape) * 0.7 + 0.3 * truth, 0, 1), truth


def test_masks_from_sites_to_answers(command: Command, tmp_path: Path) -> None:
    sites = []
    for k in range(3):
        scores, truth = labels_of(k, (40, 8, 9))
        np.save(tmp_path / f"scores-{k}.npy", scores)
        np.save(tmp_path / f"truth-{k}.npy", truth)
        made = tmp_path / f"site-{k}.fcs"
        arguments = (tmp_path / f"scores-{k}.npy", tmp_path / f"truth-{k}.npy", "--loss", "false-negative-rate")
        command.ok("summarize-losses", *arguments, "-o", made)
        sites.append(made)
    rule = tmp_path / "rule.json"
    command.ok("calibrate", *sites, "--risk", "0.2", "--guarantee", "every-site", "-o", rule)
    command.ok("verify", rule, *sites)
    found = fc.load(rule)
    assert isinstance(found, fc.Predictor)
    assert found.loss == fc.FalseNegativeRate()
    assert found.certificate.sentence().startswith(
        "The expected share of a row's true labels that is left out is at most"
    )
    done = command.ok("predict", rule, tmp_path / "scores-0.npy", "-o", tmp_path / "masks.npz", "--json")
    masks = np.load(tmp_path / "masks.npz")["sets"]
    assert (masks == fc.FalseNegativeRate().predict(labels_of(0, (40, 8, 9))[0], found.threshold)).all()
    assert done.json["predicted"] == pytest.approx(masks.mean())
    done = command.ok("evaluate", rule, tmp_path / "scores-1.npy", tmp_path / "truth-1.npy", "--json")
    assert done.json["overall"]["rows"] == 40
    assert done.json["overall"]["mean_loss"] <= 0.2
    page, files = tmp_path / "page.html", (tmp_path / "scores-1.npy", tmp_path / "truth-1.npy")
    command.ok("report", rule, *files, "-o", page)
    assert "A limit on the risk across 3 sites" in page.read_text()
    assert command("report", rule, *files, "-o", page, "--alpha", "0.1", "--force").code == 2


def test_images_of_different_sizes(command: Command, tmp_path: Path) -> None:
    images = {f"image-{i:02d}": labels_of(i, (4 + i % 3, 5 + i % 4)) for i in range(30)}
    scores: dict[str, Any] = {name: found for name, (found, _) in images.items()}
    truth: dict[str, Any] = {name: known for name, (_, known) in reversed(images.items())}
    np.savez(tmp_path / "scores.npz", **scores)
    np.savez(tmp_path / "truth.npz", **truth)
    files = (tmp_path / "scores.npz", tmp_path / "truth.npz")
    command.ok("summarize-losses", *files, "--loss", "false-negative-rate", "-o", tmp_path / "a.fcs")
    command.ok("calibrate", tmp_path / "a.fcs", "--risk", "0.3", "-o", tmp_path / "rule.json")
    command.ok("predict", tmp_path / "rule.json", files[0], "-o", tmp_path / "masks.npz")
    masks = np.load(tmp_path / "masks.npz")
    assert {name: masks[name].shape for name in masks} == {name: one[0].shape for name, one in images.items()}


def test_answer_only_the_easy_rows(command: Command, tmp_path: Path) -> None:
    for k in range(3):
        probs, labels = site_rows(k, rows=400)
        sharp = probs**2 / (probs**2).sum(axis=1, keepdims=True)
        labels = np.where(sharp.max(axis=1) > 0.75, sharp.argmax(axis=1), (labels + 1) % 4)
        np.savetxt(tmp_path / f"probs-{k}.csv", sharp, delimiter=",")
        np.save(tmp_path / f"labels-{k}.npy", labels)
        files = (tmp_path / f"probs-{k}.csv", tmp_path / f"labels-{k}.npy")
        options = ("--loss", "selective-error:limit=0.2", "--thresholds", "0.3,0.5,0.7,0.8,0.9,0.95,0.99")
        command.ok("summarize-losses", *files, *options, "-o", tmp_path / f"site-{k}.fcs")
    sites = [tmp_path / f"site-{k}.fcs" for k in range(3)]
    rule = tmp_path / "rule.json"
    guarantee = ("--guarantee", "learn-then-test:walks=7")
    done = command("calibrate", *sites, "--risk", "0.1", *guarantee, "-o", rule)
    assert done.code == 2
    assert "the losses were made for 0.2" in done.err
    assert not rule.exists()
    command.ok("calibrate", *sites, "--risk", "0.2", *guarantee, "-o", rule)
    command.ok("verify", rule, *sites)
    command.ok("predict", rule, tmp_path / "probs-0.csv", "-o", tmp_path / "answers.npy")
    answers = np.load(tmp_path / "answers.npy")
    assert set(answers.sum(axis=1)) == {0, 1}
    assert json.loads(rule.read_bytes())["certificate"]["risk"]["loss"] == ["selective-error", [0.2]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("s.npy", "--loss", "false-negative-rate"), "needs SCORES and TRUTH; give both files"),
        (("s.npy", "t.npy"), "TRUTH goes with --loss"),
        (("s.npy", "t.npy", "--loss", "false-negative-rate", "--rising"), "leave them out with --loss"),
        (("s.npy", "t.npy", "--loss", "selective-error"), "loss selective-error needs limit"),
        (("s.npy", "t.npy", "--loss", "recall"), "no loss is called 'recall'; there are false-discovery-rate"),
        (("s.npy", "bad.npy", "--loss", "false-negative-rate"), "truth: has 3 rows, the scores have 60"),
    ],
)
def test_mistakes_are_one_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    scores, truth = labels_of(0)
    np.save("s.npy", scores)
    np.save("t.npy", truth)
    np.save("bad.npy", truth[:3])
    done = command("summarize-losses", *arguments, "-o", "a.fcs")
    assert done.code == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not Path("a.fcs").exists()
