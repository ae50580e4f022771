"""The ways in which codes stand for numbers, as `flambeau.qscheme`."""


class qscheme:
    """How codes become numbers: with one scale or one per channel, around any code (affine) or around the middle one
    (symmetric)."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return _find, (self.name,)


per_tensor_affine = qscheme("per_tensor_affine")
per_tensor_symmetric = qscheme("per_tensor_symmetric")
per_channel_affine = qscheme("per_channel_affine")
per_channel_symmetric = qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")
SCHEMES = {scheme.name: scheme for scheme in (
    per_tensor_affine, per_tensor_symmetric, per_channel_affine, per_channel_symmetric,
    per_channel_affine_float_qparams)}


def _find(name):
    return SCHEMES[name]
