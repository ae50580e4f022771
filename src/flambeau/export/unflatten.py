"""unflatten: an exported program as a tree of modules again, which can be called, named and replaced one by one.

Every step knows the calls of modules that it was part of (`nn_module_stack`). The steps of one call, which stand side
by side, become the graph of that module: its arguments are what it takes from outside, its results what is used there.
A module whose form was kept (`preserve_module_call_signature`) takes and gives what it did.
"""

import abc

from .._shown import class_name, shown
from ..nn import Parameter
from ..utils._pytree import tree_flatten, tree_unflatten
from ._tree import InterpreterModule, Tree, complete
from .exported_program import ExportedProgram


class FlatArgsAdapter(abc.ABC):
    """Makes the arguments that a program takes of others: subclass it, and give it to `unflatten`."""

    @abc.abstractmethod
    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        """The leaves of arguments of the shape target_spec, of the leaves `input_args` of the shape input_spec; obj is
        the UnflattenedModule."""


def unflatten(module, flat_args_adapter=None):
    """The program as modules of the names that they had: an UnflattenedModule, whose tensors are copies.

    module              an ExportedProgram
    flat_args_adapter   a FlatArgsAdapter for calls whose arguments have another structure

    A module that is called several times is one module where the calls do the same, and `name@1`, `name@2` … where they
    differ. A replacement for a module takes and gives the same: keep its form by `preserve_module_call_signature`.

    >>> import flambeau
    >>> from flambeau import nn
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
    >>> program = flambeau.export.export(net, (flambeau.ones(4, 2),))
    >>> tree = flambeau.export.unflatten(program)
    >>> [name for name, _ in tree.named_modules()]
    ['', '0', '1', '1.0', '1.1']
    >>> setattr(tree, "1", nn.Identity())
    >>> tree(flambeau.ones(4, 2)).shape
    torch.Size([4, 3])
    """
    if not isinstance(module, ExportedProgram):
        raise TypeError(f"unflatten: expected an ExportedProgram, got {class_name(type(module))}")
    if flat_args_adapter is not None and not isinstance(flat_args_adapter, FlatArgsAdapter):
        raise TypeError(f"unflatten: flat_args_adapter must be a FlatArgsAdapter, got {shown(flat_args_adapter)}")
    return UnflattenedModule(module, flat_args_adapter)


def _with_own_tensors(module):
    """The module, with copies of its tensors: what is trained or written there is not the program's."""
    copies = {}
    for owner in module.modules():
        for table in (owner._parameters, owner._buffers):
            for name, t in table.items():
                if t is not None and id(t) not in copies:
                    own = t.detach().clone()
                    copies[id(t)] = Parameter(own, t.requires_grad) if table is owner._parameters else own
                table[name] = copies.get(id(t))
    return module


class UnflattenedModule(InterpreterModule):
    """An exported program as a tree of modules; `unflatten` makes it.

    It takes the arguments that the program takes, checks them, and gives its results.
    """

    def __init__(self, export_module, flat_args_adapter=None):
        self_checks = export_module._checks
        flat = _with_own_tensors(export_module.module(check_guards=False))
        signatures = {e.fqn: e.signature for e in export_module.module_call_graph if e.signature is not None}
        root = Tree(flat, signatures).root()
        super().__init__(root, root.graph, "UnflattenedModule")
        complete(self, root)
        top = export_module.module_call_graph[0].signature
        self.__dict__.update(flat_args_adapter=flat_args_adapter, module_call_graph=export_module.module_call_graph,
                             graph_signature=export_module.graph_signature, _checks=self_checks, _top=top)
        self.training = False

    def __call__(self, *args, **kwargs):
        leaves, spec = tree_flatten((args, kwargs))
        wanted = self._top.in_spec
        if spec != wanted:
            leaves = self._reordered(args, kwargs, wanted) or self._adapted(leaves, spec, wanted)
        self._checks(*leaves)
        args, kwargs = tree_unflatten(leaves, wanted)
        return super().__call__(*args, **kwargs)

    @staticmethod
    def _reordered(args, kwargs, wanted):
        """The leaves with arguments by name in the order of the program's; None where they are others."""
        names = wanted.children_specs[1].context or []
        if set(names) == kwargs.keys():
            leaves, spec = tree_flatten((args, {name: kwargs[name] for name in names}))
            if spec == wanted:
                return leaves
        return None

    def _adapted(self, leaves, spec, wanted):
        if self.flat_args_adapter is None:
            raise TypeError(f"UnflattenedModule: the program takes arguments of the structure {shown(wanted)}, got "
                            f"{shown(spec)}; give unflatten a flat_args_adapter")
        found = list(self.flat_args_adapter.adapt(wanted, spec, leaves, obj=self))
        if len(found) != wanted.num_leaves:
            raise TypeError(f"UnflattenedModule: the adapter gave {len(found)} leaves for arguments of "
                            f"{wanted.num_leaves}")
        return found
