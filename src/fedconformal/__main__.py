"""`python -m fedconformal`: the command line, where its script is not on the path."""

from __future__ import annotations

from fedconformal.cli import main

if __name__ == "__main__":
    main()
