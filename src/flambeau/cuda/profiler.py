"""NVIDIA's profiler: it needs a CUDA device; each name says so when used."""

from .._absent import refusals

globals().update(refusals("cuda.profiler", "flambeau was built without CUDA; use flambeau.profiler", """
    start stop profile
"""))
