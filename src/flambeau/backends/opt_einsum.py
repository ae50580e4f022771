"""opt_einsum: not used; `einsum` finds the order of its products by itself."""

enabled = False
strategy = None


def is_available():
    """Whether it is used."""
    return False


def get_opt_einsum():
    """The package where it is used: None."""
    return None
