"""Without torch, the parts that need it are left out of the doctests; their tests skip themselves."""

import importlib.util

needs_torch = ("models", "training")
collect_ignore_glob = [
    f"src/fedconformal/{part}/*" for part in needs_torch if importlib.util.find_spec("torch") is None
]
