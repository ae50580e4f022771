"""The source of one function, on its way to TorchScript's text.

TorchScript has Python's grammar and its own names. Statements stay as they are; each name is looked up where the
function would find it, and becomes an operator (`torch.relu`), a constant, or another function of the program. Loops
over modules of a container are written out, since TorchScript has no lists of modules. Types are those of the
annotations; an argument without one has that of the first call's constants, or is a Tensor.
"""

import ast
import builtins
import enum
import inspect
import math
import re
import textwrap
import types

import flambeau

from .. import _C
from .._aten.numbers import NUMBERS
from .._aten.spelling import Raw, is_made_of_others, spelled
from .._shown import shown
from ..nn import Module
from ..nn import functional as F
from ._compile import BUILTINS, dotted
from ._modules import ScriptFunction
from ._operators import SIZES
from ._settled import Settled
from ._types import NotScriptable, type_of, type_text
from ._writing import Writer, attribute_path, number, quoted

#: a text, or `not` before a name that begins with "in", which PyTorch's reader takes for `not in`
_NOT_IN = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|\bnot in(?=\w)""")


class Source(Settled):
    """The source of a function or method, on its way to TorchScript."""

    def text(self, name):
        """The definition, called `name`."""
        args = self.node.args
        if args.vararg or args.kwarg:
            self.refuse(self.node, "functions of TorchScript have no * arguments")
        parts = []
        defaults = [None] * (len(args.args) - len(args.defaults)) + args.defaults
        hints = self._hints()
        given = [*zip(args.args, defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True)]
        for k, (arg, default) in enumerate(given):
            if k == 0 and self.receiver is not None:
                parts.append(f"{arg.arg}: SELF")
                continue
            if k == len(args.args):
                parts.append("*")
            kind = hints.get(arg.arg) or ("Tensor" if default is None else self._default_type(default))
            if arg.arg not in hints and kind in ("Tensor", "Optional[Tensor]"):
                kind = self.kinds.get(arg.arg, kind)
            self.types[arg.arg] = kind
            value = "" if default is None else f"={ast.unparse(self.expression(default))}"
            parts.append(f"{arg.arg}: {kind}{value}")
        body = self.body(self._without_docstring(self.node.body)) or [ast.Pass()]
        returns = f" -> {hints['return']}" if "return" in hints else ""
        made = ast.fix_missing_locations(ast.Module(body, []))
        text = _NOT_IN.sub(lambda found: found[1] or "not  in", ast.unparse(made))
        return f"def {name}({', '.join(parts)}){returns}:\n" + textwrap.indent(text, "  ") + "\n"

    def _hints(self):
        """{argument: its type} of annotations."""
        found = {}
        for name, kind in getattr(self.function, "__annotations__", {}).items():
            if isinstance(kind, str):
                try:
                    kind = eval(kind, self.scope)
                except Exception:  # what the module has not got is no type here
                    kind = flambeau.Tensor
            found[name] = type_text(type(None) if kind is None else kind)
        return found

    def _default_type(self, default):
        try:
            value = ast.literal_eval(default)
        except ValueError:
            return "Tensor"
        return "Optional[Tensor]" if value is None else type_of(value) or "Tensor"

    @staticmethod
    def _without_docstring(body):
        first = body[0] if body else None
        is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(
            first.value.value, str)
        return body[1:] if is_text else body

    # ---- statements --------------------------------------------------------------------------------------------------

    def body(self, statements):
        """The statements, as far as they are reached: what follows a settled return or raise is not looked at."""
        made = []
        for s in statements:
            made += self.statement(s)
            if made and (isinstance(made[-1], (ast.Return, ast.Continue, ast.Break)) or _raises(made[-1])):
                break
        return made

    def statement(self, node):
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is None:
            self.refuse(node, f"TorchScript has no {type(node).__name__.lower()}")
        made = handler(node)
        return made if isinstance(made, list) else [made]

    def _pass(self, node):
        return node

    _break = _continue = _pass

    def _expr(self, node):
        call = node.value
        if isinstance(call, ast.Constant):
            return []
        if isinstance(call, ast.Call) and self.static(call.func)[1] is flambeau._assert:
            return self._asserted(call.args[0], call.args[1])
        return ast.Expr(self.expression(call))

    def _return(self, node):
        return ast.Return(node.value and self.expression(node.value))

    def _assign(self, node):
        name = node.targets[0].id if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) else None
        known, settled = self.static(node.value) if name in self.once else (False, None)
        if known and (settled is None or isinstance(settled, Module)):
            self.standing[name] = settled  # another name for a module, or for none
            return [] if settled is not None else ast.Assign(node.targets, ast.Constant(None), lineno=0)
        value = self.expression(node.value)
        if len(node.targets) == 1:
            return ast.Assign([self.expression(node.targets[0])], value, lineno=0)
        first = self.expression(node.targets[0])
        again = [ast.Assign([self.expression(t)], _loaded(first), lineno=0) for t in node.targets[1:]]
        return [ast.Assign([first], value, lineno=0), *again]

    def _augassign(self, node):
        return ast.AugAssign(self.expression(node.target), node.op, self.expression(node.value))

    def _annassign(self, node):
        if node.value is None:
            return []
        kind = self._type(node.annotation)
        value = ast.Call(ast.Name("annotate", ast.Load()), [kind, self.expression(node.value)], [])
        return ast.Assign([self.expression(node.target)], value, lineno=0)

    def _type(self, annotation):
        """A type that the source names, as TorchScript writes it."""
        return _node(type_text(eval(ast.unparse(annotation), self.scope)))

    def _if(self, node):
        known, value = self.static(node.test)
        if known:
            return self.body(node.body if value else node.orelse)
        return ast.If(self.expression(node.test), self.body(node.body) or [ast.Pass()], self.body(node.orelse))

    def _while(self, node):
        return ast.While(self.expression(node.test), self.body(node.body) or [ast.Pass()], [])

    def _for(self, node):
        modules = self._modules_of(node.iter)
        if modules is None:
            modules = self._numbers_of(node)
        if modules is None:
            return ast.For(self.expression(node.target), self.expression(node.iter), self.body(node.body), [], lineno=0)
        if any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(node)):
            self.refuse(node, "a loop over modules is written out, and cannot have break or continue")
        return [made for bound in modules for made in self._once(node, bound)]

    def _once(self, node, item):
        """The body for one item of a loop over modules."""
        before = dict(self.standing)
        made = self._bound(node, node.target, item) + [m for s in node.body for m in self.statement(_copy(s))]
        self.standing = before
        return made

    def _bound(self, node, target, item):
        """The statements that give names to an item: a module or number, or a tuple of them."""
        if isinstance(target, ast.Tuple):
            pairs = zip(target.elts, item, strict=True)
            return [made for inner, value in pairs for made in self._bound(node, inner, value)]
        if isinstance(item, Module) or self._is_looked_up(node, target.id):
            self.standing[target.id] = item
            return []
        return [ast.Assign([ast.Name(target.id, ast.Store())], ast.Constant(item), lineno=0)]

    def _assert(self, node):
        return self._asserted(node.test, node.msg)

    def _asserted(self, test, message):
        text = self._said(message) if message is not None else ast.Constant("")
        return ast.If(ast.UnaryOp(ast.Not(), self.expression(test)), [_raise(text, "AssertionError")], [])

    def _said(self, node):
        """The text of an error; its constant parts alone where the rest has no form."""
        try:
            return self.expression(_loaded(node))
        except NotScriptable:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            return ast.Constant("".join(p.value if isinstance(p, ast.Constant) else "…" for p in parts))

    def _raise(self, node):
        call = node.exc
        name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else getattr(
            call, "id", None)
        if name is None or not isinstance(getattr(builtins, name, None), type):
            self.refuse(node, "raise takes an exception of Python's own, with a text")
        args = call.args if isinstance(call, ast.Call) else []
        return _raise(self._said(args[0]) if args else ast.Constant(""), name)

    def _with(self, node):
        """no_grad() and enable_grad() are classes of the program."""
        if len(node.items) != 1 or node.items[0].optional_vars is not None:
            self.refuse(node, "of contexts there are no_grad() and enable_grad(), one at a time")
        call = node.items[0].context_expr
        known, context = self.static(call.func) if isinstance(call, ast.Call) and not call.args else (False, None)
        if not known or context not in (flambeau.no_grad, flambeau.enable_grad):
            self.refuse(node, "of contexts there are no_grad() and enable_grad(), one at a time")
        made = _node(self.script.gradients(context is flambeau.enable_grad))
        return ast.With([ast.withitem(ast.Call(made, [], []), None)], self.body(node.body), lineno=0)

    # ---- expressions -------------------------------------------------------------------------------------------------

    def expression(self, node):
        handler = getattr(self, f"_x_{type(node).__name__.lower()}", None)
        if handler is not None:
            return handler(node)
        if isinstance(node, (ast.Lambda, ast.Await, ast.Yield, ast.SetComp, ast.NamedExpr)):
            self.refuse(node, f"TorchScript has no {type(node).__name__.lower()}")
        for name, child in ast.iter_fields(node):
            if isinstance(child, ast.expr | ast.comprehension):
                setattr(node, name, self.expression(child))
            elif isinstance(child, list):
                setattr(node, name, [self.expression(c) if isinstance(c, ast.expr | ast.comprehension) else c
                                     for c in child])
        return node

    def _x_name(self, node):
        if node.id in self.standing:
            value = self.standing[node.id]
            return self.path_of(value, node) if isinstance(value, Module) else self.constant(value, node)
        if node.id in self.locals or isinstance(node.ctx, ast.Store):
            return node
        known, value = self.static(node)
        return self.constant(value, node) if known else self.refuse(node, f"the name {node.id} is not defined")

    def constant(self, value, node):
        """A value from outside as an expression."""
        if isinstance(value, enum.Enum) and isinstance(value, (int, str)):
            return ast.Constant(value.value)  # which it is equal to
        if value is None or (isinstance(value, (bool, int, str)) and not isinstance(value, enum.Enum)):
            return ast.Constant(value)
        if isinstance(value, (float, complex)):
            return _node(number(value))
        if isinstance(value, (tuple, list)):
            items = [self.constant(item, node) for item in value]
            return (ast.Tuple if isinstance(value, tuple) else ast.List)(items, ast.Load())
        if isinstance(value, flambeau.device):
            return _node(f"torch.device({quoted(str(value))})")
        if isinstance(value, (flambeau.dtype, flambeau.layout, flambeau.memory_format)) and value in NUMBERS:
            return ast.Constant(NUMBERS[value])
        if isinstance(value, flambeau.Tensor):
            return _node(self.script.constants.of(value.detach()))
        if any(value is known for known in BUILTINS.values()):
            return ast.Name(value.__name__, ast.Load())
        return self.refuse(node, f"{shown(value)} has no form in TorchScript")

    def path_of(self, module, node):
        """The expression of a module inside the method's own."""
        name = next((name for name, m in self.owner.named_modules() if m is module), None) if self.owner else None
        if name is None:
            self.refuse(node, f"the {type(module).__name__} is no module inside this one")
        path = attribute_path(name, self.receiver) if name else self.receiver
        return _node(path)

    def _x_attribute(self, node):
        known, value = self.static(node)
        if known:
            return self.path_of(value, node) if isinstance(value, Module) else self.constant(value, node)
        held, value = self._attribute_value(node)
        if held and isinstance(value, enum.Enum) and isinstance(node.ctx, ast.Load):
            return self.constant(value, node)
        if held and (node.attr.startswith("_") or node.attr not in vars(self.owner)) and isinstance(
                value, (bool, int, float, str, tuple)) and isinstance(node.ctx, ast.Load) and node.attr != "training":
            return self.constant(value, node)  # what the program does not declare
        if held and type_of(value) is None and not isinstance(value, Module):
            self.refuse(node, f"the attribute {node.attr} is {shown(value)}, which TorchScript has not")
        node.value = self.expression(node.value)
        return node

    def _x_subscript(self, node):
        known, value = self.static(node)
        if known and isinstance(value, Module):
            return self.path_of(value, node)
        node.value, node.slice = self.expression(node.value), self.expression(node.slice)
        return node

    def _x_ifexp(self, node):
        known, value = self.static(node.test)
        if known:
            return self.expression(node.body if value else node.orelse)
        return ast.IfExp(self.expression(node.test), self.expression(node.body), self.expression(node.orelse))

    def _x_compare(self, node):
        node.left, node.comparators = self.expression(node.left), list(map(self.expression, node.comparators))
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.NotIn):  # TorchScript has no `not in`
            return ast.UnaryOp(ast.Not(), ast.Compare(node.left, [ast.In()], node.comparators))
        return node

    def _x_generatorexp(self, node):
        """A list: what it is given to takes all of it."""
        return self.expression(ast.copy_location(ast.ListComp(node.elt, node.generators), node))

    def _x_joinedstr(self, node):
        text, args = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += part.value
            elif part.format_spec is not None or part.conversion != -1:
                self.refuse(node, "f-strings of TorchScript have plain {} alone")
            else:
                text, _ = text + "{}", args.append(self.expression(part.value))
        return _torch("format", [ast.Constant(text), *args])

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _x_call(self, node):
        known, value = self.static(node)
        if known:
            return self.path_of(value, node) if isinstance(value, Module) else self.constant(value, node)
        known, function = self.static(node.func)
        if known:
            return self.call_of(function, node)
        args, keywords = self._arguments(node)
        if isinstance(node.func, ast.Attribute):
            owner_known, owner = self.static(node.func.value)
            if owner_known and isinstance(owner, str):
                return ast.Call(ast.Attribute(ast.Constant(owner), node.func.attr, ast.Load()), args, keywords)
            if node.func.attr in SIZES and (len(args) > 1 or (args and _is_number(args[0]))) and not any(
                    isinstance(a, (ast.List, ast.Tuple)) for a in args):
                args = [ast.List(args, ast.Load())]
            return ast.Call(ast.Attribute(self.expression(node.func.value), node.func.attr, ast.Load()), args, keywords)
        return ast.Call(self.expression(node.func), args, keywords)

    def _arguments(self, node):
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            self.refuse(node, "calls of TorchScript have no * arguments")
        return [self.expression(a) for a in node.args], [ast.keyword(k.arg, self.expression(k.value))
                                                         for k in node.keywords]

    def call_of(self, function, node):
        """A call of something that is known."""
        jit = flambeau.jit
        if function is jit.annotate:
            kind = self._type(node.args[0])
            return ast.Call(ast.Name("annotate", ast.Load()), [kind, self.expression(node.args[1])], [])
        if function is getattr:
            return self.expression(ast.Attribute(node.args[0], self._settled(node.args[1]), ast.Load()))
        if function in (isinstance, jit.isinstance):
            kind = self._type(node.args[1])
            return ast.Call(ast.Name("isinstance", ast.Load()), [self.expression(node.args[0]), kind], [])
        if function is F._overwrite:
            return self._overwrite(node)
        args, keywords = self._arguments(node)
        if isinstance(function, type) and issubclass(function, enum.Enum) and issubclass(function, (int, str)):
            return args[0]  # members are equal to what they are made of
        if isinstance(function, type) and issubclass(function, tuple) and hasattr(function, "_fields"):
            return ast.Call(_node(self.script.named_tuple(function)), args, keywords)
        if isinstance(function, Module):
            self.script.method(function, "forward", self._kinds(function.forward, args, keywords))
            return ast.Call(ast.Attribute(self.path_of(function, node), "forward", ast.Load()), args, keywords)
        if isinstance(function, types.MethodType) and isinstance(function.__self__, Module):
            self.script.method(function.__self__, function.__name__, self._kinds(function, args, keywords))
            path = self.path_of(function.__self__, node)
            return ast.Call(ast.Attribute(path, function.__name__, ast.Load()), args, keywords)
        if isinstance(function, _C.Op):
            made_of = self._made_of(function)
            if made_of is not None:
                return ast.Call(_node(made_of), args, keywords)
            return self._operator(function, args, keywords, node)
        if isinstance(function, ScriptFunction):
            function = function.__wrapped__
        return self._function(function, args, keywords, node)

    def _made_of(self, op):
        """The qualified name of a composite's own function, where TorchScript has no operator for it."""
        if not is_made_of_others(op):
            return None
        try:
            return self.script.function(op.body)
        except NotScriptable:
            return None

    def _overwrite(self, node):
        """An activation in place: `nn.functional` gives the operator first."""
        op = self.static(node.args[0])[1]
        args = [self.expression(a) for a in node.args[1:]]
        if op.inplace_form is not None:
            return _torch(op.inplace_form.name, args)
        return _torch("copy_", [args[0], _torch(op.name, args)])

    def _function(self, function, args, keywords, node):
        name = getattr(function, "__name__", "")
        if function is None:
            self.refuse(node, "what is called is None")
        if function in (F.softmax, F.log_softmax):
            given = inspect.signature(function).bind(*args, **{k.arg: k.value for k in keywords}).arguments
            rest = [given[n] for n in ("dtype",) if n in given and not _is_none(given[n])]
            return _torch(name, [given["input"], given["dim"], *rest])
        if function in (flambeau.tensor, flambeau.as_tensor, flambeau.numel, flambeau.is_floating_point,
                        flambeau.is_complex):
            return _torch(name, args, keywords)
        if function is flambeau.device:
            return ast.Call(ast.Attribute(ast.Name("torch", ast.Load()), "device", ast.Load()), args, keywords)
        if getattr(math, name, None) is function:
            return _torch(name, args, keywords)
        if any(function is known for known in BUILTINS.values()):
            return ast.Call(ast.Name(name, ast.Load()), args, keywords)
        if not isinstance(function, types.FunctionType):
            self.refuse(node, f"{shown(function)} cannot be called by a program")
        qualified = self.script.function(function, self._kinds(function, args, keywords))
        return ast.Call(_node(qualified), args, keywords)

    def _kinds(self, function, args, keywords):
        """{argument: type} of the constants in a call."""
        given = dict(zip(inspect.signature(function).parameters, args))
        given.update((k.arg, k.value) for k in keywords)
        return {name: kind for name, value in given.items() if (kind := self._kind(value))}

    def _kind(self, node):
        if isinstance(node, ast.Name) and self.types.get(node.id, "Tensor") != "Tensor":
            return self.types[node.id]
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError):
            known, value = self._attribute_value(node)
            if not known:
                return None
        return None if value is None or isinstance(value, flambeau.Tensor) else type_of(value)

    def _value(self, node):
        """A constant, and a text that the module holds, as itself; anything else as its text."""
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError):
            known, value = self._attribute_value(node)
            return value if known and isinstance(value, str) else Raw(ast.unparse(node))

    def _operator(self, op, args, keywords, node):
        """As `spelled` says, where all that decides it is constant."""
        try:
            by_name = {k.arg: self._value(k.value) for k in keywords}
            name, args, kwargs, item = spelled(op, tuple(map(self._value, args)), by_name)
        except (TypeError, KeyError, ValueError) as error:
            return self.refuse(node, f"this call of {op.name} has no form in TorchScript: {error}")
        writer = Writer(None, {}, self.script.constants)
        parts = [*map(writer.value, args), *(f"{key}={writer.value(value)}" for key, value in kwargs.items())]
        return _node(f"{name}({', '.join(parts)}){item}")


def _node(text):
    """The expression that a text is."""
    return ast.parse(text, mode="eval").body


def _is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


def _is_number(node):
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _torch(name, args, keywords=()):
    return ast.Call(ast.Attribute(ast.Name("torch", ast.Load()), name, ast.Load()), args, list(keywords))


def _raise(text, kind):
    path = _node("ops.prim.RaiseException")
    return ast.Expr(ast.Call(path, [text, ast.Constant(f"builtins.{kind}")], []))


def _raises(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and dotted(node.value.func) == [
        "ops", "prim", "RaiseException"]


def _loaded(target):
    return _node(ast.unparse(target))


def _copy(node):
    return ast.parse(ast.unparse(node)).body[0]

