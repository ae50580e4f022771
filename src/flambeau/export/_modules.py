"""Which modules a program runs: every step knows the calls that it is part of, and calls whose form is to be kept are
written down with their arguments and results."""

import contextlib
from collections import Counter

from .._shown import shown
from .._symbolic.numbers import SymBool, SymFloat, SymInt
from ..fx import Node
from ..utils._pytree import tree_flatten
from .exported_program import ModuleCallEntry, ModuleCallSignature
from .graph_signature import ConstantArgument, SymBoolArgument, SymFloatArgument, SymIntArgument, TensorArgument

#: {kind of open number: what stands for it in a signature}
OPEN = ((SymInt, SymIntArgument), (SymFloat, SymFloatArgument), (SymBool, SymBoolArgument))


class Calls:
    """The calls of modules during a trace.

    kept    names of modules whose calls keep their form
    """

    def __init__(self, tracer, root, kept):
        self.tracer, self.root = tracer, root
        self.names = {module: name for name, module in root.named_modules()}
        by_name = dict(root.named_modules(remove_duplicate=False))
        for name in kept:
            if name not in by_name:
                raise ValueError(f"export: preserve_module_call_signature names {shown(name)}, which is no module "
                                 "of the program")
        self.kept = {self.names[by_name[name]] for name in kept}
        self.counts, self.signatures, self.open = Counter(), {}, []
        self.nodes = set()

    @contextlib.contextmanager
    def recorded(self):
        """Inside, calls are written down."""
        handles = [h for module in self.names for h in (
            module.register_forward_pre_hook(self._enter, with_kwargs=True),
            module.register_forward_hook(self._leave, with_kwargs=True, always_call=True))]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module, args, kwargs):
        name = self.names[module]
        count = self.counts[name]
        self.counts[name] += 1
        path = f"{name}@{count}" if count else name
        kind = f"{type(module).__module__}.{type(module).__qualname__}"
        self.open.append((module, path))
        self.tracer.module_stack[f"L__self__{path}"] = path, kind
        if name in self.kept:
            leaves, in_spec = tree_flatten((tuple(args), dict(kwargs)))
            self.signatures[path] = list(map(self._argument, leaves)), in_spec

    def _leave(self, *call):
        result = call[-1]
        _, path = self.open.pop()
        self.tracer.module_stack.pop(f"L__self__{path}")
        if path in self.signatures and result is not None:
            leaves, out_spec = tree_flatten(result)
            inputs, in_spec = self.signatures[path]
            results = list(map(self._argument, leaves))
            self.signatures[path] = ModuleCallSignature(inputs, results, in_spec, out_spec, None)

    def _argument(self, x):
        node = self.tracer.of_value(x)
        if not isinstance(node, Node):
            return ConstantArgument("", node)
        self.nodes.add(node)
        return next((kind for type_, kind in OPEN if isinstance(x, type_)), TensorArgument)(node.name)

    def entries(self, top):
        """The module call graph: an entry for each module, and for each call whose form is kept."""
        found = [ModuleCallEntry("", top)]
        for name in list(self.names.values())[1:]:
            found.append(ModuleCallEntry(name, self.signatures.get(name)))
            found += [ModuleCallEntry(f"{name}@{k}", self.signatures.get(f"{name}@{k}"))
                      for k in range(1, self.counts[name]) if name in self.kept]
        return found
