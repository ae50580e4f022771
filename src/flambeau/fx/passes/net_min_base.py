"""The minimizer: finds the Nodes whose results differ between two ways of running them."""

from dataclasses import dataclass

from ..._shown import shown
from ..graph import Graph
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from .shape_prop import ShapeProp
from .tools_common import CALLABLE_NODE_OPS

__all__ = ["FxNetMinimizerBadModuleError", "FxNetMinimizerResultMismatchError", "FxNetMinimizerRunFuncError"]


class FxNetMinimizerBadModuleError(Exception):
    """A part of the module cannot be taken out."""


class FxNetMinimizerRunFuncError(Exception):
    """Running a part failed."""


class FxNetMinimizerResultMismatchError(Exception):
    """Two ways of running a part differ."""


@dataclass
class _MinimizerSettingBase:
    """How to search.

    accumulate_error     a part is run on what the second way gave for the parts before it, not on the first way's
    traverse_method      "sequential" (each Node alone), "binary" (halves), "accumulate" (from the start, one more each
                         time), "skip" (all but some), "defined" (the Nodes as one), "block" (the smallest block)
    find_all             does not stop at the first Node that differs
    return_intermediate  parts return all their results
    all_outputs          compares all outputs of a part, not the first only
    """

    accumulate_error: bool = False
    traverse_method: str = "sequential"
    find_all: bool = False
    return_intermediate: bool = False
    all_outputs: bool = False


class _MinimizerBase:
    """Compares `run_a` and `run_b`, which a subclass defines, on parts of a module.

    module, sample_input  a GraphModule, and its arguments
    compare_fn            (result of a, result of b, names) -> (a number, whether they agree)
    settings              a _MinimizerSettingBase
    module_exporter       called with (inputs, part, name) for every part that differs
    exclusion_fn          called with (nodes, first, last) before a search; may drop Nodes from the list
    """

    def __init__(self, module, sample_input, compare_fn, settings, module_exporter=None, exclusion_fn=None):
        if not isinstance(module, GraphModule):
            raise AssertionError(f"minimizer: expected a GraphModule, got {type(module).__name__}")
        self.module, self.sample_input = module, sample_input
        self.compare_fn, self.settings = compare_fn, settings
        self.module_exporter, self.exclusion_fn = module_exporter, exclusion_fn
        self.a_outputs, self.b_outputs, self.results, self.reports = {}, {}, {}, []
        self.iteration = 0
        self.run_shape_prop()
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        for node, value in zip(placeholders, sample_input, strict=False):
            self.a_outputs[node.name] = self.b_outputs[node.name] = value

    def run_shape_prop(self):
        """Finds out shapes and types of all results."""
        ShapeProp(self.module).propagate(*self.sample_input)

    def run_a(self, mod, inputs, report_idx=-1):
        """The result of a part, run the first way."""
        raise NotImplementedError("minimizer: a subclass defines run_a(mod, inputs, report_idx)")

    def run_b(self, mod, inputs, report_idx=-1):
        """The result of a part, run the second way."""
        raise NotImplementedError("minimizer: a subclass defines run_b(mod, inputs, report_idx)")

    def _store_outputs(self, a_result, b_result, names):
        """Keeps what a part gave, for the parts after it."""
        many = isinstance(a_result, (tuple, list))
        for k, name in enumerate(names):
            self.a_outputs[name] = a_result[k] if many else a_result
            self.b_outputs[name] = b_result[k] if many else b_result

    def _run_and_compare(self, nodes):
        """Runs these Nodes as one part both ways; FxNetMinimizerResultMismatchError where they differ."""
        module, names = self._part(nodes)
        inputs = [n.name for n in module.graph.nodes if n.op == "placeholder"]
        self._reach(inputs)
        a_inputs = [self.a_outputs[name] for name in inputs]
        b_inputs = [self.b_outputs[name] for name in inputs] if self.settings.accumulate_error else a_inputs
        self.iteration += 1
        self.reports.append([f"part {self.iteration}: {', '.join(n.name for n in nodes)}"])
        try:
            a_result = self.run_a(module, a_inputs, len(self.reports) - 1)
            b_result = self.run_b(module, b_inputs, len(self.reports) - 1)
        except Exception as error:
            raise FxNetMinimizerRunFuncError(f"minimizer: running {names} failed: {error}") from error
        self._store_outputs(a_result, b_result, names)
        number, agree = self.compare_fn(a_result, b_result, names)
        self.results[names[-1]] = number
        self.reports[-1].append(f"difference {number}")
        if not agree:
            if self.module_exporter:
                self.module_exporter(b_inputs, module, f"{names[0]}_{names[-1]}")
            raise FxNetMinimizerResultMismatchError(f"minimizer: results of {names} differ: {number}")

    def _part(self, nodes):
        """(a module of these Nodes, the names of what it returns)."""
        members = set(nodes)
        results = [n for n in sorted(members) if self.settings.return_intermediate
                   or any(u not in members for u in n.users)] or [max(members)]
        if not self.settings.all_outputs and not self.settings.return_intermediate:
            results = results[-1:]
        graph, made = Graph(), {}
        for used in sorted({u for n in members for u in n.all_input_nodes if u not in members and u.op != "get_attr"}):
            made[used] = graph.placeholder(used.name)
        try:
            for node in sorted(members | {u for n in members for u in n.all_input_nodes if u.op == "get_attr"}):
                made[node] = graph.node_copy(node, made.__getitem__)
        except KeyError as error:
            raise FxNetMinimizerBadModuleError(f"minimizer: {error} is not at hand") from None
        graph.output(tuple(made[n] for n in results) if len(results) > 1 else made[results[0]])
        return GraphModule(self.module, graph), [n.name for n in results]

    def _reach(self, names):
        """Runs what lies before a part the first way, where it has not been run."""
        if all(name in self.a_outputs for name in names):
            return
        runner = _Recorder(self.module, self.a_outputs)
        runner.run(*self.sample_input)
        for name, value in self.a_outputs.items():
            self.b_outputs.setdefault(name, value)

    def _agree(self, nodes):
        """Whether these Nodes, run as one part, give the same both ways."""
        try:
            self._run_and_compare(nodes)
        except (FxNetMinimizerRunFuncError, FxNetMinimizerResultMismatchError):
            return False
        return True

    def _sequential_traverse(self, nodes):
        found = set()
        for node in nodes:
            if not self._agree([node]):
                found.add(node)
                if not self.settings.find_all:
                    break
        return found

    def _binary_traverse(self, nodes):
        if self._agree(nodes):
            return set()
        if len(nodes) == 1:
            return set(nodes)
        middle = len(nodes) // 2
        found = self._binary_traverse(nodes[:middle])
        if not found or self.settings.find_all:
            found = found | self._binary_traverse(nodes[middle:])
        return found

    def _accumulate_traverse(self, nodes):
        for k in range(1, len(nodes) + 1):
            if not self._agree(nodes[:k]):
                return {nodes[k - 1]}
        return set()

    def _defined_traverse(self, nodes):
        return set() if self._agree(nodes) else set(nodes)

    def _block_traverse(self, nodes, find_last_node=None):
        """The smallest run of Nodes that differs; find_last_node: only its last (True) or first (False) is searched."""
        if self._agree(nodes):
            return set()
        first, last = 0, len(nodes)
        if find_last_node in (None, True):
            last = self._smallest(lambda k: not self._agree(nodes[:k]), 1, len(nodes))
        if find_last_node in (None, False):
            first = last - self._smallest(lambda k: not self._agree(nodes[last - k:last]), 1, last)
        return set(nodes[first:last])

    @staticmethod
    def _smallest(differs, low, high):
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if differs(middle) else (middle + 1, high)
        return low

    def _skip_traverse(self, nodes, skip_nodes):
        found, block = set(), []
        for node in [*nodes, None]:
            if node is not None and node.name not in skip_nodes:
                block.append(node)
                continue
            if block and not self._agree(block):
                found |= set(block)
            block = []
        return found

    def _collect_nodes(self, start, end):
        """The Nodes that call something from the one called `start` to the one called `end`."""
        nodes = [n for n in self.module.graph.nodes if n.op in CALLABLE_NODE_OPS]
        names = [n.name for n in nodes]
        for name in (start, end):
            if name is not None and name not in names:
                raise AssertionError(f"minimizer: no Node that calls something is named {shown(name)}")
        return nodes[names.index(start) if start else 0:names.index(end) + 1 if end else len(nodes)]

    def run_nodes(self, start=None, end=None):
        """Runs a range of Nodes as one part, and compares."""
        self._run_and_compare(self._collect_nodes(start, end))

    def print_reports(self):
        """Prints what was run."""
        for report in self.reports:
            print("\n".join(report))

    def minimize(self, start=None, end=None, skip_nodes=None, find_last_node=None):
        """The Nodes of a range whose results differ, searched as settings.traverse_method says."""
        nodes = self._collect_nodes(start, end)
        if self.exclusion_fn is not None:
            self.exclusion_fn(nodes, 0, len(nodes))
        method = self.settings.traverse_method
        if method == "skip":
            if not skip_nodes:
                raise RuntimeError("minimize: traverse_method='skip' needs skip_nodes=, names of Nodes")
            return self._skip_traverse(nodes, skip_nodes)
        if method == "block":
            return self._block_traverse(nodes, find_last_node)
        ways = {"sequential": self._sequential_traverse, "binary": self._binary_traverse,
                "accumulate": self._accumulate_traverse, "defined": self._defined_traverse}
        if method not in ways:
            raise RuntimeError(f"minimize: traverse_method must be one of {', '.join([*ways, 'skip', 'block'])}, got "
                               f"{shown(method)}")
        return ways[method](nodes)


class _Recorder(Interpreter):
    """Keeps every value by its Node's name."""

    def __init__(self, module, values):
        super().__init__(module)
        self.values = values

    def run_node(self, n):
        """The value of a Node, which is kept unless one is known."""
        value = super().run_node(n)
        return self.values.setdefault(n.name, value)
