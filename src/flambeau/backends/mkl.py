"""Intel's MKL: not used."""


def is_available():
    """Whether it is used."""
    return False


