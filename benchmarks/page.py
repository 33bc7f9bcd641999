"""Write docs/speed.md from the results of the last runs, beside the goals.

python benchmarks/page.py
"""

# ruff: noqa: T201

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "speed.md"

Lines = Iterator[tuple[str, ...]]

HEAD = """# Speed

`make bench` measures, and `python benchmarks/page.py` writes this page from `benchmarks/results`. Ratios are of two
things timed in turn, in one run on one machine with two cores. Each figure is of the version named beside it; the code
has changed since versions before 0.3.0. Missed goals are shown as well.
"""


def scores(found: Any) -> Lines:
    """Calibrate and predict beside a lower bound and the peers."""
    memory = found["extra_memory_mb"]
    for row in found["times"]:
        ratios = [row["ratio_to_bound"]["fedconformal"], *(row["ratio_to_ours"][peer] for peer in ("TorchCP", "MAPIE"))]
        extra = f"{memory[row['score']]['fedconformal']:.0f} MB" if row["classes"] == memory["classes"] else ""
        yield (row["score"].upper(), f"{row['classes']}", *map(times, ratios), extra)
    yield "goal, LAC", "", at_most(2), at_least(1.5), at_least(1.5), "<= 150 MB"
    yield "goal, others", "", at_most(0.8), at_least(5), at_least(5), "<= 150 MB"


def many_predictors(found: Any) -> Lines:
    """From summaries to a predictor."""
    for shape in dict.fromkeys((row["sites"], row["scores a site"]) for row in found):
        rows = [row for row in found if (row["sites"], row["scores a site"]) == shape]
        seconds = [f"{row['Predictor.of s']:.1f} s" for row in rows if row["guarantee"] in ("mixture", "pac")]
        yield (
            f"{shape[0]:,} sites of {shape[1]} scores: a predictor, `Mixture`; `PAC`",
            "; ".join(seconds),
            "<= 10 s",
        )


def scale(found: Any) -> Lines:
    """Describe a tree of sites, pools of 100 sites and regions of 100 pools."""
    for shape, parts in found["parts"].items():
        files, apart = parts["files"], parts["apart"]
        sent = (f"{files[f'bytes {who}']:,.0f}" for who in ("a site sends", "a pool sends", "the coordinator gets"))
        alone = f"{apart['from messages to the threshold s']:.0f} s, {apart['bytes the coordinator gets']:,} bytes"
        peak = max(part["peak MB"] for part in parts.values())
        yield shape, f"{files['seconds']:.0f} s", *sent, alone, f"{peak:.0f} MB"


def sites(found: Any) -> Lines:
    """From the messages of K sites to a threshold."""
    for row in found["rows"]:
        if row["sites"] < 1000:  # a few microseconds against none
            continue
        memory = f"{row['memory_mb']['ours']:.0f} MB"
        yield f"{row['sites']:,}", times(row["ratio"]), times(row["ratio_once"]), memory
    yield "goal at 100,000", at_most(4), at_most(4), "<= 600 MB"


def sql(found: Any) -> Lines:
    """Ranks where the scores are."""
    for way, ratio in found["ratio"].items():
        if not way.endswith(": sort"):
            bar = "" if "probabilities" in way else at_most(1.5)  # which scores rows as well
            what = (
                f"{found['rows']:,} rows, {way.replace('summarize_batches', 'batches')}: against its own sort; memory"
            )
            yield what, f"{times(ratio)}; {found['mb'][way]:.0f} MB", bar


def losses(found: Any) -> Lines:
    """Loss curves."""
    one = found["summarising"]
    what = f"{one['rows']:,} rows at {one['points']:,} thresholds: check and summarise, against one sum over them"
    yield what, times(one["ratio"]["summarize_losses"]), at_most(6)
    seconds = [f"{found['seconds'][name]:.1f} s" for name in ("mixture", "pac")]
    what = f"{found['sites']:,} sites of 12 rows at 100 thresholds: a predictor, `Mixture`; `PAC`"
    yield what, "; ".join(seconds), "< 10 s"


def monitoring(found: Any) -> Lines:
    """Delay until the watches notice a change, and their cost."""
    wanted = {
        "a million outcomes, Monitor": "< 2 s",
        "a day of 10,000 sites, 50 rows each": "< 1 s",
    }
    for what, one in found["cost"].items():
        yield f"{what}: seconds; extra memory", f"{one['seconds']:.2f} s; {one['mb']:.0f} MB", wanted.get(what, "")
    for what, ratio in found["peers"].items():
        yield f"2,000 rows at once: {what}", times(ratio), at_least(1)


def training(found: Any) -> Lines:
    """Describe a round of FedAvg."""
    yield (
        "A FedAvg round of 10 LeNet sites, images a second against the plain loop",
        times(found["plain_loop"]["ratio"]),
        at_least(1.6),
    )
    ratios = found["clients"]["against_10"]
    yield (
        f"The same rows cut into {', '.join(ratios)} sites: seconds against 10",
        ", ".join(map(times, ratios.values())),
        "near 1",
    )


def tct_features(found: Any) -> Lines:
    """Per-row gradients."""
    networks = ", ".join(row["network"] for row in found["rows"])
    yield f"Gradient features of {networks}, against one backward pass a row", *speedups(found)


def tct_linear(found: Any) -> Lines:
    """Local descent in sample space."""
    rows = ", ".join(f"{row['rows']:,}" for row in found["rows"])
    yield f"TCT's linear stage, {rows} rows, against the plain loop", *speedups(found)


def speedups(found: Any) -> tuple[str, str]:
    """Write ratios and their goals."""
    rows = found["rows"]
    return ", ".join(times(row["speedup"]) for row in rows), ", ".join(at_least(row["wanted"]) for row in rows)


def imports(found: Any) -> Lines:
    """Describe the time of an import, and the bytes of a summary."""
    yield "`import fedconformal`, against `import numpy`", times(found["ratio"]["import fedconformal"]), at_most(1.7)
    numpy, ours = found["processor"]["import numpy"], found["processor"]["fedconformal calibrate, ten files"]
    took = f"{ours:.2f} s ({ours / numpy:.1f}x `import numpy`)"
    yield "`fedconformal calibrate`, ten files: processor time", took, "<= 0.25 s"
    size = found["rank_summary_bytes"]["with alpha, score and site"]
    yield "A certified rank summary with m = 100", f"{size} bytes", "<= 850 bytes"


def one_row(found: Any) -> Lines:
    """Describe a server that answers row by row."""
    names = ", ".join(dict.fromkeys(row["score"].upper() for row in found))
    most = max(row["more"] for row in found)
    yield f"one row, {names}, up to 1,000 classes: time beyond its arithmetic", f"{most} µs at most", "<= 20 µs"


def flower(found: Any) -> Lines:
    """Describe the in-process engine."""
    most = max(map(int, found["peaks"]))
    yield f"{most:,} sites calibrated, against Flower's own message handling", times(found["ratio"]), at_most(1.3)
    counts, peaks = zip(*found["peaks"].items(), strict=True)
    what = f"{', '.join(f'{int(count):,}' for count in counts)} sites calibrated: memory"
    yield what, ", ".join(f"{peak:.0f} MB" for peak in peaks), "linear"


def release(found: Any) -> Lines:
    """Describe a differentially private threshold."""
    ratio = found["private"]["release"] / found["private"]["np.sort"]
    yield "A private release at N = 1,000,000, against np.sort", times(ratio), at_most(5)


PLAIN = ("", "measured", "goal", "version")
SECTIONS: list[tuple[str, tuple[str, ...], list[tuple[str, Callable[[Any], Lines]]]]] = [
    (
        "Scores and sets, 50,000 + 50,000 rows",
        ("score", "classes", "ours against the bound", "TorchCP against ours", "MAPIE against ours", "extra memory"),
        [("scores", scores)],
    ),
    ("Decode and calibrate, against np.partition", ("sites", "warm", "fresh process", "memory"), [("sites", sites)]),
    (
        "A million sites",
        ("sites", "wall clock", "bytes of a site", "of a pool", "read in all", "`NewSite`, each site apart", "memory"),
        [("scale", scale)],
    ),
    (
        "Summaries, predictors and commands",
        PLAIN,
        [
            ("many_predictors", many_predictors),
            ("sql", sql),
            ("losses", losses),
            ("imports", imports),
            ("one_row", one_row),
            ("privacy", release),
        ],
    ),
    (
        "Monitoring, training and engines",
        PLAIN,
        [
            ("monitoring", monitoring),
            ("training", training),
            ("tct_features", tct_features),
            ("tct_linear", tct_linear),
            ("flower", flower),
        ],
    ),
]


NOTES = {
    "scores": """\
The bounds are numpy's sort and comparison on one core, without any check; AVX-512 makes them much faster. Ours checks
the sums and signs of all rows, on all cores.""",
    "scale": """\
A site sends its scores to a pool of 100 sites, a pool its ranks to a region of 100 pools, a region one message to the
coordinator. `NewSite` needs every site apart. A pool sees the scores of its sites.""",
}
"""Remarks after the table of a section."""


def times(ratio: float) -> str:
    """Write a ratio."""
    return f"{ratio:.2f}x"


def at_most(ratio: float) -> str:
    """Write an upper bar."""
    return f"<= {ratio:g}x"


def at_least(ratio: float) -> str:
    """Write a lower bar."""
    return f">= {ratio:g}x"


def page() -> str:
    """Put the tables of all results together."""
    parts = [HEAD]
    for title, head, sources in SECTIONS:
        files = {name: json.loads((HERE / "results" / f"{name}.json").read_text()) for name, _ in sources}
        parts.append(f"## {title}\n")
        if head != PLAIN:
            parts += [f"Version {one['versions']['fedconformal']}, {one['date']}.\n" for one in files.values()]
        table = [head, ("---",) * len(head)]
        for name, rows in sources:
            version = (files[name]["versions"]["fedconformal"],) if head == PLAIN else ()
            table += [(*row, *version) for row in rows(files[name]["results"])]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in table) + "\n")
        parts += [f"{NOTES[name]}\n" for name in files if name in NOTES]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"written: {PAGE.relative_to(HERE.parent)}")
