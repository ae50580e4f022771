"""Names of graphs that can be changed; the graphs themselves are not here yet, and each name says so when used."""

from ._absent import refusals

_REASON = "graphs of programs are not captured yet; call the function or module itself"
globals().update(refusals("fx", _REASON, """
    symbolic_trace replace_pattern map_arg has_side_effect
    Graph GraphModule Node Proxy Tracer Interpreter Transformer CodeGen
"""))


def wrap(fn_or_name):
    """Marks a function that a trace would not look into. There are no traces, so it is returned as it is."""
    return fn_or_name
