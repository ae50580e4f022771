"""TorchScript's text, compiled to Python functions that can reach nothing but the operators of `_operators.py`.

TorchScript is written in Python's grammar. A text is parsed by `ast`; each statement and expression must be one that
the language has, and each name one that the function defines, a definition of the program, or an entry of a table. What
results is ordinary Python: it can be stepped through, and a traceback shows the lines of the archive.
"""

import ast
import builtins
import contextlib
import linecache
import math
import types

import flambeau

from .. import _C
from .._aten.numbers import NUMBERS
from .._shown import shown
from ..nn import functional as F
from ._errors import guarding
from ._locals import given_once, without_leftovers
from ._operators import attribute, library, method, store

BUILTINS = {name: getattr(builtins, name) for name in (
    "abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "float", "int", "len", "list", "max", "min",
    "print", "range", "reversed", "round", "sorted", "str", "sum", "tuple", "zip", "ord", "chr", "hash")}
_CONSTANTS = {"inf": math.inf, "nan": math.nan}
#: dunder methods that a class of a program may have
SPECIAL = frozenset(f"__{name}__" for name in (
    "init repr enter exit len contains getitem setitem delitem eq ne lt le gt ge add sub mul truediv floordiv mod pow "
    "neg and or xor call iter bool hash str int float post_init").split())
_STATEMENTS = (ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.If, ast.While, ast.For, ast.Pass,
               ast.Break, ast.Continue, ast.Assert, ast.Raise, ast.With, ast.Delete, ast.FunctionDef)
_PLAIN_NODES = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp,
                ast.BoolOp, ast.Compare, ast.IfExp, ast.Starred, ast.JoinedStr, ast.FormattedValue, ast.keyword,
                ast.ListComp, ast.DictComp, ast.comprehension, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
                ast.expr_context)


def _fail(value):
    raise value if isinstance(value, Exception) else RuntimeError(str(value))


class NotScript(RuntimeError):
    """A text that is no TorchScript."""


def dotted(node):
    """The names of a chain of attributes, from the first; None for anything else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def parsed(text, filename):
    """The Module node of a text; tracebacks and debuggers find its lines."""
    try:
        tree = ast.parse(text, filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotScript(f"jit: {filename}: {error}") from None
    linecache.cache[filename] = len(text), None, text.splitlines(True), filename
    return tree


class Function:
    """One function of a text on its way to Python: which names are its own, and what it asks for from outside."""

    def __init__(self, program, filename, node, owner=None, outer=()):
        self.program, self.filename, self.owner = program, filename, owner
        self.first = node.args.args[0].arg if owner and node.args.args else None
        self.locals = set(outer) | {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
        self.once = given_once(node, self.locals)
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                self.locals.add(child.id)
                if child.id == self.first:
                    self.refuse(child, f"{shown(self.first)}, the method's own object, is assigned to")
            if isinstance(child, ast.FunctionDef) and child is not node:
                self.locals.add(child.name)

    def refuse(self, node, what):
        raise NotScript(f"jit: {self.filename}, line {getattr(node, 'lineno', '?')}: {what}")

    # ---- statements --------------------------------------------------------------------------------------------------

    def body(self, statements):
        return [made for s in statements for made in self.statement(s)]

    def statement(self, node):
        """A list of statements of Python."""
        if not isinstance(node, _STATEMENTS):
            self.refuse(node, f"a {type(node).__name__} is no statement of TorchScript")
        special = getattr(self, f"_{type(node).__name__.lower()}", None)
        if special is not None:
            found = special(node)
            return [ast.copy_location(s, node) for s in (found if isinstance(found, list) else [found])]
        for name in ("body", "orelse"):
            if hasattr(node, name):
                setattr(node, name, self.body(getattr(node, name)))
        for name in ("value", "test", "iter", "target", "exc", "msg"):
            child = getattr(node, name, None)
            if child is not None:
                setattr(node, name, self.target(child) if name == "target" else self.expression(child))
        return [node]

    def _functiondef(self, node):
        return function_def(self.program, self.filename, node, outer=self.locals)

    def _assign(self, node):
        value = self.expression(node.value)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Attribute):
            return self.store(node.targets[0], value)
        return ast.Assign([self.target(t) for t in node.targets], value)

    def _annassign(self, node):
        if node.value is None:
            return []
        return self._assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def _augassign(self, node):
        value = self.expression(node.value)
        if isinstance(node.target, ast.Attribute):
            held = ast.Name("$held", ast.Store())
            read = ast.Attribute(node.target.value, node.target.attr, ast.Load())
            first = ast.Assign([held], self.expression(ast.copy_location(read, node)))
            then = ast.AugAssign(ast.Name("$held", ast.Store()), node.op, value)
            return [ast.copy_location(first, node), then, *self.store(node.target, ast.Name("$held", ast.Load()))]
        return ast.AugAssign(self.target(node.target), node.op, value)

    def _assert(self, node):
        text = ast.Constant("") if node.msg is None else self.expression(node.msg)
        raised = _call(self.outside("ops.prim.RaiseException", library("prim", "RaiseException")),
                       [_call(self.outside("str", str), [text]), ast.Constant("builtins.AssertionError")])
        raised = ast.copy_location(ast.Expr(raised), node)
        return ast.If(ast.UnaryOp(ast.Not(), self.expression(node.test)), [raised], [])

    def _raise(self, node):
        if node.exc is None:
            self.refuse(node, "raise needs an exception")
        call = node.exc
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id not in self.locals:
            text = [self.expression(a) for a in call.args] or [ast.Constant("")]
            made = _call(self.outside("ops.prim.RaiseException", library("prim", "RaiseException")),
                         [_call(self.outside("str", str), text[:1]), ast.Constant(f"builtins.{call.func.id}")])
        else:
            made = _call(self.outside("$fail", _fail), [self.expression(node.exc)])
        return ast.Expr(ast.copy_location(made, node))

    def _with(self, node):
        for item in node.items:
            item.context_expr = self.expression(item.context_expr)
            if item.optional_vars is not None:
                item.optional_vars = self.target(item.optional_vars)
        node.body = self.body(node.body)
        return node

    def _delete(self, node):
        node.targets = [self.target(t, ast.Del()) for t in node.targets]
        return node

    def store(self, target, value):
        """`object.name = value` for a declared attribute."""
        is_own = self.own(target)
        if (not is_own and not self.program.declares(target.attr)) or (is_own and self.program.kind_of(
                self.owner.types.get(target.attr)) is not None):
            self.refuse(target, f"an attribute {shown(target.attr)} is set that its class does not declare, or a "
                                "module")
        if not is_own:
            put = [self.expression(target.value), ast.Constant(target.attr), value]
            return [ast.copy_location(ast.Expr(_call(self.outside("$store", store), put)), target)]
        place = ast.Attribute(self.expression(target.value), target.attr, ast.Store())
        return [ast.copy_location(ast.Assign([ast.copy_location(place, target)], value), target)]

    def own(self, node):
        """Whether an Attribute is a declared one of the method's own object."""
        return (isinstance(node.value, ast.Name) and node.value.id == self.first and self.owner is not None
                and node.attr in self.owner.open_names)

    def kind_of(self, node, seen=()):
        """The Kind of the module that an expression certainly is: the method's own, and those inside; else None."""
        if isinstance(node, ast.Name) and node.id == self.first:
            return self.owner if self.owner is not None and self.owner.base == "Module" else None
        if isinstance(node, ast.Name):
            is_known = node.id in self.once and node.id not in seen
            return self.kind_of(self.once[node.id], (*seen, node.id)) if is_known else None
        name = None
        if isinstance(node, ast.Attribute):
            node, name = node.value, node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(
                node.args) == 2 and isinstance(node.args[1], ast.Constant) and "getattr" not in self.locals:
            node, name = node.args[0], node.args[1].value
        outer = self.kind_of(node, seen) if name is not None else None
        return self.program.kind_of(outer.types[name]) if outer is not None and name in outer.types else None

    def target(self, node, ctx=None):
        if isinstance(node, ast.Name):
            return node
        if isinstance(node, (ast.Tuple, ast.List)):
            node.elts = [self.target(e, ctx) for e in node.elts]
            return node
        if isinstance(node, ast.Starred):
            node.value = self.target(node.value, ctx)
            return node
        if isinstance(node, ast.Subscript):
            return ast.copy_location(ast.Subscript(self.expression(node.value), self.expression(node.slice),
                                                   ctx or ast.Store()), node)
        if isinstance(node, ast.Attribute) and self.own(node):
            return ast.copy_location(ast.Attribute(self.expression(node.value), node.attr, ctx or ast.Store()), node)
        return self.refuse(node, "this cannot be assigned to")

    # ---- expressions -------------------------------------------------------------------------------------------------

    def expression(self, node):
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.Attribute):
            return self.attribute(node)
        if isinstance(node, ast.Call):
            return ast.copy_location(self.call(node), node)
        if not isinstance(node, _PLAIN_NODES):
            self.refuse(node, f"a {type(node).__name__} is no expression of TorchScript")
        if isinstance(node, ast.Constant):
            return self.constant(node)
        for name, child in ast.iter_fields(node):
            if isinstance(child, ast.AST) and not isinstance(child, (ast.expr_context, ast.operator, ast.unaryop,
                                                                     ast.boolop)):
                setattr(node, name, self.target(child) if name == "target" else self.expression(child))
            elif isinstance(child, list):
                setattr(node, name, [self.expression(c) if isinstance(c, ast.expr | ast.comprehension) else c
                                     for c in child])
        return node

    def constant(self, node):
        value = node.value
        if isinstance(value, str) and self.program.octal and not value.isascii():
            with contextlib.suppress(UnicodeError):  # archives write the bytes of UTF-8 one by one
                node.value = value.encode("latin1").decode("utf-8")
        return node

    def outside(self, name, value):
        """A name for something that is not the function's own."""
        self.program.scope[name] = value
        return ast.Name(name, ast.Load())

    def name(self, node):
        name = node.id
        if name in self.locals:
            return node
        if name in _CONSTANTS:
            return ast.copy_location(ast.Constant(_CONSTANTS[name]), node)
        if name in BUILTINS:
            return ast.copy_location(self.outside(name, BUILTINS[name]), node)
        found = self.program.global_name(name)
        if found is None:
            self.refuse(node, f"the name {shown(name)} is not defined")
        return ast.copy_location(ast.Name(found, ast.Load()), node)

    def attribute(self, node):
        names = dotted(node)
        if names is not None and names[0] not in self.locals and not self.of_constant(names):
            found = self.path(names)
            if found is None:
                self.refuse(node, f"{shown('.'.join(names))} is not there")
            return ast.copy_location(found, node)
        kind = self.kind_of(node.value)
        if kind is not None and self.program.kind_of(kind.types.get(node.attr)) is not None:  # a module inside
            held = ast.Attribute(self.expression(node.value), "_modules", ast.Load())
            return ast.copy_location(ast.Subscript(held, ast.Constant(node.attr), ast.Load()), node)
        if self.own(node):
            node.value = self.expression(node.value)
            return node
        if kind is not None and node.attr in kind.open_names:  # a module that stays: what it holds is read at once
            return ast.copy_location(ast.Attribute(self.expression(node.value), node.attr, ast.Load()), node)
        read = _call(self.outside("$attribute", attribute), [self.expression(node.value), ast.Constant(node.attr)])
        return ast.copy_location(read, node)

    def of_constant(self, names):
        """Whether names are an attribute or method of a constant."""
        return names[0] == "CONSTANTS" and len(names) > 2

    def path(self, names, called=False, keywords=None):
        """A name from outside: an operator that is called, a constant, a definition of the program."""
        root, *rest = names
        if root == "torch" and rest:
            return self.torch(rest, called, keywords)
        if root == "ops":
            return self.outside(".".join(names), library(*rest)) if called and len(rest) == 2 else None
        if root == "math" and len(rest) == 1:
            value = getattr(math, rest[0], None)
            return ast.Constant(value) if isinstance(value, float) else self.outside(f"torch.{rest[0]}",
                                                                                     self.program.operator(rest[0]))
        if root == "CONSTANTS" and len(rest) == 1:
            return self.outside(".".join(names), self.program.constant(rest[0]))
        return self.program.path(names)

    def torch(self, rest, called, keywords=None):
        """`torch.name`: an operator; dtypes and functions of torch's modules, which texts written by hand have."""
        name = rest[-1]
        if not called:
            value = getattr(flambeau, name, None) if len(rest) == 1 else None
            is_known = isinstance(value, (flambeau.dtype, flambeau.layout, flambeau.memory_format))
            return ast.Constant(NUMBERS[value]) if is_known else None
        if rest[:2] == ["nn", "functional"] and len(rest) == 3:
            found = getattr(F, name, None)
            is_function = isinstance(found, _C.Op) or (isinstance(found, types.FunctionType) and not name.startswith(
                "_") and found.__module__ == F.__name__)
            return self.outside(".".join(("torch", *rest)), found) if is_function else None
        if rest[0] in ("linalg", "fft", "special") and len(rest) == 2:
            return self.outside(f"torch.{rest[0]}_{name}", self.program.operator(f"{rest[0]}_{name}"))
        if rest in (["no_grad"], ["enable_grad"], ["inference_mode"]):
            return self.outside(f"torch.{name}", getattr(flambeau, name))
        if len(rest) > 1:
            return None
        found = self.program.operator(name, keywords)
        return self.outside(f"torch.{name}" if found is self.program.operator(name, ()) else f"torch.{name}()", found)

    # ---- calls -------------------------------------------------------------------------------------------------------

    def call(self, node):
        names = dotted(node.func)
        if names is not None and names[:2] == ["torch", "jit"] and "torch" not in self.locals:
            names = names[2:] if names[2:] in (["isinstance"], ["annotate"], ["fork"], ["_fork"]) else names
        if names is not None and names[0] not in self.locals:
            special = getattr(self, f"_call_{names[0]}", None) if len(names) == 1 else None
            if special is not None:
                return special(node)
            if names[-1] == "__new__":
                return _call(self.program.maker(names[:-1]), [])
            if names[0] in ("torch", "ops"):
                found = self.path(names, called=True, keywords=[k.arg for k in node.keywords])
                if found is None:
                    self.refuse(node, f"{shown('.'.join(names))} is not there")
                node.func = ast.copy_location(found, node.func)
        args = [self.expression(a) for a in node.args]
        keywords = [ast.keyword(k.arg, self.expression(k.value)) for k in node.keywords]
        if isinstance(node.func, ast.Attribute) and (names is None or names[0] in self.locals
                                                     or self.of_constant(names)):
            kind = self.owner if self.own(node.func) else self.kind_of(node.func.value)
            if kind is not None and node.func.attr in kind.methods:
                return ast.Call(ast.copy_location(ast.Attribute(self.expression(node.func.value), node.func.attr,
                                                                ast.Load()), node), args, keywords)
            bound = _call(self.outside("$method", method), [self.expression(node.func.value),
                                                            ast.Constant(node.func.attr)])
            return ast.Call(ast.copy_location(bound, node), args, keywords)
        found = node.func if isinstance(node.func, ast.Name) and node.func.id in self.program.scope else \
            self.expression(node.func)
        return ast.Call(found, args, keywords)

    def _call_annotate(self, node):
        return self.expression(node.args[1])

    _call_unchecked_cast = _call_annotate

    def _call_uninitialized(self, node):
        return ast.Constant(None)

    def _call_getattr(self, node):
        if len(node.args) != 2 or not isinstance(node.args[1], ast.Constant):
            self.refuse(node, "getattr takes an object and a text")
        read = ast.Attribute(node.args[0], node.args[1].value, ast.Load())
        return self.attribute(ast.copy_location(read, node))

    def _call_isinstance(self, node):
        kind = self.program.type(node.args[1])
        return _call(self.outside("$isinstance", self.program.isinstance),
                     [self.expression(node.args[0]), self.outside(f"$type {ast.unparse(node.args[1])}", kind)])

    def _call_fork(self, node):
        named = [ast.keyword(k.arg, self.expression(k.value)) for k in node.keywords]
        return ast.Call(self.outside("$fork", flambeau.jit.fork), [self.expression(a) for a in node.args], named)

    _call__fork = _call_fork

    def _call_hasattr(self, node):
        return _call(self.outside("$hasattr", _has), [self.expression(a) for a in node.args])


def _has(value, name):
    try:
        attribute(value, name)
    except AttributeError:
        return False
    return True


def _call(function, args):
    return ast.Call(function, args, [])


def function_def(program, filename, node, owner=None, name=None, outer=(), takes=None):
    """The function as Python's FunctionDef, called `name`; `takes` is Taken.at_once() of its arguments."""
    if node.decorator_list or node.args.vararg or node.args.kwarg:
        raise NotScript(f"jit: {filename}, line {node.lineno}: functions of TorchScript have neither decorators nor "
                        "* arguments")
    function = Function(program, filename, node, owner, outer)
    args = node.args
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
        arg.annotation = None
    args.defaults = [function.expression(d) for d in args.defaults]
    args.kw_defaults = [d and function.expression(d) for d in args.kw_defaults]
    body = without_leftovers(function.body(node.body)) or [ast.copy_location(ast.Pass(), node)]
    looks = [ast.copy_location(_looked_at(function, *each), body[0]) for each in (takes or {}).items()]
    body = guarding(looks + body, function.outside)
    return ast.copy_location(ast.FunctionDef(name or node.name, args, body, [], type_params=[]), node)


def _looked_at(function, name, takes):
    """The statement that makes of an argument of another class what the program takes: `if type(x) is not Tensor: …`"""
    exact, take = takes
    found = ast.Call(function.outside("$type", type), [ast.Name(name, ast.Load())], [])
    other = ast.Compare(found, [ast.IsNot()], [function.outside(f"${exact.__name__}", exact)])
    taken = ast.Call(function.outside(f"$take{id(take)}", take), [ast.Name(name, ast.Load())], [])
    return ast.If(other, [ast.Assign([ast.Name(name, ast.Store())], taken, lineno=0)], [])


def executed(program, filename, definitions):
    """Runs the FunctionDefs, which define functions in the program's scope."""
    module = ast.fix_missing_locations(ast.Module(definitions, []))
    try:
        code = compile(module, filename, "exec")
    except (ValueError, SyntaxError, RecursionError) as error:
        raise NotScript(f"jit: {filename}: {error}") from None
    exec(code, program.scope)
