"""How `make docs` builds the site: Markdown pages, the reference from docstrings, and nothing from a network."""

from __future__ import annotations

import re
from typing import Any

import fedconformal

project = "fedconformal"
author = "The fedconformal authors"
project_copyright = author
release = version = fedconformal.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_static"]

smartquotes = False  # options and code keep their signs
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # as GitHub makes them, so a link works in both places

default_role = "py:obj"  # a docstring writes `Name` for code
# scikit-learn adds set_fit_request, with links into its own glossary.
autodoc_default_options = {"members": True, "member-order": "bysource", "exclude-members": "set_fit_request"}
autodoc_inherit_docstrings = False  # what a method does is explained once, in the base class
autodoc_preserve_defaults = True
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
autodoc_typehints_format = "short"
napoleon_custom_sections = [("Attributes", "params_style")]  # the fields of a dataclass are its parameters
napoleon_use_rtype = False
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"fedconformal {release}"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_search_summary = False  # a page that is opened as a file may not fetch the others
html_show_sphinx = False

SHORTER = {
    r"TypeAliasForwardRef\('(\w+)'\)": r"\1",
    r"~?(?:numpy\.)?ndarray\[tuple\[(?:~typing\.)?Any, \.\.\.\], ~?(?:numpy\.)?dtype\[(.*?)\]\]": r"NDArray[\1]",
    r"~?(?:typing|collections\.abc|fedconformal(?:\.\w+)*)\.(?=[A-Z])": "",
}
"""How types are written in signatures."""


def shorten(*about: Any) -> tuple[str | None, str | None]:
    """Write the types of a signature as the source does."""
    signature, returned = about[-2:]
    for long, short in SHORTER.items():
        signature = signature and re.sub(long, short, signature)
        returned = returned and re.sub(long, short, returned)
    return signature, returned


def keep_lines(_: Any, kind: str, name: str, __: Any, ___: Any, lines: list[str]) -> None:
    """Keep the docstring of a property as it is: napoleon reads what comes before a colon as its type."""
    if kind in {"attribute", "property"}:
        lines[:] = KEPT.pop(name, None) or KEPT.setdefault(name, list(lines))


KEPT: dict[str, list[str]] = {}


def setup(app: Any) -> None:
    """Do so before and after napoleon, which comes at 500."""
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-process-docstring", keep_lines, priority=400)
    app.connect("autodoc-process-docstring", keep_lines, priority=600)
