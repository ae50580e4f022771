"""Further producers of graphs, and passes for inference."""
