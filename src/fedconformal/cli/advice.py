"""The library's advice, in the words of the command line.

The library speaks to a caller from Python. Where its advice names a keyword or a function, the command line names
the option. This table is the only place that knows both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fedconformal.errors import InputError

ADVICE = {
    r"if these are logits, take their softmax": r"if these are logits, say --from logits",
    r"leave out softmax, or pass logarithms": r"leave out --from logits",
    r"go on with it with resume=True, or choose another place": (
        r"go on with it with --resume, or choose another place with -o"
    ),
    r"choose another place": r"choose another place with -o",
    r"make room, then go on with resume=True": r"make room, then --resume",
    r"resume=True goes on with the same settings": r"--resume goes on with the same settings",
    r"no dataset is named; add it to the settings": (
        r"no dataset is named; say which with --dataset, or dataset = ... in the file"
    ),
    r"(\w+) is needed here; add it to the settings": r"\1 is needed here; say --\1, or \1 = ... in the file",
    r"give each site once, by its own name": r"give each site once, with --site",
    r"summarise with by_class=True": r"summarise with --by-class",
    r"summarise with groups=": r"summarise with --groups, such as --groups sex,age",
    r"summarise with kind=\"exact\"": r"summarise with --kind exact",
    r"summarise with kind=\"exact\" and a site": r"summarise with --kind exact --site NAME",
    r"read it with NoisyHistogram.from_bytes": r"say --privacy local",
    r"make one with noisy_histogram": r"make one with summarize --privacy local",
    r"make an id with new_id and summarise for it": r"make an id (calibrate --new-id) and summarise for it",
    r"calibrate them with risk=": r"say --risk LIMIT",
    r"pass alpha=, or use summarize_losses there": r"say --alpha instead of --risk, or use summarize-losses there",
    r"which are for a loss \(docs/tables.md\)": r"which are for summarize-losses with --loss (docs/tables.md)",
    r"say which class is the positive one": r"say which class it is of with --positive",
    r"take a score of numbers \(docs/tables.md\)": r"say --task regression (docs/tables.md)",
    r"name the columns of (.+)": r"name the columns of \1 with --predictions",
    r"give the encoding if it is UTF-16": r"say --encoding utf-16 if it is UTF-16",
    r"if it is text in UTF-16, give the encoding (\S+)": r"if it is text in UTF-16, say --encoding \1",
    r"give its encoding, such as (.+)": r"give its --encoding, such as \1",
    r"leave out the encoding": r"leave out --encoding",
    r"name the one with the (\w+)": r"name the one with the \1, with --labels or as FILE:COLUMN",
    r"leave it out if it is no class": r"leave it out with --drop if it is no class",
    r"leave the others out": r"leave the others out with --drop",
    r"give the names of both classes": r"give the names of both with --classes",
    r"if the column is no class, use it for ids or labels, or leave it out": (
        r"if the column is no class, name it with --id or --labels, or leave it out with --drop"
    ),
    r"name the column if it is an id, or save both without row numbers if the rows are in one order": (
        r"name the column with --id if it is an id, or save both without row numbers if the rows are in one order"
    ),
    r"give the columns their names": r"write the names of the classes above, or say --classes",
    r"give the path of the CA's certificate": r"give the CA's certificate with --root-certificates",
    r"give the site's own summary, or state a limit by hand": (
        r"give the site's own summary with --summary, or state a limit by hand with --limit"
    ),
    r"watch that site by its name, or state a limit by hand": (
        r"watch that site by its name with --site, or state a limit by hand with --limit"
    ),
    r"state a limit by hand": r"state a limit by hand with --limit",
    r'pass gives="probs"': r"say --onnx-gives probs",
    r"give that model too": r"give that model with --onnx",
    r"summarise the calibration rows with this model": r"summarise the calibration rows with this --onnx",
    r"give rows='new' or 'watched'": r"say --rows new or --rows watched",
    r"or name the new score": r"or name the new one with --score",
    r"give the guarantee anew": r"give it anew with --guarantee",
    r"not a limit on losses; leave out risk": r"not a limit on losses; leave out --risk and --safe",
    r"give risk, not alpha": r"say --risk instead of --alpha",
    r"give the predictor that it replaces": r"give it with --chain",
    r"bound what a site may claim \(most_scores\), or use weights of your own": (
        r"bound what a site may claim with --guarantee mixture:most_scores=N"
    ),
    r"make one with make_app": r"make one: fedconformal flower init DIR",
}
"""The last words of a message of the library, and those of the command line; the first that fits counts."""


def advised(message: str) -> str:
    """Return a message of the library with the command line's own advice.

    Only the last words count, so that a file's name before them stays as it is.

    >>> advised("p.json: cannot be written (No space left on device); choose another place")
    'p.json: cannot be written (No space left on device); choose another place with -o'
    """
    for ending, advice in ADVICE.items():
        found, count = re.subn(rf"(?<!\w){ending}\Z", advice, message)
        if count:
            return found
    return message


class SwappedError(InputError):
    """Two files are given in the wrong order."""

    def __init__(self, first: Path, second: Path) -> None:
        super().__init__(f"{first} and {second} look swapped: probabilities come first, then labels")
        self.files = (first, second)

    def advice(self, arguments: Sequence[str]) -> str:
        """Say what to do: the command with both files in the right order, if both are words of it.

        >>> SwappedError(Path("y.npy"), Path("p.npy")).advice(["summarize", "y.npy", "./p.npy", "-o", "a.fcs"])
        'say fedconformal summarize ./p.npy y.npy -o a.fcs'
        >>> SwappedError(Path("y.npy"), Path("p.npy")).advice(["report", "p.json", "--probs=y.npy", "p.npy"])
        'change their order'
        """
        from shlex import join

        words, paths = list(arguments), list(map(Path, arguments))
        if not set(self.files) <= set(paths):
            return "change their order"
        first, second = map(paths.index, self.files)
        words[first], words[second] = words[second], words[first]
        return f"say {join(['fedconformal', *words])}"
