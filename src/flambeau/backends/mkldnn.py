"""oneDNN: products, convolutions, normalisation."""

enabled = True


def is_available():
    """Whether it is used."""
    return True
