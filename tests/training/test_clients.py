"""Clients are read from whatever holds their rows, and what is wrong is said with the client's name."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from fedconformal.errors import InputError
from fedconformal.training import ClientData, Preprocess, as_clients
from fedconformal.training.clients import pack

X = torch.arange(6.0).reshape(3, 2)
Y = torch.tensor([0, 1, 1])


class Items(Dataset[Any]):
    def __getitem__(self, index: int) -> Any:
        return X[index].numpy(), int(Y[index])

    def __len__(self) -> int:
        return len(Y)


@pytest.mark.parametrize(
    "given",
    [
        (X, Y),
        [X.numpy(), Y.numpy()],
        (X.tolist(), Y.tolist()),
        (X.double(), Y.float()),
        (X, Y.reshape(3, 1)),
        TensorDataset(X, Y),
        Items(),
        ClientData(name="site-0", x=X, y=Y),
    ],
    ids=["tensors", "arrays", "lists", "other types", "column", "tensor dataset", "items", "client"],
)
def test_rows_in_any_form(given: Any) -> None:
    (client,) = as_clients([given])
    assert client.name == "site-0"
    assert torch.equal(client.x, X)
    assert torch.equal(client.y, Y)
    assert client.x.dtype == torch.float32


def test_images_stay_bytes_until_they_are_batched() -> None:
    image = np.full((1, 1, 2, 2), 255, np.uint8)
    preprocess = Preprocess(mean=(0.0,), std=(0.5,))
    (client,) = as_clients([ClientData(name="a", x=torch.tensor(image), y=torch.zeros(1), preprocess=preprocess)])
    assert client.x.dtype == torch.uint8
    assert client.inputs().tolist() == [[[[2.0, 2.0], [2.0, 2.0]]]]


def test_packed_rows_are_found_again() -> None:
    packed = pack(as_clients([(X, Y), (X[:1], Y[:1]), (X[1:], Y[1:])]))
    x, y = packed.rows(2)
    assert torch.equal(x, X[1:])
    assert torch.equal(y, Y[1:])
    assert x.untyped_storage().data_ptr() == packed.x.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((X, Y[:2]), r"site-1: y has shape \(2,\), expected one class index for each of 3 rows"),
        ((X, torch.tensor([0, -1, 1])), "site-1: row 1 of y is -1, expected a class index"),
        ((X, torch.tensor([0, 1.5, 1])), "site-1: row 1 of y is 1.5, expected a class index"),
        ((X, Y > 0), "site-1: y has shape"),
        (
            (torch.tensor([[1.0, 2], [3, float("nan")], [1, 2]]), Y),
            "site-1: row 1 of x holds a value that is not fin",
        ),
        ((X[:0], Y[:0]), "site-1: has no rows; leave it out"),
        (([[1.0], [1.0, 2.0]], [0, 1]), "site-1: is not rows with labels"),
        ((torch.arange(3.0), Y), r"site-1: x has shape \(3,\)"),
        ((X[:, :1], Y), r"site-1: has rows of shape \(1,\) and float32, but site-0 of shape \(2,\)"),
        ((X.byte(), Y), r"site-1: has rows of shape \(2,\) and uint8, but site-0"),
        (ClientData(name="b", x=X, y=Y, preprocess=Preprocess(mean=(1.0,), std=(1.0,))), "b: is preprocessed diff"),
        (7, r"site-1: is not rows with labels .*; give \(x, y\), a dataset with items"),
        ([(X[0], 0), (X[1], 1), (X[:1], 0)], "site-1: is not rows with labels"),
        ([{"image": X[0], "label": 0}] * 3, "site-1: is not rows with labels"),
    ],
)
def test_bad_rows_are_named(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_clients([(X, Y), given])


def test_sites_of_a_mapping_keep_their_names() -> None:
    assert [client.name for client in as_clients({"north": (X, Y), "south": (X, Y)})] == ["north", "south"]
    with pytest.raises(InputError, match="south: y has shape"):
        as_clients({"north": (X, Y), "south": (X, Y[:2])})
