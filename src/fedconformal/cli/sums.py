"""fedconformal sums: the threshold from sums only, by files: start, then answer and advance in turn, then close."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import naming, read_bytes, wipe, write_bytes
from fedconformal.calibration.certificate import threshold_text
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.console import print_json, progress, say
from fedconformal.cli.differential import BudgetFile, Grid, charge, describe_privacy, read_grid
from fedconformal.cli.inputs import Alpha, Json
from fedconformal.cli.outputs import check_output, check_outputs
from fedconformal.cli.sign import read_trusted
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.privacy.ledger import rows_of
from fedconformal.privacy.sums.certificate import certified
from fedconformal.privacy.sums.communication import bound_in_words, quoted_bound
from fedconformal.privacy.sums.coordinator import invite
from fedconformal.privacy.sums.files import (
    advance_files,
    answer_bundle,
    bundle,
    prepare,
    publish,
    read_state,
    write_secret,
)
from fedconformal.privacy.sums.radix import SHORT
from fedconformal.privacy.sums.site import site_from
from fedconformal.privacy.sums.state import CoordinatorState, SiteState
from fedconformal.summaries.summary import Summary
from fedconformal.tables.table import counted

STATE = "coordinator.state"

sums = typer.Typer(help="Find the threshold while the coordinator sees only sums over the sites.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="The coordinator's folder of this session.")]


@sums.command()
def start(
    folder: Folder,
    alpha: Alpha = "0.1",
    guarantee: Annotated[str, typer.Option(help="mixture, exchangeable, pac or new-client.")] = "mixture",
    epsilon: Annotated[
        str | None, typer.Option(help="Let every site add noise: the sum is then differentially private.")
    ] = None,
    grid: Grid = None,
    json: Json = False,
) -> None:
    """At the coordinator: open a session, and write the invitation for all sites."""
    if (folder / STATE).exists():
        raise InputError(f"{folder}: holds a session already; choose another folder")
    if grid is not None and epsilon is None:
        raise InputError("--grid goes with --epsilon; sums without noise find the score itself")
    check_output(folder / "invite.fcm", grid)
    wanted = registry.find(guarantee, Guarantee)()
    state, invitation = invite(wanted, alpha, SHORT, epsilon=epsilon, grid=read_grid(grid))
    folder.mkdir(parents=True, exist_ok=True)
    write_secret(folder / STATE, state)
    write_bytes(folder / "invite.fcm", bundle(invitation))
    if json:
        print_json({"invite": str(folder / "invite.fcm")})
        return
    say(f"wrote {folder / 'invite.fcm'}: send it to every site")


@sums.command()
def answer(
    message: Annotated[Path, typer.Argument(help="What the coordinator sent (.fcm).")],
    output: Annotated[Path, typer.Option("-o", "--output", help="What to send back (.fcm).")],
    state: Annotated[Path, typer.Option(help="Where this site keeps its keys between two steps; never send it.")],
    summary: Annotated[
        Path | None, typer.Option(help="With the invitation: this site's exact summary (.fcs), which stays here.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="With the invitation: the private key by which the other sites know this one.")
    ] = None,
    signed: Annotated[
        Path | None,
        typer.Option(metavar="KEYS", help='With the invitation: all sites\' public keys, {"site": "hex"} (.json).'),
    ] = None,
    ledger: BudgetFile = None,
    json: Json = False,
) -> None:
    """At a site: answer the coordinator's file."""
    check_output(output, message, summary, state, ledger, key, signed)
    check_output(state, message, summary, ledger, key, signed)
    if summary is None and (key is not None or signed is not None):
        raise InputError("--key and --signed go with --summary, at the first step")
    rows, spent = [], None
    if summary is not None:
        if state.exists():
            raise InputError(f"{state}: exists; --summary is for the first step only")
        with naming(summary):
            own = Summary.from_bytes(read_bytes(summary))
            known, rows = site_from(own, None if signed is None else read_trusted(signed)), rows_of([own])
    elif state.exists():
        known = read_state(state, SiteState)
    else:
        raise InputError(f"{state}: is not there; the first step needs --summary as well")
    with naming(message):
        entered = bool(known.roster)
        known, reply = answer_bundle(known, read_bytes(message), None if key is None else read_bytes(key))
    if summary is not None and known.invite is not None:
        spent = known.invite.epsilon
    if spent is not None:  # a site that joins will answer: it pays now
        charge(ledger, rows, spent, "noisy sum")
    elif ledger is not None:
        raise InputError("--ledger goes with --summary and an invitation that asks for noise")
    write_secret(state, known)
    write_bytes(output, reply)
    if known.is_over:
        wipe(state)
    shown = {} if entered or not known.roster else known.session.shown()
    if json:
        more = shown if spent is None else {"epsilon": spent}
        print_json({"answer": str(output), "bytes": len(reply), **more})
        return
    _say_roster(shown)
    if spent is not None:
        say(f"joined for epsilon {spent:g}, which the answer to the coordinator's question spends")
    say(f"wrote {output}: {len(reply)} bytes for the coordinator")


@sums.command()
def advance(
    folder: Folder,
    answers: Annotated[list[Path], typer.Argument(help="What the sites sent (.fcm).")],
    json: Json = False,
) -> None:
    """At the coordinator: take the next step; at the last one, write predictor.json."""
    state = read_state(folder / STATE, CoordinatorState)
    if sent := publish(folder, state):
        raise InputError(f"{folder}: this step was taken before and broke off; send {sent[0]} and the like, then go on")
    state, outgoing = advance_files(state, progress(answers, "reading answers", len(answers)))
    files = {name: folder / f"to-{_safe(name)}.fcm" for name in outgoing}
    if len(set(files.values())) < len(files):
        raise InputError("two sites' names give the same file name; let one of them take another name")
    check_outputs((*files.values(), folder / "predictor.json"), *answers)
    if outgoing:
        prepare(state, {files[name]: data for name, data in outgoing.items()})
        write_secret(folder / STATE, state)
        publish(folder, state)
        if json:
            print_json({"send": {name: str(path) for name, path in files.items()}})
            return
        for name, path in files.items():
            say(f"send {path} to {name}")
        return
    for stale in folder.glob("to-*.fcm"):
        stale.unlink()
    predictor = Predictor.of(certified(state))
    predictor.save(folder / "predictor.json")
    wipe(folder / STATE)
    certificate = predictor.certificate
    bound = quoted_bound(certificate.clients, certificate.scores, as_alpha(certificate.alpha))
    if json:
        played = {"bytes_received": state.received, "exchanges": state.exchanges}
        found = {"certificate": certificate.to_dict(), **played, "bound": bound}
        print_json({"predictor": str(folder / "predictor.json"), **found})
        return
    say(certificate.sentence())
    privacy = certificate.privacy or {}
    if "epsilon" in privacy:
        say(describe_privacy(privacy))
    say(f"threshold {threshold_text(certificate.limit)}, from sums only; wrote {folder / 'predictor.json'}")
    for one in privacy.get("dropped", []):
        say(f"{one['site']} dropped out {one['when']}; the promise still covers it")
    say(f"{state.received:,} bytes came from {counted(certificate.clients, 'site')}. {bound_in_words(bound)}")
    say("The session is over; every site wipes its state with fedconformal sums close STATE")


@sums.command()
def close(
    state: Annotated[Path, typer.Argument(help="A site's state, or the coordinator's folder.")], json: Json = False
) -> None:
    """At a site, when the session is over or was given up: wipe the state with its keys and scores."""
    path, kind = (state / STATE, CoordinatorState) if state.is_dir() else (state, SiteState)
    read_state(path, kind)
    wipe(path)
    if json:
        print_json({"wiped": str(path)})
        return
    say(f"wiped {path}: its keys and scores are gone")


def _say_roster(shown: dict[str, Any]) -> None:
    """Say who takes part, so that people can compare it."""
    for one in shown.get("roster", ()):
        kept = "key" if one["kept_key"] else "key of this session only"
        say(f"{one['site']}: {counted(one['scores'], 'score')}, {kept} {one['key'][:16]}")
    if shown:
        say(f"session {shown['fingerprint']}: compare it with the other sites, by phone; it has to be the same")


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
