"""torch._dynamo.utils: what programs ask of PyTorch's compiler."""


def is_compile_supported(device_type):
    """Whether functions are compiled for this kind of device: for the CPU."""
    return device_type == "cpu"
