"""Networks that classify every pixel."""

from . import deeplabv3, fcn, lraspp

for _module in (deeplabv3, fcn, lraspp):
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
