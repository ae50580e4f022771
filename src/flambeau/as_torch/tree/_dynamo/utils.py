"""torch._dynamo.utils: what programs ask of a compiler that is not here yet."""


def is_compile_supported(device_type):
    """Whether functions are compiled for this kind of device: not yet."""
    return False
