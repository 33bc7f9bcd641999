"""Train every run that docs/training-results.md shows, and write that page.

    python scripts/results.py                     # all that are missing
    python scripts/results.py digits-tct          # these, again
    python scripts/results.py --table             # only the page, and the links
    python scripts/results.py --save              # copy resumable checkpoints, and finished runs, to results/

A run that is finished is linked in the directory of logits, $FEDCONFORMAL_DATA/logits, under the name by which
`fedconformal paper results` finds it. results/finished holds the paper's runs, with logits in half precision, so that
every table can be made again without training.

Each run leaves results/NAME.json: settings, seed, rounds, wall time, machine, accuracy, and the size and coverage of
LAC sets at 0.9, 0.8 and 0.7 (calibrated on the validation rows, one summary a client; the top label always in, as in
the paper), and on ten random halves. The page lists where a run differs from the paper's settings.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from fedconformal_paper.full_results import measure
from fedconformal_paper.logits import read_logits
from fedconformal_paper.numbers import FULL_RESULTS
from fedconformal_paper.runs import largest, logits_name, read_runs

import fedconformal as fc

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGE = ROOT / "docs" / "training-results.md"
CHECKPOINTS = RESULTS / "checkpoints"
FINISHED = RESULTS / "finished"
LARGEST = 3_000_000
PATHS = ("weights", "first_stage")
"""Settings that are files of this machine."""
ALPHAS = (0.1, 0.2, 0.3)

Settings = dict[str, Any]

FASHION: Settings = {"dataset": "fashionmnist", "partition": "classes"}
CIFAR10: Settings = {"dataset": "cifar10", "partition": "overlap", "model": "lenet"}
DERMA: Settings = {"dataset": "dermamnist", "model": "lenet"}
RESNET: Settings = {
    "dataset": "dermamnist",
    "partition": "classes",
    "model": "resnet14",
    "augment": "flip-crop",
    "rounds": 50,
}
HEART: Settings = {"dataset": "heart_disease", "partition": "column", "column": "hospital"}
LITE: Settings = {"model": "efficientnet-lite1", "augment": "flip-crop", "rounds": 10}
"""ImageNet weights: see lite1_weights.py."""
SOURCE: Settings = {"partition": "column", "column": "source"}
CENTRAL: Settings = {"method": "central"}
FEDAVG: Settings = {"method": "fedavg"}
FEDPROX: Settings = {"method": "fedprox", "mu": 0.1}
TCT: Settings = {"method": "tct"}
UNIFORM: Settings = {**TCT, "weighting": "uniform"}
AUTHORS: Settings = {**UNIFORM, "solver": "scaffold", "intercept": False}
SHORT: Settings = {**AUTHORS, "steps": 100}
SWEEP: Settings = {**SHORT, "linear_rounds": 20}
STAGES: Settings = {"rounds": 20, "linear_rounds": 40}
LONG: Settings = {**TCT, "linear_rounds": 100, "coordinates": 20_000, "ridge": 0.1}
CIFAR10_RESNET: Settings = {
    "dataset": "cifar10",
    "partition": "classes",
    "model": "resnet14",
    "augment": "flip-crop",
    "rounds": 20,
}
CIFAR100: Settings = {
    "dataset": "cifar100",
    "partition": "classes",
    "model": "resnet14",
    "weights": "checkpoints/cifar100_fedavg_resnet14_round100.pth",
    "rounds": 0,
}
CIFAR100_SHORT: Settings = {**CIFAR100, **AUTHORS, "linear_rounds": 18, "coordinates": 10_000, "steps": 200}

PAPER: Settings = {"preset": "paper", "partition": "classes", "workers": 1}
OURS: Settings = {**TCT, "solver": "lbfgs", "intercept": True, "weighting": "examples", "steps": 1}
RIDGE = {"dermamnist": 3.0}
"""Chosen on validation rows (benchmarks/tct_ridge.py); 0.1, chosen on those of CIFAR-100, for the other data sets."""
STAND_IN = "bloodmnist"
"""Stands in for TissueMNIST, whose images are not at hand."""


def paper_runs(dataset: str, **more: Any) -> dict[str, Settings]:
    """Return the paper's four methods at its own settings, and our second stage from the same first stage of TCT."""
    settings = {**PAPER, "dataset": dataset, **more}
    tct = {**settings, **TCT, "rounds": settings.get("rounds", 200) // 2}
    return {
        f"{dataset}-paper-fedavg": {**settings, **FEDAVG, "keep": [tct["rounds"]]},
        f"{dataset}-paper-central": {**settings, **CENTRAL},
        f"{dataset}-paper-tct": tct,
        f"{dataset}-paper-tct-ours": {**tct, **OURS, "ridge": RIDGE.get(dataset, 0.1)},
        f"{dataset}-paper-fedprox": {**settings, **FEDPROX},
    }


RUNS: dict[str, Settings] = {
    "digits-central": {"dataset": "digits", **CENTRAL},
    "digits-fedavg": {"dataset": "digits", **FEDAVG},
    "digits-fedprox": {"dataset": "digits", **FEDPROX},
    "digits-tct": {"dataset": "digits", **TCT},
    "digits-tct-uniform": {"dataset": "digits", **UNIFORM},
    "digits-tct-authors": {"dataset": "digits", **SHORT},
    "heart-central": {**HEART, **CENTRAL},
    "heart-fedavg": {**HEART, **FEDAVG},
    "heart-tct": {**HEART, **TCT},
    "heart-tct-uniform": {**HEART, **UNIFORM},
    "heart-tct-authors": {**HEART, **SHORT},
    "fashionmnist-central": {**FASHION, **CENTRAL, "rounds": 10},
    "fashionmnist-fedavg": {**FASHION, **FEDAVG, "rounds": 100},
    "fashionmnist-fedprox": {**FASHION, **FEDPROX},
    "fashionmnist-tct": {**FASHION, **LONG, "rounds": 100, "coordinates": 40_000, "memory": 12.0},
    "fashionmnist-tct-authors": {**FASHION, **SHORT, "rounds": 50, "linear_rounds": 80, "coordinates": 10_000},
    "dermamnist-central": {**DERMA, "partition": "classes", **CENTRAL, "rounds": 30},
    "dermamnist-fedavg": {**DERMA, "partition": "classes", **FEDAVG, "rounds": 30},
    "dermamnist-fedprox": {**DERMA, "partition": "classes", **FEDPROX, "rounds": 30},
    "dermamnist-tct": {**DERMA, "partition": "classes", **TCT, **STAGES},
    "dermamnist-tct-uniform": {**DERMA, "partition": "classes", **UNIFORM, **STAGES},
    "dermamnist-tct-no-intercept": {**DERMA, "partition": "classes", **TCT, **STAGES, "intercept": False},
    "dermamnist-tct-neither": {**DERMA, "partition": "classes", **UNIFORM, **STAGES, "intercept": False},
    "dermamnist-tct-authors": {**DERMA, "partition": "classes", **SHORT, **STAGES},
    "dermamnist-resnet-central": {**RESNET, **CENTRAL},
    "dermamnist-resnet-fedavg": {**RESNET, **FEDAVG},
    "dermamnist-resnet-tct": {**RESNET, **TCT, "linear_rounds": 40, "coordinates": 20_000},
    "dermamnist-source-central": {**DERMA, **SOURCE, **CENTRAL, "rounds": 30},
    "dermamnist-source-fedavg": {**DERMA, **SOURCE, **FEDAVG, "rounds": 30},
    "dermamnist-source-tct": {**DERMA, **SOURCE, **TCT, **STAGES},
    "dermamnist-source-imagenet": {**DERMA, **SOURCE, **FEDAVG, **LITE, "weights": "efficientnet-lite1.pt"},
    "dermamnist-source-lite": {**DERMA, **SOURCE, **FEDAVG, **LITE},
    "cifar100-tct": {**CIFAR100, **TCT, "linear_rounds": 60, "coordinates": 40_000, "ridge": 0.1, "memory": 12.0},
    "cifar100-tct-authors": CIFAR100_SHORT,
    "cifar100-tct-squared": {**CIFAR100_SHORT, "loss": "squared"},
    "cifar10-resnet-central": {**CIFAR10_RESNET, **CENTRAL},
    "cifar10-resnet-fedavg": {**CIFAR10_RESNET, **FEDAVG},
    "cifar10-resnet-tct": {**CIFAR10_RESNET, **LONG},
    "cifar10-central": {**CIFAR10, "classes_per_client": 2, **CENTRAL},
    "cifar10-2-fedprox": {**CIFAR10, "classes_per_client": 2, **FEDPROX},
    **{f"cifar10-{n}-fedavg": {**CIFAR10, "classes_per_client": n, **FEDAVG} for n in (2, 3, 4, 10)},
    **{f"cifar10-{n}-tct": {**CIFAR10, "classes_per_client": n, **SWEEP} for n in (2, 3, 4, 10)},
}
CIFAR100_MAP: Settings = {**PAPER, **FEDAVG, "dataset": "cifar100", "rounds": 20, "epochs": 1}
"""FedAvg on either map of classes to clients in the authors' code, at the same cut."""

PAPER_RUNS: dict[str, Settings] = {
    **paper_runs("fashionmnist"),
    **paper_runs("dermamnist"),
    **paper_runs("pathmnist", rounds=80),
    **paper_runs(STAND_IN, rounds=40),
    **paper_runs("cifar10", rounds=40),
    "cifar100-map-superclasses": CIFAR100_MAP,
    "cifar100-map-consecutive": {**CIFAR100_MAP, "groups": [list(range(k, k + 5)) for k in range(0, 100, 5)]},
}
"""The paper's settings; fewer rounds where it says so."""
RUNS |= PAPER_RUNS

FIRST_STAGE = {
    "fashionmnist-tct": "fashionmnist-fedavg",
    "dermamnist-resnet-tct": "dermamnist-resnet-fedavg",
    "cifar10-resnet-tct": "cifar10-resnet-fedavg",
}
"""Runs of TCT whose first stage is, bit for bit, a run of FedAvg: they go on from its last checkpoint."""


def place(name: str, logits: Path) -> str:
    """Name the logits of a run as `fedconformal paper results` looks for them.

    The largest run of a model stands for it in all tables and figures, unless there are others' logits; further runs
    have their own name as a label.
    """
    plain = logits_name(RUNS[name])
    main = largest(read_runs(RESULTS), plain)
    alone = main is not None and main.name == name and not (logits / f"{plain}.npz").exists()
    return plain if alone else logits_name(RUNS[name], label=name)


def link(name: str, runs: Path, logits: Path) -> None:
    """Put a finished run where it is found; never in the place of what somebody else put there."""
    if not (runs / name / "result.json").exists():
        runs = FINISHED
    if RUNS[name]["dataset"] not in (*FULL_RESULTS, STAND_IN) or not (runs / name / "result.json").exists():
        return
    there = logits / place(name, logits)
    for old in (logits_name(RUNS[name]), logits_name(RUNS[name], label=name)):
        if (logits / old).is_symlink() and (logits / old).resolve() == (runs / name).resolve():
            (logits / old).unlink()
    if there.exists() and not there.is_symlink():
        print(f"{there}: is there and is no link, so {name} is not linked")
        return
    try:
        there.unlink(missing_ok=True)
        there.symlink_to((runs / name).resolve(), target_is_directory=True)
    except OSError as error:
        print(f"{there}: cannot be linked ({error})")


def save(name: str, runs: Path) -> None:
    """Copy a finished run, and the checkpoints of an unfinished one; states of a second stage are too large."""
    source, target = runs / name, CHECKPOINTS / name
    files = [*source.glob("checkpoint*.npz"), *source.glob("metrics.jsonl")]
    if (source / "result.json").exists():
        shutil.rmtree(target, ignore_errors=True)
        target = FINISHED / name
        files = [
            *source.glob("checkpoint-*.npz"),
            *(source / file for file in ("metrics.jsonl", "model.pt", "result.json")),
        ]
        target.mkdir(parents=True, exist_ok=True)
        config = json.loads((source / "config.json").read_text())
        config["config"] |= {key: Path(path).name for key in PATHS if (path := config["config"][key])}
        (target / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        with np.load(source / "logits.npz") as arrays:
            half = {key: rows.astype(np.float16) if rows.dtype.kind == "f" else rows for key, rows in arrays.items()}
        np.savez_compressed(target / "logits.npz", **half)
    for path in files:
        if path.stat().st_size < LARGEST:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target / path.name)


def restore(name: str, runs: Path) -> None:
    """Copy a run, finished or not, back to a machine that does not have it."""
    for kept in (FINISHED / name, CHECKPOINTS / name):
        if kept.exists() and not (runs / name).exists():
            shutil.copytree(kept, runs / name)


def run(name: str, runs: Path) -> None:
    """Train one, or finish it, and write down what came out."""
    from fedconformal.training.config import Config, paper_settings
    from fedconformal.training.run import train

    settings = dict(RUNS[name])
    if "weights" in settings:
        settings["weights"] = str(Path(os.environ["FEDCONFORMAL_DATA"]) / settings["weights"])
    if settings.pop("preset", None):
        settings = paper_settings(settings) | settings
    method = settings["method"]
    if name in PAPER_RUNS and method == "tct":
        restore(f"{settings['dataset']}-paper-fedavg", runs)
        fedavg = runs / f"{settings['dataset']}-paper-fedavg"
        settings["first_stage"] = str(fedavg / f"checkpoint-{settings['rounds']}.npz")
    restore(name, runs)
    config = Config.from_dict(settings)
    last = [-1]

    def progress(done: int, total: int, text: str) -> None:
        if done * 20 // total > last[0]:
            last[0] = done * 20 // total
            print(f"{name}: {done}/{total} {text}", flush=True)

    done = runs / name / "result.json"
    first = runs / FIRST_STAGE.get(name, name)
    if (first / "result.json").exists() and not (runs / name).exists():
        (runs / name).mkdir()
        for file in ("checkpoint.npz", "metrics.jsonl"):
            shutil.copy(first / file, runs / name / file)
    if not done.exists():
        train(config, runs / name, resume=True, progress=progress)
    result = json.loads(done.read_text())
    lines = [json.loads(line) for line in (runs / name / "metrics.jsonl").read_text().splitlines()]
    with np.load(runs / name / "logits.npz") as logits:
        sets = _sets(logits, result["temperature"])
    found = {
        "name": name,
        "settings": RUNS[name],
        "defaults": {key: value for key, value in config.to_dict().items() if key not in {*RUNS[name], *PATHS}},
        "rounds": lines[-1]["round"],
        "seconds": round(sum(line["seconds"] for line in lines), 1),
        "linear_losses": [round(line["loss"], 5) for line in lines if line["stage"] == "tct"],
        **{key: value for key, value in result.items() if key != "seconds"},
        "sets": sets,
        "halves": _halves(runs / name / "logits.npz", settings),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"{name}: accuracy {result['accuracy']:.4f} in {found['seconds']} s, {sets}", flush=True)


def _sets(logits: Any, temperature: float) -> dict[str, dict[str, float]]:
    score = fc.LAC()
    probs = {part: fc.softmax(logits[f"{part}_logits"], temperature=temperature) for part in ("val", "test")}
    scores = score.evaluate(probs["val"], logits["val_labels"])
    clients = logits["val_clients"]
    sites = [
        fc.Summary.of_scores(scores[clients == client], kind="exact", score=score) for client in np.unique(clients)
    ]
    predictor = fc.calibrate(sites, alpha=0.1)
    found = {}
    for alpha in ALPHAS:
        result = predictor.evaluate(probs["test"], logits["test_labels"], alpha=alpha)
        found[f"{1 - alpha:.1f}"] = {"coverage": round(result.coverage, 4), "size": round(result.mean_size, 3)}
    return found


def _halves(path: Path, settings: Settings) -> dict[str, dict[str, float]]:
    """Measure on ten random halves of all held-out rows, as in the paper."""
    levels = [round(1 - alpha, 1) for alpha in ALPHAS]
    measured = measure(read_logits(path, settings["dataset"], settings["method"]), levels)
    found: dict[str, dict[str, float]] = {f"{level}": {} for level in levels}
    for name, values in zip(("coverage", "size"), measured, strict=True):
        for i, level in enumerate(found):
            found[level][name] = round(float(values[:, i].mean()), 4)
            found[level][f"{name}_sd"] = round(float(values[:, i].std(ddof=1)), 4)
    return found


def _in_the_paper(settings: Settings) -> str:
    """Return the paper's size at 0.9 where it has this partition, method, loss and data set."""
    same = settings.get("partition", "classes") == "classes" or settings.get("classes_per_client") == 2
    same = same and settings.get("loss") != "squared"
    cells = FULL_RESULTS.get(settings["dataset"], {}).get(settings["method"])
    return str(cells[0].size) if same and cells else "none"


def _there(name: str) -> bool:
    return (RESULTS / f"{name}.json").exists()


def page() -> str:
    """Return the table of all results."""
    lines = [
        "# Training results",
        "",
        "Runs on the paper's data sets; `python scripts/results.py --table` writes this page from `results/*.json`.",
        "Sets are LAC's at level 0.9, with the top label always in, calibrated on the validation rows of each client;",
        "*ten halves*: means over ten random halves of the held-out rows, as in the paper, where logits were at hand.",
        "[Results](results.md) draws the conclusions.",
        "",
        "| run | rounds | accuracy | labels a set | coverage | ten halves | paper's labels |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, settings in RUNS.items():
        if not _there(name) or settings["dataset"] not in (*FULL_RESULTS, STAND_IN):
            continue
        found = json.loads((RESULTS / f"{name}.json").read_text())
        sets = found["sets"]["0.9"]
        lines.append(
            f"| {name} | {found['rounds']} | {found['accuracy']:.3f} | "
            f"{sets['size']:.2f} | {sets['coverage']:.3f} | {_ten_halves(found)} | {_in_the_paper(settings)} |"
        )
    if absent := [name for name in RUNS if not _there(name)]:
        count = f"{len(absent)} of {len(RUNS)} runs are not done"
        lines += ["", f"{count}; `python scripts/results.py NAME` trains one, the script has the names."]
    lines += ["", *_deviations(), ""]
    machines = sorted({json.loads(path.read_text())["machine"] for path in RESULTS.glob("*.json")})
    lines.append(f"Machine: {'; '.join(machines)}.")
    return "\n".join([*lines, ""])


def _ten_halves(found: Settings) -> str:
    halves = found.get("halves", {}).get("0.9")
    return f"{halves['size']:.2f} ({halves['coverage']:.3f})" if halves else "gone"


def _deviations() -> list[str]:
    """List every deviation from the paper's settings; runs that differ alike are together."""
    runs = [run for run in read_runs(RESULTS) if run.dataset in (*FULL_RESULTS, STAND_IN)]
    blood = any(run.dataset == STAND_IN for run in runs)
    always = [text for text in runs[0].differs if all(text in run.differs for run in runs)]
    alike: dict[str, list[str]] = {}
    for run in runs:
        own = ", ".join(text for text in run.differs if text not in always)
        alike.setdefault(own or ("nothing else" if always else "no deviation"), []).append(run.name)
    return [
        "## Deviations from the paper's settings",
        "",
        "The settings of a run against `fedconformal train --preset paper`, which is App. F of the paper.",
        "",
        *([f"- all runs: {', '.join(always)}"] if always else []),
        *(f"- {', '.join(names)}: {text}" for text, names in alike.items()),
        "",
        "The data differ too: the runs of CIFAR-10 without `-paper-` in their name were trained on a JPEG copy of the",
        "images (40.6 dB), and DermaMNIST's images were resized from the originals by this project.",
        *["BloodMNIST stands in for TissueMNIST, whose images are not at hand; both have two classes a client."]
        * blood,
    ]


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="runs to do, again if they are there")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="the directory of the runs")
    parser.add_argument("--table", action="store_true", help="write the page and the links only")
    parser.add_argument("--save", action="store_true", help="copy checkpoints of the paper's runs to results only")
    parser.add_argument(
        "--logits", type=Path, help="where to link finished runs; $FEDCONFORMAL_DATA/logits if not said"
    )
    options = parser.parse_args()
    if options.save:
        for name in PAPER_RUNS:
            save(name, options.runs)
        return
    if not options.table:
        for name in options.names or [name for name in RUNS if not _there(name)]:
            run(name, options.runs)
    logits = options.logits or Path(os.environ.get("FEDCONFORMAL_DATA") or "data") / "logits"
    for name in RUNS if logits.is_dir() else ():
        link(name, options.runs, logits)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
