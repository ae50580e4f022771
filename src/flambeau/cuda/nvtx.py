"""Ranges for NVIDIA's tools: they need a CUDA device; each name says so when used."""

from .._absent import refusals

globals().update(refusals("cuda.nvtx", "flambeau was built without CUDA; use autograd.profiler.record_function", """
    range_push(msg) range_pop range_start(msg) range_end(range_id) mark(msg) range(msg, *args, **kwargs)
"""))
