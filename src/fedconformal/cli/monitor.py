"""fedconformal monitor: is the promise kept? At a site, and over sites."""

import typer

monitor = typer.Typer(help="Watch whether a promise is kept.", no_args_is_help=True)
