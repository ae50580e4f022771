"""Looking for races between streams from Python: not available, and what to do instead."""

from .._absent import refusals

globals().update(refusals("cuda._sanitizer", "run the program under NVIDIA's compute-sanitizer, and say with "
                          "Tensor.record_stream() which streams use a tensor", "enable_cuda_sanitizer()"))
