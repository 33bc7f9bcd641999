"""A Flower app in a directory: made from the template, and read as `flwr run` reads it."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.machinery import PathFinder
from pathlib import Path
from string import Template
from typing import Any

from fedconformal._base.files import read_bytes, write_bytes
from fedconformal.errors import InputError

MODULES = ("__init__.py", "client_app.py", "server_app.py", "task.py")


TASKS = {
    "classification": {"task": "task.py", "model": "classifier", "answers": "sets", "truth": "label"},
    "regression": {"task": "task_regression.py", "model": "regressor", "answers": "intervals", "truth": "value"},
}
"""What the template is to say for each task."""


def make_app(folder: Path, task: str = "classification") -> list[Path]:
    """Write a new app into a directory that is not there yet, or empty; return its files."""
    if task not in TASKS:
        raise InputError(f"task is {task!r}; there are {' and '.join(TASKS)}")
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    if not name or not name[0].isalpha():
        raise InputError(f"{folder}: an app's name begins with a letter; choose another directory")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already; choose another directory")
    package = name.replace("-", "_")
    if package in sys.stdlib_module_names or PathFinder.find_spec(package) is not None:
        raise InputError(f"{folder}: there is a module called {package} already; choose another directory")
    template = resources.files("fedconformal.engines.flower") / "template"
    words = TASKS[task] | {"settings": (template / f"{task}.template").read_text("utf-8")}
    sources = {module: words["task"] if module == "task.py" else module for module in MODULES}
    files = {folder / package / module: (template / source).read_bytes() for module, source in sources.items()}
    for target, source in (("pyproject.toml", "pyproject.template"), ("README.md", "README.template")):
        text = Template((template / source).read_text("utf-8")).substitute(words, name=name, package=package)
        files[folder / target] = text.encode()
    try:
        (folder / package).mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); choose another directory") from None
    for path, content in files.items():
        write_bytes(path, content)
    return sorted(files)


@dataclass(frozen=True, kw_only=True)
class App:
    """What the pyproject.toml of an app says: where its two apps are, and the config of a run."""

    folder: Path
    client: str
    server: str
    config: dict[str, Any]
    overrides: dict[str, Any]

    @classmethod
    def read(cls, folder: Path, overrides: Mapping[str, Any] | None = None) -> App:
        """Read an app; overrides have to be keys that its config has."""
        path = folder / "pyproject.toml"
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
        for key in overrides or {}:
            if key not in config:
                raise InputError(f"{key} is not in [tool.flwr.app.config] of {path}; there are {', '.join(config)}")
        changes = dict(overrides or {})
        return cls(folder=folder, client=client, server=server, config=config | changes, overrides=changes)

    def load(self) -> tuple[Any, Any]:
        """Import the client app and the server app."""
        sys.path.insert(0, str(self.folder.resolve()))
        try:
            found = _load(self.client), _load(self.server)
        finally:
            sys.path.remove(str(self.folder.resolve()))
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
