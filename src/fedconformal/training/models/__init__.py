"""The networks of the paper, and two small ones for tables; any other torch module can be trained as well."""

from fedconformal.training.models.efficientnet import EfficientNetB1
from fedconformal.training.models.lenet import LeNet
from fedconformal.training.models.network import Network, build, load_weights
from fedconformal.training.models.regressor import Regressor
from fedconformal.training.models.resnet import ResNet14
from fedconformal.training.models.tables import MLP, Logistic

__all__ = ["MLP", "EfficientNetB1", "LeNet", "Logistic", "Network", "Regressor", "ResNet14", "build", "load_weights"]
