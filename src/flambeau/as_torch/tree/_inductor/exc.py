"""torch._inductor.exc: errors for `except`; nothing raises them."""


class InductorError(RuntimeError):
    """Code could not be written for a graph."""
