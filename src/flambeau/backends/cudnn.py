"""cuDNN: not used. Its switches can be set, so that programs that set them run, but have no effect."""

enabled = True
deterministic = False
benchmark = False
allow_tf32 = True


def is_available():
    """Whether it is used."""
    return False


def version():
    """The version in use: none."""
    return None
