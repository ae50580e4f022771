"""Apple's GPUs: not used."""


def is_available():
    """Whether it is used."""
    return False


def is_built():
    """Whether it could be used on another machine."""
    return False


def is_macos_or_newer(major, minor):
    """Whether the system is a macOS of at least that version, with such GPUs: no."""
    return False
