"""Arguments in one form: every call names them as the signature of what it calls does."""

import operator

import flambeau

from ..interpreter import Transformer
from ..node import map_arg
from ..operator_schemas import normalize_function, normalize_module
from ..proxy import Proxy


class NormalizeArgs(Transformer):
    """Calls of functions and submodules get their arguments by name, with defaults (normalize_to_only_use_kwargs=False:
    by place where they were so), where the signature is known.

    >>> import flambeau
    >>> from flambeau.fx.experimental.normalize import NormalizeArgs
    >>> gm = NormalizeArgs(flambeau.fx.symbolic_trace(lambda x: flambeau.cumsum(x, 1))).transform()
    >>> dict(gm.graph.find_nodes(op="call_function", target=flambeau.cumsum)[0].kwargs)
    {'input': x, 'dim': 1, 'dtype': None, 'out': None}
    """

    def __init__(self, module, normalize_to_only_use_kwargs=True):
        super().__init__(module)
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n):
        """The Proxy of a Node; its arguments' types tell forms of operators apart."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "call_function":
            types = map_arg(n.args, lambda used: used.meta.get("type", flambeau.Tensor))
            return self.call_function(n.target, args, kwargs, tuple(t if isinstance(t, type) else type(t)
                                                                    for t in types))
        return super().run_node(n)

    def call_function(self, target, args, kwargs, arg_types=None, kwarg_types=None):
        """The call with arguments by name."""
        found = normalize_function(target, args, kwargs, arg_types, kwarg_types, self.normalize_to_only_use_kwargs)
        return super().call_function(target, *(found if found is not None else (args, kwargs)))

    def call_module(self, target, args, kwargs):
        """The call with arguments by name."""
        found = normalize_module(self.module, target, args, kwargs, self.normalize_to_only_use_kwargs)
        return super().call_module(target, *(found if found is not None else (args, kwargs)))


#: operator's functions -> what they are on tensors
_OPERATORS = {operator.add: flambeau.add, operator.mul: flambeau.mul, operator.sub: flambeau.sub,
              operator.truediv: flambeau.true_divide, operator.floordiv: flambeau.floor_divide,
              operator.mod: flambeau.remainder, operator.eq: flambeau.eq, operator.ne: flambeau.ne,
              operator.lt: flambeau.lt, operator.le: flambeau.le, operator.gt: flambeau.gt, operator.ge: flambeau.ge}


class NormalizeOperators(Transformer):
    """`x + y` becomes `flambeau.add(x, y)`, and so on, where x is a Node."""

    def call_function(self, target, args, kwargs):
        """The call of the operator's function of tensors."""
        if target in _OPERATORS and args and isinstance(args[0], Proxy):
            target = _OPERATORS[target]
        return super().call_function(target, args, kwargs)
