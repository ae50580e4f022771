"""Layers of quantized models, and of models on the way there."""

from . import intrinsic as intrinsic
from . import qat as qat
from . import quantizable as quantizable
from . import quantized as quantized
