"""Exported programs for the library that runs them without Python (docs/deployment.md): routines of instructions over
numbered registers, which native/programs reads.

Each graph becomes a routine. A node's value is a register, a weight, a number that is known, or a tuple or list of
these; taking a part of it is no instruction.
"""

import contextlib
import math
import operator
from array import array

from .. import _C, as_tensor, control_flow, empty
from .._graph.words import Numbered, Words, native_name, write_operand
from .._shown import class_name, shown
from .._symbolic import numbers
from .._symbolic.expressions import Poly, constant
from .._tensor.overriding import takes_dispatch
from ..fx import Node
from ..ops import OPS
from ..ops.namespaces import READINGS
from ..utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from ._decompositions import is_primitive
from ._native_checks import SizeChecks
from .graph_signature import InputKind, SymIntArgument, TensorArgument

#: sizes that others seldom are
_UNLIKE = (19, 23, 29, 31, 37, 41, 43, 47)
_MARK, _VERSION = int.from_bytes(b"FLAMBEAU", "little"), 1
_CALL, _NUMBER, _CHECK, _COND, _WHILE, _SCAN = range(6)
#: function of numbers -> its name in native/programs/numbers.cpp
_NUMBERS = {getattr(operator, name): name for name in (
    "add", "sub", "mul", "pow", "truediv", "floordiv", "mod", "neg", "pos", "abs", "eq", "ne", "lt", "le", "gt", "ge",
    "and_", "or_", "xor", "invert", "lshift", "rshift")}
_NUMBERS |= {math.trunc: "trunc", math.floor: "floor", math.ceil: "ceil", math.sqrt: "sqrt", round: "round"}
_NUMBERS |= {getattr(numbers, name): name for name in ("sym_int", "sym_float", "sym_not", "sym_max", "sym_min",
                                                       "sym_ite", "sym_sum", "sym_sqrt")}
_NUMBERS |= {READINGS[name]: name for name in ("item", "size", "stride", "numel", "storage_offset")}


def native_program(program, place):
    """(the bytes of an ExportedProgram for native code, those of its plans).

    place: the entry of the file where the memory of a tensor lies, and at which byte of it. A program that needs Python
    becomes a text that says why, which the library repeats, and has no plans.
    """
    words, inner = Words(), Words()
    words.number(_MARK)
    words.number(_VERSION)
    try:
        found = LoweredProgram(program)
        found.write(inner, place)
    except (NotImplementedError, OverflowError) as why:
        words.text(str(why))
        return words.bytes(), b""
    words.text("")
    words.all.extend(inner.all)
    return words.bytes(), _plans(found, words.bytes())


def _plans(found, words):
    """Plans for the sizes of the example, for open sizes of 1, and for such that are equal to no other, which serve all
    sizes but 0 and 1; nothing is computed."""
    plans, held = {}, Words()
    for inputs in found.examples():
        with contextlib.suppress(RuntimeError, ValueError, IndexError, OverflowError):  # asks for values or sizes
            plans |= {key: (array("q", key), sizes, array("q", plan))
                      for key, sizes, plan in _C.plan_native(words, found.tensors(), inputs)}
    held.items(list(plans.values()), lambda parts: [held.numbers(part) for part in parts])
    return held.bytes()


def _primitive(program):
    """The program with all its steps taken apart."""
    if is_primitive(program):
        return program
    try:
        return program.run_decompositions()
    except Exception as error:  # whatever it is: the program can be saved all the same
        raise NotImplementedError(f"its operators cannot be taken apart: {error}") from error


class LoweredProgram:
    """What becomes of an ExportedProgram: its weights and routines; the first is the whole."""

    def __init__(self, program):
        self.program = program = _primitive(program)
        self.weights, self.routines = {}, []
        signature = program.graph_signature
        graph = program.graph_module.graph
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        users = [(n, s) for n, s in zip(placeholders, signature.input_specs, strict=True)
                 if s.kind is InputKind.USER_INPUT]
        #: (node, spec, name, what is asked of it) of each input that is given
        self.given = [(n, s, *asked) for (n, s), asked in zip(users, program._checks.inputs, strict=True)
                      if isinstance(s.arg, (TensorArgument, SymIntArgument))]
        values = {}
        for node, spec in zip(placeholders, signature.input_specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                values[node] = getattr(spec.arg, "value", None)
            else:
                values[node] = self.weight(program._value(spec.target))
        for number, (node, *_) in enumerate(self.given):
            values[node] = Numbered("register", number)
        main = self.routine(program.graph_module, values, len(self.given), program._checks)
        leaves = tree_leaves(next(iter(reversed(graph.nodes))).args[0])
        self.outputs = [n.name for n in leaves if isinstance(n, Node)]
        main.results = [r for r, n in zip(main.results, leaves, strict=True) if isinstance(n, Node)]

    def tensors(self):
        """The weights."""
        return tuple(tensor.detach() for _, tensor in self.weights.values())

    def weight(self, tensor):
        """A tensor as an operand."""
        if takes_dispatch(type(tensor)) or tensor.layout is not _C.strided or tensor.device.type != "cpu" \
                or tensor.is_conj() or tensor.is_neg():
            raise NotImplementedError(f"a weight is a {class_name(type(tensor))}, {tensor.layout}, on {tensor.device}")
        if id(tensor) not in self.weights:
            self.weights[id(tensor)] = Numbered("weight", len(self.weights)), tensor
        return self.weights[id(tensor)][0]

    def routine(self, module, values, inputs, checks=None):
        """The routine of a GraphModule, whose placeholders have these values; those that it runs come behind it."""
        made = _Routine(self, inputs)
        self.routines.append(made)
        if checks is not None:
            SizeChecks(made, checks, [tuple(asked) for _, _, *asked in self.given]).write()
        made.read(module, values)
        return made

    def examples(self):
        """Inputs to plan for: those of the example, and others that differ in what is open."""
        args, kwargs = self.program.example_inputs or ((), {})
        leaves = tree_leaves((args, kwargs))
        placeholders = [s for s in self.program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
        given = [leaf for leaf, spec in zip(leaves, placeholders, strict=False)
                 if isinstance(spec.arg, (TensorArgument, SymIntArgument))]
        if len(given) == len(self.given):
            yield tuple(x.detach() if isinstance(x, _C.Tensor) else as_tensor(x) for x in given)
        ranges = self.program._checks.ranges
        for choose in (lambda k: 1, lambda k: _UNLIKE[k % len(_UNLIKE)]) if ranges else ():
            values = {symbol: min(max(choose(k), span.lower), span.upper)
                      for k, (symbol, span) in enumerate(ranges.items())}
            yield tuple(self._example(node, what, values) for node, _, _, what in self.given)

    def _example(self, node, sizes, values):
        if isinstance(sizes, Poly):
            return as_tensor(sizes.evaluate(values))
        return empty([e.evaluate(values) for e in self._asked(node, sizes)], dtype=node.meta["val"].dtype)

    @staticmethod
    def _asked(node, sizes):
        """The sizes of an input; where nothing is asked of them, those of the example."""
        return sizes if sizes is not None else tuple(map(constant, node.meta["val"].shape))

    def write(self, words, place):
        """Storages, weights, inputs, outputs, routines."""
        storages = {}
        for _, tensor in self.weights.values():
            storages.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        numbers = {pointer: k for k, pointer in enumerate(storages)}

        def storage(tensor):
            entry, at = place(tensor)
            words.text(entry)
            words.number(at)
            words.number(tensor.untyped_storage().nbytes())

        def weight(tensor):
            words.number(numbers[tensor.untyped_storage().data_ptr()])
            words.dtype(tensor.dtype)
            words.numbers(tensor.shape)
            words.numbers(tensor.stride())
            words.number(tensor.storage_offset())

        words.items(list(storages.values()), storage)
        words.items([tensor for _, tensor in self.weights.values()], weight)

        def given(one):
            node, spec, name, what = one
            is_tensor = isinstance(spec.arg, TensorArgument)
            words.text(name)
            words.number(is_tensor)
            words.dtype(node.meta["val"].dtype if is_tensor else _C.int64)
            words.numbers([int(e) if e.is_number else -1 for e in self._asked(node, what)] if is_tensor else [])

        words.items(self.given, given)
        words.items(self.outputs, words.text)
        words.items(self.routines, lambda routine: routine.write(words))


class _Routine:
    """The instructions of one graph."""

    def __init__(self, program, inputs):
        self.program, self.inputs, self.registers = program, inputs, inputs
        self.count, self.body, self.results = 0, Words(), []

    def write(self, words):
        """All of it."""
        words.number(self.registers)
        words.number(self.inputs)
        words.number(self.count)
        words.all.extend(self.body.all)
        self._operands(words, self.results)

    def _operands(self, words, operands):
        words.items(operands, lambda x: write_operand(words, x))

    def register(self):
        """A new one."""
        self.registers += 1
        return Numbered("register", self.registers - 1)

    def emit(self, code, head, operands, makes):
        """One instruction: its kind, what `head` writes, its operands (None: they are in the head), its results."""
        self.count += 1
        self.body.number(code)
        head(self.body)
        if operands is not None:
            self._operands(self.body, operands)
        self.body.numbers([-1 if m is None else m.number for m in makes])

    def number(self, name, *operands):
        """What a function of numbers gives."""
        made = self.register()
        self.emit(_NUMBER, lambda words: words.text(name), operands, [made])
        return made

    def check(self, condition, text, *operands):
        """A condition that must hold; a "{}" in the text is an operand."""
        self.emit(_CHECK, lambda words: words.text(text), (condition, *operands), [])

    def read(self, module, values):
        """The instructions of the graph."""
        for node in module.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                self.results = [self._value(x, values) for x in tree_leaves(node.args[0])]
            elif node.op == "get_attr":
                held = getattr(module, node.target)
                values[node] = self.program.weight(held) if isinstance(held, _C.Tensor) else held
            else:
                values[node] = self._call(node, values)

    def _value(self, x, values):
        if isinstance(x, Node):
            return values[x]
        if isinstance(x, (tuple, list)):
            return type(x)(self._value(y, values) for y in x)
        return x

    def _call(self, node, values):
        target, args = node.target, self._value(tuple(node.args), values)
        kwargs = {name: self._value(x, values) for name, x in node.kwargs.items()}
        if target is operator.getitem:
            if isinstance(args[0], Numbered):
                raise NotImplementedError("it takes an item of what is no list of results")
            return args[0][args[1]]
        if isinstance(target, _C.Op):
            return self._operator(node, target, args, kwargs)
        if target in _NUMBERS and not kwargs:
            return self.number(_NUMBERS[target], *(args[0] if target is numbers.sym_sum else args))
        if target is READINGS["assert"]:
            return self.check(args[0], str(args[1]))
        if target is control_flow.cond:
            return self._cond(*args)
        if target is control_flow.while_loop:
            return self._while(*args)
        if target is control_flow.scan:
            return self._scan(*args, **kwargs)
        if target is control_flow.map:
            return self._map(*args)
        raise NotImplementedError(f"it calls {shown(getattr(target, '__name__', target))}, which is no native operator")

    def _operator(self, node, op, args, kwargs):
        forms = list(_forms(op, args, kwargs))
        if not forms:
            raise NotImplementedError(f"it calls {op.name}, which Python computes")
        parts = [user for user in node.users if user.target is operator.getitem]
        several = bool(parts) or isinstance(node.meta.get("val"), (tuple, list))
        made = {user.args[1]: None for user in parts}
        for index in made:
            made[index] = self.register()
        if several and len(parts) < len(node.users):
            raise NotImplementedError(f"the results of {op.name} are used as a list")
        results = [made.get(k) for k in range(max(made, default=-1) + 1)] if several else [self.register()]

        def head(words):
            words.number(native_name(forms[0][0])[1])
            words.items(forms, lambda form: (words.text(native_name(form[0])[0]), self._operands(words, form[1])))

        self.emit(_CALL, head, None, results)
        return made if several else results[0]

    def _inner(self, module):
        """The number of the routine of a branch or a body, and its results' structure."""
        body = getattr(module, "body", module)
        placeholders = [n for n in body.graph.nodes if n.op == "placeholder"]
        number = len(self.program.routines)
        values = {n: Numbered("register", k) for k, n in enumerate(placeholders)}
        self.program.routine(body, values, len(placeholders))
        return number, tree_flatten(next(iter(reversed(body.graph.nodes))).args[0])

    def _made(self, leaves):
        return [self.register() for _ in leaves]

    def _cond(self, condition, true_graph, false_graph, operands):
        (yes, (leaves, spec)), (no, _) = self._inner(true_graph), self._inner(false_graph)
        made = self._made(leaves)
        self.emit(_COND, lambda words: (words.number(yes), words.number(no)), (condition, *operands), made)
        return tree_unflatten(made, spec)

    def _while(self, condition, body, carried, additional):
        test, (inner, _) = self._inner(condition)[0], self._inner(body)
        made = self._made(carried)
        self.emit(_WHILE, lambda words: (words.number(test), words.number(inner)), (*carried, *additional), made)
        return tuple(made)

    def _scan(self, body, init, xs, *, dim=0, reverse=False, additional_inputs=()):
        carried, walked = tree_leaves(init), tree_leaves(xs)
        inner, (leaves, spec) = self._inner(body)
        made = self._made(leaves)
        settings = [len(carried), len(walked), dim, reverse, inner]
        if dim < 0:
            raise NotImplementedError(f"a scan walks along dimension {dim}, counted from the end")
        self.emit(_SCAN, lambda words: [words.number(int(n)) for n in settings],
                  (*carried, *walked, *additional_inputs), made)
        return tree_unflatten(made, spec)

    def _map(self, body, xs, *additional):
        inner, (leaves, spec) = self._inner(body)
        walked = tree_leaves(xs)
        made = self._made(leaves)
        self.emit(_SCAN, lambda words: [words.number(n) for n in (0, len(walked), 0, 0, inner)],
                  (*walked, *additional), made)
        return tree_unflatten(made, spec)


def _forms(op, args, kwargs):
    """The native operators that a call may be of, each with the arguments in its schema's order."""
    if op is OPS["detach.flat"]:  # there is no history in a program
        op = OPS["alias"]
    for form in op.alternatives or (op,):
        # var stands for the record behind it, "var.correction", whose arguments have its places
        behind = [form] if form.kind != "composite" else [o for n, o in OPS.items() if n.startswith(f"{form.name}.")]
        for native in behind:
            values = _by_name(native, args, kwargs) if native.body is None else None
            if values is not None:
                names = [name for name, *_ in native.arguments]
                last = max((k for k, name in enumerate(names) if name in values), default=-1)
                yield native, [values.get(name, default) for name, _, _, default in native.arguments[:last + 1]]


def _by_name(op, args, kwargs):
    """{name: argument}; None where they are none of this form."""
    names = [name for name, *_ in op.arguments]
    positional = sum(not keyword_only for _, keyword_only, _, _ in op.arguments)
    if len(args) > positional or any(name not in names[len(args):] for name in kwargs):
        return None
    return dict(zip(names, args, strict=False)) | kwargs
