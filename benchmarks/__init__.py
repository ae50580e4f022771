"""Races Flambeau against PyTorch on the same work, in turn-about processes: `python -m benchmarks`."""
