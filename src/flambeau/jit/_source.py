"""The source of one function, on its way to TorchScript's text.

TorchScript has Python's grammar and its own names. Statements stay as they are; each name is looked up where the
function would find it, and becomes an operator (`torch.relu`), a constant, or another function of the program. Loops
over modules of a container are written out, since TorchScript has no lists of modules. Types are those of the
annotations; an argument without one has that of the first call's constants, or is a Tensor.
"""

import ast
import inspect
import re
import textwrap

import flambeau

from ..nn import Module
from ._compile import dotted
from ._expressions import Expressions, node_of
from ._types import NotScriptable, type_of, type_text

#: a text, or `not` before a name that begins with "in", which PyTorch's reader takes for `not in`
_NOT_IN = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|\bnot in(?=\w)""")


class Source(Expressions):
    """The source of a function or method, on its way to TorchScript."""

    def text(self, name):
        """The definition, called `name`."""
        head = self.head(name)
        body = self.body(self._without_docstring(self.node.body)) or [ast.Pass()]
        made = ast.fix_missing_locations(ast.Module(body, []))
        text = _NOT_IN.sub(lambda found: found[1] or "not  in", ast.unparse(made))
        return f"{head}\n" + textwrap.indent(text, "  ") + "\n"

    def head(self, name):
        """The first line of the definition."""
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
            kind = hints.get(arg.arg) or (ast.unparse(arg.annotation) if self.first == 1 and arg.annotation else None)
            kind = kind or ("Tensor" if default is None else self._default_type(default))
            if arg.arg not in hints and kind in ("Tensor", "Optional[Tensor]"):
                kind = self.kinds.get(arg.arg, kind)
            self.types[arg.arg] = kind
            value = "" if default is None else f"={ast.unparse(self.expression(default))}"
            parts.append(f"{arg.arg}: {kind}{value}")
        returns = hints.get("return", "NoneType" if name == "__init__" else None)
        return f"def {name}({', '.join(parts)}){f' -> {returns}' if returns else ''}:"

    def _hints(self):
        """{argument: its type} of annotations."""
        return {name: self.annotated(kind) for name, kind in self.hints.items()}

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
        return _list(handler(node))

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
        if name in self.once and self.is_slice(node.value):
            return self._sliced(name, node.value)
        known, settled = self.static(node.value) if name in self.once else (False, None)
        if known and (settled is None or isinstance(settled, Module)):
            self.standing[name] = settled  # another name for a module, or for none
            return [] if settled is not None else ast.Assign(node.targets, ast.Constant(None), lineno=0)
        if any(isinstance(t, ast.Tuple) and any(isinstance(e, ast.Attribute) for e in t.elts) for t in node.targets):
            return self._apart(node)
        kind = self.inferred(node.value)
        for target in node.targets:
            self._assigned(target, kind)
        if len(node.targets) == 1 and (setter := self._setter(node.targets[0])) is not None:
            return ast.Expr(ast.Call(setter, [self.expression(node.value)], []))
        value = self.expression(node.value)
        if len(node.targets) == 1:
            return ast.Assign([self.expression(node.targets[0])], value, lineno=0)
        first = self.expression(node.targets[0])
        again = [ast.Assign([self.expression(t)], _loaded(first), lineno=0) for t in node.targets[1:]]
        return [ast.Assign([first], value, lineno=0), *again]

    def _sliced(self, name, call):
        """A slice has no value in a program: its parts get names, and stand where it is used."""
        made, parts = [], {}
        for part, bound in ast.iter_fields(self.slice_of(call)):
            if isinstance(bound, ast.Constant) or bound is None:
                parts[part] = bound
                continue
            parts[part] = ast.Name(f"{name}_{part}", ast.Load())
            self.locals.add(f"{name}_{part}")
            made += self.statement(ast.Assign([ast.Name(f"{name}_{part}", ast.Store())], bound, lineno=0))
        self.slices[name] = ast.Slice(**parts)
        return made

    def _delete(self, node):
        return ast.Delete([self.expression(target) for target in node.targets])

    def _augassign(self, node):
        return ast.AugAssign(self.expression(node.target), node.op, self.expression(node.value))

    def _apart(self, node):
        """Attributes in a tuple are assigned to one by one."""
        parts = [ast.Name(f"part_{k}", ast.Store()) for k in range(len(node.targets[0].elts))]
        self.locals |= {part.id for part in parts}
        made = _list(self._assign(ast.Assign([ast.Tuple(parts, ast.Store())], node.value, lineno=0)))
        for target in node.targets:
            for part, each in zip(parts, target.elts, strict=True):
                made += _list(self._assign(ast.Assign([each], ast.Name(part.id, ast.Load()), lineno=0)))
        return made

    def _assigned(self, target, kind):
        """Notes the type of what is assigned; in a class of one's own, that of its attributes."""
        self.bind(target, kind)
        attributes = self.script.kinds.attributes.get(self.kind)
        if attributes is None or not isinstance(target, ast.Attribute) or not _is_name(target.value, self.receiver):
            return
        if target.attr not in attributes and self.function.__name__ == "__init__" and not isinstance(
                inspect.getattr_static(self.kind, target.attr, None), property):
            if kind in (None, "NoneType"):
                self.refuse(target, f"what type the attribute {target.attr} has is not told; annotate the assignment")
            attributes[target.attr] = kind

    def _setter(self, target):
        """The method that assigns to a property of an object; None for other targets."""
        kind = self.own_class(target.value) if isinstance(target, ast.Attribute) else None
        if kind is None and isinstance(target, ast.Attribute):
            return self.property_of(target, "setter")
        if kind is None or not isinstance(inspect.getattr_static(kind, target.attr, None), property):
            return None
        return ast.Attribute(self.expression(target.value), f"__{target.attr}_setter", ast.Load())

    def _annassign(self, node):
        kind = type_text(self._type_value(node.annotation), self.named)
        self._assigned(node.target, kind)
        if isinstance(node.target, ast.Name):
            self.declared.add(node.target.id)
        if node.value is None:
            return []
        if getattr(self.script.kinds.classes.get(kind), "_jit_interface", False):
            return self._by_interface(node, kind)
        value = ast.Call(ast.Name("annotate", ast.Load()), [node_of(kind), self.expression(node.value)], [])
        return ast.Assign([self.expression(node.target)], value, lineno=0)

    def _by_interface(self, node, kind):
        """One of several modules, of which the program decides."""
        container = node.value.value if isinstance(node.value, ast.Subscript) else node.value
        known, owner = self.static(container)
        for module in (owner.children() if container is not node.value else [owner]) if known else ():
            self.script.method(module, "forward")
        return ast.AnnAssign(node.target, node_of(kind), self.expression(node.value), 1)

    def _if(self, node):
        known, value = self.static(node.test)
        if known:
            return self.body(node.body if value else node.orelse)
        return ast.If(self.expression(node.test), self.body(node.body) or [ast.Pass()], self.body(node.orelse))

    def _while(self, node):
        self._without_else(node)
        return ast.While(self.expression(node.test), self.body(node.body) or [ast.Pass()], [])

    def _without_else(self, node):
        if node.orelse:
            self.refuse(node, "loops of TorchScript have no else")

    def _for(self, node):
        self._without_else(node)
        modules = self._modules_of(node.iter)
        if modules is None:
            modules = self._numbers_of(node)
        if modules is None:
            self.bind(node.target, self.item(node.iter))
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
        if isinstance(item, (Module, flambeau.Tensor)) or self._is_looked_up(node, target.id):
            self.standing[target.id] = item
            return []
        return [ast.Assign([ast.Name(target.id, ast.Store())], ast.Constant(item), lineno=0)]

    def _assert(self, node):
        return self._asserted(node.test, node.msg)

    def _asserted(self, test, message):
        return ast.Assert(self.expression(test), self._said(message) if message is not None else ast.Constant(""))

    def _said(self, node):
        """The text of an error; its constant parts alone where the rest has no form."""
        try:
            return self.expression(_loaded(node))
        except NotScriptable:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            return ast.Constant("".join(p.value if isinstance(p, ast.Constant) else "…" for p in parts))

    def _raise(self, node):
        call = node.exc
        known, kind = self.static(call.func if isinstance(call, ast.Call) else call)
        if not known or not isinstance(kind, type) or not issubclass(kind, BaseException):
            self.refuse(node, "raise takes an exception, with a text")
        args = call.args if isinstance(call, ast.Call) else []
        return _raise(self._said(args[0]) if args else ast.Constant(""), kind)

    def _with(self, node):
        """Contexts are objects of the program's classes."""
        items = []
        for item in node.items:
            kind = self.own_class(item.context_expr)
            if item.optional_vars is not None and kind is not None:
                self.bind(item.optional_vars, self.script.kinds.result(kind, "__enter__"))
            made = self._context(item.context_expr) or self.expression(item.context_expr)
            items.append(ast.withitem(made, item.optional_vars and self.expression(item.optional_vars)))
        return ast.With(items, self.body(node.body), lineno=0)

    def _context(self, call):
        """The object of one of the contexts that a program has; None for those of one's own classes."""
        if self.own_class(call) is not None:
            return None
        known, context = self.static(call.func) if isinstance(call, ast.Call) else (False, None)
        name = next((name for kind, name in _CONTEXTS.items() if known and context is kind), None)
        if name is None:
            self.refuse(call, "of contexts there are no_grad(), enable_grad(), record_function(), autocast() and those "
                              "of classes of your own")
        args = [self.expression(a) for a in call.args]
        keywords = [ast.keyword(k.arg, self.expression(k.value)) for k in call.keywords]
        if name == "autocast":
            args, keywords = self._autocast(call, args, keywords), []
        return ast.Call(node_of(self.script.kinds.context(name)), args, keywords)

    def _autocast(self, call, args, keywords):
        """Device, dtype and whether it is on."""
        given = inspect.signature(flambeau.autocast).bind(*args, **{k.arg: k.value for k in keywords}).arguments
        device, dtype = given["device_type"], given.get("dtype", ast.Constant(None))
        if isinstance(dtype, ast.Constant) and dtype.value is None:
            if not isinstance(device, ast.Constant):
                self.refuse(call, "autocast needs a dtype where the device is not a constant")
            dtype = self.constant(flambeau.get_autocast_dtype(device.value), call)
        return [device, dtype, given.get("enabled", ast.Constant(True))]


#: {what Python calls: the program's class}
_CONTEXTS = {flambeau.no_grad: "no_grad", flambeau.enable_grad: "enable_grad", flambeau.autocast: "autocast",
             flambeau.amp.autocast: "autocast", flambeau.profiler.record_function: "record_function",
             flambeau.autograd.profiler.record_function: "record_function"}


def _raise(text, kind):
    path = node_of("ops.prim.RaiseException")
    return ast.Expr(ast.Call(path, [text, ast.Constant(f"{kind.__module__}.{kind.__qualname__}")], []))


def _list(made):
    return made if isinstance(made, list) else [made]


def _is_name(node, name):
    return isinstance(node, ast.Name) and node.id == name


def _raises(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and dotted(node.value.func) == [
        "ops", "prim", "RaiseException"]


def _loaded(target):
    return node_of(ast.unparse(target))


def _copy(node):
    return ast.parse(ast.unparse(node)).body[0]

