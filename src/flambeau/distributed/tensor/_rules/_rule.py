"""The language of the rules: dimensions that carry the same label are cut together.

A rule labels the dimensions of an operator's tensors as einsum does: `mm` has {"m": 0, "k": 1}, {"k": 0, "n": 1} and
the result {"m": 0, "n": 1}. Cutting along a label cuts every tensor that has it, and leaves the others whole. A result
without the label is then a part of a sum, if it depends on a tensor that has it.
"""

from ..placement_types import Partial, Replicate, Shard

#: operator name -> function(call) that returns a Rule, or None where nothing but whole tensors will do
RULES = {}


def rule(*names):
    """Decorator: the function gives the rule of these operators."""
    def record(function):
        for name in names:
            if name in RULES:
                raise RuntimeError(f"operator {name} has two rules for DTensor")
            RULES[name] = function
        return function
    return record


class Rule:
    """What one call can be cut along.

    ins, outs   labels of each tensor: {label: dimension}
    deps        for each result the tensors that it depends on; all of them where it is left out
    added       tensors that are added to a sum over a label: they become parts, too
    linear      lists of tensors that may be parts of a sum together, which makes the results parts
    total       what a result without the label is a part of: "sum", "max", …; None: labels cannot be summed over
    filled      whether every rank must have something of what is cut: the operator fails on empty tensors
    even        {label: size}: cutting along it needs a size that all ranks share equally
    any_partial the operator only moves values: parts of any reduction stay parts
    adapt       function(local) -> (function, args, kwargs) of the local call, where it is another one
    """

    def __init__(self, ins, outs, *, deps=None, added=(), linear=(), total=None, even=None, filled=False,
                 any_partial=False, adapt=None):
        self.ins, self.outs, self.deps, self.added, self.linear = ins, outs, deps, added, linear
        self.total, self.even, self.filled = total, even or {}, filled
        self.any_partial, self.adapt = any_partial, adapt

    def candidates(self, call, i):
        """[(placements of the tensors, placements of the results)] along mesh dimension i; whole tensors first."""
        whole = [Replicate()] * len(self.ins), [Replicate()] * len(self.outs)
        found = [whole]
        labels = dict.fromkeys(label for tensor in self.ins for label in tensor)
        for label in labels:
            if self._allows(call, label, i):
                found.extend(self._cut(label))
        found.extend(self._parts(call, i))
        return found

    def _allows(self, call, label, i):
        if label not in self.even and not self.filled:
            return True
        if not any(label in labels and t.placements[i].is_shard(labels[label])
                   for t, labels in zip(call.tensors, self.ins)):
            return False  # what another mesh dimension would make of it is not known here
        ways = self._ways(call, label, i)
        if self.even.get(label, 0) % ways:
            return False
        if not self.filled:
            return True
        size = next(t.shape[labels[label]] for t, labels in zip(call.tensors, self.ins) if label in labels)
        return (ways - 1) * -(-size // ways) < size

    def _ways(self, call, label, i):
        """Into how many parts a label would be cut, with what other mesh dimensions do already."""
        ways = call.mesh.shape[i]
        for tensor, labels in zip(call.tensors, self.ins):
            if label in labels:
                for j, p in enumerate(tensor.placements):
                    ways *= call.mesh.shape[j] if j != i and p.is_shard(labels[label]) else 1
                break
        return ways

    def _cut(self, label):
        ins = [Shard(labels[label]) if label in labels else Replicate() for labels in self.ins]
        outs = []
        for k, labels in enumerate(self.outs):
            if label in labels:
                outs.append(Shard(labels[label]))
            elif not any(label in self.ins[t] for t in self._dependencies(k)):
                outs.append(Replicate())
            elif self.total is None:
                return
            else:
                outs.append(Partial(self.total))
                for t in self.added:
                    ins[t] = Partial(self.total)
        yield ins, outs

    def _dependencies(self, k):
        return range(len(self.ins)) if self.deps is None else self.deps[k]

    def _parts(self, call, i):
        """Candidates of partial tensors, of the reductions that are there."""
        kinds = dict.fromkeys(t.placements[i] for t in call.tensors if isinstance(t.placements[i], Partial))
        for kind in kinds:
            if self.any_partial:
                yield [kind] * len(self.ins), [kind] * len(self.outs)
            for together in self.linear if kind.linear else ():
                yield ([kind if t in together else Replicate() for t in range(len(self.ins))],
                       [kind if not set(self._dependencies(k)).isdisjoint(together) else Replicate()
                        for k in range(len(self.outs))])


def numbered(ndim, *left_out):
    """Labels of all dimensions but some: {d: d}."""
    return {d: d for d in range(ndim) if d not in left_out}


def wrapped(dim, ndim):
    """A dimension counted from the front."""
    return dim + ndim if dim < 0 else dim
