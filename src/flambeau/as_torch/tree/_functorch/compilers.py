"""torch._functorch.compilers: compilers of operator graphs, most of them for looking at what comes."""

from ....compiler import compile
from ....compiler._aot import aot_function, make_boxed_compiler
from ....compiler._aot import nop as nop
from ....compiler._partition import min_cut_rematerialization_partition
from ....jit import script
from ....nn import Module


def print_compile(fx_g, _):
    """Prints the graph's code, and leaves the graph as it is."""
    print(fx_g.code)
    return fx_g


def ts_compile(fx_g, inps):
    """The graph as a scripted module; `inps` are its inputs."""
    if len(inps) != sum(node.op == "placeholder" for node in fx_g.graph.nodes):
        raise ValueError(f"ts_compile: the graph takes other than {len(inps)} inputs")
    return script(fx_g)


def memory_efficient_fusion(fn, **kwargs):
    """A function whose forward and backward are each planned as a whole, and backward computes cheap values again.

    The keyword arguments are those of `aot_function`.
    """
    how = {"fw_compiler": _planned, "bw_compiler": _planned, "partition_fn": min_cut_rematerialization_partition}
    if isinstance(fn, Module):
        raise NotImplementedError("memory_efficient_fusion: pass a function; a Module is compiled by torch.compile")
    return aot_function(fn, **{**how, **kwargs})


@make_boxed_compiler
def _planned(fx_g, _):
    return compile(fx_g.forward)
