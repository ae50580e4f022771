"""Networks that classify videos."""

from . import mvit, resnet, s3d, swin_transformer

for _module in (mvit, resnet, s3d, swin_transformer):
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
