"""The CodeGen of functions whose arguments or results are trees: the graph sees leaves, the caller the trees."""

from typing import NamedTuple

from ..utils import _pytree
from ._codegen import _INDENT, CodeGen, _trailer


class _PyTreeInfo(NamedTuple):
    """How a function's arguments and result fold: names of the arguments, and their specs."""

    orig_args: list
    in_spec: object
    out_spec: object


class _PyTreeCodeGen(CodeGen):
    """Flattens the arguments by `in_spec`, and folds the result by `out_spec`."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs):
        """The leaves of the arguments."""
        return _pytree.tree_leaves(inputs)

    def process_outputs(self, out):
        """The result as the caller knows it."""
        spec = self.pytree_info.out_spec
        if spec is None:
            return out
        return _pytree.tree_unflatten(list(out) if isinstance(out, (list, tuple)) else [out], spec)

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        """The `def` line with the caller's arguments, and the line that takes them apart."""
        info = self.pytree_info
        arguments = list(info.orig_args)
        taken = arguments[1:] if arguments and arguments[0] == "self" else arguments
        head = super().gen_fn_def(arguments, maybe_return_annotation, expanded_def=expanded_def)
        if not free_vars:
            return head
        leaves = [v.partition(":")[0].partition("=")[0].strip() for v in free_vars]
        return f"{head}\n{_INDENT}{', '.join(leaves)}, = fx_pytree.tree_flatten_spec([{', '.join(taken)}], " \
               f"self._in_spec)"

    def generate_output(self, output_args, *, descs=None, repr_fn=None):
        """The line that folds the leaves and returns."""
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        return f"return pytree.tree_unflatten({(repr_fn or repr)(output_args)}, self._out_spec)" + _trailer(descs)
