"""A model cut into stages: its operators, captured by running it, and the places between them where it is cut."""

from dataclasses import dataclass

import flambeau

from ..._shown import shown
from ...export import export
from ...fx import Graph, GraphModule, has_side_effect, map_arg
from ...fx.experimental.proxy_tensor import get_innermost_proxy_mode
from ...utils._pytree import tree_unflatten
from .._values import SplitPoint as SplitPoint
from .stage import build_stage


@has_side_effect
def _cut():
    """Where a stage ends, in the captured program."""


def pipe_split():
    """Marks a place in a model's forward: `pipeline` begins a new stage there. Otherwise it does nothing."""
    mode = get_innermost_proxy_mode()
    if mode is not None:
        mode.tracer.create_node("call_function", _cut, (), {})


@dataclass
class PipeInfo:
    """The captured program, and how many stages it has."""

    graph: object
    num_stages: int
    has_loss_and_backward: bool = False


class Pipe(flambeau.nn.Module):
    """A model in stages, `pipeline`'s result. Its parameters are the model's, under their names in each stage."""

    def __init__(self, stages, graph):
        super().__init__()
        for k, stage in enumerate(stages):
            self.add_module(f"submod_{k}", stage)
        self.num_stages, self._graph = len(stages), graph

    @property
    def split_gm(self):
        """What holds the stages."""
        return self

    def forward(self, *args, **kwargs):
        """What the model returns: all stages, one after the other, in this process."""
        values = self.submod_0(*args, **kwargs)
        for k in range(1, self.num_stages):
            values = self.get_stage_module(k)(*(values if isinstance(values, tuple) else (values,)))
        return values

    def get_stage_module(self, stage_idx):
        """The module of a stage."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"get_stage_module: stages are 0 to {self.num_stages - 1}, got {shown(stage_idx)}")
        return getattr(self, f"submod_{stage_idx}")

    def info(self):
        """Its PipeInfo."""
        return PipeInfo(self._graph, self.num_stages)

    def build_stage(self, stage_index, device, group=None):
        """The PipelineStage of a stage, for a schedule."""
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)


def pipeline(module, mb_args, mb_kwargs=None, split_spec=None, split_policy=None):
    """Captures a model by running it on the arguments of one microbatch, and cuts it into stages: a Pipe.

    The cuts are where its forward calls `pipe_split()`, or before or after the submodules that `split_spec` names,
    {"layers.4": SplitPoint.BEGINNING}, or where `split_policy(graph module)` puts calls of `pipe_split`. Values that a
    later stage needs are passed on through those between. As with `export`, sizes and what Python decides are fixed.

    >>> import flambeau
    >>> from flambeau.distributed.pipelining import SplitPoint, pipeline
    >>> net = flambeau.nn.Sequential(flambeau.nn.Linear(2, 3), flambeau.nn.ReLU(), flambeau.nn.Linear(3, 1))
    >>> pipe = pipeline(net, (flambeau.ones(4, 2),), split_spec={"2": SplitPoint.BEGINNING})
    >>> pipe.num_stages, list(pipe.get_stage_module(1).state_dict())
    (2, ['2.weight', '2.bias'])
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("pipeline: split_spec and split_policy exclude each other; give one of them")
    handles = [_mark(module, name, point) for name, point in (split_spec or {}).items()]
    try:
        program = export(module, tuple(mb_args), mb_kwargs)
    finally:
        for handle in handles:
            handle.remove()
    captured = program.module(check_guards=False)
    if split_policy is not None:
        captured = split_policy(captured)
    return Pipe(_Cutter(captured, program.call_spec.out_spec).stages(), captured.graph)


def _mark(module, name, point):
    """Has a submodule call pipe_split while the model is captured."""
    try:
        found = module.get_submodule(name)
    except AttributeError:
        raise AttributeError(f"pipeline: split_spec names {shown(name)}, which the model has not") from None
    if point == SplitPoint.BEGINNING:
        return found.register_forward_pre_hook(lambda *_: pipe_split())
    if point == SplitPoint.END:
        return found.register_forward_hook(lambda *_: pipe_split())
    raise ValueError(f"pipeline: expected SplitPoint.BEGINNING or SplitPoint.END for {shown(name)}, got {shown(point)}")


class _Cutter:
    """Makes one GraphModule for each stage of a captured program."""

    def __init__(self, captured, out_spec):
        self.captured = captured
        nodes = list(captured.graph.nodes)
        self.output = nodes[-1]
        flat = self.output.args[0]
        self.result = tree_unflatten(list(flat) if isinstance(flat, (tuple, list)) else [flat], out_spec)
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        self.stage = self._stages(nodes)
        self.count = max(self.stage.values()) + 1

    def _stages(self, nodes):
        """{node: its stage}. Weights belong where they are used first, items of a result where the result is made."""
        found, current = dict.fromkeys(self.inputs, 0), 0
        for node in nodes[:-1]:
            if node.op == "call_function" and node.target in (_cut, pipe_split):
                current += 1
            elif node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem":
                found[node] = found[node.args[0]]
            elif node.op not in ("placeholder", "get_attr"):
                found[node] = current
                for used in node.all_input_nodes:
                    found.setdefault(used, current)
        for used in self.output.all_input_nodes:  # a weight that is a result
            found.setdefault(used, current)
        found[self.output] = current
        return found

    def stages(self):
        """The GraphModules."""
        last_use = {}
        for node, at in self.stage.items():
            last_use.setdefault(node, at)
            for user in node.users:
                last_use[node] = max(last_use[node], self.stage.get(user, at))
        crossing = [[node for node in self.captured.graph.nodes
                     if node in self.stage and self.stage[node] <= k < last_use[node]] for k in range(self.count - 1)]
        return [self._module(k, crossing) for k in range(self.count)]

    def _module(self, k, crossing):
        graph, made = Graph(), {}
        for node in self.inputs if k == 0 else crossing[k - 1]:
            made[node] = graph.placeholder(node.name)
            made[node].meta = dict(node.meta)
        for node in self.captured.graph.nodes:
            if self.stage.get(node) == k and node.op not in ("placeholder", "output"):
                made[node] = graph.node_copy(node, made.__getitem__)
        last = k == self.count - 1
        graph.output(map_arg(self.result, made.__getitem__) if last else tuple(made[node] for node in crossing[k]))
        if k == 0:
            info = self.captured.graph._codegen.pytree_info
            graph.set_codegen(type(self.captured.graph._codegen)(info._replace(out_spec=None)))
        module = GraphModule(self.captured, graph, "GraphModule")
        module.train(self.captured.training)
        return module
