"""Batch normalization folded into a layer whose weight passes through its codes, while both are trained.

The codes are those of the weight that inference will use, w g / sqrt(running_var + eps); what was multiplied into the
weight is divided out of the result again, so that the batch's own statistics normalize it (Krishnamoorthi 2018,
"Quantizing deep convolutional networks for efficient inference", section 3.2.2; Jacob et al. 2018).
"""

import flambeau
from flambeau import nn

from ....qat.modules._fake_weight import FakeWeight

#: names in files of version 1: the batch norm's parameters lay beside the weight
_OLD_NAMES = {"gamma": "weight", "beta": "bias", "running_mean": "running_mean", "running_var": "running_var",
              "num_batches_tracked": "num_batches_tracked"}


class FoldedBatchNorm(FakeWeight):
    """Mixed into a float layer: `bn`, its folding into the weight, and the switch of its statistics."""

    _version = 2

    def _take_batch_norm(self, features, eps, momentum, freeze_bn):
        kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[self.weight.dim()]
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = kind(features, eps, momentum, True, True)

    def _start(self):
        self.reset_bn_parameters()
        if self.training:
            self.freeze_bn_stats() if self.freeze_bn else self.update_bn_stats()

    def reset_running_stats(self):
        """Forgets the batch norm's statistics."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self):
        """Draws the batch norm's scale uniformly from [0, 1); shift 0; forgets its statistics."""
        self.bn.reset_running_stats()
        nn.init.uniform_(self.bn.weight)
        nn.init.zeros_(self.bn.bias)

    def update_bn_stats(self):
        """Normalizes by each batch, and updates the running statistics."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def freeze_bn_stats(self):
        """Normalizes by the running statistics, and keeps them."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def train(self, mode=True):
        """Sets the mode; a frozen batch norm stays in its own."""
        self.training = mode
        if not self.freeze_bn:
            for part in self.children():
                part.train(mode)
        return self

    def _folded(self, input):
        """bn(layer(x, fake_quant(w s)) / s + b),  s = g / sqrt(running_var + eps)."""
        factor = self.bn.weight / flambeau.sqrt(self.bn.running_var + self.bn.eps)
        weight = self.weight_fake_quant(self.weight * factor.reshape(-1, *[1] * (self.weight.dim() - 1)))
        shape = [1, -1] + [1] * (self.weight.dim() - 2)
        out = self._multiplied(input, weight, flambeau.zeros_like(factor)) / factor.reshape(shape)
        if self.bias is not None:
            out = out + self.bias.reshape(shape)
        return self.bn(out)

    def _share_batch_norm(self, bn):
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(self.bn, name, getattr(bn, name))

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *args):
        if local_metadata.get("version") in (None, 1):
            for old, new in _OLD_NAMES.items():
                if prefix + old in state_dict:
                    state_dict[f"{prefix}bn.{new}"] = state_dict.pop(prefix + old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)


def update_bn_stats(mod):
    """`update_bn_stats` of a layer with a folded batch norm, nothing for others; for `model.apply`."""
    if isinstance(mod, FoldedBatchNorm):
        mod.update_bn_stats()


def freeze_bn_stats(mod):
    """`freeze_bn_stats` of a layer with a folded batch norm, nothing for others; for `model.apply`."""
    if isinstance(mod, FoldedBatchNorm):
        mod.freeze_bn_stats()
