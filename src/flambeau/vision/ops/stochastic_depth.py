"""Stochastic depth (Huang et al. 2016): residual branches are left out at random while training."""

import flambeau
from flambeau import nn
from flambeau._shown import shown

_MODES = ("batch", "row")


@flambeau.fx.wrap
def stochastic_depth(input, p, mode, training=True):
    """`input` times 0 with probability p, else divided by 1 - p: drawn per sample ("row") or once ("batch").

    >>> flambeau.vision.ops.stochastic_depth(flambeau.ones(2, 3), 0.5, "row", training=False)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    if not 0 <= p <= 1:
        raise ValueError(f"stochastic_depth: p is a probability, from 0 to 1; got {shown(p)}")
    if mode not in _MODES:
        raise ValueError(f"stochastic_depth: mode is 'batch' (one draw for all) or 'row' (one per sample); "
                         f"got {shown(mode)}")
    if not training or p == 0:
        return input
    kept = 1 - p
    rows = input.shape[0] if mode == "row" else 1
    drawn = input.new_empty([rows] + [1] * (input.ndim - 1)).bernoulli_(kept)
    return input * (drawn / kept if kept else drawn)


class StochasticDepth(nn.Module):
    """`stochastic_depth` as a layer; it changes nothing after `eval()`."""

    def __init__(self, p, mode):
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, input):
        return stochastic_depth(input, self.p, self.mode, self.training)

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p}, mode={self.mode})"
