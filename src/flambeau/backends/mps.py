"""Apple's GPUs: not used."""


def is_available():
    """Whether it is used."""
    return False


def is_built():
    """Whether it could be used on another machine."""
    return False
