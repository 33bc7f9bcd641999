"""Without torch, what needs it is left out of the doctests; its tests skip themselves."""

import importlib.util

NEEDS_TORCH = ["src/fedconformal/models/*", "src/fedconformal/training/*", "tests/training/tasks.py"]
collect_ignore_glob = NEEDS_TORCH if importlib.util.find_spec("torch") is None else []
