"""Flower carries the questions: in one process, in simulation, in a deployment."""
