"""What verify does with --chain: follow the predictors back to the first, and say what changed at each link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedconformal._base.files import read_bytes
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.sign import beside, is_signed_by
from fedconformal.errors import AlteredError, InputError, prefix_errors
from fedconformal.privacy.local_dp import NoisyHistogram
from fedconformal.summaries.format import NOISY
from fedconformal.summaries.summary import Summary
from fedconformal.verification import Link, verify_chain

REFORMATTED = "the file was reformatted: it says the same, but not in the same bytes"
WORD = (
    "why, and which rows calibrated, is the word of who calibrated: nothing confirms it but the coordinator's "
    "signature (fedconformal sign, verify --coordinator KEY)"
)


class Followed(NamedTuple):
    """What does not match, each with the name of its file; what each link is, and the same in words."""

    problems: list[str]
    links: list[dict[str, Any]]
    lines: list[str]


def split(chain: Sequence[Path] | None, files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Part what is given into older predictors and summaries: a shell puts all but the first behind the summaries."""
    if chain is None:
        return [], list(files)
    older = [*chain, *(path for path in files if path.suffix == ".json")]
    return older, [path for path in files if path.suffix != ".json"]


def follow(
    predictor: Path,
    newest: Any,
    older: Sequence[Path],
    summaries: Sequence[Path],
    *,
    trusted: Mapping[str, str] | None,
    coordinator: str | None,
) -> Followed:
    """Read the older predictors, and verify the whole chain."""
    paths, found, problems, sealed = dict[str, Path](), list[Any](), list[str](), set[str]()
    for path in (predictor, *older):
        data = read_bytes(path)
        try:
            with prefix_errors(path):
                one = Predictor.from_bytes(data) if found else newest
        except AlteredError as error:
            problems.append(str(error))
            continue
        digest = one.digest()
        if digest in paths:
            raise InputError(f"{path}: is the same predictor as {paths[digest]}; give each once")
        paths[digest] = path
        found.append(one)
        if one.to_bytes() != data:
            problems.append(f"{path}: {REFORMATTED}")
        if coordinator is not None and beside(path).exists() and is_signed_by(path, data, coordinator):
            sealed.add(digest)
    links = verify_chain(newest, _read(summaries), found[1:], trusted=trusted, sealed=sealed)
    names = [str(paths[link.predictor.digest()]) for link in links]
    for name, link in zip(names, links, strict=True):
        problems += [f"{name}: {one}" for one in link.problems]
    lines = [line for k in range(len(links)) for line in _said(links, names, k)]
    claims = {link.predictor.digest() for link in links if link.changes is not None}
    word = [] if claims <= sealed else [WORD]
    facts = [_facts(link, name) for name, link in zip(names, links, strict=True)]
    return Followed(_named(problems, paths), facts, [*lines, *word])


def _read(paths: Sequence[Path]) -> list[Summary | NoisyHistogram]:
    """Read summaries of several calibrations, which need not go together."""
    read: list[Summary | NoisyHistogram] = []
    for path in paths:
        data = read_bytes(path)
        with prefix_errors(path):
            read.append((NoisyHistogram if data.startswith(NOISY) else Summary).from_bytes(data))
    return read


def _named(problems: Sequence[str], paths: Mapping[str, Path]) -> list[str]:
    """Name predictors by their files, where these are known."""
    for digest, path in paths.items():
        problems = [one.replace(f"the predictor with the sha256 {digest}", str(path)) for one in problems]
    return list(problems)


def _said(links: Sequence[Link], names: Sequence[str], k: int) -> list[str]:
    link, count = links[k], len(links[k].predictor.certificate.summaries)
    replaced, lines = link.predictor.certificate.replaces, []
    if link.recomputed and not link.problems:
        lines.append(f"{names[k]}: confirmed from {count} summaries")
    elif not link.problems:
        lines.append(f"{names[k]}: not recomputed, as its summaries are not given; its digest is the one that is named")
    if replaced is not None and link.changes is not None:
        lines.append(f"{names[k]} replaces {names[k + 1]} ({replaced.why}; {replaced.rows} rows): {link.changes}")
    return lines


def _facts(link: Link, name: str) -> dict[str, Any]:
    replaced = link.predictor.certificate.replaces
    return {
        "predictor": name,
        "sha256": link.predictor.digest(),
        "status": link.predictor.certificate.status,
        "recomputed": link.recomputed,
        "replaces": None if replaced is None else replaced.sha256,
        "why": None if replaced is None else replaced.why,
        "rows": None if replaced is None else str(replaced.rows),
        "changes": link.changes,
        "problems": link.problems,
    }
