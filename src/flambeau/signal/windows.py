"""flambeau.signal.windows: tapered weights for the frames of a signal, under PyTorch's names.

>>> import flambeau
>>> flambeau.signal.windows.hann(3)
tensor([0., 1., 0.])
"""

from ..ops import public

globals().update(public("signal.windows"))
