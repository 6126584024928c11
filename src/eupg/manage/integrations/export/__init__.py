"""The served model outside the workspace: a folder of its framework's own files, or one ONNX file."""
