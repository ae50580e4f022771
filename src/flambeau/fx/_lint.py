"""Checks of single Nodes, for `Graph.lint` and passes that look inside: uses, targets, graphs within graphs."""

from .._shown import shown


def subgraphs(node):
    """GraphModules that a get_attr or call_module Node stands for."""
    owner = node.graph.owning_module
    if owner is None or node.op not in ("get_attr", "call_module"):
        return []
    value = owner
    for name in node.target.split("."):
        value = getattr(value, name, None)
    return [value] if isinstance(getattr(value, "graph", None), type(node.graph)) else []


def lint_use(graph, node, used, seen):
    if used.graph is not graph:
        raise RuntimeError(f"lint: {node} uses {used}, which belongs to another graph")
    if used not in seen:
        state = "has been erased" if used._erased else "comes after it"
        raise RuntimeError(f"lint: {node} uses {used}, which {state}")
    if node not in used.users:
        raise RuntimeError(f"lint: {node} uses {used}, which does not know it")


def lint_target(module, node):
    if node.op not in ("get_attr", "call_module"):
        return
    value = module
    for name in node.target.split("."):
        if not hasattr(value, name):
            raise RuntimeError(f"lint: {node} needs {shown(node.target)}, and {type(value).__name__} has no "
                               f"{shown(name)}")
        value = getattr(value, name)
    if node.op == "call_module" and not callable(value):
        raise RuntimeError(f"lint: {node} calls {shown(node.target)}, which is {shown(value)}")
