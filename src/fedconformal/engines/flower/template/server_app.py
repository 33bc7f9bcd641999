"""Server app: train, calibrate, evaluate and distribute the predictor."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedconformal.engines.flower.stages import run_stages

from .task import CLASSES, build_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all stages; the results are in the directory `output` of the run config."""
    run_stages(grid, context.run_config, build_model(), CLASSES)
