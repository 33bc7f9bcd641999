"""Without torch, Flower or NVFlare, what needs them is left out of the doctests; its tests skip themselves."""

import importlib.util

NEEDS = {
    "torch": [
        "src/fedconformal/flower/*",
        "src/fedconformal/models/*",
        "src/fedconformal/training/*",
        "tests/federated/tasks.py",
    ],
    "flwr": ["src/fedconformal/flower/*", "tests/engines/flower/tools.py"],
    "nvflare": ["src/fedconformal/nvflare.py", "tests/engines/nvflare/faulty_job.py"],
}
collect_ignore_glob = [
    path for name, paths in NEEDS.items() if importlib.util.find_spec(name) is None for path in paths
]
