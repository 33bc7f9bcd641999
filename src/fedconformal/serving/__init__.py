"""A server beside the model: an ASGI app that answers with prediction sets, and ONNX models.

`app.make_app` is the server; `onnx.OnnxModel` runs the model, at calibration and later in the same way. Both need the
extra `serve`.
"""
