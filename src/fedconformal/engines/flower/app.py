"""Flower apps in a directory: copied from the template, and read as `flwr run` reads them."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from fedconformal._base.files import read_bytes, write_bytes
from fedconformal.errors import InputError

PACKAGE = "conformal_app"
FILES = {
    "README.md": "README.md",
    f"{PACKAGE}/__init__.py": "__init__.py",
    f"{PACKAGE}/client_app.py": "client_app.py",
    f"{PACKAGE}/server_app.py": "server_app.py",
}
"""Files of every app, and where they are in the template."""
TASKS = {
    "classification": {"pyproject.toml": "classification.toml", f"{PACKAGE}/task.py": "task.py"},
    "regression": {"pyproject.toml": "regression.toml", f"{PACKAGE}/task.py": "task_regression.py"},
}


def make_app(folder: Path, task: str = "classification") -> list[Path]:
    """Copy the template of a task into a new or empty directory, and return the files."""
    if task not in TASKS:
        raise InputError(f"task is {task!r}; there are {' and '.join(TASKS)}", param="task")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already; choose another directory")
    try:
        (folder / PACKAGE).mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); choose another directory") from None
    template = resources.files("fedconformal.engines.flower") / "template"
    files = {folder / target: template / source for target, source in (FILES | TASKS[task]).items()}
    for path, source in files.items():
        write_bytes(path, source.read_bytes())
    return sorted(files)


@dataclass(frozen=True, kw_only=True)
class App:
    """The [tool.flwr.app] table of an app's pyproject.toml: its two components and the run config."""

    folder: Path
    client: str
    server: str
    config: dict[str, Any]
    overrides: dict[str, Any]

    @classmethod
    def read(cls, folder: Path, overrides: Mapping[str, Any] | None = None) -> App:
        """Read an app; overrides have to be keys of its run config."""
        path, changes = folder / "pyproject.toml", dict(overrides or {})
        if not path.exists():
            raise InputError(f"{folder}: holds no pyproject.toml; go to the app's directory, or make one with make_app")
        try:
            about = tomllib.loads(read_bytes(path).decode())["tool"]["flwr"]["app"]
            parts, config = about["components"], _flat(about.get("config", {}))
            client, server = str(parts["clientapp"]), str(parts["serverapp"])
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: is not TOML ({error})") from None
        except (KeyError, TypeError, AttributeError):
            missing = "has no [tool.flwr.app.components] with clientapp and serverapp"
            raise InputError(f"{path}: {missing}; make one with make_app") from None
        for key in changes:
            if key not in config:
                raise InputError(f"{key} is not in [tool.flwr.app.config] of {path}; there are {', '.join(config)}")
        return cls(folder=folder, client=client, server=server, config=config | changes, overrides=changes)

    def load(self) -> tuple[Any, Any]:
        """Import the client app and the server app."""
        folder = str(self.folder.resolve())
        for name in {reference.partition(".")[0].partition(":")[0] for reference in (self.client, self.server)}:
            for module in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
                if not str(getattr(sys.modules[module], "__file__", "")).startswith(folder):
                    del sys.modules[module]  # the package of another app, under the same name
        sys.path.insert(0, folder)
        try:
            found = _load(self.client), _load(self.server)
        finally:
            sys.path.remove(folder)
        for reference, one in zip((self.client, self.server), found, strict=True):
            if not callable(one):
                raise InputError(f"{reference}: is {type(one).__name__}, expected a ClientApp and a ServerApp")
        return found


def _load(reference: str) -> Any:
    module, _, name = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:
        raise InputError(f"{reference}: cannot be imported ({type(error).__name__}: {error})") from error


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Join nested keys with dots, as Flower does."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found
