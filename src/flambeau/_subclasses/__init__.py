"""Tensor classes that programs take from a private place of PyTorch's: fake tensors, without values."""

from .fake_tensor import DataDependentOutputException as DataDependentOutputException
from .fake_tensor import DynamicOutputShapeException as DynamicOutputShapeException
from .fake_tensor import FakeTensor as FakeTensor
from .fake_tensor import FakeTensorMode as FakeTensorMode
from .fake_tensor import UnsupportedFakeTensorException as UnsupportedFakeTensorException
