"""The `def` line of a program's module: its arguments as the caller gives them, and how they come apart."""

from ..fx._pytree_codegen import _PyTreeCodeGen


class CallCodeGen(_PyTreeCodeGen):
    """The arguments of a call, positional ones and those with names, as leaves: in_spec is of (args, kwargs)."""

    def _arguments(self):
        args, kwargs = self.pytree_info.in_spec.children_specs
        return self.pytree_info.orig_args, args.num_children, list(kwargs.context or [])

    def process_inputs(self, *inputs):
        """The leaves of positional arguments, and of those with names behind them in their order."""
        _, count, keys = self._arguments()
        args, rest = inputs[:count], inputs[count:]
        return super().process_inputs(args, dict(zip(keys, rest, strict=True)))

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        """The `def` line with the caller's arguments, and the line that takes them apart."""
        names, count, keys = self._arguments()
        head = super(_PyTreeCodeGen, self).gen_fn_def(list(names), maybe_return_annotation, expanded_def=expanded_def)
        if not free_vars:
            return head
        leaves = [v.partition(":")[0].partition("=")[0].strip() for v in free_vars]
        named = ", ".join(f"{key!r}: {name}" for key, name in zip(keys, names[count:], strict=True))
        return f"{head}\n    {', '.join(leaves)}, = fx_pytree.tree_flatten_spec(([{', '.join(names[:count])}], " \
               f"{{{named}}}), self._in_spec)"
