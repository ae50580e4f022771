"""The graph of a function or method of a program, made from its text."""

import ast

from ._compile import dotted
from ._graph import BOOL, INT, NONE, TENSOR, Graph, Value
from ._graph_types import Schema, Type, of_annotation
from ._lowered_calls import Calls, Several
from ._program import Kind
from ._straight import raises, straight

RAISED = object()
_FOREVER = 9223372036854775807


def graph_of(program, qualified, inlined=False, name=None):
    """The Graph of a function; of a class's method where `name` says which.

    inlined     functions and methods that it calls are written out
    """
    found = program.definition(qualified)[0]
    made = Graph()
    lowering = Lowering(program, made, inlined)
    node = lowering.method(found, name) if isinstance(found, Kind) else lowering.definition(program.source(qualified))
    receiver = Type(qualified) if isinstance(found, Kind) else None
    values = {arg.arg: made.give(kind, "self" if kind is receiver else made.named(arg.arg))
              for arg, kind in zip(node.args.args + node.args.kwonlyargs, _kinds(node, receiver), strict=True)}
    made.leave(lowering.function(node, values))
    made.without_leftovers()
    return made


def schema_of(program, qualified, name=None):
    """The Schema of a function; of a class's method where `name` says which."""
    lowering = Lowering(program, Graph(), False)
    node = lowering.definition(program.source(qualified)) if name is None else lowering.method(
        program.definition(qualified)[0], name)
    return Schema(node, lowering.result_of(qualified if name is None else f"{qualified}.{name}", node))


def _kinds(node, receiver=None):
    """The types of a function's arguments."""
    args = [*node.args.args, *node.args.kwonlyargs]
    return [receiver if k == 0 and receiver is not None else TENSOR if arg.annotation is None else of_annotation(
        arg.annotation) for k, arg in enumerate(args)]


class Lowering(Calls):
    """Statements as nodes of a graph."""

    def __init__(self, program, graph, inlined):
        self.program, self.graph, self.inlined = program, graph, inlined
        self.block, self.env, self.line = graph, {}, None
        self.returned, self.inside, self.parsed = {}, [], {}

    def definition(self, text):
        """The FunctionDef of a text: what the program runs is made of another."""
        if text not in self.parsed:
            self.parsed[text] = ast.parse(text).body[0]
        return self.parsed[text]

    def method(self, kind, name):
        """The FunctionDef of a method."""
        return self.definition(kind.source(name))

    def function(self, node, values):
        """Writes a function's body for these arguments; the value that it gives."""
        before, self.env = self.env, dict(values)
        out = self.body(straight(node.body))
        self.env = before
        if out is RAISED:
            return self.add("prim::Uninitialized", [], [of_annotation(node.returns) if node.returns else NONE])
        return self.annotated(out, of_annotation(node.returns)) if node.returns is not None else out

    def annotated(self, value, kind):
        """A value whose type is told."""
        if value.type().kind() in ("AnyType", "NoneType", "UnknownType") or kind.kind() in ("ListType", "DictType"):
            value._kind = kind if value.type() != NONE else value.type()
        return value

    def result_of(self, qualified, node, receiver=None):
        """The type of what a function or method gives."""
        if node.returns is not None:
            return of_annotation(node.returns)
        key = qualified, node.name
        if key not in self.returned:
            self.returned[key] = TENSOR  # of one that calls itself
            scratch = Lowering(self.program, Graph(), False)
            scratch.returned = self.returned
            args = [*node.args.args, *node.args.kwonlyargs]
            values = {arg.arg: scratch.graph.give(kind) for arg, kind in zip(args, _kinds(node, receiver), strict=True)}
            self.returned[key] = scratch.function(node, values).type()
        return self.returned[key]

    # ---- statements --------------------------------------------------------------------------------------------------

    def body(self, statements):
        """What ends the statements: the value that is returned, RAISED, or None where they go on."""
        for s in statements:
            self.line = getattr(s, "lineno", None)
            out = getattr(self, f"_{type(s).__name__.lower()}")(s)
            if out is not None:
                return out
        return None

    def _pass(self, *_):
        pass

    def _return(self, node):
        return self.value(node.value) if node.value is not None else self.constant(None, NONE)

    def _raise(self, node):
        args = node.exc.args if isinstance(node.exc, ast.Call) else []
        name = ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
        self.raised(self.value(args[0]) if args else self.text(""), self.text(f"builtins.{name}"))
        return RAISED

    def raised(self, *values):
        """A step that raises."""
        self.block.add("prim::RaiseException", values)

    def _expr(self, node):
        if raises(node):
            self.raised(*map(self.value, node.value.args))
            return RAISED
        self.any(node.value)
        return None

    def _assign(self, node):
        made = self.any(node.value)
        for target in node.targets:
            self.store(target, made)

    def _annassign(self, node):
        if node.value is not None:
            self.store(node.target, self.annotated(self.value(node.value), of_annotation(node.annotation)))

    def _augassign(self, node):
        read = ast.copy_location(ast.parse(ast.unparse(node.target), mode="eval").body, node)
        held = self.value(read)
        in_place = held.type() == TENSOR or held.type().kind() == "ListType"
        self.store(node.target, self.binary(node.op, held, self.value(node.value), in_place))

    def store(self, target, made):
        """`target = made`."""
        if isinstance(target, ast.Name):
            self.env[target.id] = made
            if isinstance(made, Value) and made._name is None and target.id[0] != "$" and made.node().kind() not in (
                    "prim::Constant", "prim::GetAttr"):
                made.setDebugName(self.graph.named(target.id))
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.apart(target.elts, self.unpacked(made, len(target.elts)))
        elif isinstance(target, ast.Attribute):
            self.add("prim::SetAttr", [self.value(target.value), self.one(made)], [], name=target.attr)
        elif isinstance(target, ast.Subscript):
            self.put(self.value(target.value), target.slice, self.one(made))

    def apart(self, targets, parts):
        """Several targets; one with a star takes what the others leave."""
        star = next((k for k, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
        if star is not None:
            stop = len(parts) - (len(targets) - star - 1)
            kinds = {str(self.one(part).type()) for part in parts[star:stop]} or {"Tensor"}
            rest = self.add("prim::ListConstruct", map(self.one, parts[star:stop]), [Type(f"List[{kinds.pop()}]")])
            targets = [*targets[:star], targets[star].value, *targets[star + 1:]]
            parts = [*parts[:star], rest, *parts[stop:]]
        for inner, part in zip(targets, parts, strict=True):
            self.store(inner, part)

    def unpacked(self, made, count):
        """The parts of a tuple or list."""
        if isinstance(made, Several):
            return list(made)
        kind = made.type()
        if kind.kind() == "TupleType":
            return self.several("prim::TupleUnpack", [made], kind.elements())
        inner = kind.getElementType() if kind.kind() == "ListType" else TENSOR
        if kind == TENSOR:
            made = self.add("aten::unbind", [made, self.whole(0)], [Type("List[Tensor]")])
        return self.several("prim::ListUnpack", [made], [inner] * count)

    def put(self, held, place, value):
        """`held[place] = value`."""
        if held.type() != TENSOR:
            if self.has_method(held, "__setitem__"):
                self.method_call(held, "__setitem__", [self.value(place), value], {})
            else:
                self.add("aten::_set_item", [held, self.value(place), value], [held.type()])
            return
        view, indices = self.viewed(held, place)
        if indices is not None:
            self.add("aten::index_put_", [view, indices, value, self.constant(False, BOOL)], [TENSOR])
        elif value.type() == TENSOR:
            self.add("aten::copy_", [view, value, self.constant(False, BOOL)], [TENSOR])
        else:
            self.add("aten::fill_", [view, value], [TENSOR])

    def _delete(self, node):
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                self.add("aten::Delete", [self.value(target.value), self.value(target.slice)], [])

    def _assert(self, node):
        made = self.block.add("prim::If", [self.truth(node.test)])
        self.block.inner(made)
        outer, self.block = self.block, self.block.inner(made)
        self.raised(self.value(node.msg) if node.msg is not None else self.text("AssertionError: "))
        self.block = outer

    def _with(self, node):
        held = []
        for item in node.items:
            made = self.value(item.context_expr)
            held.append(made)
            entered = self.add("prim::Enter", [made], [NONE])
            if item.optional_vars is not None:
                self.store(item.optional_vars, entered)
        out = self.body(node.body)
        for made in reversed(held):
            self.add("prim::Exit", [made], [NONE])
        return out

    def _if(self, node):
        return self.branches(self.truth(node.test), lambda: self.body(node.body), lambda: self.body(node.orelse))

    def branches(self, test, *ways):
        """prim::If: what is assigned in both branches comes out, or what they return."""
        made = self.block.add("prim::If", [test])
        outer, before, ends = self.block, self.env, []
        for way in ways:
            self.block, self.env = outer.inner(made), dict(before)
            ends.append((way(), self.block, self.env))
        self.block, self.env = outer, before
        outs = [out for out, _, _ in ends]
        if all(out is RAISED for out in outs):
            return RAISED
        if any(isinstance(out, Value) for out in outs):
            kind = next(out.type() for out in outs if isinstance(out, Value) and (
                out.type() != NONE or not any(isinstance(o, Value) and o.type() != NONE for o in outs)))
            return self._joined(made, [(block, out) for out, block, _ in ends], kind)
        live = [(block, env) for out, block, env in ends if out is not RAISED]
        names = [name for name in live[0][1] if all(name in env for _, env in live) and any(
            env[name] is not before.get(name) for _, env in live)]
        for name in names:
            parts = [(block, RAISED if out is RAISED else self._inside(block, env[name])) for out, block, env in ends]
            kinds = [value.type() for _, value in parts if value is not RAISED]
            self.env[name] = self._joined(made, parts, kinds[0] if kinds[0] != NONE else kinds[-1])
        return None

    def _inside(self, block, made):
        outer, self.block = self.block, block
        value = self.one(made)
        self.block = outer
        return value

    def _joined(self, node, parts, kind):
        """An output of a node: a value of each of its blocks."""
        for block, value in parts:
            if value is RAISED:
                value = block.add("prim::Uninitialized", (), [kind])._outputs[0]
            block.leave(value)
        made = Value(self.graph, node, kind)
        node._outputs.append(made)
        return made

    # ---- loops -------------------------------------------------------------------------------------------------------

    def _while(self, node):
        going = self.truth(node.test)
        self._loop(node, self.whole(_FOREVER), going, lambda i: None, lambda: self.truth(node.test))

    def _for(self, node):
        if isinstance(node.iter, (ast.Tuple, ast.List)) or self.is_tuple(node.iter):
            values = self.unpacked(self.any(node.iter), len(getattr(node.iter, "elts", ())))
            for value in values:
                self.store(node.target, value)
                out = self.body(node.body)
                if out is not None:
                    return out
            return None
        count, item = self.iterated(node.iter)
        yes = self.constant(True, BOOL)
        self._loop(node, count, yes, lambda i: self.store(node.target, item(i)), lambda: yes)
        return None

    def is_tuple(self, node):
        """Whether an expression is a name of a tuple."""
        held = self.env.get(node.id) if isinstance(node, ast.Name) else None
        return isinstance(held, Several) or (held is not None and held.type().kind() == "TupleType")

    def _loop(self, node, count, going, begin, again):
        """prim::Loop: what the body assigns is carried from one turn to the next."""
        stored = [n.id for s in [*node.body, getattr(node, "target", None)] if s is not None for n in ast.walk(s)
                  if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        names = [name for name in dict.fromkeys(stored) if name in self.env]
        first = [self.one(self.env[name]) for name in names]
        made = self.block.add("prim::Loop", [count, going, *first])
        outer, before = self.block, self.env
        self.block, self.env = outer.inner(made), dict(before)
        i = self.block.give(INT)
        for name, value in zip(names, first, strict=True):
            self.env[name] = self.block.give(value.type(), self.graph.named(name.strip("$")))
        begin(i)
        self.body(node.body)
        flag = getattr(node, "going", None)
        if isinstance(node, ast.While) or flag is None:
            on = again() if flag is None else self.branches(
                self.one(self.env[flag]), again, lambda: self.constant(False, BOOL))
        else:
            on = self.one(self.env[flag])
        self.block.leave(on)
        kinds = []
        for name, value in zip(names, first, strict=True):
            last = self.one(self.env[name])
            kinds.append(last.type() if value.type() == NONE else value.type())
            self.block.leave(last)
        self.block, self.env = outer, before
        for name, kind in zip(names, kinds, strict=True):
            self.env[name] = Value(self.graph, made, kind, self.graph.named(name.strip("$")))
            made._outputs.append(self.env[name])

    def iterated(self, node):
        """(how many items a loop over an expression has, the function that gives the item of a number)."""
        name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
        if name == "range":
            bounds = [self.value(arg) for arg in node.args]
            if len(bounds) == 1:
                return bounds[0], lambda i: i
            bounds = [*bounds, self.whole(1)][:3]
            count = self.add("aten::__range_length", bounds, [INT])
            return count, lambda i: self.add("aten::__derive_index", [i, bounds[0], bounds[2]], [INT])
        if name == "enumerate":
            count, item = self.iterated(node.args[0])
            start = self.value(node.args[1]) if len(node.args) > 1 else None
            return count, lambda i: Several([
                i if start is None else self.add("aten::add", [i, start], [INT]), item(i)])
        if name == "zip":
            parts = [self.iterated(arg) for arg in node.args]
            counts = self.add("prim::ListConstruct", [count for count, _ in parts], [Type("List[int]")])
            count = self.add("prim::min", [counts], [INT])
            return count, lambda i: Several([item(i) for _, item in parts])
        return self.items(self.value(node))

    def items(self, held):
        """`iterated` of a value."""
        kind = held.type()
        if kind.kind() == "DictType":
            held = self.add("aten::keys", [held], [Type(f"List[{kind.getKeyType()}]")])
        elif kind.kind() == "ClassType" and dotted(ast.parse(str(kind), mode="eval").body):
            count = self.method_call(held, "__len__", [], {})
            return count, lambda i: self.method_call(held, "__getitem__", [i], {})
        count = self.add("aten::len", [held], [INT])
        if held.type() == TENSOR:
            return count, lambda i: self.add("aten::select", [held, self.whole(0), i], [TENSOR])
        inner = held.type().getElementType() if held.type().kind() == "ListType" else held.type()
        return count, lambda i: self.add("aten::__getitem__", [held, i], [inner])
