"""Backward of a stage in two halves: first the gradients of its inputs, which others wait for, later its parameters'.

The first half runs only the nodes that lead to an input, and keeps what arrives at those that parameters go into. The
second half begins there, so that no node's gradient is computed twice   (Qi et al. 2023).
"""

from typing import NamedTuple

import flambeau

from ...autograd.graph import GradientEdge


class _Fork(NamedTuple):
    """A node on the way to an input that parameters go into: where gradients arrive at it, and these parameters."""

    edges: list
    leaves: list


class _Map:
    """What a graph's nodes lead to: for each node the leaves below it, as the bits of a number."""

    def __init__(self, roots, inputs):
        self.bits, self.leaves, self.below = {}, [], {}
        self.order = self._oldest_first(roots)
        for node in self.order:
            leaf = _leaf_of(node)
            if leaf is None:
                found = 0
                for child, _ in node.next_functions:
                    found |= self.below.get(child, 0)
                self.below[node] = found
            else:
                self.below[node] = self._bit(leaf)
        self.inputs = sum(self._bit(x) for x in inputs)

    @staticmethod
    def _oldest_first(roots):
        """All nodes, each after those that it leads to."""
        order, seen, stack = [], set(), [(root, False) for root in roots]
        while stack:
            node, done = stack.pop()
            if done:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack += [(child, False) for child, _ in node.next_functions if child is not None]
        return order

    def _bit(self, leaf):
        if id(leaf) not in self.bits:
            self.bits[id(leaf)] = 1 << len(self.leaves)
            self.leaves.append(leaf)
        return self.bits[id(leaf)]

    def named(self, bits):
        return [leaf for k, leaf in enumerate(self.leaves) if bits >> k & 1]

    def forks(self):
        """(the _Forks, leaves that are reached in both ways, whose gradients belong to the first half)"""
        found, both = [], 0
        for node in self.order:
            if _leaf_of(node) is not None or not self.below[node] & self.inputs:
                continue
            here = further = 0
            for child, _ in node.next_functions:
                below = self.below.get(child, 0)
                if below & self.inputs:
                    further |= below
                else:
                    here |= below
            both |= here & further
            if here:
                found.append((node, here))
        both &= ~self.inputs
        return [_Fork([GradientEdge(node, k) for k in range(len(node._outputs))], self.named(here & ~both))
                for node, here in found if here & ~both], self.named(both)


def _leaf_of(node):
    return node.variable if node.name() == "AccumulateGrad" else None


class SplitBackward:
    """One microbatch's backward: `inputs()` at once, `weights()` later. results: tensors; grads: theirs."""

    def __init__(self, results, grads, inputs):
        self._pairs = [(result, grad) for result, grad in zip(results, grads, strict=True)
                       if grad is not None and result.requires_grad]
        self._inputs, self._forks = inputs, None

    def inputs(self):
        """The gradients of the inputs, None of those that nothing was computed with."""
        wanted = [x for x in self._inputs if isinstance(x, flambeau.Tensor) and x.requires_grad]
        if not wanted or not self._pairs:
            return [None] * len(self._inputs)
        results, grads = zip(*self._pairs)
        forks, both = _Map([_node_of(result) for result in results], wanted).forks()
        edges = [edge for fork in forks for edge in fork.edges]
        found = iter(flambeau.autograd.grad(results, [*wanted, *both, *edges], grads, retain_graph=True,
                                            allow_unused=True))
        by_input = {id(x): next(found) for x in wanted}
        for leaf in both:
            _add(leaf, next(found))
        self._forks = [([(edge, grad) for edge in fork.edges if (grad := next(found)) is not None], fork.leaves)
                       for fork in forks]
        self._pairs = []
        return [by_input.get(id(x)) for x in self._inputs]

    def weights(self):
        """Adds up the gradients of the parameters."""
        if self._forks is None:  # nobody waited for an input
            if self._pairs:
                flambeau.autograd.backward(*map(list, zip(*self._pairs)))
            self._pairs = []
            return
        while self._forks:
            pairs, leaves = self._forks.pop()
            if pairs:
                edges, grads = map(list, zip(*pairs))
                flambeau.autograd.backward(edges, grads, inputs=leaves, retain_graph=True)


def _node_of(tensor):
    return flambeau.autograd.graph.get_gradient_edge(tensor).node


def _add(leaf, grad):
    """To `.grad`, as a pass does."""
    if grad is not None:
        flambeau.autograd.backward([leaf], [grad])
