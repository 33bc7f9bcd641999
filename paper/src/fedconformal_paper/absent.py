"""Descriptions of absent logits: grouped names, and the commands that produce them."""

from __future__ import annotations

import re
from collections.abc import Mapping

TRAINED = re.compile(r"--dataset (\S+) --method (\S+)")
OUTPUT = re.compile(r"-o (\S*?)([^/\s]+)$")


def pattern(command: str) -> str:
    """Return a command with the placeholders DATASET and METHOD.

    >>> pattern("fedconformal train --dataset tissuemnist --method tct -o LOGITS/tissuemnist_tct")
    'fedconformal train --dataset DATASET --method METHOD -o LOGITS/DATASET_METHOD'
    >>> pattern("fedconformal train --dataset fitzpatrick17k --method tct -o LOGITS/fitz17k-skin_tct")
    'fedconformal train --dataset fitzpatrick17k --method METHOD -o LOGITS/fitz17k-skin_METHOD'
    """
    found = TRAINED.search(command)
    if found is None:
        return command
    dataset, method = found.groups()
    output = OUTPUT.search(command)
    if output and output[2].startswith(f"{dataset}_"):
        end = output[2].removeprefix(f"{dataset}_").replace(method, "METHOD", 1)
        command = command.replace(f"{dataset}_{output[2].removeprefix(f'{dataset}_')}", f"DATASET_{end}")
        command = command.replace(f"--dataset {dataset}", "--dataset DATASET")
    elif output:
        command = command.replace(output[2], output[2].replace(f"_{method}", "_METHOD", 1))
    return command.replace(f"--method {method}", "--method METHOD")


def grouped(names: list[str], *, at: str = " ") -> str:
    """Join names, grouped by their part before a separator.

    >>> grouped(["pathmnist FedAvg", "pathmnist TCT", "tissuemnist TCT", "squared"])
    'pathmnist with FedAvg, TCT; tissuemnist with TCT; squared'
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        first, _, rest = name.partition(at)
        groups.setdefault(first, []).extend([rest] if rest else [])
    return "; ".join(f"{first} with {', '.join(rest)}" if rest else first for first, rest in groups.items())


def not_here(commands: Mapping[str, str]) -> list[str]:
    """Return one sentence on absent logits and their commands; empty if none are absent."""
    if not commands:
        return []
    ways = " or ".join(f"`{one}`" for one in dict.fromkeys(map(pattern, commands.values())))
    return [f"Not here: {grouped(list(commands))}. Such logits come from {ways}."]
