"""Modules for inference: batch norm folded into the convolution or linear layer before it, dropout taken out."""

import copy

from ... import nn
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from .._symbolic_trace import Tracer
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..passes.utils.common import lift_subgraph_as_module

#: (class of the first layer, class of the second) -> how they become one
_FOLDS = {
    (nn.Conv1d, nn.BatchNorm1d): fuse_conv_bn_eval, (nn.Conv2d, nn.BatchNorm2d): fuse_conv_bn_eval,
    (nn.Conv3d, nn.BatchNorm3d): fuse_conv_bn_eval, (nn.Linear, nn.BatchNorm1d): fuse_linear_bn_eval,
}


_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


def _parent_name(target):
    """("a.b", "c") of "a.b.c"."""
    path, _, name = target.rpartition(".")
    return path, name


def matches_module_pattern(pattern, node, modules):
    """Whether `node` calls a module of the second class on the result of one of the first."""
    if not node.args or not hasattr(node.args[0], "users"):
        return False
    for kind, each in zip(pattern, (node.args[0], node), strict=True):
        if each.op != "call_module" or type(modules.get(each.target)) is not kind:
            return False
    return True


def replace_node_module(node, modules, new_module):
    """Puts another module where a Node finds the one that it calls."""
    path, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[path], name, new_module)


def fuse(model, inplace=False, no_trace=False):
    """The model with each batch norm in eval mode folded into the convolution or linear layer that it alone follows.

    inplace: changes `model`; no_trace: it is a GraphModule already.

    >>> import flambeau
    >>> from flambeau.fx.experimental.optimization import fuse
    >>> net = flambeau.nn.Sequential(flambeau.nn.Conv2d(1, 2, 3), flambeau.nn.BatchNorm2d(2)).eval()
    >>> [str(node) for node in fuse(net).graph.nodes]
    ['input_1', '_0', 'output']
    """
    model = model if inplace else copy.deepcopy(model)
    gm = model if no_trace and isinstance(model, GraphModule) else GraphModule(model, Tracer().trace(model))
    modules = dict(gm.named_modules())
    for pattern, fold in _FOLDS.items():
        for node in gm.graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            first, second = modules[node.args[0].target], modules[node.target]
            shared = len(gm.graph.find_nodes(op="call_module", target=node.args[0].target)) > 1
            if shared or not second.track_running_stats or second.training or first.training:
                continue
            replace_node_module(node.args[0], modules, fold(first, second))
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)
    gm.delete_all_unused_submodules()
    gm.recompile()
    return gm


def remove_dropout(model):
    """The model without its dropout modules.

    >>> import flambeau
    >>> from flambeau.fx.experimental.optimization import remove_dropout
    >>> [str(node) for node in remove_dropout(flambeau.nn.Sequential(flambeau.nn.Dropout())).graph.nodes]
    ['input_1', 'output']
    """
    gm = model if isinstance(model, GraphModule) else GraphModule(model, Tracer().trace(model))
    return _WithoutDropout(gm).transform()


class _WithoutDropout(Transformer):
    def call_module(self, target, args, kwargs):
        if isinstance(self.submodules[target], _DROPOUTS):
            return args[0]
        return super().call_module(target, args, kwargs)


def extract_subgraph(orig_module, nodes, inputs, outputs):
    """A GraphModule of these Nodes of a module, with these arguments and results."""
    graph = type(nodes[0].graph)()
    made = {used: graph.placeholder(used.name) for used in inputs}
    for node in nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph.output([made[n] for n in outputs])
    graph.lint()
    return lift_subgraph_as_module(orig_module, graph)[0]


def optimize_for_inference(model, pass_config=None, tracer=Tracer):
    """`fuse` and `remove_dropout`, unless pass_config says {"conv_bn_fuse": False} or {"remove_dropout": False}."""
    wanted = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    unknown = set(wanted) - {"conv_bn_fuse", "remove_dropout", "mkldnn_layout_optimize"}
    if unknown:
        raise RuntimeError(f"optimize_for_inference: pass_config has {sorted(unknown)}; it may have conv_bn_fuse, "
                           "remove_dropout and mkldnn_layout_optimize")
    graph = tracer().trace(model)
    gm = GraphModule(model, graph)
    if wanted["conv_bn_fuse"]:
        gm = fuse(gm, no_trace=True)
    return remove_dropout(gm) if wanted["remove_dropout"] else gm


