"""Inner results of a model: names for the nodes of its graph, and modules that give what chosen nodes compute."""

import copy
import inspect
import math
import re
import warnings
from collections import Counter, OrderedDict

from flambeau import fx, nn
from flambeau._shown import shown
from flambeau.fx.graph_module import _copy_attr

from .. import ops

__all__ = ["create_feature_extractor", "get_graph_node_names"]


class LeafModuleAwareTracer(fx.Tracer):
    """A tracer with more modules that are one node each: `leaf_modules` is a list of classes."""

    def __init__(self, *args, leaf_modules=(), **kwargs):
        self.leaf_modules = tuple(leaf_modules)
        super().__init__(*args, **kwargs)

    def is_leaf_module(self, m, module_qualname):
        return isinstance(m, self.leaf_modules) or super().is_leaf_module(m, module_qualname)


class NodePathTracer(LeafModuleAwareTracer):
    """Notes for every node where in the model it is: `node_to_qualname`, in the order of the graph.

    A leaf module has its own dotted name, an operation that of the module whose forward calls it and its name:
    "layer1.0.relu", "layer1.0.add". The second one of a name ends in `_1`; a number that a module's own name ends in
    is left out, as torchvision does: modules ln_1 and ln_2 are the nodes "ln" and "ln_1".
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.current_module_qualname = ""
        self.node_to_qualname = OrderedDict()
        self._seen = Counter()

    def call_module(self, m, forward, args, kwargs):
        outer = self.current_module_qualname
        self.current_module_qualname = self.path_of_module(m)
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.current_module_qualname = outer

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *rest, **options):
        proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr, *rest, **options)
        self.node_to_qualname[proxy.node] = self._get_node_qualname(self.current_module_qualname, proxy.node)
        return proxy

    def _get_node_qualname(self, module_qualname, node):
        place = module_qualname
        if node.op != "call_module":
            place = f"{place}.{node.name}" if place else node.name
        place = re.sub(r"_\d+$", "", place)
        number, self._seen[place] = self._seen[place], self._seen[place] + 1
        return f"{place}_{number}" if number else place


def _get_leaf_modules_for_ops():
    """The modules of `vision.ops`, whose insides are not for extraction."""
    return [kind for kind in vars(ops).values() if inspect.isclass(kind) and issubclass(kind, nn.Module)]


def _set_default_tracer_kwargs(original_tr_kwargs):
    """The tracer's arguments with what is always wanted: `math` and `vision.ops` stay calls, ops' modules leaves."""
    given = dict(original_tr_kwargs or {})
    given["autowrap_modules"] = tuple({*given.get("autowrap_modules", ()), math, ops})
    given["leaf_modules"] = list({*given.get("leaf_modules", ()), *_get_leaf_modules_for_ops()})
    return given


def _traced(model, training, tracer_kwargs, concrete_args):
    """(tracer, graph) of the model in one mode; every module has its own mode again afterwards."""
    modes = {module: module.training for module in model.modules()}
    tracer = NodePathTracer(**_set_default_tracer_kwargs(tracer_kwargs))
    try:
        return tracer, tracer.trace(model.train(training), concrete_args=concrete_args)
    finally:
        for module, mode in modes.items():
            module.training = mode


def _names(tracer):
    return list(tracer.node_to_qualname.values())


def _is_subseq(x, y):
    """Whether x is y with some items left out."""
    rest = iter(y)
    return all(item in rest for item in x)


def _warn_graph_differences(train_tracer, eval_tracer):
    train, evaluation = _names(train_tracer), _names(eval_tracer)
    if train == evaluation:
        return
    more = ("the training graph has nodes that the other lacks" if _is_subseq(evaluation, train) else
            "the evaluation graph has nodes that the other lacks" if _is_subseq(train, evaluation) else
            "each has nodes that the other lacks")
    warnings.warn(f"feature extraction: the model's graph depends on its mode ({more}); choose nodes for each with "
                  "train_return_nodes and eval_return_nodes, or silence this with suppress_diff_warning=True",
                  stacklevel=3)


def get_graph_node_names(model, tracer_kwargs=None, suppress_diff_warning=False, concrete_args=None):
    """(names in training, names in evaluation) of the nodes of a model's graph, in the order in which they run.

    tracer_kwargs: arguments of NodePathTracer. concrete_args: arguments of forward that are not traced.

    >>> from flambeau.vision import models
    >>> _, names = models.feature_extraction.get_graph_node_names(models.resnet18())
    >>> names[-3:]
    ['avgpool', 'flatten', 'fc']
    """
    tracers = [_traced(model, training, tracer_kwargs, concrete_args)[0] for training in (True, False)]
    if not suppress_diff_warning:
        _warn_graph_differences(*tracers)
    return tuple(map(_names, tracers))


class DualGraphModule(fx.GraphModule):
    """A GraphModule with two graphs: `train()` and `eval()` choose between them."""

    def __init__(self, root, train_graph, eval_graph, class_name="GraphModule"):
        super().__init__(root, train_graph if root.training else eval_graph, class_name)
        for graph in (train_graph, eval_graph):
            for node in graph.nodes:
                if node.op in ("call_module", "get_attr"):
                    _copy_attr(root, self, node.target)
        self.train_graph, self.eval_graph = train_graph, eval_graph

    def train(self, mode=True):
        """The mode of all modules inside, and the graph made for it."""
        if mode != self.training:
            self.graph = self.train_graph if mode else self.eval_graph
        return super().train(mode)

    def __deepcopy__(self, memo):
        root = nn.Module()
        root.__dict__.update(copy.deepcopy({key: value for key, value in self.__dict__.items()
                                            if key in ("_parameters", "_buffers", "_modules",
                                                       "_non_persistent_buffers_set", "training")}, memo))
        graphs = [copy.deepcopy(graph, memo) for graph in (self.train_graph, self.eval_graph)]
        return memo.setdefault(id(self), DualGraphModule(root, *graphs, type(self).__name__))


def _as_table(nodes):
    """{name of a node: name of the result} of a list of names or of such a dict."""
    return {str(key): str(value) for key, value in nodes.items()} if isinstance(nodes, dict) else \
        {str(name): str(name) for name in nodes}


def _wanted(return_nodes, train_return_nodes, eval_return_nodes):
    """The tables of the two modes."""
    if (return_nodes is None) == (train_return_nodes is None and eval_return_nodes is None):
        raise ValueError("create_feature_extractor: give either return_nodes, or both train_return_nodes and "
                         f"eval_return_nodes; got {shown(return_nodes)}, {shown(train_return_nodes)} and "
                         f"{shown(eval_return_nodes)}")
    if (train_return_nodes is None) != (eval_return_nodes is None):
        raise ValueError("create_feature_extractor: train_return_nodes and eval_return_nodes belong together; one is "
                         "None")
    both = (return_nodes, return_nodes) if return_nodes is not None else (train_return_nodes, eval_return_nodes)
    return tuple(map(_as_table, both))


def _last_node(tracer, name):
    """The node of a name, or the last one inside a module of that name; None without."""
    found = [node for node, place in tracer.node_to_qualname.items()
             if place == name or place.startswith(name + ".")]
    return found[-1] if found else None


def _cut(tracer, graph, table, mode):
    """Changes the graph's output to {name of the result: node}, and drops what that does not need."""
    results = {new: _last_node(tracer, name) for name, new in table.items()}
    missing = [name for name, new in table.items() if results[new] is None]
    if missing:
        raise ValueError(f"create_feature_extractor: no node of the {mode} graph is, or is inside, "
                         f"{', '.join(map(shown, missing))}; get_graph_node_names has the names")
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    output.args = (results,)
    graph.eliminate_dead_code(lambda node: False)


def create_feature_extractor(model, return_nodes=None, train_return_nodes=None, eval_return_nodes=None,
                             tracer_kwargs=None, suppress_diff_warning=False, concrete_args=None):
    """A module that shares the model's parameters and gives {name: inner result}.

    return_nodes: names of nodes (see get_graph_node_names), or {name of a node: name of its result}. The name of a
    module stands for the last node inside it. train_return_nodes, eval_return_nodes: one choice for each mode instead.

    >>> from flambeau.vision import models
    >>> wanted = {"layer1": "low", "fc": "classes"}
    >>> body = models.feature_extraction.create_feature_extractor(models.resnet18(), wanted)
    >>> {name: list(x.shape) for name, x in body(flambeau.rand(2, 3, 64, 64)).items()}
    {'low': [2, 64, 16, 16], 'classes': [2, 1000]}
    """
    tables = _wanted(return_nodes, train_return_nodes, eval_return_nodes)
    traced = [_traced(model, training, tracer_kwargs, concrete_args) for training in (True, False)]
    if not suppress_diff_warning and return_nodes is not None:
        _warn_graph_differences(*(tracer for tracer, _ in traced))
    for (tracer, graph), table, mode in zip(traced, tables, ("training", "evaluation"), strict=True):
        _cut(tracer, graph, table, mode)
    return DualGraphModule(model, *(graph for _, graph in traced), class_name=type(model).__name__)
