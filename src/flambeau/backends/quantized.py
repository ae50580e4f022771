"""Engines of quantized operators: there is one way to compute them here, which has none of PyTorch's names.

A program may set `engine`; the results do not depend on it.
"""

engine = "none"
supported_engines = ["none"]
