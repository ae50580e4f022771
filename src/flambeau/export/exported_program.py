"""ExportedProgram: a graph whose inputs are the weights and the arguments, with all that is needed to run it."""

from dataclasses import dataclass, field
from functools import partial
from types import MethodType
from typing import NamedTuple

import flambeau

from .._shown import shown
from ..fx import Graph, GraphModule
from ..fx._pytree_codegen import _PyTreeInfo
from ..ops.kinds import find
from ..utils._pytree import tree_leaves, tree_structure
from ._call_codegen import CallCodeGen
from ._checks import InputChecks
from ._decompositions import decomposed, is_primitive
from ._validating import validated
from .graph_signature import InputKind, OutputKind

#: results that are written to what the program was given
_REPLACING = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)


class CallSpec(NamedTuple):
    """How arguments and results fold."""

    in_spec: object
    out_spec: object


@dataclass
class ModuleCallSignature:
    """Arguments and results of a module."""

    inputs: list
    outputs: list
    in_spec: object
    out_spec: object
    forward_arg_names: list | None = None


@dataclass
class ModuleCallEntry:
    """A module of the program, by its path."""

    fqn: str
    signature: ModuleCallSignature | None = field(default=None)


class ExportedProgram:
    """A program for others: made by `flambeau.export.export`, written by `save`, read by `load`.

    * graph_module, graph: the operators; the first inputs are parameters, buffers, constants, as graph_signature says
    * state_dict, constants: the tensors behind these inputs
    * range_constraints: {Symbol: ValueRanges}, the sizes that may differ
    * example_inputs: (args, kwargs)
    * module(): the program as a Module

    >>> import flambeau
    >>> from flambeau.export import Dim, export
    >>> net = flambeau.nn.Linear(2, 3)
    >>> program = export(net, (flambeau.ones(4, 2),), dynamic_shapes=({0: Dim("batch")},))
    >>> program.range_constraints, program.module()(flambeau.ones(7, 2)).shape
    ({s0: VR[0, int_oo]}, torch.Size([7, 3]))
    """

    def __init__(self, root, graph, graph_signature, state_dict, range_constraints, module_call_graph,
                 example_inputs=None, constants=None, *, verifiers=None, checks=None):
        if verifiers is not None:
            raise NotImplementedError("ExportedProgram: verifiers are not available; validate() checks the graph")
        self._graph_module = root if isinstance(root, GraphModule) and graph is root.graph else GraphModule(root, graph)
        self._graph_signature, self._state_dict = graph_signature, state_dict
        self._range_constraints, self._module_call_graph = range_constraints, module_call_graph
        self._example_inputs, self._constants = example_inputs, constants or {}
        self._dialect = "TRAINING"
        self._checks = checks if checks is not None else InputChecks([], {}, [])

    @property
    def graph_module(self):
        """The graph as a GraphModule of its flat inputs."""
        return self._graph_module

    @property
    def graph(self):
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self):
        """What its inputs and outputs are."""
        return self._graph_signature

    @property
    def state_dict(self):
        """The parameters and buffers."""
        return self._state_dict

    @property
    def constants(self):
        """Tensors that are part of the program, and buffers that are not in the state dict."""
        return self._constants

    @property
    def tensor_constants(self):
        """The constants."""
        return self._constants

    @property
    def range_constraints(self):
        """{Symbol: ValueRanges} of the sizes that may differ."""
        return self._range_constraints

    @property
    def module_call_graph(self):
        """One ModuleCallEntry, of the whole program."""
        return self._module_call_graph

    @property
    def call_spec(self):
        """How arguments and results fold."""
        signature = self._module_call_graph[0].signature
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def example_inputs(self):
        """(args, kwargs) that it was exported with."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value):
        """Others of the same structure; None for none."""
        if value is not None:
            signature = self.module_call_graph[0].signature
            whole = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple) and \
                isinstance(value[1], dict)
            if not whole:
                raise ValueError(f"example_inputs: expected (args, kwargs), a tuple and a dict, got {shown(value)}")
            args, kwargs = value
            names = signature.in_spec.children_specs[1].context or []
            known = {name: kwargs[name] for name in names} if set(names) == kwargs.keys() else kwargs
            if tree_structure((args, known)) != signature.in_spec:
                raise ValueError("example_inputs: these have not the structure of the program's arguments, "
                                 f"{shown(signature.in_spec)}")
        self._example_inputs = value

    @property
    def dialect(self):
        """The name of the set of operators: "TRAINING" as exported, "ATEN" after decompositions."""
        return self._dialect

    def parameters(self):
        """Its parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self):
        """(name, parameter) pairs."""
        for name in self._graph_signature.parameters:
            yield name, self._state_dict[name]

    def buffers(self):
        """Its buffers."""
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self):
        """(name, buffer) pairs."""
        for name in self._graph_signature.buffers:
            yield name, self._value(name)

    def _value(self, target):
        return self._state_dict[target] if target in self._state_dict else self._constants[target]

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ExportedProgram: call its module: program.module()(...)")

    def module(self, check_guards=True):
        """The program as a Module with the parameters and buffers of the one that was exported, shared with it.

        check_guards: arguments that the program is not for are an AssertionError; False: only other sizes than it has
        are an error (RuntimeError), and its conditions on them are not looked at
        """
        return _Unlifted(self, check_guards).made()

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """The program with operators that are made of others taken apart, until primitives are left.

        decomp_table    {operator: function}: takes apart these alone; `default_decompositions()` has them all

        Writes to buffers stay writes in place; what ran without gradients becomes plain steps.

        >>> import flambeau
        >>> net = flambeau.nn.BatchNorm1d(3).eval()
        >>> program = flambeau.export.export(net, (flambeau.ones(2, 3),))
        >>> [n.name for n in program.graph.find_nodes(op="call_function", target=flambeau.nn.functional.batch_norm)]
        ['batch_norm']
        >>> [n.name for n in program.run_decompositions().graph.nodes if n.op == "call_function"]
        ['native_batch_norm', 'getitem']
        """
        if decompose_custom_triton_ops:
            raise NotImplementedError("run_decompositions: there are no operators of Triton to decompose; leave "
                                      "decompose_custom_triton_ops out")
        if decomp_table is None and is_primitive(self):
            self._dialect = "ATEN"
            return self
        module, signature, calls, constants, checks = decomposed(self, decomp_table)
        made = ExportedProgram(module, module.graph, signature, self._state_dict, self._range_constraints, calls,
                               self._example_inputs, constants, checks=checks)
        made._dialect = "ATEN"
        return made

    def validate(self):
        """SpecViolationError where the graph, the signature and the tensors do not fit together."""
        validated(self)

    def __str__(self):
        code = self._graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        return f"ExportedProgram:\n    {code}\nGraph signature: \n{self._graph_signature}\n" \
               f"Range constraints: {self._range_constraints}\n"


def _fixed(name):
    def refuse(self, value):
        raise RuntimeError(f"ExportedProgram: {name} is not set; make another program with run_decompositions, or "
                           "change the graph itself")
    return refuse


for _name in ("graph_module", "graph", "graph_signature", "state_dict", "constants", "tensor_constants",
              "range_constraints", "module_call_graph", "call_spec", "dialect"):
    setattr(ExportedProgram, _name, vars(ExportedProgram)[_name].setter(_fixed(_name)))


def _stays_as_it_is(self, mode=True):
    raise NotImplementedError(f"{'train' if mode else 'eval'}: an exported program stays as it was made; export the "
                              "module again in the other mode")


class _SizesAlone:
    """Called before the module of a program that checks no conditions: sizes must fit all the same."""

    def __init__(self, program):
        self.checks = InputChecks(program._checks.inputs, program._checks.ranges, [])
        self.names = program.call_spec.in_spec.children_specs[1].context or []

    def __call__(self, *call):
        _, args, kwargs = call
        known = {name: kwargs[name] for name in self.names} if set(self.names) == kwargs.keys() else kwargs
        leaves = tree_leaves((args, known))
        if len(leaves) == len(self.checks.inputs):
            try:
                self.checks(*leaves)
            except AssertionError as error:
                raise RuntimeError(*error.args) from None


class _Unlifted:
    """Makes the module of a program: inputs that are its weights become attributes."""

    def __init__(self, program, check_guards):
        self.program, self.check_guards = program, check_guards
        self.root, self.graph = flambeau.nn.Module(), Graph()
        for name, value in vars(program.graph_module)["_modules"].items():
            setattr(self.root, name, value)

    def made(self):
        """The GraphModule."""
        program = self.program
        specs, places, users = program.graph_signature.input_specs, {}, []
        placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
        for node, spec in zip(placeholders, specs, strict=True):
            if spec.kind is InputKind.TOKEN:
                places[node] = None
            elif spec.kind is not InputKind.USER_INPUT:
                self._keep(spec)
                places[node] = self.graph.get_attr(spec.target)
                places[node].meta.update(node.meta)
        for node, spec in zip(placeholders, specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                places[node] = self.graph.node_copy(node)
                users.append(places[node])
        if self.check_guards:
            self.root.add_module("_guards_fn", program._checks)
            self.graph.call_module("_guards_fn", tuple(users))
        results = self.graph.graph_copy(program.graph, places)
        self.graph.output(self._written(results, {str(node): place for node, place in places.items()}))
        signature = program.module_call_graph[0].signature
        info = _PyTreeInfo(signature.forward_arg_names, signature.in_spec, signature.out_spec)
        self.graph.set_codegen(CallCodeGen(info))
        made = GraphModule(self.root, self.graph, "GraphModule")
        made.training = False
        if not self.check_guards:
            made.register_forward_pre_hook(_SizesAlone(program), with_kwargs=True)
        made.train = MethodType(_stays_as_it_is, made)
        made.eval = partial(made.train, False)
        return made

    def _written(self, results, places):
        """The results for the user; those that replace buffers and arguments are written there."""
        signature = self.program.graph_signature
        inputs = {s.target: s.arg.name for s in signature.input_specs if s.target is not None}
        kept = []
        for value, spec in zip(results, signature.output_specs, strict=True):
            if spec.kind in _REPLACING:
                place = places[inputs.get(spec.target, spec.target)]
                if place is not value:
                    self.graph.call_function(find("copy_"), (place, value))
            elif spec.kind is not OutputKind.TOKEN:
                kept.append(value)
        return tuple(kept)

    def _keep(self, spec):
        """Makes a tensor an attribute of the root, under its path."""
        value = self.program._value(spec.target)
        *path, name = spec.target.split(".")
        owner = self.root
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, flambeau.nn.Module())
            owner = owner._modules[part]
        if spec.kind is InputKind.PARAMETER:
            owner.register_parameter(name, value)
        else:
            owner.register_buffer(name, value, persistent=spec.kind is InputKind.BUFFER and bool(spec.persistent))
