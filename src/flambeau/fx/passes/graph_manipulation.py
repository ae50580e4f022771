"""Small changes and measures of graphs: targets exchanged, sizes of results in bytes."""

from typing import NamedTuple

from .shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


class size_bytes(NamedTuple):
    """Bytes of a Node's result, and of that with its parameters."""

    output_size: int
    total_size: int


def replace_target_nodes_with(fx_module, old_op, old_target, new_op, new_target):
    """Gives the Nodes with one op and target another op and target, in place."""
    for node in fx_module.graph.find_nodes(op=old_op, target=old_target):
        node.op, node.target = new_op, new_target
    fx_module.recompile()


def get_tensor_meta(node):
    """meta["tensor_meta"]; RuntimeError where ShapeProp has not run."""
    if not node.meta.get("tensor_meta"):
        raise RuntimeError(f"get_tensor_meta: nothing is known of {node}; run ShapeProp first")
    return node.meta["tensor_meta"]


def _bytes(described):
    if isinstance(described, TensorMetadata):
        return described.shape.numel() * described.dtype.itemsize
    return sum(map(_bytes, described.values() if isinstance(described, dict) else described))


def get_size_of_node(fx_module, node):
    """size_bytes of a Node whose meta ShapeProp has filled."""
    output = _bytes(get_tensor_meta(node))
    total = output
    if node.op == "call_module":
        module = fx_module.get_submodule(node.target)
        total += sum(t.nbytes for t in (*module.parameters(), *module.buffers()))
    return size_bytes(output, total)


def get_size_of_all_nodes(fx_module, args=None):
    """Sets `size_bytes` of every Node; runs ShapeProp on `args` first, where they are given.

    >>> import flambeau
    >>> from flambeau.fx.passes.graph_manipulation import get_size_of_all_nodes
    >>> gm = flambeau.fx.symbolic_trace(flambeau.nn.Linear(3, 2))
    >>> get_size_of_all_nodes(gm, [flambeau.ones(4, 3)])
    >>> [node.size_bytes.output_size for node in gm.graph.nodes]
    [48, 24, 8, 32, 32]
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if "tensor_meta" in node.meta:
            node.size_bytes = get_size_of_node(fx_module, node)
