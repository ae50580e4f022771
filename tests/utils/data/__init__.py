"""Loaders: batches, workers, random streams, resuming, failures."""
