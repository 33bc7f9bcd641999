"""Entry point of `python -m fedconformal`, the same command line as the script `fedconformal`."""

from fedconformal.cli import main

if __name__ == "__main__":
    main()
