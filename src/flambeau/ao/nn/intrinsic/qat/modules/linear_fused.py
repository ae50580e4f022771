"""The linear layer with batch norm, for quantization-aware training."""

from flambeau import nn
from flambeau.nn.utils.fusion import fuse_linear_bn_weights

from ... import modules as fused
from ._batch_norm import FoldedBatchNorm


class LinearBn1d(FoldedBatchNorm, nn.Linear, fused._FusedModule):
    """A Linear layer with its BatchNorm1d folded into a weight that passes through its codes."""

    _version = 1
    _FLOAT_MODULE = fused.LinearBn1d

    def __init__(self, in_features, out_features, bias=True, eps=1e-05, momentum=0.1, freeze_bn=False, qconfig=None):
        super().__init__(in_features, out_features, bias)
        self._take_batch_norm(out_features, eps, momentum, freeze_bn)
        self._take_qconfig(qconfig)
        self._start()

    def _multiplied(self, input, weight, bias):
        return nn.functional.linear(input, weight, bias)

    def forward(self, input):
        return self._folded(input)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer for training of a fused float one, which has a `qconfig`; it trains the same parameters.

        A layer for training has observed nothing yet, so `use_precomputed_fake_quant` has nothing to change.
        """
        cls._checked(mod)
        linear, bn = mod[0], mod[1]
        made = cls(linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum,
                   qconfig=mod.qconfig)
        made._share(linear)
        made._share_batch_norm(bn)
        return made

    def to_float(self):
        """The float layer with the batch norm folded in."""
        bias = None if self.bias is None else self.bias.detach()
        bn = self.bn
        made = nn.Linear(self.in_features, self.out_features)
        made.weight, made.bias = fuse_linear_bn_weights(self.weight.detach(), bias, bn.running_mean, bn.running_var,
                                                        bn.eps, bn.weight.detach(), bn.bias.detach())
        return made.train(self.training)
