"""run_decompositions: runs a program's graph again on tensors without values, and keeps what its steps are made of."""

import contextlib
from types import SimpleNamespace

from .. import _C
from .._aten.lookup import AtenOverload
from .._aten.spelling import stays_whole
from .._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from .._subclasses.symbolic_tensor import SymbolicTensor
from .._symbolic.numbers import SymInt
from .._symbolic.shape_env import Retrace, ShapeEnv, ShapeGuard
from .._symbolic.statements import certain
from ..fx import GraphModule, Interpreter
from ..fx import traceback as fx_traceback
from ..fx.experimental._known import describe
from ..fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from ..fx.proxy import Proxy
from ..nn import Module
from ..ops import OPS
from ..utils._pytree import tree_flatten
from ._checks import InputChecks
from ._detach import detaching_steps
from ._higher_order import HigherOrder
from ._tracer import InsideAStep, Tracer, stays
from ._whole import Whole
from .decomp_utils import CustomDecompTable
from .graph_signature import ConstantArgument, ExportGraphSignature, InputKind

_RUNS = 64
_HANDED_ON = ("nn_module_stack", "stack_trace", "torch_fn", "custom")


def decomposed(program, table):
    """What a program is after decompositions: GraphModule, signature, module call graph, constants, InputChecks."""
    table = CustomDecompTable.all() if table is None else CustomDecompTable(table)
    return retraced(lambda env, keeps_steps: Rerun(program, table, env, keeps_steps))


def retraced(make):
    """What a run finds that `make` makes, of open sizes and whether steps stay whole: as often as sizes teach more."""
    for keeps_steps in (True, False):
        env = ShapeEnv(duck_shape=False)
        env.restarts = True
        for _ in range(_RUNS):
            try:
                return make(env, keeps_steps).found()
            except Retrace:
                env.restarted()
            except InsideAStep:
                break
    raise NotImplementedError("run_decompositions: the sizes of this program need more conditions than can be found")


def is_primitive(program):
    """Whether a program has nothing left to decompose."""
    return not any(isinstance(target, (AtenOverload, HigherOrder)) or (
        isinstance(target, _C.Op) and target.kind in ("composite", "overloads") and _splits(target))
        for target in (n.target for n in program.graph.nodes if n.op == "call_function"))


def _splits(op):
    """Whether a call of an operator is other steps in a graph: overloads are one of their forms."""
    return op.kind == "composite" or stays_whole(op)


class Rerun(Interpreter):
    """One run of the graph."""

    def __init__(self, program, table, env, keeps_steps):
        super().__init__(program.graph_module, garbage_collect_values=False)
        self.program, self.table, self.shape_env, self.keeps_steps = program, table, env, keeps_steps
        self.fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=env)
        self.tracer = Tracer(Module())
        self.tracer.constants.update(program.constants)

    def found(self):
        """What `decomposed` gives."""
        self._adopt()
        specs = {s.arg.name: s for s in self.program.graph_signature.input_specs}
        placeholders = [n for n in self.program.graph.nodes if n.op == "placeholder"]
        values = [self._argument(node, specs[node.name]) for node in placeholders]
        mode = ProxyTorchDispatchMode(self.tracer, "symbolic", self.table.of_primitives())
        mode.shape_env = self.shape_env
        whole = Whole(self.table) if self.keeps_steps else contextlib.nullcontext()
        with self.fake, mode, detaching_steps(), fx_traceback.preserve_node_meta(), whole:
            results = self.after(values, self.run(*values, enable_io_processing=False))
        results, _ = tree_flatten(tuple(results), is_leaf=lambda x: x is None)
        nodes = tuple(self.tracer.of_value(x) for x in results)
        self.tracer.size_nodes.assertions(self.shape_env)
        self.tracer.create_node("output", "output", (nodes,), {})
        self.tracer.graph.eliminate_dead_code(stays)
        module = GraphModule(self.tracer.root, self.tracer.graph, "GraphModule")
        module.shape_env = self.shape_env
        return module, self._signature(nodes), self._calls(), self.tracer.constants, self._checks()

    def after(self, values, results):
        """What the new graph returns, of what the old one does."""
        return results

    def output_specs(self):
        """Those of what it returns, whose names are still the old ones."""
        return self.program.graph_signature.output_specs

    # ---- inputs ----

    def _adopt(self):
        """Symbols have the names, examples and ranges that they had; what the program asks of sizes is known."""
        old, env = getattr(self.program.graph_module, "shape_env", None) or ShapeEnv(), self.shape_env
        for symbol, example in old.var_to_val.items():
            if symbol not in old.replacements:
                low, high = old.var_to_range[symbol]
                declared = self.program.range_constraints.get(symbol)
                env.adopt(symbol, (max(low, 2) if high >= 2 else low, high), max(example, 2) if high >= 2 else example)
                if declared is not None:
                    env.declared[symbol] = declared.lower, declared.upper
        for guard in self.program._checks.guards:
            env.guards.append(ShapeGuard(guard))

    def _argument(self, node, spec):
        """A placeholder, and the value that the graph gets for it."""
        made = self.tracer.create_node("placeholder", node.name, (), {}, name=node.name)
        made.target = made.name
        if spec.kind is InputKind.TOKEN:
            describe(made, None)
            return None
        if spec.kind is not InputKind.USER_INPUT:
            value = self.program._value(spec.target)
            self.tracer.inputs.append(spec)
            self.tracer.last = made
            if self.tracer.known.get(value) is None:
                self.tracer.known[value] = Proxy(made, self.tracer)
            describe(made, value)
            return value
        value = spec.arg.value if isinstance(spec.arg, ConstantArgument) else self._user(made, node.meta.get("val"))
        describe(made, value)
        return value

    def _user(self, node, known):
        if isinstance(known, SymInt):
            value = self.shape_env.create_symintnode(known.node.expr)
            if isinstance(value, SymInt):
                self.tracer.size_nodes.nodes[SymInt, value.node.expr] = node
            return value
        sizes = getattr(known, "symbolic_sizes", None)
        if sizes is None:
            meta = OPS["empty_strided"](tuple(known.shape), known.stride(), dtype=known.dtype, device="meta")
            value = FakeTensor(meta, known.device, self.fake).requires_grad_(known.requires_grad)
        else:
            value = SymbolicTensor(known.meta.detach(), known.device, self.fake, sizes, known.symbolic_strides,
                                   known.symbolic_offset)
        self.tracer.known[value] = Proxy(node, self.tracer)
        self.tracer.size_nodes.note(value)
        return value

    # ---- steps ----

    def run_node(self, n):
        """The value of one Node: what is made meanwhile knows the lines and modules that it is of."""
        handed = SimpleNamespace(name=n.name, meta={key: n.meta[key] for key in _HANDED_ON if n.meta.get(key)})
        with fx_traceback.set_current_meta(handed):
            return super().run_node(n)

    # ---- what the program is now ----

    def _node_of(self, old):
        """The name that a value of the old graph has in the new one."""
        value = self.env.get(old)
        found = self.tracer.of_value(value) if value is not None else None
        return getattr(found, "name", old.name)

    def _renamed(self, arg, nodes):
        if isinstance(arg, ConstantArgument) or arg.name not in nodes:
            return arg
        return type(arg)(self._node_of(nodes[arg.name]))

    def _signature(self, nodes):
        users = [s for s in self.program.graph_signature.input_specs
                 if s.kind in (InputKind.USER_INPUT, InputKind.TOKEN)]
        outputs = []
        for spec, node in zip(self.output_specs(), nodes, strict=True):
            named = not isinstance(spec.arg, ConstantArgument) and hasattr(node, "name")
            outputs.append(type(spec)(spec.kind, type(spec.arg)(node.name) if named else spec.arg, spec.target))
        return ExportGraphSignature([*self.tracer.inputs, *users], outputs)

    def _calls(self):
        nodes = {n.name: n for n in self.program.graph.nodes}
        found = []
        for entry in self.program.module_call_graph:
            s = entry.signature
            if s is not None:
                s = type(s)(*([self._renamed(a, nodes) for a in row] for row in (s.inputs, s.outputs)), s.in_spec,
                            s.out_spec, s.forward_arg_names)
            found.append(type(entry)(entry.fqn, s))
        return found

    def _checks(self):
        """The conditions of the program, and those that its parts add."""
        checks, env = self.program._checks, self.shape_env
        ranges = env.var_to_range | {s: (r.lower, r.upper) for s, r in checks.ranges.items()}
        more = [g for g in (env.replace(g.expr) for g in env.guards) if g not in checks.guards
                and not isinstance(g, bool) and certain(g, ranges) is None]
        return InputChecks(checks.inputs, checks.ranges, [*checks.guards, *more])

