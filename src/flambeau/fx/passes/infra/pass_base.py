"""PassBase: a pass as a class that says what it needs, what it does and what it ensures."""

import abc
from typing import NamedTuple

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass gives: the module, and whether it was changed."""

    graph_module: object
    modified: bool


class PassBase(abc.ABC):
    """A pass: define `call`; `requires` and `ensures` check the module before and after.

    >>> import flambeau
    >>> from flambeau.fx.passes.infra.pass_base import PassBase, PassResult
    >>> class Exp(PassBase):
    ...     def call(self, graph_module):
    ...         for node in graph_module.graph.find_nodes(op="call_function", target=flambeau.log):
    ...             node.target = flambeau.exp
    ...         graph_module.recompile()
    ...         return PassResult(graph_module, True)
    >>> gm = flambeau.fx.symbolic_trace(lambda x: flambeau.log(x))
    >>> Exp()(gm).graph_module(flambeau.tensor(0.0))
    tensor(1.)
    """

    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module):
        """Does the work; gives a PassResult, or None where nothing changed."""

    def requires(self, graph_module):  # noqa: B027 (nothing is required unless a subclass says so)
        """Raises where the module is not what the pass expects."""

    def ensures(self, graph_module):  # noqa: B027
        """Raises where the pass has not done what it promises."""
