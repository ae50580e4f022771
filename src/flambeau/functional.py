"""Functions of the package that PyTorch defines in a module `functional`, under that name too.

>>> import flambeau
>>> flambeau.functional.norm is flambeau.norm
True
"""

import flambeau

from ._places import OURS

globals().update({name: getattr(flambeau, name) for module, name in OURS if module == "torch.functional"})
