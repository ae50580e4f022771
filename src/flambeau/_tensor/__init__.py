"""Tensors, apart from their operators: making them, asking them, their methods, printing, copying, exchange."""
