"""Network and data of this app."""

from flwr.app import Context
from torch import nn

from fedconformal.engines.flower.training import deal, own_rows
from fedconformal.training import ClientData, Preprocess, models
from fedconformal.training.data.partitions import Dirichlet

CLASSES = tuple("0123456789")  # in the order of the model's outputs and of the label indices


def build_model() -> nn.Module:
    """Create the network, identical at the server and every site."""
    return models.build("mlp", shape=(1, 8, 8), classes=len(CLASSES), seed=0)


def load_rows(context: Context, part: str) -> ClientData:
    """Return the site's rows of a part: "train", "temperature", "calibrate" or "test".

    A site with a directory reads its rows from there; without one, digits are partitioned unevenly among all sites.
    """
    site, sites = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    x, y = own_rows(context, part) or deal("digits", Dirichlet(clients=sites, concentration=5.0))[site][part]
    return ClientData(name=f"site-{site}", x=x, y=y, preprocess=Preprocess(mean=(0.3,), std=(0.37,)))
