"""flambeau.fft: discrete Fourier transforms under PyTorch's names.

>>> import flambeau
>>> flambeau.fft.rfft(flambeau.tensor([1., 0., 0., 0.]))
tensor([1.+0.j, 1.+0.j, 1.+0.j])
"""

from .ops import public

globals().update(public("fft"))
