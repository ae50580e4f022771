"""Mistakes that show in a function's source before it runs: names that are not there, types that do not fit.

Only what is certain is a mistake: an expression whose type the source does not tell may be anything, and a function
with statements that TorchScript has not got is not looked at, since it runs as it is.
"""

import ast
import builtins
import contextlib
import inspect
import types

import flambeau

from .. import _C
from .._aten.overloads import forms
from .._places import is_ours
from .._shown import shown
from ..nn import Module
from ._comments import annotations_of
from ._inferred import Inferred
from ._modules import RecursiveScriptModule, ScriptFunction, ScriptMethod, ScriptModule
from ._narrowing import is_amiss, is_optional, joined, narrowed, told
from ._types import NotScriptable, taken_apart

_PLAIN = frozenset(("int", "float", "bool", "str", "complex", "Tensor"))
_METHODS = types.MethodType, ScriptMethod
_NUMBERS = frozenset(("int", "float", "bool", "complex"))
_OTHERWISE = (ast.Try, ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Yield, ast.YieldFrom,
              ast.Await, ast.Global, ast.Nonlocal, ast.Match, ast.NamedExpr, ast.Starred, ast.Import, ast.ImportFrom,
              ast.Delete, ast.TryStar)


_CLASSES = {"Tensor": flambeau.Tensor, "int": int, "float": float, "bool": bool, "str": str}


class Mistake(RuntimeError):
    """A program that cannot be right, with the line that shows it."""


def fit(one, other):
    """Whether values of two types may be values of one name; True where a type is not known."""
    if one is None or other is None or one == other:
        return True
    if one in _PLAIN and other in _PLAIN:
        return False
    (head, parts), (other_head, others) = taken_apart(one), taken_apart(other)
    if head in ("List", "Dict") and other_head == head:
        return all(fit(a, b) or "Tensor" in (a, b) for a, b in zip(parts, others, strict=True))
    kinds = {head, other_head}
    return not (kinds <= {*_PLAIN, "List", "Dict", "Tuple"} and len(kinds) == 2)


def check(function, script, module=None):
    """Raises Mistake where a function of the user's cannot be right; `module`: whose method it is."""
    function = inspect.unwrap(function)
    if not isinstance(function, types.FunctionType) or is_ours(function.__module__ or "") or getattr(
            function, "_jit_unused", False) or (function, type(module)) in script.looked_at:
        return
    script.looked_at.add((function, type(module)))
    try:
        source = _Checked(script, function, module)
    except (NotScriptable, NotImplementedError):
        return
    inner = [n for n in ast.walk(source.node) if n is not source.node]
    if source.node.args.vararg or source.node.args.kwarg or any(isinstance(n, _OTHERWISE) for n in inner):
        return
    try:
        source.function_body()
    except Mistake:
        raise
    except Exception:  # what cannot be followed may be right
        return


def check_module(module, script):
    """`check` of what a module's program is made of: forward and exported methods, of the modules inside too."""
    seen = set()
    for inner in module.modules():
        kind = getattr(type(inner), "_scripted_class", type(inner))
        if kind in seen or is_ours(kind.__module__ or "") or (isinstance(inner, ScriptModule) and inner is not module):
            continue
        seen.add(kind)
        for name in dir(kind):
            method = inspect.getattr_static(kind, name)
            if name == "forward" or getattr(method, "_jit_export", False):
                check(method, script, inner)


def _bound(form, args, keywords):
    """[(argument, expression)] of a call of a form; None where it takes no such call."""
    places = [a for a in form.arguments if not a.by_name]
    found = list(zip(places, args))
    if len(args) > len(places):
        if not places or not places[-1].kind.endswith("]"):  # sizes may be given one by one
            last = next((k for k, a in enumerate(places) if "[" in a.kind), None)
            if last is None:
                return None
            found = found[:last]
        else:
            found = found[:-1]
    by_name = {a.name: a for a in form.arguments}
    taken = {a.name for a in places[:len(args)]}
    for k in keywords:
        if k.arg not in by_name or k.arg in taken:
            return None
        found.append((by_name[k.arg], k.value))
        taken.add(k.arg)
    return found if all(a.optional or a.name in taken for a in form.arguments) else None


class _Checked(Inferred):
    """A function whose statements are followed: which names have a value there, and of which types."""

    def function_body(self):
        """Follows the body."""
        args = [*self.node.args.args, *self.node.args.kwonlyargs]
        self.sure, self.conflicts = {a.arg for a in args}, {}
        for arg in args:
            hint = self.hints.get(arg.arg)
            self.types[arg.arg] = self._annotated(hint) if hint is not None else None
        if self.receiver is not None:
            self.types[self.receiver] = None
        hint = self.hints.get("return", self)
        self.given = None  # a type that it returns
        self.wanted = None if hint is self else self._annotated(hint)
        falls = self.follow(self.node.body)
        returns = [n for n in ast.walk(self.node) if isinstance(n, ast.Return) and n.value is not None]
        if falls and returns and self.wanted in _PLAIN:
            self.mistake(self.node, f"the function returns a {self.wanted} as it is annotated, but not on every way "
                                    "through it; add a return, or raise")

    def _annotated(self, hint, scope=None):
        """The type of an annotation; None for what programs have not got, and for containers of anything."""
        try:
            if isinstance(hint, str):
                hint = eval(hint, self.scope if scope is None else scope)
            return None if "..." in str(hint) or hint in (dict, list, tuple) else self.annotated(hint)
        except Exception:  # the writer's matter
            return None

    def mistake(self, node, what):
        """Raises, with the line."""
        line = getattr(node, "lineno", 1)
        text = next(each for each in ast.unparse(node).splitlines() if not each.startswith("@"))
        what = what.replace(" a int", " an int")
        raise Mistake(f"jit.script: {self.function.__code__.co_filename}, line {self.first + line - 1}: {what}\n"
                      f"  {text}")

    # ---- types -------------------------------------------------------------------------------------------------------

    def inferred(self, node):
        """The type of an expression as far as it is certain."""
        try:
            return super().inferred(node)
        except Exception:  # what has no form has no type that is known
            return None

    def _t_attribute(self, node):
        """What modules hold may change."""
        return super()._t_attribute(node) if self.inferred(node.value) is not None else None

    def _t_binop(self, node):
        return None if isinstance(node.op, ast.Pow) and self.inferred(node.left) != "Tensor" else super()._t_binop(node)

    def _result(self, function, node):
        if function in (min, max, sum, round, abs, list, sorted, range):
            return None
        hint = annotations_of(function).get("return") if isinstance(function, types.FunctionType) else None
        if hint is not None:
            return self._annotated(hint, function.__globals__)
        return super()._result(function, node)

    def _t_compare(self, node):
        is_told = None not in [self.inferred(side) for side in (node.left, *node.comparators)]
        return super()._t_compare(node) if is_told else None

    # ---- statements --------------------------------------------------------------------------------------------------

    def follow(self, statements):
        """Whether what follows the statements is reached."""
        for s in statements:
            way = getattr(self, f"_s_{type(s).__name__.lower()}", None)
            if way is None:
                self.look(s)
            elif way(s) is False:
                return False
        return True

    def _s_return(self, node):
        if node.value is not None:
            self.look(node.value)
            found = self.inferred(node.value)
            if self.wanted in _PLAIN:
                self.present(node.value, node)
            if self.wanted is None and not fit(found, self.given):
                self.mistake(node, f"the function returns a {found} here, and a {self.given} elsewhere")
            self.given = found if found in _PLAIN else self.given
            converts = found == "Tensor" and self.wanted in _NUMBERS
            if self.wanted in _PLAIN and not converts and (not fit(found, self.wanted) or found == "NoneType"):
                self.mistake(node, f"the function is annotated to return a {self.wanted}, and returns a {found}")
        return False

    def _s_raise(self, node):
        if node.exc is not None:
            self.look(node.exc)
        return False

    def _s_break(self, _):
        return False

    _s_continue = _s_break

    def _s_assign(self, node):
        self.look(node.value)
        kind = self.inferred(node.value)
        for target in node.targets:
            self.target(target, kind)

    def _s_annassign(self, node):
        kind = self._annotated(ast.unparse(node.annotation))
        if node.value is not None:
            self.look(node.value)
            found = self.inferred(node.value)
            empty = isinstance(node.value, (ast.List, ast.Dict)) or found == "Tensor"
            if not empty and kind in _PLAIN and not fit(found, kind) and (found, kind) != ("int", "float"):
                self.mistake(node, f"the variable is annotated as a {kind}, and gets a {found}")
        self.target(node.target, kind)

    def _s_augassign(self, node):
        self.look(node.value)
        self.look(ast.parse(ast.unparse(node.target), mode="eval").body)
        left, right = self.inferred(node.target), self.inferred(node.value)
        self.present(node.target, node)
        self.present(node.value, node)
        if isinstance(node.target, ast.Name):
            same = (left == right and not isinstance(node.op, (ast.Pow, ast.Div))) or left == "Tensor" or (
                left or "").startswith("List")
            self.found[node.target.id] = left if same else None

    def target(self, node, kind):
        """Notes a value of this type."""
        if isinstance(node, ast.Name):
            self.sure.add(node.id)
            self.conflicts.pop(node.id, None)
            self.found[node.id] = kind
            self.types.pop(node.id, None)
        elif isinstance(node, (ast.Tuple, ast.List)):
            head, parts = taken_apart(kind) if kind is not None else ("", [])
            if head == "Tuple" and "()" not in parts and len(parts) != len(node.elts):
                self.mistake(node, f"{len(node.elts)} names take apart a tuple of {len(parts)}")
            for k, inner in enumerate(node.elts):
                self.target(inner, parts[k] if head == "Tuple" and k < len(parts) else None)
        elif isinstance(node, ast.Subscript):
            self.look(node.value)
            self.look(node.slice)
            held = self.inferred(node.value)
            if held == "str" or (held or "").startswith("Tuple["):
                self.mistake(node, f"an item of a {held} cannot be assigned to")
        elif isinstance(node, ast.Attribute):
            self.look(node.value)
            known, owner = self.static(node.value)
            declared = known and isinstance(owner, Module) and any(
                node.attr in getattr(kind, "__annotations__", {}) for kind in type(owner).__mro__)
            if known and isinstance(owner, Module) and not hasattr(owner, node.attr) and not declared:
                self.mistake(node, f"the module has no attribute {shown(node.attr)}; set it in __init__")

    def _s_if(self, node):
        known, value = self.static(node.test)
        if not known:
            known, value = self.settled_test(node.test)
        if known:
            return self.follow(node.body if value else node.orelse)
        self.look(node.test)
        self.refined(node.test)
        yes, no = told(node.test)
        ends = [self.way(node.body, yes), self.way(node.orelse, no)]
        live = [end for end in ends if end is not None]
        if not live:
            return False
        self.sure = set.intersection(*(sure for sure, _, _ in live))
        self.conflicts = {name: text for _, _, conflicts in live for name, text in conflicts.items()}
        self.found = self.joined([found for _, found, _ in live])
        return True

    def settled_test(self, test):
        """(True, value) of a test of a name's type, or of a constant of the module, which leave one branch alone."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            known, value = self.settled_test(test.operand)
            return known, not value
        if isinstance(test, ast.Attribute):
            known, owner = self.static(test.value)
            is_constant = known and isinstance(owner, Module) and test.attr in getattr(owner, "__constants__", ())
            return is_constant, is_constant and bool(getattr(owner, test.attr, False))
        if not (isinstance(test, ast.Call) and len(test.args) == 2 and self.static(test.func)[1] in (
                isinstance, flambeau.jit.isinstance)):
            return False, None
        kind, (known, wanted) = self.inferred(test.args[0]), self.static(test.args[1])
        if kind not in _CLASSES or not known:
            return False, None
        return True, _CLASSES[kind] in (wanted if isinstance(wanted, tuple) else (wanted,))

    def refined(self, test):
        """What a test tells of the types of names, beside whether they are None, is not followed: they may be anything
        behind it."""
        parts = [n for n in ast.walk(test) if isinstance(n, ast.Call) or (isinstance(n, ast.Compare) and isinstance(
            n.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) and told(n) == ({}, {}))]
        for part in (part for node in parts for part in ast.iter_child_nodes(node)):
            if isinstance(part, ast.Name) and part.id in {*self.types, *self.found}:
                self.types[part.id] = self.found[part.id] = None

    def narrow(self, names):
        """Notes what a test tells of names."""
        for name, what in names.items():
            kind = self.found.get(name) or self.types.get(name)
            if kind is not None:
                self.found[name] = self.types[name] = narrowed(kind, what)

    def way(self, statements, names):
        """What is known at the end of a branch: (names, types, conflicts); None where it is not reached. `names`: what
        is told of names where it begins."""
        before = set(self.sure), dict(self.found), dict(self.conflicts), dict(self.types)
        self.narrow(names)
        falls = self.follow(statements)
        after = self.sure, {**self.types, **self.found}, self.conflicts
        self.sure, self.found, self.conflicts, self.types = before
        return after if falls else None

    def joined(self, ends):
        """The types that branches agree on; where they differ for certain, a use is a mistake."""
        first, *rest = ends
        if not rest:
            return first
        other, made = rest[0], {}
        for name in {*first, *other}:
            a, b = first.get(name), other.get(name)
            made[name] = joined(a, b)
            if name in self.sure and not fit(a, b):
                self.conflicts[name] = f"{shown(name)} is a {a} after one branch and a {b} after the other"
        return made

    def _s_while(self, node):
        if not self.static(node.test)[0]:
            self.look(node.test)
            self.refined(node.test)
        self.loop(node.body, told(node.test)[0])
        return not (isinstance(node.test, ast.Constant) and node.test.value)

    def _s_for(self, node):
        if self._modules_of(node.iter) is not None or self._is_looked_up(node, getattr(node.target, "id", None)):
            self.forget([node.target, *node.body], True)  # written out: each turn has its own types
            return
        self.look(node.iter)
        kind = self.inferred(node.iter)
        self.present(node.iter, node)
        if kind in _NUMBERS:
            self.mistake(node.iter, f"a {kind} cannot be gone through; use range()")
        before = set(self.sure)
        self.target(node.target, self.item(node.iter))
        self.loop(node.body)
        self.sure &= before

    def loop(self, body, names=()):
        """Follows the body of a loop once; names that begin in it are not certain behind it."""
        before, known = set(self.sure), {**self.types, **self.found}
        end = self.way(body, dict(names))
        if end is not None:
            for name in self.stored(body) & before:
                if not fit(known.get(name), end[1].get(name)):
                    self.mistake(body[0], f"{shown(name)} is a {known[name]} before the loop and a {end[1][name]} "
                                          "after a turn")
        self.forget(body, False)
        self.sure = before

    def forget(self, statements, sure):
        """What statements assign may have any type."""
        for name in self.stored(statements):
            self.found[name] = None
            self.types.pop(name, None)
            if sure:
                self.sure.add(name)

    @staticmethod
    def stored(statements):
        """The names that statements assign."""
        return {n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)
                and not isinstance(n.ctx, ast.Load)}

    def _s_with(self, node):
        for item in node.items:
            self.look(item.context_expr)
            if item.optional_vars is not None:
                self.target(item.optional_vars, None)
        return self.follow(node.body)

    def _s_assert(self, node):
        self.look(node.test)
        self.refined(node.test)
        self.narrow(told(node.test)[0])
        return not (isinstance(node.test, ast.Constant) and not node.test.value)

    def _s_pass(self, _):
        return True

    # ---- expressions -------------------------------------------------------------------------------------------------

    def look(self, node):
        """Looks for mistakes in an expression."""
        if isinstance(node, (ast.ListComp, ast.DictComp, ast.GeneratorExp, ast.SetComp)):
            return self.comprehension(node)
        if isinstance(node, ast.IfExp):
            known, value = self.static(node.test)
            if known:
                return self.look(node.body if value else node.orelse)
        if isinstance(node, ast.BoolOp) and self.static(node)[0]:
            return None
        if isinstance(node, (ast.IfExp, ast.BoolOp)):  # what a part tells of a name is not followed
            return None
        if isinstance(node, ast.Name):
            return self.name(node)
        for child in ast.iter_child_nodes(node):
            self.look(child)
        special = getattr(self, f"_look_{type(node).__name__.lower()}", None)
        return special(node) if special is not None else None

    def comprehension(self, node):
        """The items, with the names of the comprehension."""
        before = set(self.sure), dict(self.found), dict(self.types)
        for each in node.generators:
            self.look(each.iter)
            self.sure |= self.stored([each.target])
            for name in self.stored([each.target]):
                self.found[name] = None
            for test in each.ifs:
                self.look(test)
                self.narrow(told(test)[0])
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                self.look(getattr(node, part))
        self.sure, self.found, self.types = before

    def present(self, node, where):
        """A name whose value is used, in the expression or statement `where`: it may not be None."""
        if isinstance(node, ast.Name) and is_optional(kind := self.inferred(node)) and not self.static(node)[0]:
            self.mistake(where, f"{shown(node.id)} is of the type {kind} and may be None here; use it where "
                               f"`{node.id} is not None` was tested")

    def name(self, node):
        """A name that is read."""
        if node.id in self.conflicts:
            self.mistake(node, f"{self.conflicts[node.id]}; give it one type")
        if node.id in self.locals:
            if node.id not in self.sure and node.id not in self.standing:
                self.mistake(node, f"{shown(node.id)} has no value on some way to this line; give it one before")
        elif node.id not in self.scope and not hasattr(builtins, node.id):
            self.mistake(node, f"the name {shown(node.id)} is not defined")

    def _look_attribute(self, node):
        known, owner = self.static(node.value)
        if known and isinstance(owner, (Module, types.ModuleType, type)) and not hasattr(owner, node.attr):
            what = "module" if isinstance(owner, Module) else owner.__name__
            self.mistake(node, f"the {what} has no {shown(node.attr)}")
        self.present(node.value, node)
        kind = self.inferred(node.value) if not known else None
        if kind in _CLASSES and not hasattr(_CLASSES[kind], node.attr):
            self.mistake(node, f"it is a {kind}, which has no {shown(node.attr)}")

    def _look_subscript(self, node):
        self.present(node.value, node)

    def _look_unaryop(self, node):
        if not isinstance(node.op, ast.Not):
            self.present(node.operand, node)

    def _look_compare(self, node):
        if isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            for side in (node.left, *node.comparators):
                self.present(side, node)

    def _look_binop(self, node):
        self.present(node.left, node)
        self.present(node.right, node)
        kinds = {self.inferred(node.left), self.inferred(node.right)}
        if isinstance(node.op, (ast.Add, ast.Sub, ast.Div)) and "str" in kinds and kinds & {*_NUMBERS, "Tensor"}:
            self.mistake(node, f"a str and a {(kinds - {'str'}).pop()} cannot be put together; use str() or a format")

    def _look_call(self, node):
        known, function = self.static(node.func)
        if known and isinstance(function, Module) and type(function).forward is not Module.forward:
            function = function.forward
        if known and isinstance(function, (ScriptFunction, types.FunctionType, *_METHODS)):
            inner = function if isinstance(function, _METHODS) else getattr(function, "__wrapped__", function)
            if isinstance(inner, (types.FunctionType, *_METHODS)) and not is_ours(inner.__module__ or ""):
                self.arguments(node, inner)
                self.follow_call(node, inner)
        if known and isinstance(function, _C.Op):
            self.operator(node, function, node.args)
        elif not known and isinstance(node.func, ast.Attribute) and self.inferred(node.func.value) == "Tensor":
            self.operator(node, getattr(_C.Tensor, node.func.attr, None), [node.func.value, *node.args])
        if isinstance(node.func, ast.Attribute) and node.func.attr == "append" and len(node.args) == 1:
            head, parts = taken_apart(self.inferred(node.func.value) or "Any")
            found = self.inferred(node.args[0])
            if head == "List" and parts[0] in _PLAIN and found in _PLAIN and not fit(found, parts[0]):
                self.mistake(node, f"a {found} is appended to a List[{parts[0]}]; annotate the list where it is made "
                                   f"(an empty one is of tensors)")

    def follow_call(self, node, function):
        """Looks for mistakes in what is called, too; one is told with the line of the call."""
        owner = getattr(function, "__self__", None)
        try:
            if isinstance(function, types.FunctionType):
                check(function, self.script)
            elif isinstance(owner, Module) and not isinstance(owner, RecursiveScriptModule):
                check(function.__func__, self.script, owner)
        except Mistake as error:
            line = self.first + node.lineno - 1
            raise Mistake(f"{error}\ncalled in {self.function.__code__.co_filename}, line {line}, "
                          f"{self.function.__name__}\n  {ast.unparse(node)}") from None

    def operator(self, node, op, args):
        """The arguments of a call of an operator, which one of its forms must take."""
        names = [k.arg for k in node.keywords]
        if not isinstance(op, _C.Op) or not (known := forms(op.name)) or {None, "out"} & {*names} or any(
                isinstance(arg, ast.Starred) for arg in args):
            return
        given = [bound for form in known if (bound := _bound(form, args, node.keywords)) is not None]
        if not given:
            with contextlib.suppress(ValueError):  # an operator without a signature of its own
                try:
                    inspect.signature(op).bind(*args, **dict.fromkeys(names))
                except TypeError:
                    takes = "; ".join(", ".join(a.name for a in form.arguments) for form in known)
                    self.mistake(node, f"{op.name} does not take these arguments; it takes ({takes})")
            return
        amiss = [next(((a, value) for a, value in bound if is_amiss(a.kind, self.inferred(value))), None)
                 for bound in given]
        if None not in amiss:
            argument, value = amiss[0]
            self.present(value, node)
            self.mistake(node, f"{op.name}: the argument {shown(argument.name)} cannot be a {self.inferred(value)}")

    def arguments(self, node, function):
        """The arguments of a call of a function of the program."""
        signature = inspect.signature(function)
        scope = inspect.unwrap(getattr(function, "__func__", function)).__globals__
        if any(k.arg is None for k in node.keywords):
            return
        try:
            given = signature.bind(*node.args, **{k.arg: k.value for k in node.keywords}).arguments
        except TypeError as error:
            self.mistake(node, f"{function.__name__}: {error}")
        for name, value in given.items():
            hint = signature.parameters[name].annotation
            wanted = self._annotated(hint, scope) if hint is not inspect.Parameter.empty else None
            found = self.inferred(value) if isinstance(value, ast.expr) else None
            if wanted in _PLAIN and isinstance(value, ast.expr):
                self.present(value, node)
            converts = found == "Tensor" or wanted == "float" or (found, wanted) == ("bool", "int")
            if wanted in _PLAIN and found in _PLAIN and not fit(found, wanted) and not (
                    converts and wanted in _NUMBERS):
                self.mistake(node, f"{function.__name__}: the argument {shown(name)} must be a {wanted}, got a {found}")
