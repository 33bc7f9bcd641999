"""The pages of results: one that answers first, and one for each table and for all figures, from the record alone."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from fedconformal_paper.absent import grouped, not_here, pattern
from fedconformal_paper.catalogue import FIGURES, TABLES, Entry
from fedconformal_paper.claims import NEAR, NO, NO_IMAGES, NOT_TRIED, YES, Claim, claims
from fedconformal_paper.evidence import Evidence
from fedconformal_paper.figures.answer import TITLE
from fedconformal_paper.heart import ALPHA
from fedconformal_paper.numbers import METHODS, TITLES
from fedconformal_paper.record import Record
from fedconformal_paper.table import Table

IMAGES = "images/results"
ANSWER, HEART, FIGURES_PAGE = "answer", "heart-disease", "figures"
MAKE_IT = "make it with: "
OWN_RUN = "own run"
WIDTH = 120

PAPER = """[Lu, Yu, Karimireddy, Jordan and Raskar, "Federated conformal predictors for distributed uncertainty
quantification"](https://arxiv.org/abs/2305.17564), ICML 2023"""
CAPTION = """Mean number of labels in a set that promises to hold the truth with probability 0.9: smaller is better.
FedAvg averages the models of clients that have few classes each, TCT adds a second, linear stage, and *central* is
trained in one place. *Others' logits* are of models that other people trained; our code makes the sets."""
MEASURED = f"""All sets are LAC's with the top label always in. Own runs, one seed each, calibrate on validation rows of
each client and test on test rows; others' logits are cut in ten random halves, as in the paper. A round is one epoch
here unless said, and five in the paper, which has 200 rounds, for TCT 100 + 100 (first + second stage). The *authors'
way* of the second stage is SCAFFOLD, *ours* is L-BFGS with a ridge. CIFAR-100's validation rows chose the ridge of
FashionMNIST and CIFAR; that of DermaMNIST is the default, which was chosen with test rows in view and so flatters a
little. Sets are *larger* if they have more than {NEAR:g} times the paper's labels."""
KEPT = """Every number is written by `fedconformal paper results`, in this repository `make results`; it reads others'
logits from `$FEDCONFORMAL_DATA/logits`. The logits of own runs are not in the repository; what they gave is kept in a
[record]({record})."""
PRICE = """All tables use the paper's rank, `FCP()`, which pays one row for every site. The default of fedconformal,
`Mixture()`, [does not need that price](guarantees.md#the-number-of-sites-costs-nothing): on others' TCT logits of
CIFAR-100, with 1,000 calibration rows in all, sets stay as small as with two sites."""
TRAINING = "- [What training gives](training-results.md): every own run, with its settings, time and loss\n"


def main_page(evidence: Evidence, folder: str, *, drawn: bool) -> str:
    """Write the page that answers: the figure, the claims, the hospitals, and links to all else."""
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
        parts += ["\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n", _filled(MEASURED)]
    parts += [_filled(KEPT.format(record=f"{folder}/record.json")), *_hospitals(record)]
    parts += ["## What the paper's rank costs\n", _filled(PRICE)]
    parts.append("![Labels a set against the number of sites](images/price-of-sites.svg)\n")
    links = "".join(_links(record, folder)) + (TRAINING if evidence.runs else "")
    return "\n".join(
        [*parts, "## All tables and figures\n", links, *_absent(record, folder), _contents(folder, record)]
    )


def _verdict(found: Sequence[Claim]) -> str:
    """Count the verdicts in one sentence."""
    tried = [claim for claim in found if claim.verdict != NOT_TRIED]
    if not tried:
        return "There is nothing to judge its claims by: no logits, and no record of earlier ones."
    counts = Counter("no" if one.verdict.startswith(NO) else one.verdict == YES for one in tried)
    said = (
        f"**Of {len(tried)} comparisons, {counts[True]} come out as in the paper, {counts[False]} in part, and "
        f"{counts['no'] or 'none'} {'fail' if counts['no'] > 1 else 'fails'}**; the table says where"
    )
    return f"{said}. What was not tried is in its last line." if len(tried) < len(found) else f"{said}."


def _hospitals(record: Record) -> Iterator[str]:
    """Show the one table that is not the paper's, and say what to read in it."""
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


def _links(record: Record, folder: str) -> Iterator[str]:
    for entry in TABLES.values():
        if entry.name in record.tables and entry.name != HEART:
            yield f"- [{_upper(entry.about)}]({folder}/{entry.name}.md) ({entry.label})\n"
    yield f"- [All figures]({folder}/{FIGURES_PAGE}.md) of the paper, and three beyond it\n"


def _absent(record: Record, folder: str) -> Iterator[str]:
    """Say in one sentence which of the paper's experiments are absent, and why."""
    parts = record.tables["full-results"].absent if "full-results" in record.tables else []
    if parts:
        names = grouped([f"{TITLES[part.name.split()[0]]}/{part.name.partition(' ')[2]}" for part in parts], at="/")
        why = (
            ", as the project cannot have their images" if {part.name.split()[0] for part in parts} <= NO_IMAGES else ""
        )
        yield _filled(
            f"Of the paper's experiments, these are absent{why}: {names}. With the images, "
            f"`{pattern(parts[0].command)}` makes the logits; the [full table]({folder}/full-results.md) has the other "
            "commands."
        )


def _contents(folder: str, record: Record) -> str:
    names = [name for name in TABLES if name in record.tables and name != HEART]
    lines = "\n".join(f"{folder}/{name}" for name in [*names, FIGURES_PAGE])
    return f"```{{toctree}}\n:hidden:\n\n{lines}\n```\n"


def table_page(entry: Entry[Table], table: Table, home: str) -> str:
    """Write the page of one table."""
    head = f"# {_upper(entry.about)}\n\n{table.title} ({entry.label}); [back to the answer](../{home}).\n"
    command = f"`fedconformal paper table {entry.name}` prints what the logits at hand give."
    if any(part.see.startswith(OWN_RUN) for part in table.parts):
        command += " Rows of own runs may be kept from an earlier run: their logits are not in the repository."
    return f"{head}\n{_filled(command)}\n{table.to_markdown()}"


def figures_page(record: Record, home: str) -> str:
    """Write the page of all figures."""
    parts = [
        f"# All figures\n\nThe paper's figures and three beyond it, made again; [back to the answer](../{home}).\n"
    ]
    absent: dict[str, str] = {}
    for entry in FIGURES.values():
        if entry.name not in record.figures:
            reason = record.missing.get(entry.name, "")
            name, _, command = reason.partition(f"; {MAKE_IT}")
            if command:
                absent[_words(name.rpartition("has no ")[2])] = command
            elif reason:
                absent[entry.name] = reason
            continue
        drawn = record.figures[entry.name]
        absent |= {_words(name): command for name, command in drawn.absent.items()}
        parts += [f"## {_upper(entry.about)}\n", f"![{entry.about}](../{IMAGES}/{entry.name}.svg)\n"]
        made = f"`fedconformal paper figure {entry.name} -o {entry.name}.svg` ({entry.label})"
        parts.append(
            "\n".join([f"- {made}", *(f"- {_words(name)}: {see}" for name, see in drawn.logits.items())]) + "\n"
        )
    parts += [f"## What is absent\n\n{said}\n" for said in not_here(absent)]
    return "\n".join(parts)


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def _words(name: str) -> str:
    """Write a name of logits as the tables do.

    >>> _words("cifar10_fedavg_overlap3")
    'cifar10 FedAvg overlap3'
    """
    dataset, _, rest = name.partition("_")
    method, _, variant = rest.partition("_")
    return " ".join(filter(None, (dataset, METHODS.get(method, method), variant)))


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
