"""Files of PyTorch's tree that packages reach into, and that have no place of their own here: torch._x is here/_x."""
