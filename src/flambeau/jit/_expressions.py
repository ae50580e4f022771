"""The expressions of a source, on their way to TorchScript: each name is looked up where the function would find it."""

import ast
import collections
import enum
import inspect
import math
import types
import warnings

import flambeau

from .. import _C
from .._aten.lookup import FUNCTIONS
from .._aten.numbers import NUMBERS
from .._aten.spelling import Raw, is_made_of_others, spelled
from .._shown import shown
from .._tensor.types import TensorType
from ..nn import Module
from ..nn import functional as F
from ._classes import attribute_path, is_property
from ._compile import BUILTINS
from ._declared import is_declared
from ._inferred import Inferred
from ._modules import ScriptFunction, ScriptMethod
from ._operators import SIZES
from ._types import NotScriptable, type_of, type_text
from ._writing import Writer, number, quoted


class Expressions(Inferred):
    """A source whose expressions become TorchScript's."""

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
            return self.settled_value(value, node)
        if node.id in self.locals or isinstance(node.ctx, ast.Store):
            return node
        known, value = self.static(node)
        return self.constant(value, node) if known else self.refuse(node, f"the name {node.id} is not defined")

    def constant(self, value, node):
        """A value from outside as an expression."""
        if isinstance(value, enum.Enum) and isinstance(value, (int, str)):
            return ast.Constant(value.value)  # which it is equal to
        if isinstance(value, enum.Enum):
            return node_of(f"{self.named(type(value))}.{value.name}")
        if isinstance(value, type) and issubclass(value, enum.Enum):  # a loop over it
            return self.constant(list(value), node)
        is_plain = isinstance(value, (bool, int, str)) and not isinstance(value, enum.Enum)
        if is_plain or value is None or value is Ellipsis:
            return ast.Constant(value)
        if isinstance(value, (float, complex)):
            return node_of(number(value))
        if isinstance(value, (tuple, list)):
            items = [self.constant(item, node) for item in value]
            return (ast.Tuple if isinstance(value, tuple) else ast.List)(items, ast.Load())
        if isinstance(value, flambeau.device):
            return node_of(f"torch.device({quoted(str(value))})")
        if isinstance(value, (flambeau.dtype, flambeau.layout, flambeau.memory_format)) and value in NUMBERS:
            return ast.Constant(NUMBERS[value])
        if isinstance(value, flambeau.Tensor):
            return node_of(self.script.constants.of(value.detach()))
        if any(value is known for known in BUILTINS.values()):
            return ast.Name(value.__name__, ast.Load())
        return self.refuse(node, f"{shown(value)} has no form in TorchScript")

    def settled_value(self, value, node):
        """What is known before the program runs: a module or parameter by its path, a constant otherwise."""
        is_held = isinstance(value, flambeau.nn.Parameter) and self.owner is not None
        return self.path_of(value, node) if isinstance(value, Module) or is_held else self.constant(value, node)

    def path_of(self, module, node):
        """The expression of a module (or parameter) inside the method's own."""
        of_kind = [] if self.owner is None else self.owner.named_modules() if isinstance(module, Module) else \
            self.owner.named_parameters()
        name = next((name for name, m in of_kind if m is module), None)
        if name is None:
            self.refuse(node, f"the {type(module).__name__} is no module inside this one")
        path = attribute_path(name, self.receiver) if name else self.receiver
        return node_of(path)

    def _x_attribute(self, node):
        known, value = self.static(node)
        if known and value is None and isinstance(node.ctx, ast.Store):
            self.refuse(node, f"what type the attribute {node.attr} has, which is None at first, is not told; annotate "
                              f"it in the class: {node.attr}: Optional[Tensor]")
        if known:
            return self.settled_value(value, node)
        kind = self.own_class(node.value)
        if kind is not None:
            return self._of_object(node, kind)
        getter = self.property_of(node, "getter") if isinstance(node.ctx, ast.Load) else None
        if getter is not None:
            return ast.Call(getter, [], [])
        held, value = self._attribute_value(node)
        if held and isinstance(value, enum.Enum) and isinstance(value, (int, str)) and isinstance(node.ctx, ast.Load):
            return self.constant(value, node)
        if held and not is_declared(self.owner, node.attr) and isinstance(
                value, (bool, int, float, str, tuple)) and isinstance(node.ctx, ast.Load) and node.attr != "training":
            return self.constant(value, node)  # what the program does not declare
        if held and type_of(value, self.named) is None and not isinstance(value, Module):
            self.refuse(node, f"the attribute {node.attr} is {shown(value)}, which TorchScript has not")
        node.value = self.expression(node.value)
        return node

    def property_of(self, node, part):
        """The method that gets or sets a property of a module; None for what is no property, or has no program."""
        known, owner = self.static(node.value)
        if not known or not isinstance(owner, Module) or not is_property(type(owner), node.attr, part):
            return None
        name = f"__{node.attr}_{part}"
        try:
            self.script.method(owner, name)
        except NotScriptable:
            return None
        return ast.Attribute(self.path_of(owner, node), name, ast.Load())

    def _of_object(self, node, kind):
        """An attribute of an object: its own, a property, or a constant of its class."""
        held = inspect.getattr_static(kind, node.attr, None)
        declared = self.script.kinds.attributes.get(kind, {})
        is_read = isinstance(node.ctx, ast.Load)
        if isinstance(held, property) and is_read and not issubclass(kind, enum.Enum):
            getter = ast.Attribute(self.expression(node.value), f"__{node.attr}_getter", ast.Load())
            return ast.Call(getter, [], [])
        if held is not None and node.attr not in declared and is_read and type_of(held) is not None:
            return self.constant(held, node)
        node.value = self.expression(node.value)
        return node

    def _x_subscript(self, node):
        known, value = self.static(node)
        if known and isinstance(value, (Module, flambeau.nn.Parameter)):
            return self.path_of(value, node)
        node.value, node.slice = self.expression(node.value), self._place(node.slice)
        return node

    def is_slice(self, node):
        """Whether an expression is `slice(…)`."""
        return isinstance(node, ast.Call) and self.static(node.func) == (True, slice)

    def slice_of(self, call):
        """`slice(1, 5)` as `1:5` is."""
        if call.keywords or not 1 <= len(call.args) <= 3:
            self.refuse(call, "slice takes one to three numbers or None, and no names")
        args = [None if _is_none(arg) else arg for arg in call.args]
        return ast.Slice(*([None, args[0], None] if len(args) == 1 else [*args, None][:3]))

    def _place(self, node):
        """What stands between brackets: slices that have a name, or are called, are written out."""
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self._place(each) for each in node.elts], ast.Load())
        if isinstance(node, ast.Name) and node.id in self.slices:
            return node_of(ast.unparse(ast.Subscript(ast.Name("x", ast.Load()), self.slices[node.id]))).slice
        return self.expression(self.slice_of(node) if self.is_slice(node) else node)

    def _x_ifexp(self, node):
        known, value = self.static(node.test)
        if known:
            return self.expression(node.body if value else node.orelse)
        return ast.IfExp(self.expression(node.test), self.expression(node.body), self.expression(node.orelse))

    def _x_compare(self, node):
        known, value = self.static(node)
        if known:
            return ast.Constant(value)
        node.left, node.comparators = self.expression(node.left), list(map(self.expression, node.comparators))
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.NotIn):  # TorchScript has no `not in`
            return ast.UnaryOp(ast.Not(), ast.Compare(node.left, [ast.In()], node.comparators))
        return node

    def _x_listcomp(self, node):
        """Items are taken apart inside: TorchScript's comprehensions give one name."""
        self._one_name(node)
        self.bind(node.generators[0].target, self.item(node.generators[0].iter))
        for name in ("elt", "key", "value"):
            if hasattr(node, name):
                setattr(node, name, self.expression(getattr(node, name)))
        node.generators = [self.expression(each) for each in node.generators]
        return node

    _x_dictcomp = _x_listcomp

    def _one_name(self, node):
        target = node.generators[0].target
        if len(node.generators) > 1 or not isinstance(target, ast.Tuple):
            return
        parts = {inner.id: k for k, inner in enumerate(target.elts) if isinstance(inner, ast.Name)}
        if len(parts) < len(target.elts):
            self.refuse(node, "a comprehension takes one level of names apart")
        name = "_".join(parts)
        self.locals.add(name)
        for each in ast.walk(node):
            for field, child in ast.iter_fields(each):
                if isinstance(child, ast.Name) and child.id in parts:
                    setattr(each, field, _item(name, parts[child.id]))
                elif isinstance(child, list):
                    child[:] = [_item(name, parts[c.id]) if isinstance(c, ast.Name) and c.id in parts else c
                                for c in child]
        node.generators[0].target = ast.Name(name, ast.Store())

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
            return self.settled_value(value, node)
        known, function = self.static(node.func)
        if known:
            return self.call_of(function, node)
        args, keywords = self._arguments(node)
        if isinstance(node.func, ast.Attribute):
            kind = self.own_class(node.func.value)
            held = inspect.getattr_static(kind, node.func.attr, None) if kind is not None else None
            if isinstance(held, (staticmethod, _C.Op)):  # neither is given the object
                return self._function(getattr(held, "__func__", held), args, keywords, node)
            owner_known, owner = self.static(node.func.value)
            if owner_known and isinstance(owner, str):
                return ast.Call(ast.Attribute(ast.Constant(owner), node.func.attr, ast.Load()), args, keywords)
            if node.func.attr in SIZES and (len(args) > 1 or (args and _is_number(args[0]))) and not any(
                    isinstance(a, (ast.List, ast.Tuple)) for a in args):
                args = [ast.List(args, ast.Load())]
            if node.func.attr == "where" and len(args) == 2:  # the condition comes first
                return _torch("where", [args[0], self.expression(node.func.value), args[1]])
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
            return ast.Call(ast.Name("annotate", ast.Load()),
                            [self._type(node.args[0]), self.expression(node.args[1])], [])
        if function is getattr:
            return self.expression(ast.Attribute(node.args[0], self._settled(node.args[1]), ast.Load()))
        if function in (isinstance, jit.isinstance):
            kind = self._type(node.args[1])
            return ast.Call(ast.Name("isinstance", ast.Load()), [self.expression(node.args[0]), kind], [])
        if function is F._overwrite:
            return self._overwrite(node)
        if function is jit.fork:
            return self._forked(node)
        args, keywords = self._arguments(node)
        if isinstance(function, type) and issubclass(function, enum.Enum) and issubclass(function, (int, str)):
            return args[0]  # members are equal to what they are made of
        if isinstance(function, type) and issubclass(function, tuple) and hasattr(function, "_fields"):
            return self._named_tuple(function, args, keywords, node)
        qualified = self.named(function) if isinstance(function, type) else None
        if qualified is not None:
            return ast.Call(node_of(qualified), args, keywords)
        if function in (jit.wait, jit._unwrap_optional):
            return _torch(function.__name__, args)
        if isinstance(function, TensorType):
            return self._of_dtype(function.dtype, args, node)
        if function is collections.OrderedDict:
            return ast.Call(ast.Name("dict", ast.Load()), args, keywords)
        if isinstance(function, Module):
            self.script.method(function, "forward", self._kinds(function.forward, args, keywords))
            name = self.script.called(function)
            return ast.Call(ast.Attribute(self.path_of(function, node), name, ast.Load()), args, keywords)
        if isinstance(function, (types.MethodType, ScriptMethod)) and isinstance(function.__self__, Module):
            self.script.method(function.__self__, function.__name__, self._kinds(function, args, keywords))
            path = self.path_of(function.__self__, node)
            return ast.Call(ast.Attribute(path, function.__name__, ast.Load()), args, keywords)
        if isinstance(function, _C.Op):
            made_of = self._made_of(function)
            if made_of is not None:
                return ast.Call(node_of(made_of), args, keywords)
            return self._operator(function, args, keywords, node)
        if isinstance(function, ScriptFunction):
            if function.is_finished:
                names = self.script.merged.names(function._program)
                return ast.Call(node_of(names[function.qualified_name]), args, keywords)
            function = function.__wrapped__
        return self._function(function, args, keywords, node)

    def _of_dtype(self, dtype, args, node):
        """`LongTensor([1, 2])`: a tensor of those values, or of such a shape."""
        kind = ast.keyword("dtype", self.constant(dtype, node))
        args = args or [ast.Constant(0)]
        is_list = len(args) == 1 and self.inferred(args[0]) != "int"
        return _torch("tensor", args, [kind]) if is_list else _torch("empty", [ast.List(args, ast.Load())], [kind])

    def _forked(self, node):
        """What is forked is a function by its name, or a module's method."""
        call = self.expression(ast.Call(node.args[0], node.args[1:], node.keywords))
        return ast.Call(ast.Name("fork", ast.Load()), [call.func, *call.args], call.keywords)

    def _named_tuple(self, kind, args, keywords, node):
        """A named tuple, whose defaults are written out."""
        qualified = self.named(kind)
        if qualified is None:
            self.refuse(node, f"{kind.__name__} is no class of a program")
        given = dict(zip(kind._fields, args)) | {k.arg: k.value for k in keywords}
        values = [given[name] if name in given else self.constant(kind._field_defaults[name], node)
                  for name in kind._fields]
        return ast.Call(node_of(qualified), values, [])

    def _type(self, annotation):
        """A type that the source names, as TorchScript writes it."""
        value = self._type_value(annotation)
        kinds = value if isinstance(value, tuple) else [value]
        texts = [k.__name__ if k in (list, tuple) else type_text(k, self.named) for k in kinds]
        return node_of(f"({', '.join(texts)},)" if isinstance(value, tuple) else texts[0])

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
        if name in FUNCTIONS and getattr(flambeau, name, None) is function:
            return _torch(name, args, keywords)
        if function is warnings.warn:
            return _torch("warn", args[:1])
        if function is flambeau.device:
            return ast.Call(ast.Attribute(ast.Name("torch", ast.Load()), "device", ast.Load()), args, keywords)
        if getattr(math, name, None) is function:
            return _torch(name, args, keywords)
        if any(function is known for known in BUILTINS.values()):
            return ast.Call(ast.Name(name, ast.Load()), args, keywords)
        if not isinstance(function, types.FunctionType):
            self.refuse(node, f"{shown(function)} cannot be called by a program")
        qualified = self.script.function(function, self._kinds(function, args, keywords))
        return ast.Call(node_of(qualified), args, keywords)

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
        return None if value is None or isinstance(value, flambeau.Tensor) else type_of(value, self.named)

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
        return node_of(f"{name}({', '.join(parts)}){item}")


def node_of(text):
    """The expression that a text is."""
    return ast.parse(text, mode="eval").body


def _item(name, k):
    return ast.Subscript(ast.Name(name, ast.Load()), ast.Constant(k), ast.Load())


def _is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


def _is_number(node):
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _torch(name, args, keywords=()):
    return ast.Call(ast.Attribute(ast.Name("torch", ast.Load()), name, ast.Load()), args, list(keywords))


