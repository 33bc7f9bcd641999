"""The algorithms of federated learning and calibration, each written once."""
