"""torch._VF: the functions of the package in the forms of PyTorch's compiled ones, as recurrent layers of packages call
them.

>>> import flambeau
>>> from flambeau.as_torch.tree import _VF
>>> _VF.unsqueeze(flambeau.ones(2), 0).shape
torch.Size([1, 2])
"""

import flambeau


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(flambeau, name, None) or getattr(flambeau.ops.aten, name)
