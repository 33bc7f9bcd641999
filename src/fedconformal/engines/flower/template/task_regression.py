"""What is this app's own: the network, and the rows of one site."""

from flwr.app import Context
from torch import nn

from fedconformal.engines.flower.rows import deal, own_rows
from fedconformal.training import ClientData, models
from fedconformal.training.data.partitions import IID

OUTPUTS = 2
"""The lower and the upper quantile; with loss = "squared" it is 1, and the score is residual or signed."""


def build_model() -> nn.Module:
    """Make the network; every site and the server make the same.

    Centre and scale are a usual value and a usual deviation, fixed beforehand, so that no site shows its own.
    """
    network = models.build("mlp", shape=(10,), classes=OUTPUTS, seed=0)
    return models.Regressor(network, centre=150.0, scale=75.0)


def load_rows(context: Context, part: str) -> ClientData:
    """Return the site's rows to "train", to "calibrate" or to "test", each its own; y are numbers.

    A site with a directory of its own reads them from there; without, scikit-learn's diabetes is dealt out.
    """
    site, sites = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    x, y = own_rows(context, part) or deal("diabetes", IID(clients=sites))[site][part]
    return ClientData(name=f"site-{site}", x=x, y=y)
