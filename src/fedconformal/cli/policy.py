"""fedconformal policy: at a site, write down what may leave, and read what that means."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from fedconformal._base.files import write_bytes
from fedconformal.cli.console import print_json, say
from fedconformal.cli.options import Json
from fedconformal.cli.outputs import check_output
from fedconformal.errors import InputError
from fedconformal.privacy.local_dp import NoisyHistogram
from fedconformal.privacy.policy import EXAMPLE, VARIABLE, Outgoing, Policy, policy_of, read_policy
from fedconformal.summaries import Summary

PolicyFile = Annotated[
    Path | None,
    typer.Option("--policy", envvar=VARIABLE, help="This site's policy (.toml)."),
]


def allowed(path: Path | None) -> Policy:
    """Read the policy of this site; without one all is allowed."""
    return policy_of() if path is None else read_policy(path)


def check_files(
    path: Path | None,
    sent: Iterable[Summary | NoisyHistogram],
    *,
    ledger: Path | None,
    patients: int | None = None,
) -> None:
    """Refuse to write what must not leave."""
    rules = allowed(path)
    for one in sent:
        rules.check(Outgoing.of(one, ledger=ledger is not None, patients=patients))


policy = typer.Typer(help="Write down what may leave a site.", no_args_is_help=True)


@policy.command()
def check(
    path: Annotated[Path, typer.Argument(metavar="POLICY", help="A site's policy (.toml).")], json: Json = False
) -> None:
    """Explain a policy in words, or say which line is wrong."""
    found = read_policy(path)
    if json:
        print_json({"policy": found.to_dict(), "words": found.in_words(), "may_leave": found.may_leave})
        return
    say(*found.in_words())


@policy.command()
def new(
    path: Annotated[Path, typer.Argument(metavar="POLICY", help="The file to write (.toml).")] = Path("policy.toml"),
    json: Json = False,
) -> None:
    """Write a policy with every key in it and a comment on each, to change."""
    check_output(path, ending=".toml")
    if path.exists():
        raise InputError(f"{path}: exists; change it, or name another file")
    write_bytes(path, EXAMPLE.encode())
    if json:
        print_json({"policy": str(path)})
        return
    say(f"wrote {path}; the site's commands and engines read it if {VARIABLE} names it")
