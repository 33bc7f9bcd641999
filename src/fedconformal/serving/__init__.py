"""Serving: an ASGI app that returns prediction sets, and ONNX models.

`app.make_app` is the server; `onnx.OnnxModel` runs the model, identically at calibration and in use. Both need the
extra `serve`.
"""
