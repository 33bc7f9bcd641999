"""A predictor beside its model: an ASGI app that answers with sets, ONNX models, and a wrapper for MLflow.

`app.make_app` is the server; `onnx.OnnxModel` runs the model, at calibration and later in the same way; `store.Store`
is what a monitor offers to learn of outcomes. All need the extra `serve`.
"""
