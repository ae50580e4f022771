"""Reductions over the elements that a mask selects, and tensors that carry such a mask (docs/masked.md)."""

from .functions import amax as amax
from .functions import amin as amin
from .functions import argmax as argmax
from .functions import argmin as argmin
from .functions import cumprod as cumprod
from .functions import cumsum as cumsum
from .functions import log_softmax as log_softmax
from .functions import logaddexp as logaddexp
from .functions import logsumexp as logsumexp
from .functions import mean as mean
from .functions import median as median
from .functions import norm as norm
from .functions import normalize as normalize
from .functions import prod as prod
from .functions import softmax as softmax
from .functions import softmin as softmin
from .functions import std as std
from .functions import sum as sum
from .functions import var as var
from .maskedtensor.core import MaskedTensor as MaskedTensor
from .maskedtensor.core import is_masked_tensor as is_masked_tensor
from .maskedtensor.creation import as_masked_tensor as as_masked_tensor
from .maskedtensor.creation import masked_tensor as masked_tensor
