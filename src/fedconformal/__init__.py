"""Prediction sets with a finite-sample guarantee, for models trained across sites that may not share data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedconformal._version import __version__ as __version__

if TYPE_CHECKING:
    from fedconformal._public import *  # noqa: F403
    from fedconformal._public import __all__ as __all__
else:

    def __getattr__(name: str) -> Any:
        """Import public names lazily: importing all of them takes several times as long as numpy."""
        from importlib import import_module
        from importlib.util import find_spec

        if name == "__all__":
            return import_module("fedconformal._public").__all__
        if name.startswith("_") or find_spec(f"{__name__}.{name}") or name not in __getattr__("__all__"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        public = import_module("fedconformal._public")
        if hasattr(public, name):
            globals().update({key: getattr(public, key) for key in public.__all__ if hasattr(public, key)})
            return globals()[name]
        from fedconformal.errors import requires_extra

        extra, package = ("train", "training") if name == "summarize_sites" else ("sklearn", "estimators")
        with requires_extra(extra):
            return getattr(import_module(f"fedconformal.{package}"), name)

    def __dir__() -> list[str]:
        return sorted(__getattr__("__all__"))
