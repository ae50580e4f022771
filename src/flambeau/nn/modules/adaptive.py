"""Adaptive softmax: frequent classes in a head, rare ones in narrower and narrower clusters   (Grave et al. 2017)."""

import itertools
from collections import namedtuple

from ... import cat, where
from ..._shown import shown
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of targets among `n_classes` classes sorted by falling frequency, and their mean loss.

    Classes below cutoffs[0] stand in the head; each further cutoff ends a cluster, whose projection is `div_value`
    times narrower than the one before. Called with input [N, in_features] and target [N] (or one row and one class)
    it returns (output [N], loss); `log_prob` gives all classes, `predict` the likeliest.

    >>> import flambeau
    >>> softmax = flambeau.nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs=[5, 10])
    >>> softmax(flambeau.zeros(2, 16), flambeau.tensor([1, 12])).output.shape
    torch.Size([2])
    >>> softmax.log_prob(flambeau.zeros(2, 16)).shape
    torch.Size([2, 20])
    """

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("AdaptiveLogSoftmaxWithLoss: cutoffs is empty; give at least one class number")
        rising = all(a < b for a, b in itertools.pairwise(cutoffs))
        if not rising or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1 or any(int(c) != c for c in cutoffs):
            raise ValueError(
                f"AdaptiveLogSoftmaxWithLoss: cutoffs must be rising ints from 1 to n_classes - 1 = {n_classes - 1}, "
                f"got {shown(cutoffs)}"
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        made = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for k, (low, high) in enumerate(self._clusters()):
            width = int(in_features // div_value ** (k + 1))
            self.tail.append(Sequential(
                Linear(in_features, width, bias=False, **made), Linear(width, high - low, bias=False, **made)
            ))  # fmt: skip

    def _clusters(self):
        return list(zip(self.cutoffs, self.cutoffs[1:]))

    def reset_parameters(self):
        """Draw all weights anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_, target_):
        single = target_.dim() == 0
        if target_.dim() > 1:
            raise RuntimeError("AdaptiveLogSoftmaxWithLoss: target holds one class per sample, in at most 1 "
                               f"dimension, got shape {list(target_.shape)}")
        if input_.dim() != (1 if single else 2):
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: target of {target_.dim()} dimensions goes with input of "
                f"{1 if single else 2}, got input {list(input_.shape)}"
            )
        if not single and len(input_) != len(target_):
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: input holds {len(input_)} samples and target {len(target_)}"
            )
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        if len(target) and not (int(target.min()) >= 0 and int(target.max()) < self.n_classes):
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: target holds classes {target.min().item()} to {target.max().item()}; the "
                f"model has 0 to {self.n_classes - 1}"
            )
        place, output = target, input.new_zeros(len(target))
        for k, (low, high) in enumerate(self._clusters()):
            inside = (target >= low) & (target < high)
            rows = inside.nonzero().flatten()
            if rows.numel():
                within = F.log_softmax(self.tail[k](input[rows]), dim=1)
                share = within.gather(1, (target[rows] - low).unsqueeze(1)).squeeze(1)
                output = output.index_add(0, rows, share)
                place = where(inside, self.shortlist_size + k, place)
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, place.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output.squeeze(0) if single else output, (-output).mean())

    def log_prob(self, input):
        """Log probabilities of all classes, [N, n_classes]."""
        return self._all(input, self.head(input))

    def _all(self, input, head_output):
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for k, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, self.shortlist_size + k].unsqueeze(1))
        return cat(parts, 1)

    def predict(self, input):
        """The likeliest class of each row, [N]; clusters are computed only for rows whose head points to one."""
        head_output = self.head(input)
        best = head_output.argmax(dim=1)
        rows = (best >= self.shortlist_size).nonzero().flatten()
        if rows.numel():
            best[rows] = self._all(input[rows], head_output[rows]).argmax(dim=1)
        return best
