"""Reads which names of PyTorch a program uses, and where, from its source: nothing of it is imported or run."""

import ast
from collections import namedtuple

from ..ops.kinds import OPS

ROOTS = {"torch", "torchvision", "torchtext", "torchaudio"}
#: name: dotted, as PyTorch has it; guarded: the program is prepared for its absence
Use = namedtuple("Use", "name line guarded")

_TENSOR = object()
_NAMESPACES = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")
_MAKERS = {"torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.asarray", "torch.Tensor", "torch.nn.Parameter"}
_SAME = {"T", "mT", "H", "mH", "data", "real", "imag"}
_MOVES = {"to", "cpu", "cuda", "float", "double", "half", "long", "int", "bool", "detach", "clone", "contiguous",
          "view", "reshape", "expand", "repeat", "permute", "type_as", "requires_grad_"}
_CAUGHT = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException", "NameError"}


def _makes_tensor(operator):
    """Whether a call of an operator gives one tensor."""
    found = OPS.get(operator)
    return found is not None and str(getattr(found, "schema", "")).rpartition("->")[2].strip() == "Tensor"


class _Bindings(ast.NodeVisitor):
    """What one scope binds: {name: [a dotted name, an expression's node, or None for anything else]}."""

    def __init__(self, nodes):
        self.found = {}
        for node in nodes:
            self.visit(node)

    def bind(self, name, what=None):
        self.found.setdefault(name, []).append(what)

    def visit_Import(self, node):
        for alias in node.names:
            root = alias.name.partition(".")[0]
            self.bind(alias.asname or root, (alias.name if alias.asname else root) if root in ROOTS else None)

    def visit_ImportFrom(self, node):
        ours = node.level == 0 and node.module.partition(".")[0] in ROOTS
        for alias in node.names:
            self.bind(alias.asname or alias.name, f"{node.module}.{alias.name}" if ours else None)

    def visit_Assign(self, node):
        self.visit(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.bind(target.id, node.value)
            else:
                self.visit(target)

    def visit_AnnAssign(self, node):
        if isinstance(node.target, ast.Name):
            self.bind(node.target.id, node.value)
        self.visit(node.annotation)

    def visit_NamedExpr(self, node):
        self.bind(node.target.id, node.value)
        self.visit(node.value)

    def visit_Name(self, node):
        if not isinstance(node.ctx, ast.Load):
            self.bind(node.id)

    def visit_ExceptHandler(self, node):
        if node.name:
            self.bind(node.name)
        self.generic_visit(node)

    def visit_FunctionDef(self, node):
        self.bind(node.name)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_Lambda(self, _):
        """Binds in a scope of its own."""


class _Reader(ast.NodeVisitor):
    def __init__(self, tree, methods):
        self.uses, self.asked, self.methods = [], set(), methods
        self.guards, self.looking = 0, set()
        self.known, self.kept = {}, []  # what bindings are, by their id; and all scopes, so that no id comes twice
        self.scopes = [(_Bindings(tree.body).found, False)]
        self.visit(tree)

    # --- what an expression is ----------------------------------------------------------------------------------------

    def bound(self, name):
        """What the innermost scope that has the name binds to it; a class's names are not its methods'."""
        for k, (names, is_class) in enumerate(reversed(self.scopes)):
            if name in names and not (is_class and k):
                return names[name]
        return []

    def kind(self, node):
        """The dotted name that an expression stands for, _TENSOR, or None."""
        if isinstance(node, ast.Name):
            return self.kind_of_name(node.id)
        if isinstance(node, ast.Attribute):
            of = self.kind(node.value)
            return f"{of}.{node.attr}" if isinstance(of, str) else of if node.attr in _SAME else None
        if isinstance(node, ast.Call):
            return _TENSOR if self.gives_tensor(node.func) else None
        if isinstance(node, ast.Subscript) and self.kind(node.value) is _TENSOR:
            return _TENSOR
        if isinstance(node, ast.BinOp) and _TENSOR in (self.kind(node.left), self.kind(node.right)):
            return _TENSOR
        return None

    def kind_of_name(self, name):
        if name in self.looking:  # its value is made of itself
            return None
        bindings = self.bound(name)
        if id(bindings) in self.known:
            return self.known[id(bindings)]
        self.looking.add(name)
        kinds = [what if isinstance(what, str) else what and self.kind_bound(what) for what in bindings]
        self.looking.discard(name)
        if kinds and all(kind is _TENSOR for kind in kinds):
            found = _TENSOR
        else:
            found = next((kind for kind in kinds if isinstance(kind, str)), None)
        if not self.looking and bindings:  # what was found within a circle may be less than there is
            self.known[id(bindings)] = found
        return found

    def kind_bound(self, what):
        if isinstance(what, ast.arg):
            return _TENSOR if what.annotation is not None and self.kind(what.annotation) == "torch.Tensor" else None
        return self.kind(what)

    def gives_tensor(self, function):
        name = self.kind(function)
        if isinstance(name, str):
            space, _, last = name.rpartition(".")
            return name in _MAKERS or (space in _NAMESPACES and _makes_tensor(last))
        return (isinstance(function, ast.Attribute) and self.kind(function.value) is _TENSOR
                and (function.attr in _MOVES or _makes_tensor(function.attr)))

    # --- what is used -------------------------------------------------------------------------------------------------

    def use(self, name, node):
        self.uses.append(Use(name, node.lineno, self.guards > 0))

    def visit_Import(self, node):
        for alias in node.names:
            if alias.name.partition(".")[0] in ROOTS:
                self.use(alias.name, node)

    def visit_ImportFrom(self, node):
        if node.level == 0 and node.module.partition(".")[0] in ROOTS:
            for alias in node.names:
                self.use(node.module if alias.name == "*" else f"{node.module}.{alias.name}", node)

    def visit_Attribute(self, node):
        name = self.kind(node)
        if isinstance(name, str):
            if isinstance(node.ctx, ast.Load):  # what a program sets need not be there
                self.use(name, node)
            return
        if self.kind(node.value) is _TENSOR or node.attr in self.methods:
            self.use(f"torch.Tensor.{node.attr}", node)
        self.generic_visit(node)

    def visit_Name(self, node):
        name = self.kind(node)
        if isinstance(name, str) and "." in name and isinstance(node.ctx, ast.Load):
            self.use(name, node)

    def visit_Call(self, node):
        """`hasattr(torch, "x")` and `getattr(torch, "x", …)` name what is asked for."""
        called = getattr(node.func, "id", None)
        if called in ("hasattr", "getattr") and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            of = self.kind(node.args[0])
            if isinstance(of, str):
                name = f"{of}.{node.args[1].value}"
                if called == "hasattr" or len(node.args) > 2:
                    self.asked.add(name)
                self.use(name, node)
        self.generic_visit(node)

    # --- scopes and guards --------------------------------------------------------------------------------------------

    def inside(self, names, body, is_class=False):
        self.scopes.append((names, is_class))
        self.kept.append(names)
        for node in body:
            self.visit(node)
        self.scopes.pop()

    def visit_FunctionDef(self, node):
        arguments = node.args
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        outside = [*getattr(node, "decorator_list", ()), *arguments.defaults, *arguments.kw_defaults,
                   *(a.annotation for a in given), getattr(node, "returns", None)]
        for part in filter(None, outside):
            self.visit(part)
        body = node.body if isinstance(node.body, list) else [node.body]
        found = _Bindings(body)
        for argument in given:
            found.bind(argument.arg, argument)
        for argument in filter(None, (arguments.vararg, arguments.kwarg)):
            found.bind(argument.arg)
        for name in {name for part in body for inner in ast.walk(part) if isinstance(inner, ast.Global | ast.Nonlocal)
                     for name in inner.names}:
            found.found.pop(name, None)
        self.inside(found.found, body)

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_ClassDef(self, node):
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self.inside(_Bindings(node.body).found, node.body, is_class=True)

    def comprehension(self, node):
        found = _Bindings([])
        for part in node.generators:
            found.visit(part.target)
        self.scopes.append((found.found, False))
        self.kept.append(found.found)
        self.generic_visit(node)
        self.scopes.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comprehension

    def visit_Try(self, node):
        caught = {getattr(part, "id", getattr(part, "attr", None)) for handler in node.handlers
                  for part in ast.walk(handler.type or ast.Name("Exception"))}
        self.guarded(node.body, bool(caught & _CAUGHT))
        for part in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(part)

    visit_TryStar = visit_Try

    def visit_If(self, node):
        self.visit(node.test)
        words = {getattr(part, "id", getattr(part, "attr", None)) for part in ast.walk(node.test)}
        self.guarded(node.body, "TYPE_CHECKING" in words)
        for part in node.orelse:
            self.visit(part)

    def guarded(self, body, holds):
        self.guards += holds
        for part in body:
            self.visit(part)
        self.guards -= holds


def uses(source, name="<source>", methods=()):
    """[Use] of a source text, in its order. methods: those that only tensors have, found on whatever they are called.

    >>> from flambeau.as_torch import uses
    >>> [use.name for use in uses("from torch import nn as n; n.Linear(2, 3)")]
    ['torch.nn', 'torch.nn.Linear']
    """
    reader = _Reader(ast.parse(source, filename=name), frozenset(methods))

    def expected(use):
        return use.guarded or any(f"{use.name}.".startswith(f"{asked}.") for asked in reader.asked)

    return [use._replace(guarded=expected(use)) for use in reader.uses]
