"""Settings come from presets, files and options; what is wrong is named, with what may have been meant."""

from pathlib import Path
from typing import Any

import pytest

from fedconformal.errors import InputError
from fedconformal.training import FedProx
from fedconformal.training.config import Config, read_config
from fedconformal.training.data.partitions import Overlap


def test_a_file_has_the_fields_of_the_run_the_method_and_the_partition(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('dataset = "digits"\nmethod = "fedprox"\nmu = 1\npartition = "overlap"\nclasses_per_client = 4\n')
    config = Config.from_dict(read_config(path))
    assert config.trainer == FedProx(mu=1.0)
    assert config.partition == Overlap(classes_per_client=4)
    assert Config.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dataset": "digits", "epoch": 3}, "epoch is no setting of fedavg and classes; did you mean epochs?"),
        ({"dataset": "digits", "rounds": "three"}, "rounds: expected `int`, got `str`"),
        ({"dataset": "digits", "augment": "mirror"}, "augment: invalid enum value 'mirror'"),
        ({"dataset": "digits", "method": "adam"}, "no trainer is called 'adam'; there are central, fedavg, fedprox"),
        ({"dataset": "digits", "partition": "zip"}, "no partition is called 'zip'"),
        ({"dataset": "heart_disease", "partition": "column"}, "column is needed here; add it to the settings"),
        ({"rounds": 3}, "no dataset is named"),
    ],
)
def test_what_is_wrong_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Config.from_dict(values)
    assert message in str(caught.value)


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("rounds = = 3")
    with pytest.raises(InputError, match=r"run\.toml: is not TOML \(Invalid value"):
        read_config(path)
    with pytest.raises(InputError, match=r"none\.toml: cannot be read"):
        read_config(tmp_path / "none.toml")
