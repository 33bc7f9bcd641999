"""fedconformal predict with a predictor from losses: from scores to what is predicted at its threshold."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from fedconformal._base.files import write_bytes
from fedconformal.certificates.certificate import threshold_json
from fedconformal.cli.console import print_result
from fedconformal.cli.losses import listed_rows, read_rows
from fedconformal.cli.outputs import check_output
from fedconformal.cli.risk import risk_predictor
from fedconformal.errors import InputError, prefix_errors


def predicted_by_rule(
    path: Path, scores: Path, output: Path, *, risk: str | None, force: bool, json: bool, plain: bool
) -> bool:
    """If the predictor is from losses, write what it predicts; say whether it is one."""
    rule = risk_predictor(path)
    if rule is None:
        if risk is not None:
            raise InputError(f"{path}: is not from loss curves; leave out --risk")
        return False
    if not plain:
        raise InputError(f"{path}: is from loss curves; give SCORES, and no more than --risk")
    if rule.loss is None:
        raise InputError(
            f"{path}: does not say which loss it limits, so it cannot predict; use its threshold where the losses "
            "come from"
        )
    if output.suffix not in (".npz", ".npy"):
        raise InputError(f"{output}: expected a name that ends in .npz or .npy")
    check_output(output, path, scores, force=force)
    rows = read_rows(scores)
    with prefix_errors(scores):
        found = rule.predict(listed_rows(rows), risk=risk)
    if isinstance(rows, dict) and output.suffix == ".npy":
        raise InputError(f"{output}: images of different sizes do not fit into an .npy file; write an .npz file")
    buffer, threshold = io.BytesIO(), rule.curve.threshold(rule.risk_limit(risk))
    if output.suffix == ".npy":
        np.save(buffer, found)
    else:
        held = dict(zip(rows, found, strict=True)) if isinstance(rows, dict) else {"sets": found}
        np.savez_compressed(buffer, **held)
    write_bytes(output, buffer.getvalue())
    share = float(np.mean([one.mean() for one in found])) if len(found) else 0.0
    facts = {"output": str(output), "rows": len(found), "risk": float(rule.risk_limit(risk)), "predicted": share}
    words = f"wrote {output}: answers to {len(found)} rows, {share:.1%} of the entries are predicted on average"
    safe = [f"no threshold is good enough, so this is the safe action: {rule.risk.safe}"] if np.isinf(threshold) else []
    print_result({**facts, "threshold": threshold_json(threshold)}, words, *safe, json=json)
    return True
