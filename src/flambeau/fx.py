"""Names of graphs that can be changed; the graphs themselves are not here yet, and each name says so when used."""

from ._absent import refusal, refused_class

_REASON = "graphs of programs are not captured yet; call the function or module itself"
_FUNCTIONS = """
    symbolic_trace replace_pattern map_arg has_side_effect
"""
_CLASSES = """
    Graph GraphModule Node Proxy Tracer Interpreter Transformer CodeGen
"""
globals().update({name: refusal(f"fx.{name}", _REASON) for name in _FUNCTIONS.split()})
globals().update({name: refused_class(f"fx.{name}", _REASON) for name in _CLASSES.split()})


def wrap(fn_or_name):
    """Marks a function that a trace would not look into. There are no traces, so it is returned as it is."""
    return fn_or_name
