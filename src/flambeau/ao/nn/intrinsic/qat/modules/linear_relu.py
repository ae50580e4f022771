"""The linear layer with ReLU, for quantization-aware training."""

from flambeau import nn

from ....qat import modules as qat
from ... import modules as fused


class LinearReLU(qat.Linear, fused._FusedModule):
    """A Linear layer whose weight passes through its codes, and the ReLU after it."""

    _FLOAT_MODULE = fused.LinearReLU

    def forward(self, input):
        return nn.functional.relu(super().forward(input))

    def to_float(self):
        """The float layer with the weights as they are now, and the ReLU."""
        return fused.LinearReLU(super().to_float(), nn.ReLU()).train(self.training)
