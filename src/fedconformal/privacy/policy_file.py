"""The file of a site's policy: TOML, one line a key; what cannot be understood is refused with its line.

A policy that cannot be read forbids everything: a key with a slip in its spelling must not be one that is left out.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedconformal._base import registry
from fedconformal._base.files import read_bytes
from fedconformal._base.names import abbreviate, check_name
from fedconformal.errors import InputError, prefix_errors
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.dp import as_epsilon
from fedconformal.privacy.policy import Policy, known_kinds

VARIABLE = "FEDCONFORMAL_POLICY"
"""The environment variable with the path of a site's policy, for all that runs there."""

EXAMPLE = """\
# What may leave this site, for anyone who asks. A line that is missing, or begins with #, forbids nothing.
sums_only = true              # only masked counts of a sums session
least_sites = 5               # only what can be read as a sum over 5 sites or more
least_rows = 50               # nothing, if this site has fewer rows
# least_patients = 30         # nothing, if these rows are of fewer patients, by their ids
# least_cell = 50             # sums without noise: only if no cell with fewer rows is split in eight
# most_sessions = 3           # sums without noise: no more sessions than this over the same rows
# largest_epsilon = 1.0       # only with noise, of at most this epsilon in one release
# ledger = "mandatory"        # epsilon is spent from a ledger, which knows earlier sums too
# kinds = ["sums", "noisy"]   # only these: sums, noisy, ranks, exact, "ranks by class" and so on
# guarantees = ["mixture"]    # only for these
# models = ["onnx:..."]       # only scores of these models, by the fingerprint that all sites agreed on
"""


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError("expected true or false")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise InputError("expected a whole number from 1 on")
    return value


def _epsilon(value: Any) -> float:
    if type(value) not in (int, float):
        raise InputError("expected a number")
    return float(as_epsilon(value))


def _mandatory(value: Any) -> str:
    if value != "mandatory":
        raise InputError('expected "mandatory"')
    return "mandatory"


def _fingerprints(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) and one for one in value):
        raise InputError('expected a list of fingerprints, such as ["onnx:..."]')
    return tuple(check_name(one, "a fingerprint") for one in value)


def _names(known: Callable[[], list[str]]) -> Callable[[Any], tuple[str, ...]]:
    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            raise InputError('expected a list of names, such as ["..."]')
        for one in value:
            if one not in known():
                raise InputError(f"there is no {abbreviate(one)}; there are {', '.join(known())}")
        return tuple(value)

    return read


def _unknown(_: Any) -> Any:
    raise InputError(f"is no key of a policy; there are {', '.join(KEYS)}")


KEYS: dict[str, Callable[[Any], Any]] = {
    "sums_only": _switch,
    "least_sites": _count,
    "least_rows": _count,
    "least_patients": _count,
    "least_cell": _count,
    "most_sessions": _count,
    "largest_epsilon": _epsilon,
    "ledger": _mandatory,
    "kinds": _names(known_kinds),
    "guarantees": _names(lambda: sorted(registry.members(Guarantee))),
    "models": _fingerprints,
}


def read_policy(path: Path) -> Policy:
    """Read a policy; a key that is not known, or a value of the wrong type, is refused with its line."""
    with prefix_errors(path):
        return parse_policy(read_bytes(path), path.name)


def parse_policy(data: bytes, file: str = "") -> Policy:
    """Read what is in the file of this name."""
    try:
        text = data.decode()
        found = tomllib.loads(text)
    except UnicodeDecodeError:
        raise InputError("is not a policy: it is not text in UTF-8") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError, too
        raise InputError(f"is not a policy: {error}") from None
    lines = {key: _line(text, key) for key in found}
    values = {}
    for key, value in found.items():
        with prefix_errors(f"line {lines[key]}: {abbreviate(key)}"):
            values[key] = KEYS.get(key, _unknown)(value)
    return Policy(**values, file=file, lines=lines)


def _line(text: str, key: str) -> int:
    """Return the number of the line that a key begins; one that cannot be found for certain is refused."""
    found = [n for n, line in enumerate(text.split("\n"), 1) if re.match(rf"\s*\[*\s*{re.escape(key)}\s*[.=\]]", line)]
    if len(found) != 1:
        raise InputError(f"the key {abbreviate(key)} has no line of its own; write it once, as key = value")
    return found[0]


def policy_of(path: str | Path | None = None) -> Policy:
    """Return the policy in this file, or in the one that FEDCONFORMAL_POLICY names; without any, all is allowed.

    A variable that is set and empty is refused: a slip in a script must not open a door.
    """
    named = path or os.environ.get(VARIABLE)
    if named is None:
        return Policy()
    if not named:
        raise InputError(f"{VARIABLE} is empty; name a policy, or unset it")
    try:
        return read_policy(Path(named))
    except InputError as error:  # on an engine the coordinator sees this, and where the file is says too much
        raise InputError(str(error).replace(str(named), Path(named).name)) from None
