"""oneDNN: whether it is there, and its switches."""

enabled = True


def is_available():
    """Whether it is used."""
    return True
