"""The private API of Flower that is used, part by part: these tests break when a new version changes it."""

import ast
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.superexec import run_superexec
from flwr.supercore.task_identity import TaskIdentity

from fedconformal.engines.flower import InProcessGrid, federation, in_process
from fedconformal.errors import InputError
from scripts import superlink
from tests.engines.flower.tools import calibrating_app

PUBLIC = {"flwr", "flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.serverapp.strategy"}


def test_the_parts_that_are_not_public_are_as_they_were() -> None:
    InProcessGrid(calibrating_app(), 1)
    assert TaskIdentity._run_id is not None
    assert Run.create_empty(3).run_id == 3
    assert "_message_id" in vars(Message(RecordDict(), 2, "query").metadata)
    assert ErrorCode.CLIENT_APP_RAISED_EXCEPTION == in_process.RAISED
    assert (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE) == federation.EXPIRED
    assert ErrorCode.NODE_UNAVAILABLE == federation.NODE_GONE
    assert NodeInfo(node_id=3, name="clinic-a").name == "clinic-a"
    assert callable(Grid.get_nodes)
    assert {run_superexec._TASK_POLL_INTERVAL_ENV} == superlink.PROMPT.keys()


def test_all_else_that_is_used_of_flower_is_public() -> None:
    for path in Path(in_process.__file__).parent.glob("*.py"):
        found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        modules = {node.module for node in found if (node.module or "").split(".")[0] == "flwr"}
        assert path.name == "in_process.py" or modules <= PUBLIC, path
    for name in PUBLIC - {"flwr"}:
        assert import_module(name).__all__


def test_a_flower_that_has_changed_inside_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(TaskIdentity, "_run_id")
    with pytest.raises(InputError, match=f"has changed internally .*; take {in_process.VERSIONS}, or run the app"):
        InProcessGrid(calibrating_app(), 2)


def test_the_versions_are_those_that_are_installed_with_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    asked = project["optional-dependencies"]
    assert asked["flower"] == [in_process.VERSIONS]
    assert asked["simulation"] == [in_process.VERSIONS.replace("flwr", "flwr[simulation]")]
