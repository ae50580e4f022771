"""Texts about Nodes for messages."""


def get_node_context(node, num_nodes=2):
    """The lines of a Node and of the num_nodes - 1 before it."""
    lines = []
    while node.op != "root" and len(lines) < num_nodes:
        lines.append(node.format_node())
        node = node.prev
    return "\n".join(reversed(lines))


def first_call_function_nn_module_stack(graph):
    """meta["nn_module_stack"] of the first call_function Node that has one; None without."""
    return next((n.meta["nn_module_stack"] for n in graph.nodes
                 if n.op == "call_function" and "nn_module_stack" in n.meta), None)
