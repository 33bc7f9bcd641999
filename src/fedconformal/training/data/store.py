"""Where data files are: the directory in $FEDCONFORMAL_DATA, then the user's cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "FEDCONFORMAL_DATA"


def cache() -> Path:
    """Return the directory that downloads go to, which depends on the platform."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fedconformal"


def places() -> list[Path]:
    """Return the directories that are searched, in order."""
    own = os.environ.get(VARIABLE)
    return [*([Path(own).expanduser()] if own else []), cache()]


def where() -> str:
    """Say where a file can be put by hand."""
    known = " or ".join(str(place) for place in places())
    return known if os.environ.get(VARIABLE) else f"{known} or a directory that ${VARIABLE} names"


def find(*names: str) -> Path | None:
    """Return the first of these files that exists; each directory is searched for all of them before the next one."""
    return next((path for place in places() for name in names if (path := place / name).exists()), None)
