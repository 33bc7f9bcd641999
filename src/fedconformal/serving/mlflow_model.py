"""What MLflow runs to load a predictor that `fedconformal.serving.mlflow.log` has stored."""

from mlflow.models import set_model

from fedconformal.serving.mlflow import SetsModel

set_model(SetsModel())
