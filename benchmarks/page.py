"""Write docs/speed.md from the results of the last runs: what was measured, beside what was wanted.

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

Lines = Iterator[tuple[str, str, str]]

HEAD = """# Speed

`python benchmarks/page.py` writes this page from `benchmarks/results`; `make bench` measures again. A ratio compares
two things that are timed in turn, in one run on one machine, so most of the speed of the machine cancels out. Memory is
in MB. A number that misses its goal is shown as well.
"""


def scores(found: Any) -> Lines:
    """Calibrate and predict beside a lower bound and the peers."""
    for row in found["times"]:
        what = f"{row['score'].upper()}, {row['classes']} classes"
        wanted = {
            "lac": ("one unchecked pass", 2),
            "aps": ("sorting all rows", 0.8),
            "raps": ("sorting all rows", 0.8),
        }
        bound, most = wanted[row["score"]]
        yield (
            f"{what}: calibrate and predict, against {bound}",
            times(row["ratio_to_bound"]["fedconformal"]),
            at_most(most),
        )
        for peer, ratio in row["ratio_to_ours"].items():
            if peer not in ("bound", "fedconformal"):
                yield f"{what}: {peer}, against us", times(ratio), at_least(1.5 if row["score"] == "lac" else 5)
    extra = found["extra_memory_mb"]
    for name in ("lac", "aps", "raps"):
        yield (
            f"{name.upper()}, {extra['classes']} classes: extra memory",
            f"{extra[name]['fedconformal']:.0f} MB",
            "at most 150 MB",
        )


def many_predictors(found: Any) -> Lines:
    """From summaries to a predictor, in seconds of one processor."""
    for row in found:
        what = f"{row['sites']:,} sites of {row['scores a site']} scores, {row['guarantee']}: `Predictor.of`"
        yield what, f"{row['Predictor.of s']:.1f} s", "at most 10 s"


def sites(found: Any) -> Lines:
    """From the messages of K sites to a threshold."""
    for row in found["rows"]:
        bar = row["sites"] == 100_000
        what = f"{row['sites']:,} sites: decode and calibrate, against np.partition of the raw scores"
        yield f"{what}, memory at hand", times(row["ratio"]), at_most(2) if bar else ""
        yield f"{what}, once in a fresh process", times(row["ratio_once"]), at_most(2) if bar else ""
        yield f"{row['sites']:,} sites: memory", f"{row['memory_mb']['ours']:.0f} MB", "at most 500 MB" if bar else ""


def stream(found: Any) -> Lines:
    """Scores that come in chunks."""
    count = found["chunks"] * found["rows"]
    for way, most in (("stream", 2.5), ("extend", 1.5)):
        yield f"{count:,} scores in chunks, `{way}`, against np.sort of each", times(found["ratio"][way]), at_most(most)
        yield f"{count:,} scores in chunks, `{way}`: memory", f"{found['alone'][way]['mb']:.0f} MB", ""


def sql(found: Any) -> Lines:
    """Ranks where the scores are."""
    for way, ratio in found["ratio"].items():
        if not way.endswith(": sort"):
            bar = "" if "probabilities" in way else at_most(1.5)  # which scores rows as well
            yield f"{found['rows']:,} rows, {way}, against its own sort of the column", times(ratio), bar
    for way, mb in found["mb"].items():
        yield f"{found['rows']:,} rows, {way}: memory", f"{mb:.0f} MB", ""


def losses(found: Any) -> Lines:
    """Loss curves."""
    one = found["summarising"]
    what = f"{one['rows']:,} rows at {one['points']:,} thresholds: check and summarise, against one sum over them"
    yield what, times(one["ratio"]["summarize_losses"]), at_most(6)
    for name, seconds in found["seconds"].items():
        what = f"{found['sites']:,} sites of 12 rows at 100 thresholds: from summaries to the predictor, {name}"
        yield what, f"{seconds:.1f} s", "under 10 s"


def monitoring(found: Any) -> Lines:
    """How soon the watches notice, and what they cost."""
    wanted = {
        "a million outcomes, Monitor": "under 2 s",
        "a day of 10,000 sites, 50 rows each": "under 1 s",
    }
    for what, one in found["cost"].items():
        yield f"{what}, seconds of one processor", f"{one['seconds']:.2f} s", wanted.get(what, "")
        yield f"{what}: extra memory", f"{one['mb']:.0f} MB", ""
    for what, ratio in found["peers"].items():
        yield f"2,000 rows at once: {what}", times(ratio), at_least(1)
    for row in found["many"]:
        what = f"+{row['points']} points of misses, 1,000 streams of 4,000 rows: Monitor"
        share = f"{100 * row['noticed']:.1f}% of streams"
        if row["points"] == 0:
            yield f"{what}: false alarms", share, "at most 5%"
            continue
        after = "not in the median" if row["rows"] is None else f"{row['rows']:g} rows"
        yield f"{what}: noticed after", f"{after}; {share}", "at most 240 rows" if row["points"] == 10 else ""
    streams, length = found["setting"]["streams"], found["setting"]["rows"]
    soon = {row["points"]: row["rows"] for row in found["detection"] if row["watch"] == "Monitor"}
    for row in found["detection"]:
        name, points, rows = row["watch"], row["points"], row["rows"]
        share = f"{100 * row['noticed']:.0f}% of streams"
        if points == 0:
            ever = name == "Monitor" or name.startswith("MAPIE") or name.endswith("at 20")
            yield (
                f"Nothing has changed: {name}: false alarms",
                share,
                "at most 5%" if ever else "at most 1 in 1,000 rows",
            )
            continue
        bar = f"after {soon[points]:g} rows" if name.startswith("MAPIE") and soon[points] else ""
        after = "not in the median" if rows is None else f"{rows:g} rows"
        yield (
            f"+{points} points of misses, the same {streams} streams of {length:,} rows: {name}: noticed after",
            f"{after}; {share}",
            bar,
        )


def training(found: Any) -> Lines:
    """A round of FedAvg."""
    yield (
        "A FedAvg round of 10 LeNet sites, images a second against the plain loop",
        times(found["plain_loop"]["ratio"]),
        at_least(1.6),
    )
    for clients, ratio in found["clients"]["against_10"].items():
        yield f"The same rows cut into {clients} sites: seconds against 10", times(ratio), "near 1"


def tct_features(found: Any) -> Lines:
    """Per-row gradients."""
    for row in found["rows"]:
        yield (
            f"Gradient features of {row['network']}, against one backward pass a row",
            times(row["speedup"]),
            at_least(row["wanted"]),
        )


def tct_linear(found: Any) -> Lines:
    """Local descent in sample space."""
    for row in found["rows"]:
        yield (
            f"TCT's linear stage, {row['rows']} rows, against the plain loop",
            times(row["speedup"]),
            at_least(row["wanted"]),
        )


def paper(found: Any) -> Lines:
    """The table over all logits."""
    seconds = found["seconds"]
    whole, least = seconds["full-results"], seconds["read, sort every label's score once per trial"]
    yield "The full-results table, against reading the files and one sort a trial", times(whole / least), at_most(2)


def imports(found: Any) -> Lines:
    """The time of an import, and the bytes of a summary."""
    yield "`import fedconformal`, against `import numpy`", times(found["ratio"]["import fedconformal"]), at_most(1.7)
    for name, seconds in found["processor"].items():
        wanted = "at most 0.25 s" if "calibrate" in name else ""
        against = f" ({seconds / found['processor']['import numpy']:.1f}x `import numpy`)" if wanted else ""
        yield f"{name}: processor time", f"{seconds:.2f} s{against}", wanted
    size = found["rank_summary_bytes"]["with alpha, score and site"]
    yield "A certified rank summary with m = 100", f"{size} bytes", "at most 850 bytes"


def one_row(found: Any) -> Lines:
    """A server that answers row by row."""
    for row in found:
        what = f"`predict_set` of one row beyond its arithmetic, {row['score'].upper()} with {row['classes']:,} classes"
        yield f"{what} ({row['predict_set']} µs in all)", f"{row['more']} µs", "at most 20 µs"


def flower(found: Any) -> Lines:
    """The in-process engine."""
    for arrays in ("one array", "four arrays"):
        plain, ours = (found["rounds"][f"{engine}, {arrays}"] for engine in ("plain loop", "in process"))
        yield f"10 sites x 20 rounds, {arrays}", f"{ours:.3f} s", f"at most {3 * plain + 0.2:.3f} s"
    most = max(map(int, found["peaks"]))
    yield f"{most:,} sites calibrated, against Flower's own message handling", times(found["ratio"]), at_most(1.3)
    for count, peak in found["peaks"].items():
        yield f"{int(count):,} sites calibrated: memory", f"{peak:.0f} MB", "linear"


def privacy(found: Any) -> Lines:
    """Sums only, and differential privacy."""
    for row in found["sums"]:
        bar = row["sites"] == 1000 and row["masks"] == "yes" and row["rounds"] == 16
        what = f"{row['sites']:,} sites, rounds: {row['rounds']}, masks: {row['masks']}"
        up = f"{row['bytes up a site']:,} bytes up a site"
        yield f"{what}; {up}", f"{row['seconds']:.1f} s", "at most 30 s" if bar else ""
    ratio = found["private"]["release"] / found["private"]["np.sort"]
    yield "A private release at N = 1,000,000, against np.sort", times(ratio), at_most(5)


SECTIONS: dict[str, tuple[str, Callable[[Any], Lines]]] = {
    "scores": ("Scores and sets, 50,000 + 50,000 rows", scores),
    "sites": ("Very many sites", sites),
    "many_predictors": ("A predictor for very many sites, seconds of one processor", many_predictors),
    "stream": ("Streams", stream),
    "sql": ("SQL and lazy frames; ratios are of seconds of the processor", sql),
    "losses": ("Loss curves; seconds are of one processor", losses),
    "monitoring": ("Watches: how soon they notice, and what they cost", monitoring),
    "imports": ("Imports and bytes", imports),
    "one_row": ("One row", one_row),
    "training": ("Training", training),
    "tct_features": ("TCT: features", tct_features),
    "tct_linear": ("TCT: the linear stage", tct_linear),
    "paper": ("The paper's tables", paper),
    "flower": ("Flower's in-process engine", flower),
    "privacy": ("Privacy", privacy),
}


NOTES = {
    "scores": """\
The bounds are numpy's own sort and comparison, which check nothing, on one core. A processor with AVX-512 does them
much faster. Ours reads every row twice more, to check its sum and its signs, on all cores; there it waits for memory,
and threads wait for Python. So the ratios depend on the machine."""
}
"""What to know of a section, after its table."""


def times(ratio: float) -> str:
    """Write a ratio."""
    return f"{ratio:.2f}x"


def at_most(ratio: float) -> str:
    """Write an upper bar."""
    return f"at most {ratio:g}x"


def at_least(ratio: float) -> str:
    """Write a lower bar."""
    return f"at least {ratio:g}x"


def page() -> str:
    """Put the tables of all results together."""
    parts = [HEAD]
    for name, (title, rows) in SECTIONS.items():
        file = json.loads((HERE / "results" / f"{name}.json").read_text())
        machine = file["machine"]
        parts.append(f"## {title}\n\nMeasured on {file['date']}: {machine['processor']}, {machine['cores']} cores.\n")
        table = [("", "measured", "wanted"), ("---", "---", "---"), *rows(file["results"])]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in table) + "\n")
        parts += [f"{NOTES[name]}\n"] if name in NOTES else []
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"written: {PAGE.relative_to(HERE.parent)}")
