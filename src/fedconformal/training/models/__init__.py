"""Networks of the paper and for tables; any other torch module can be trained as well."""

from fedconformal.training.models.efficientnet import EfficientNetB1
from fedconformal.training.models.network import Network, build, load_weights
from fedconformal.training.models.networks import MLP, LeNet, Logistic, ResNet14
from fedconformal.training.models.regressor import Regressor

__all__ = ["MLP", "EfficientNetB1", "LeNet", "Logistic", "Network", "Regressor", "ResNet14", "build", "load_weights"]
