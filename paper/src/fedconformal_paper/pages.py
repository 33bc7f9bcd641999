"""Pages of results, rendered from the record: summary, tables and figures."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from fedconformal_paper.absent import grouped, pattern
from fedconformal_paper.catalogue import FIGURES, TABLES
from fedconformal_paper.claims import NEAR, NO, NO_IMAGES, NOT_TRIED, YES, Claim, claims
from fedconformal_paper.evidence import Evidence
from fedconformal_paper.figures.answer import TITLE
from fedconformal_paper.heart import ALPHA
from fedconformal_paper.numbers import TITLES
from fedconformal_paper.record import Record
from fedconformal_paper.runs import AUTHORS, OURS, Run, largest
from fedconformal_paper.table import Table

IMAGES = "images/results"
ANSWER, HEART, TABLES_PAGE, FIGURES_PAGE = "answer", "heart-disease", "tables", "figures"
ELSEWHERE = {HEART, "relative-inefficiency", "threshold-rules", "tct-compare-loss", "cifar-efficiency-score-compare"}
"""Tables that are on other pages, or whose conclusion is on the first page."""
LEVEL, SHOWN = "level", 0.9
ABLATED = ((False, False), (True, False), (False, True), (True, True))
"""Sites weighted by rows or not, with an intercept or not."""
OWN_RUN = "own run"
WIDTH = 120

PAPER = """[Lu, Yu, Karimireddy, Jordan and Raskar, "Federated conformal predictors for distributed uncertainty
quantification"](https://arxiv.org/abs/2305.17564), ICML 2023"""
CAPTION = """Mean number of labels in a set at a promised coverage of 0.9: smaller is better. FedAvg averages the
models of clients with few classes each, TCT adds a second, linear stage, *central* is trained in one place. *Others'
logits* come from models that other people trained; the sets are ours."""
MEASURED = """Sets are LAC's with the top label always in, means over ten random halves of the held-out rows as in the
paper. *One split*: the logits of a run are gone, so both were calibrated on validation rows and tested on test rows.
Own runs have one seed; a round has one epoch, 200 x 5 rounds have five. *The authors' way* of TCT's second stage is
SCAFFOLD, no intercept; *our way* is L-BFGS with a ridge, sites weighted by rows and an intercept. Sizes agree if
neither is more than {near:g} times the other. Of {runs} own runs on the paper's data sets {plain} are not augmented,
{by_rows} weight sites by rows and {short} have fewer rounds or epochs than the paper:
[every deviation](training-results.md#deviations-from-the-papers-settings) is listed."""
RIDGE = """The ridge of FashionMNIST and CIFAR, 0.1, was chosen on validation rows of CIFAR-100; DermaMNIST has the
defaults, 0.3 and an intercept, which were first chosen with test rows in view. Validation rows of DermaMNIST choose the
intercept too (loss 1.10 against 2.48) and a ridge of 3 (0.93); {again}."""
CHOSEN = 3.0
"""The ridge of DermaMNIST that its validation rows choose."""
KEPT = """`fedconformal paper results` (`make results`) writes every number. It reads others' logits from
`$FEDCONFORMAL_DATA/logits`; results of own runs, whose logits are not in the repository, are kept in a
[record]({record})."""
PRICE = """All tables use the paper's rank, `FCP()`, which pays one row for every site. The default, `Mixture()`,
[does not](guarantees.md#the-number-of-sites-costs-nothing)."""
LINKS = """[Tables]({folder}/tables.md) and [figures]({folder}/figures.md) of the paper, redone; [training
results](training-results.md) has every own run; [The paper, its code, ours](paper-and-code.md) lists where they differ.
`pip install ./paper` adds the command `fedconformal paper`."""
TABLES_INTRO = """The paper's tables beside our numbers; [back to the answer](../{home}). `fedconformal paper table
NAME` prints a table for the logits at hand, with all levels and the settings of every run. *Own*: logits of an own
run (listed in [training results](../training-results.md)); *others'*: logits of models that other people trained.
Ours are means and standard deviations over 10 random halves of the pooled validation and test rows, at a promised
coverage of 0.9, with the top label always in the set. The temperature is fitted on the calibration rows, as in the
paper, so the guarantee is not exact. RAPS is randomised and APS is not, as in the authors' code."""
FIGURES_INTRO = """The paper's figures and three beyond it; [back to the answer](../{home}). `fedconformal paper
figure NAME -o NAME.svg` (or `.pdf`) draws one; NAME is that of the image. Vertical bars are one standard deviation over
ten random halves, or 95% intervals where the axis says so; hollow markers are the paper's numbers."""
SHARED = ("10 random halves", "The temperature is fitted", "RAPS is randomised", "Score LAC", "Level:")
"""Beginnings of notes that are in the introduction of the tables."""


def main_page(evidence: Evidence, folder: str, *, drawn: bool) -> str:
    """Return the main page: figure, claims, hospitals, and links to the other pages."""
    record, found = evidence.record, claims(evidence)
    parts = ["# Results\n", _filled(f"We redid the experiments of {PAPER}. {_verdict(found)}")]
    if drawn:
        parts.append(f"![{TITLE}]({IMAGES}/{ANSWER}.svg)\n")
        parts.append(_filled(CAPTION))
    if found:
        rows = [
            ("the paper says, of labels in a set", "paper", "ours", "reproduced?", "our models"),
            ("---",) * 5,
            *found,
        ]
        parts += ["\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n", _filled(_measured(evidence.runs))]
    parts += _ablation(evidence.runs)
    parts += [_filled(KEPT.format(record=f"{folder}/record.json")), *_hospitals(record)]
    parts += ["## What the paper's rank costs\n", _filled(PRICE)]
    parts.append("![Labels a set against the number of sites](images/price-of-sites.svg)\n")
    parts += ["## All tables and figures\n", _filled(LINKS.format(folder=folder)), *_absent(record)]
    contents = "\n".join(f"{folder}/{name}" for name in (TABLES_PAGE, FIGURES_PAGE))
    return "\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{contents}\n```\n"])


def _verdict(found: Sequence[Claim]) -> str:
    """Return the counts of verdicts in words."""
    tried = [claim for claim in found if claim.verdict != NOT_TRIED]
    if not tried:
        return "There is nothing to judge its claims by: no logits, and no record of earlier ones."
    counts = Counter("no" if one.verdict.startswith(NO) else one.verdict == YES for one in tried)
    smaller = [one.verdict.startswith(YES) for one in tried if "TCT smaller than FedAvg" in one.says]
    order = f"TCT's sets are smaller than FedAvg's in {sum(smaller)} of {len(smaller)} comparisons. " if smaller else ""
    if tried[0].says.startswith("Coverage") and tried[0].verdict == YES:
        order = f"Coverage is as promised. {order}"
    said = (
        f"{order}**Of {len(tried)} comparisons in all, {counts[True]} come out as in the paper, {counts[False]} in "
        f"direction but not in size, and {counts['no'] or 'none'} {'fail' if counts['no'] > 1 else 'fails'}**; the "
        f"table says where"
    )
    return f"{said}. What was not tried is in its last line." if len(tried) < len(found) else f"{said}."


def _measured(runs: Sequence[Run]) -> str:
    """Return the description of measurements, with the numbers of deviating runs."""
    some = [run for run in runs if run.dataset in TITLES]
    federated = [run for run in some if run.settings["method"] != "central"]
    return MEASURED.format(
        near=NEAR,
        runs=len(some),
        plain=sum(run.settings.get("augment", "none") == "none" for run in some),
        by_rows=sum(run.settings.get("weighting", "examples") == "examples" for run in federated),
        short=sum(any(text.startswith(("epochs", "rounds")) for text in run.differs) for run in some),
    )


def _ablation(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the section on the components of our second stage."""
    both = largest(list(runs), "dermamnist_tct", way=OURS, model="lenet")
    if both is None:
        return
    yield "## What makes our second stage small\n"
    alike = [run for run in runs if run.logits == both.logits and run.short == both.short and run.way != AUTHORS]
    sizes = {(run.settings["weighting"] == "examples", run.settings["intercept"]): run for run in alike}
    cells = [f"{sizes[kind].sets['0.9']['size']:.2f}" if kind in sizes else "not run" for kind in ABLATED]
    authors = largest(list(runs), "dermamnist_tct", way=AUTHORS, model="lenet")
    theirs = (
        f" {AUTHORS.capitalize()}, SCAFFOLD with neither, has {authors.sets['0.9']['size']:.2f}." if authors else ""
    )
    verdict = " So the two explain the gain, not the solver." if ABLATED[0] in sizes else ""
    yield _filled(f"DermaMNIST, {both.short}, L-BFGS, labels in a set at 0.9 on one split.{theirs}{verdict}")
    yield "| neither | weights by rows | intercept | both |\n| --- | --- | --- | --- |\n" + f"| {' | '.join(cells)} |\n"
    names = [f"`{run.name}`" for run in runs if run.dataset == both.dataset and run.settings.get("ridge") == CHOSEN]
    yield _filled(RIDGE.format(again=f"{', '.join(names)} has it" if names else "nothing was trained again with it"))


def _hospitals(record: Record) -> Iterator[str]:
    """Yield the section on hospitals, which is not in the paper."""
    if HEART not in record.tables:
        return
    table = record.tables[HEART]
    yield "## Heart disease at four real hospitals\n"
    yield _filled(_read_hospitals(table))
    yield table.to_markdown()


def _read_hospitals(table: Table) -> str:
    def span(promised: str, column: int) -> str:
        found: list[Any] = [row[column] for row in table.rows if row[2] == promised]
        return f"{min(found):.2f} to {max(found):.2f}"

    level, others, newcomer = f"{1 - ALPHA:g}", span("the others", 3), span("a newcomer", 3)
    return (
        f"Each hospital in turn is new. Sets that promise {level} to the mixture of the other three cover {others} "
        f"of its patients; sets that promise {level} to a newcomer cover {newcomer}, and pay with "
        f"{span('a newcomer', 5)} of two labels a set."
    )


def _absent(record: Record) -> Iterator[str]:
    """Yield one sentence on the absent experiments of the paper, with the reason."""
    parts = record.tables["full-results"].absent if "full-results" in record.tables else []
    if parts:
        names = grouped([f"{TITLES[part.name.split()[0]]}/{part.name.partition(' ')[2]}" for part in parts], at="/")
        why = (
            ", as the project cannot have their images" if {part.name.split()[0] for part in parts} <= NO_IMAGES else ""
        )
        yield _filled(
            f"Of the paper's experiments, these are absent{why}: {names}. With the images, "
            f"`{pattern(parts[0].command)}` makes the logits."
        )


def tables_page(record: Record, home: str) -> str:
    """Return the page of all tables of the paper."""
    parts = ["# Tables\n", _filled(TABLES_INTRO.format(home=home))]
    for entry in TABLES.values():
        if entry.name in record.tables and entry.name not in ELSEWHERE:
            about, text = _short(record.tables[entry.name])
            parts += [f"## {_upper(entry.about)}\n", f"`{entry.name}` ({', '.join([entry.label, *about])})\n", text]
    return "\n".join(parts)


def _short(table: Table) -> tuple[list[str], str]:
    """Return a table at one level, with the source of each row; columns with a single value are separate."""
    level = table.columns.index(LEVEL) if LEVEL in table.columns else None
    names = [column.replace("\n", " ") for column in (*table.columns[:-1], "logits")]
    lines = [
        [*cells[:-1], "own" if row[-1].startswith(OWN_RUN) else "others'"]
        for row, cells in zip(table.rows, table.cells(), strict=True)
        if level is None or row[level] == SHOWN
    ]
    same = {name: line[0] for name, *line in zip(names, *lines, strict=True) if len(line) > 2 and len(set(line)) == 1}
    shown = [[cell for name, cell in zip(names, line, strict=True) if name not in same] for line in [names, *lines]]
    shown.insert(1, ["---"] * len(shown[0]))
    notes = "".join(f"- {note}\n" for note in table.notes if not note.startswith(SHARED))
    text = "".join(f"| {' | '.join(line)} |\n" for line in shown) + (f"\n{notes}" if notes else "")
    return [f"{name} {value}" for name, value in same.items() if name != LEVEL], text


def figures_page(record: Record, home: str) -> str:
    """Return the page of all figures."""
    parts = ["# Figures\n", _filled(FIGURES_INTRO.format(home=home))]
    shown = [entry for entry in FIGURES.values() if entry.name in record.figures]
    parts += [f"![{_upper(entry.about)}](../{IMAGES}/{entry.name}.svg)\n" for entry in shown]
    return "\n".join(parts)


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
