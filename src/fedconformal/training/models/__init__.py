"""Networks of the paper and for tables; any other torch module can be trained as well."""

from fedconformal.training.models.efficientnet import EfficientNetB1, EfficientNetLite1
from fedconformal.training.models.networks import MLP, LeNet, Logistic, Network, ResNet14, build, load_weights

__all__ = [
    "MLP",
    "EfficientNetB1",
    "EfficientNetLite1",
    "LeNet",
    "Logistic",
    "Network",
    "ResNet14",
    "build",
    "load_weights",
]
