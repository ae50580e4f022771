"""Stubs of functions and classes written in Python: signatures, with types from stub_types.py and their code."""

import ast
import enum
import inspect
import sys
import typing
from functools import cache

import stub_types as tables

#: special methods that users' code reaches
SPECIAL = {"__init__", "__new__", "__call__", "__enter__", "__exit__", "__len__", "__iter__", "__next__", "__getitem__",
           "__setitem__", "__delitem__", "__contains__", "__add__", "__mul__", "__rmul__", "__iadd__", "__bool__",
           "__getattr__", "__setattr__", "__or__", "__ior__", "__ror__", "__reversed__", "__int__", "__float__"}


@cache
def nodes(path):
    """{(name, first line): node} of the functions and classes in a file."""
    found = {}
    with open(path, encoding="utf-8") as file:
        waiting = [ast.parse(file.read())]
    while waiting:  # statements only: expressions define nothing
        for node in statements(waiting.pop()):
            waiting.append(node)
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                found[node.name, first] = found[node.name, node.lineno] = node
    return found


def statements(node):
    """The statements directly inside one."""
    for field in ("body", "orelse", "finalbody", "handlers"):
        inside = getattr(node, field, None)
        yield from inside if isinstance(inside, list) else ()


def node_of(function):
    """The source of a function as a tree; None where it has none (lambdas, extensions)."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not code.co_filename.endswith(".py"):
        return None
    try:
        return nodes(code.co_filename).get((code.co_name, code.co_firstlineno))
    except OSError:
        return None


def own(node):
    """The nodes of a function body, without those of the functions in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from own(child)


def inferred(function):
    """The result's type as the `return` statements show it; Any where they do not."""
    node = node_of(function)
    if node is None:
        return "Any"
    body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    inside = list(own(ast.Module(body, [])))
    if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in inside):
        managed = any("contextmanager" in ast.dump(d) for d in node.decorator_list)
        return "_GeneratorContextManager[Any]" if managed else "Generator_[Any, Any, Any]"
    returns = [n.value for n in inside if isinstance(n, ast.Return)]
    if not any(value is not None for value in returns):
        return "Any" if body and isinstance(body[-1], ast.Raise) else "None"
    kinds = {value_type(value) for value in returns}
    return kinds.pop() if len(kinds) == 1 else "Any"


def value_type(value):
    """The type of an expression where it is plain to see."""
    if value is None or (isinstance(value, ast.Constant) and value.value is None):
        return "None"
    if isinstance(value, ast.Constant):
        return type(value.value).__name__ if type(value.value) in (bool, int, float, str) else "Any"
    if isinstance(value, ast.JoinedStr):
        return "str"
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not):
        return "bool"
    plain = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
    if isinstance(value, ast.Compare) and all(isinstance(op, plain) for op in value.ops):
        return "bool"
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in (
            "isinstance", "bool", "callable", "hasattr", "any", "all"):
        return "bool"
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("str", "int", "len"):
        return {"len": "int"}.get(value.func.id, value.func.id)
    if isinstance(value, ast.Name) and value.id == "self":
        return "Self"
    return "Any"


def local(module):
    """The table entries of the innermost package that has some."""
    found = {}
    for start in sorted(tables.LOCAL, key=len):
        if module == start or module.startswith(start + "."):
            found |= tables.LOCAL[start]
    return found


def parameter_type(name, default, module):
    """The annotation of one parameter."""
    kind = local(module).get(name) or tables.PARAMETERS.get(name)
    empty = inspect.Parameter.empty
    if kind is None:
        if default is empty or default is None or type(default) not in (bool, int, float, str):
            return "Any"
        return "Any" if type(default) is int else type(default).__name__  # an int may stand for a tuple of them
    if default is None and kind != "Any" and "None" not in kind:
        kind += " | None"
    if default is not empty and type(default) in (bool, int, float, str) and kind != "Any":
        fits = {"bool": ("bool",), "int": ("int", "float"), "float": ("float",), "str": ("str",)}
        if not any(word in kind.replace("|", " ").split() for word in fits[type(default).__name__]):
            kind += f" | {type(default).__name__}"
    return kind


def default_text(default):
    """The default as it stands in a stub."""
    if default is inspect.Parameter.empty:
        return ""
    plain = type(default) in (int, float, bool, str, type(None)) and default == default
    return f" = {default!r}" if plain and default not in (float("inf"), -float("inf")) else " = ..."


def signature(function, place, module, in_class=False):
    """The text from the bracket on: "(a: int) -> Tensor"; a list of overloads where the table has some."""
    if place in tables.SIGNATURES:
        return tables.SIGNATURES[place]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return f"({'self, ' if in_class else ''}*args: Any, **kwargs: Any) -> Any"
    name = place.rpartition(".")[2]
    if name == "__exit__":
        return "(self, *args: object) -> None"
    parts, starred, slash = [], False, False
    if in_class and parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        parts.append("self")
    for k, p in enumerate(parameters):
        first = in_class and k == 0
        if slash and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
            slash = False
        slash = slash or p.kind is p.POSITIONAL_ONLY
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        starred = starred or p.kind is p.VAR_POSITIONAL
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        annotation = "Any" if star else parameter_type(p.name, p.default, module)
        parts.append(p.name if first and not star else f"{star}{p.name}: {annotation}{default_text(p.default)}")
    parts += ["/"] * slash
    kind = result(function, place, module, name)
    return f"({', '.join(parts)}) -> {'Any' if kind == 'Self' and not in_class else kind}"


def result(function, place, module, name):
    """The annotation of a function's result."""
    if name in ("__init__", "__setitem__", "__delitem__", "__setattr__"):
        return "None"
    if name == "__new__":
        return "Self"
    if place in tables.RESULTS or name in tables.RESULTS:
        return tables.RESULTS.get(place) or tables.RESULTS[name]
    kind = inferred(function)
    if kind == "Any":
        if name == "forward" and module.startswith("flambeau.nn.modules"):
            return "Tensor"
        if module.startswith(tables.TENSOR_RESULTS) and place == f"{module}.{name}":
            return "Tensor"
    return kind


def computed(cls, name):
    """Whether a subclass has a property of that name."""
    return any(isinstance(vars(sub).get(name), property) or computed(sub, name) for sub in cls.__subclasses__())


class ClassStub:
    """The stub of one class."""

    def __init__(self, cls, name, module, generator):
        self.cls, self.name, self.module, self.generator = cls, name, module, generator
        self.place = f"{cls.__module__}.{cls.__qualname__}"

    def lines(self):
        """The class statement and its body."""
        if issubclass(self.cls, tuple) and hasattr(self.cls, "_fields"):
            yield f"class {self.name}(NamedTuple):"
            defaults = self.cls._field_defaults
            yield from [f"    {field}: Any{' = ...' * (field in defaults)}" for field in self.cls._fields]
            return
        if type(self.cls).__name__ in ("TensorType", "SparseType"):  # LongTensor(2, 3) makes a Tensor
            yield f"class {self.name}(_Tensor): ..."
            return
        bases = ", ".join(self.bases())
        body = [] if issubclass(self.cls, type) else list(self.body())
        empty = issubclass(self.cls, enum.Enum) and not self.cls.__members__  # mypy takes it for a mistake
        yield (f"class {self.name}({bases}):" if bases else f"class {self.name}:") + "  # type: ignore[misc]" * empty
        yield from ["    " + line for line in body] or ["    ..."]

    def bases(self):
        for base in vars(self.cls).get("__orig_bases__") or self.cls.__bases__:
            origin = typing.get_origin(base)
            if origin is typing.Generic:
                yield f"Generic[{', '.join(self.variable(a) for a in typing.get_args(base))}]"
            elif origin is not None and inspect.isclass(origin):
                text = self.generator.reference(origin, self.module)
                arguments = ", ".join(self.variable(a) for a in typing.get_args(base))
                if text:
                    yield f"{text}[{arguments}]"
            elif base is not object and inspect.isclass(base):
                text = self.generator.reference(base, self.module)
                if text:
                    yield text + "[Any]" * bool(getattr(base, "__parameters__", ()))

    def variable(self, argument):
        """A type argument: type variables are declared in every stub's head."""
        if isinstance(argument, typing.TypeVar):
            return "_T_co" if argument.__covariant__ else "_T"
        return argument.__name__ if inspect.isclass(argument) and argument.__module__ == "builtins" else "Any"

    def body(self):
        if issubclass(self.cls, enum.Enum):
            for name, member in self.cls.__members__.items():
                value = repr(member.value) if type(member.value) in (int, str) else "..."
                yield f"{name} = {value if name == member.name else member.name}"
        seen = set()
        for name, value in vars(self.cls).items():
            if name.startswith("_") and name not in SPECIAL:
                continue
            if issubclass(self.cls, enum.Enum) and name in self.cls.__members__:
                continue
            seen.add(name)
            yield from self.member(name, value)
        yield from self.call_of_forward(seen)
        if self.place in tables.MORE:
            yield from tables.MORE[self.place].splitlines()
        yield from self.attributes(seen)

    def member(self, name, value):
        place = f"{self.place}.{name}"
        if self.place == "flambeau.nn.modules.module.Module" and name == "forward":
            yield "forward: Callable[..., Any]"
            yield "__call__: Callable[..., Any]"
        elif type(value).__name__ == "Op":
            yield from self.generator.operators.lines(name, value, self.generator.describe, method=True)
        elif name == "__new__":
            yield from self.new(getattr(value, "__func__", value))
        elif name == "__call__" and "__enter__" in dir(self.cls) and "func" in inspect.signature(value).parameters:
            yield "def __call__(self, func: _F) -> _F: ..."
        elif isinstance(value, (staticmethod, classmethod)):
            inner = value.__func__
            yield f"@{type(value).__name__}"
            bound = isinstance(value, classmethod)
            yield f"def {name}{signature(inner, place, self.module, in_class=bound)}: ...{self.note(place)}"
        elif isinstance(value, property):
            kind = tables.ATTRIBUTES.get(name) or (inferred(value.fget) if value.fget else "Any")
            yield "@property"
            yield f"def {name}(self) -> {kind}: ..."
            if value.fset:
                yield f"@{name}.setter"
                yield f"def {name}(self, value: Any) -> None: ..."
        elif inspect.isfunction(value):
            yield f"def {name}{signature(value, place, self.module, in_class=True)}: ...{self.note(place)}"
        elif inspect.isclass(value):
            yield f"{name}: type[Any]"
        elif callable(value) and not name.startswith("__"):
            yield f"def {name}(self, *args: Any, **kwargs: Any) -> Any: ..."
        elif not name.startswith("__"):
            kind = tables.ATTRIBUTES.get(name) or self.generator.constant(value)
            if computed(self.cls, name):  # what a subclass computes nobody may assign
                yield from ("@property", f"def {name}(self) -> {kind}: ...")
            else:
                yield f"{name}: {kind}"

    def note(self, place):
        """The word that lets a method differ from its base's, or from an attribute there."""
        name = place.rpartition(".")[2]
        inherited = any(name in vars(base) for base in self.cls.__mro__[1:-1])
        if not inherited or not tables.OTHER_PARAMETERS.match(place):
            return ""
        base = next(vars(base)[name] for base in self.cls.__mro__[1:-1] if name in vars(base))
        if inspect.isdatadescriptor(base):
            return "  # type: ignore[override]"
        ours, theirs = (inspect.signature(getattr(f, "__func__", f)) for f in (vars(self.cls)[name], base))
        return "" if str(ours) == str(theirs) else "  # type: ignore[override]"

    def new(self, value):
        """A scope that may decorate without parentheses has two forms; other constructors are typed by __init__."""
        if "func" in inspect.signature(value).parameters:
            yield "@overload"
            yield "def __new__(cls) -> Self: ..."
            yield "@overload"
            yield "def __new__(cls, func: _F) -> _F: ...  # type: ignore[misc]"
        elif "__init__" not in vars(self.cls):
            text = signature(value, self.place + ".__new__", self.module, in_class=True)
            yield f"def __new__{text}: ..."

    def call_of_forward(self, seen):
        """A layer is called as its forward is."""
        forward = vars(self.cls).get("forward")
        if inspect.isfunction(forward) and "__call__" not in seen and self.module.startswith("flambeau.nn") and any(
                base.__name__ == "Module" for base in self.cls.__mro__[1:]):
            yield f"def __call__{signature(forward, self.place + '.forward', self.module, in_class=True)}: ..."

    def attributes(self, seen):
        """What methods assign to self."""
        if issubclass(self.cls, enum.Enum):
            return
        known = {name for base in self.cls.__mro__[1:] for name in vars(base)}
        for node in self.assigned():
            if node.attr not in seen and node.attr not in known and not node.attr.startswith("_"):
                seen.add(node.attr)
                yield f"{node.attr}: {tables.ATTRIBUTES.get(node.attr, 'Any')}"

    def assigned(self):
        try:
            path = sys.modules[self.cls.__module__].__file__
            tree = next(n for (name, _), n in nodes(path).items()
                        if name == self.cls.__name__ and isinstance(n, ast.ClassDef))
        except (AttributeError, KeyError, OSError, StopIteration):
            return
        for node in ast.walk(tree):
            if (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
                    and isinstance(node.value, ast.Name) and node.value.id == "self"):
                yield node
