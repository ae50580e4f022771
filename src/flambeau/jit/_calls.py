"""The module calls of a trace: each becomes a method of its module's class, with the operators that ran inside.

A method has the arguments of its call that are tensors. What it needs besides comes behind them; what others need of
it comes with its result. Sizes are read where they are used. Calls that do and take the same are one method.
"""

import contextlib
import functools
import itertools
import keyword
import re

from .. import _C
from .._aten.spelling import leaf_type
from .._symbolic import numbers
from ..export._trace import call_names
from ..fx import Node
from ..ops.namespaces import READINGS
from ..utils import _pytree
from ._classes import attribute_path
from ._kept import ScriptCall
from ._writing import OF_NUMBERS, Writer, assembled, quoted

_SIZES = {READINGS[name] for name in ("size", "numel", "stride")}
_TABLES = frozenset(("_forward_hooks", "_forward_hooks_always_called", "_forward_hooks_with_kwargs",
                     "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"))
_NUMBER = re.compile(r"_\d+$")


class Call:
    """One call of a module: `steps` are the Nodes and Calls inside, in their order."""

    def __init__(self, module, key, values=(), spec=None):
        self.module, self.key, self.values, self.spec = module, key, values, spec
        self.steps, self.results, self.result_spec = [], [], None
        self.nodes = set()  # all inside

    def all_nodes(self):
        """The Nodes inside, in their order."""
        return [node for step in self.steps for node in ([step] if isinstance(step, Node) else step.all_nodes())]


class Watched:
    """The calls of a module's inner modules, while a trace runs."""

    def __init__(self, module, tracer):
        self.root, self.tracer = module, tracer
        self.names = {}  # module: all its names
        for name, inner in module.named_modules(remove_duplicate=False):
            self.names.setdefault(inner, []).append(name)
        self.calls, self.stack = {}, []
        self.given = {}  # Node: the calls that have it as an argument
        self.methods = set()  # the keys of calls that are no part of their caller

    @contextlib.contextmanager
    def watching(self):
        """Inside, calls are noted, and Nodes know the calls that they are made in."""
        self.tracer.module_stack = type(self.tracer.module_stack)()
        before = {module: set(vars(module)) for module in self.names}
        handles = [handle for module in self.names if module is not self.root for handle in (
            module.register_forward_pre_hook(self._enter, with_kwargs=True),
            module.register_forward_hook(self._leave, always_call=True))]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            for module, names in before.items():  # a module with tables of hooks, even empty ones, is slower to call
                for name in [n for n, table in vars(module).items() if n in _TABLES and not table and n not in names]:
                    del vars(module)[name]

    def _enter(self, module, args, kwargs):
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        key = self.names[module][0]
        count = sum(call.module is module for call in self.calls.values())
        call = Call(module, f"{key}@{count}" if count else key, [self._node(x) for x in leaves], spec)
        self.calls[call.key] = call
        self.stack.append(call)
        self.tracer.module_stack[call.key] = key, type(module)

    def _leave(self, *given):
        call = self.stack.pop()
        self.tracer.module_stack.pop(call.key, None)
        leaves, call.result_spec = _pytree.tree_flatten(given[-1])
        call.results = [self._node(x) for x in leaves]

    def _node(self, x):
        """The Node of a value that the trace knows, or the value."""
        if isinstance(x, _C.Tensor):
            proxy = self.tracer.known.get(x)
            return x if proxy is None else proxy.node
        if isinstance(x, (numbers.SymInt, numbers.SymFloat)):
            return self.tracer.size_nodes.of(x)
        return x

    def tree(self):
        """The Call of the whole: a call whose module is not inside its caller's is a part of the caller."""
        root, there = Call(self.root, ""), set(self.tracer.graph.nodes)
        for call in self.calls.values():  # an argument that nothing used is gone
            call.values = [x if not isinstance(x, Node) or x in there else None for x in call.values]
            for value in call.values:
                if _is_tensor(value):
                    self.given.setdefault(value, []).append(call)
        kept = {node.target.module for node in there if isinstance(node.target, ScriptCall)}
        for node in self.tracer.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            chain = [root]
            for key in node.meta.get("nn_module_stack", ()):
                call = self.calls[key]
                if call.module in kept:
                    break  # a step of the caller
                if self.path(call.module, chain[-1].module) is not None:
                    chain.append(call)
                    self.methods.add(key)
            for outer, inner in itertools.pairwise(chain):
                if not outer.steps or outer.steps[-1] is not inner:
                    outer.steps.append(inner)
            chain[-1].steps.append(node)
            for call in chain:
                call.nodes.add(node)
        return root

    def has_size(self, expr, node):
        """Whether a call that a Node is made in, or the whole, is given a tensor of such a size."""
        given = [self.calls[key].values for key in node.meta.get("nn_module_stack", ()) if key in self.methods]
        return any(expr in _sizes(x) for values in (*given, self.inputs) for x in values if isinstance(x, Node))

    @functools.cached_property
    def inputs(self):
        """The arguments of the whole."""
        return [node for node in self.tracer.graph.nodes if node.op == "placeholder" and _sizes(node)]

    def without_steps(self):
        """The calls that leave nothing in the graph: what they give are their arguments."""
        return [call for call in self.calls.values() if not call.nodes and all(
            any(x is value for value in call.values) or not isinstance(x, (Node, _C.Tensor)) for x in call.results)]

    def path(self, inner, outer):
        """The name of a module inside another one; None where it is not inside."""
        return within(self.names[inner], self.names.get(outer, [""]))


def within(names, outer):
    """What the first of some names is called below one of the outer ones; None where it is not below."""
    for above in outer:
        for name in names:
            if name != above and (above == "" or name.startswith(above + ".")):
                return name[len(above) + 1 if above else 0:]
    return None


class Methods:
    """The texts of the methods of all modules of a trace.

    script  what becomes part of the program as it is scripted
    texts   {id of a module: {name: text}}
    """

    def __init__(self, script):
        self.script, self.constants, self.texts = script, script.constants, {}

    def text(self, module):
        """The methods of a module."""
        return "".join(self.texts.get(id(module), {}).values())

    def add(self, call, head, body):
        """The name of the method of a call's module that is such a text: one that is there, or a new one."""
        known = self.texts.setdefault(id(call.module), {})
        for name, text in known.items():
            if text == f"def {name}{head}{body}":
                return name
        name = f"forward{len(known) or ''}"
        known[name] = f"def {name}{head}{body}"
        return name


class CallWriter(Writer):
    """The text of one call. `outer` writes the call around it; `held` has the names of tensors of modules."""

    def __init__(self, graph, trace, call, methods, outer=None):
        super().__init__(graph, {}, methods.constants)
        self.trace, self.call_, self.methods, self.outer = trace, call, methods, outer
        self.numbers = {}  # how often a name was wanted again
        self.more = []  # Nodes that come as arguments behind those of the call

    # ---- values ------------------------------------------------------------------------------------------------------

    def value(self, x):
        if isinstance(x, Node) and x not in self.names:
            self.names[x] = self._found(x)
        return super().value(x)

    def _found(self, node):
        """An expression for a value from outside, or for a number that is made anew."""
        names = self.trace.held.get(node)
        if isinstance(names, str):
            return names
        if names is not None:
            path = within(names, self.trace.watched.names.get(self.call_.module, [""]) if self.outer else [""])
            if path is not None:
                return attribute_path(path)
        if _is_number(node):
            made = self._size(node)
            if made is not None:
                return made
            if self.outer is None or all(x in self.names or _is_number(x) for x in node.all_input_nodes):
                return self._line(node)
        self.more.append(node)
        return self._new(_NUMBER.sub("", node.name))

    def _size(self, node):
        """A size as that of a tensor that is at hand; None where none has it."""
        expr = _size_of(node)
        for x in self.names if expr is not None else ():
            if expr in _sizes(x):
                name = self._new("size")
                self.lines.append(f"{name} = torch.size({self.names[x]}, {_sizes(x).index(expr)})")
                return name
        return None

    def _line(self, node):
        made = self.call(node)
        name = self.names[node] = self._new(_NUMBER.sub("", node.name))
        self.lines.append(f"{name} = {made}")
        return name

    def _new(self, wanted):
        """A name that the function has not yet."""
        name = wanted
        while name in self.used or keyword.iskeyword(name):
            self.numbers[wanted] = self.numbers.get(wanted, 0) + 1
            name = f"{wanted}_{self.numbers[wanted]}"
        self.used.add(name)
        return name

    # ---- the text ----------------------------------------------------------------------------------------------------

    def call(self, node):
        return node.target.text(self, node) if isinstance(node.target, ScriptCall) else super().call(node)

    def path_of(self, module):
        """The expression of a module inside that of the call."""
        path = self.trace.watched.path(module, self.call_.module)
        if path is None:
            raise NotImplementedError(f"jit.trace: the scripted {module.original_name} is called by a module that does "
                                      "not hold it; make it a module of its caller")
        return attribute_path(path)

    def steps(self):
        """The lines of all steps."""
        for step in self.call_.steps:
            if not isinstance(step, Node):
                self._inner(step)
            elif step not in self.names and not (step.op == "call_function" and step.target is READINGS["assert"]):
                self._line(step)

    def _inner(self, call):
        """The line of a call of an inner module, whose method is written."""
        inner = CallWriter(self.graph, self.trace, call, self.methods, self)
        name, given, results = inner.as_method()
        path = attribute_path(self.trace.watched.path(call.module, self.call_.module))
        made = f"{path}.{name}({', '.join(map(self.text_of, given))})"
        outside = [(node, place) for node, place in results if node not in self.names]
        if not outside:
            self.lines.append(f"{self._new('unused')} = {made}")
            return
        local = self._new(_NUMBER.sub("", outside[0][0].name))
        self.lines.append(f"{local} = {made}")
        for node, place in outside:
            self.names[node] = local + place

    def text_of(self, given):
        """An argument: a Node, or a tree of Nodes."""
        if isinstance(given, Node):
            return self.value(given)
        nodes, spec = given
        return assembled(spec, [(self.value(node), "Tensor") for node in nodes])[0]

    def as_method(self):
        """(name of the method, what it is given, [(Node of a result, its place in what is returned)])."""
        call = self.call_
        declared, given = self._arguments()
        self.steps()
        text, kind, places = self._returned()
        for node in self.more:
            declared.append(f"{self.names[node]}: {leaf_type(node)}")
        head = f"({', '.join(['self: SELF', *declared])}) -> {kind}:\n"
        body = "".join(f"  {line}\n" for line in (*self.lines, f"return {text}"))
        return self.methods.add(call, head, body), [*given, *self.more], places

    def _arguments(self):
        """(declarations, values) of the tensors that the call is given."""
        if self.call_.spec is None:
            return [], []
        args, kwargs = _pytree.tree_unflatten(self.call_.values, self.call_.spec)
        try:
            names, _ = call_names(self.call_.module, args, kwargs)
        except (StopIteration, TypeError, ValueError):  # a forward that does not tell
            names = [f"argument_{k}" for k in range(len(args))] + list(kwargs)
        declared, given = [], []
        for name, value in zip(names, (*args, *kwargs.values()), strict=True):
            nodes, spec = _pytree.tree_flatten(value)
            tensors = [node for node in nodes if _is_tensor(node)]
            if not tensors:
                continue
            whole = len(tensors) == len(nodes) and spec.num_leaves > 0
            for part in [(tensors, spec)] if whole else [([node], None) for node in tensors]:
                self._argument(name, *part, declared, given)
        return declared, given

    def _argument(self, name, nodes, spec, declared, given):
        name = self._new(name if name.isidentifier() else f"argument_{len(declared)}")
        is_one = spec is None or not isinstance(_pytree.tree_unflatten(nodes, spec), (tuple, list, dict))
        try:
            kind = "Tensor" if is_one else assembled(spec, [("", "Tensor")] * len(nodes))[1]
        except NotImplementedError:  # an object of a class of one's own: its tensors are arguments
            for node in nodes:
                self._argument(name, [node], None, declared, given)
            return
        declared.append(f"{name}: {kind}")
        given.append(nodes[0] if is_one else (nodes, spec))
        tree = nodes[0] if is_one else _pytree.tree_unflatten(nodes, spec)
        for path, node in paths(tree):
            self.names.setdefault(node, name + "".join(map(step_text, path)))

    def _returned(self):
        """(expression, type, [(Node, place)]): the module's result, and what else is used outside."""
        call = self.call_
        used = [node for node in call.all_nodes() if self._is_used_outside(node)]
        known = [x for x in call.results if not isinstance(x, Node) or self.trace.is_there(x)]
        more = [node for node in used if node not in call.results]
        try:
            if len(known) < len(call.results) or call.result_spec is None:
                raise NotImplementedError
            text, kind = self.returned(call.results, call.result_spec)
            tree = _pytree.tree_unflatten(call.results, call.result_spec)
            places = [(node, "".join(map(step_text, path)))
                      for path, node in paths(tree) if isinstance(node, Node)]
        except NotImplementedError:  # a part of it is not used at all, or is of a class of one's own
            text, kind, places, more = None, None, [], used
        if text is not None and not more:
            return text, kind, places
        parts = [(text, kind)] * (text is not None) + [(self.value(node), leaf_type(node)) for node in more]
        if len(parts) == 1:
            return *parts[0], [(more[0], "")]
        first = text is not None
        places = [(node, f"[0]{place}") for node, place in places]
        places += [(node, f"[{k + first}]") for k, node in enumerate(more)]
        texts, kinds = zip(*parts, strict=True) if parts else ((), ())
        if not parts:
            return "None", "NoneType", []
        return f"({', '.join(texts)})", f"Tuple[{', '.join(kinds)}]", places

    def _is_used_outside(self, node):
        if _is_number(node):
            return False
        inside = self.call_.nodes
        return any(user not in inside for user in self._users(node)) or any(
            call.nodes and call.nodes.isdisjoint(inside) for call in self.trace.watched.given.get(node, ()))

    def _users(self, node):
        """The Nodes that use a Node, or a size of it that they do not find at their own arguments."""
        for user in node.users:
            if not _is_number(user):
                yield user
                continue
            expr = _size_of(user)
            yield from (x for x in _consumers(user) if expr is None or not self.trace.watched.has_size(expr, x))


def _consumers(number):
    """The Nodes that use a number, or one that is made of it."""
    for user in number.users:
        yield from _consumers(user) if _is_number(user) else [user]


def _size_of(node):
    """The expression of a size that a Node reads; None for other numbers."""
    value = node.meta.get("val") if node.target is READINGS["size"] else None
    return value.node.expr if isinstance(value, numbers.SymInt) else None


def _sizes(node):
    """The expressions of a tensor's open sizes."""
    return tuple(getattr(node.meta.get("val"), "symbolic_sizes", None) or ()) if isinstance(node, Node) else ()


def paths(tree):
    """[(path, leaf)] of a tree of values, in which named tuples are tuples."""
    return _pytree.tree_flatten_with_path(_plain(tree))[0]


def _plain(tree):
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        return (list if isinstance(tree, list) else tuple)(map(_plain, tree))
    return tree


def step_text(key):
    """A step of a path into a tree of values, as a program writes it."""
    inner = getattr(key, "idx", getattr(key, "key", None))
    return f"[{quoted(inner) if isinstance(inner, str) else inner}]"


def _is_tensor(x):
    return isinstance(x, Node) and isinstance(x.meta.get("val"), _C.Tensor)


def _is_number(node):
    """Whether a Node is a number that follows from sizes."""
    return node.op == "call_function" and (node.target in _SIZES or node.target in OF_NUMBERS)
