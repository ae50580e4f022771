"""CodeGen: writes a graph as the source of a Python function: a line per Node, values dropped after their last use."""

import contextlib
import copy
import enum
import importlib
import inspect
import keyword
import re
import sys
import types
import typing
from dataclasses import dataclass, field

import flambeau

from .. import _C
from .._places import ROOTS
from ..ops.namespaces import Overload, Packet
from ..utils import _pytree
from ._targets import INFIX, INPLACE, is_operator, qualified_name, root_name, type_text
from .node import Node, value_text

_INDENT = "    "
_PLAIN = re.compile(r"[\w@ -]*", re.ASCII)
_CUSTOM = {"inf": ("from math import inf", float("inf")), "nan": ("from math import nan", float("nan")),
           "NoneType": ("NoneType = type(None)", type(None)), "device": (None, _C.device)}


@dataclass
class PythonCode:
    """Source of a function and the globals that it needs; `_lineno_map`: {line of the source: index of its Node}."""

    src: str
    globals: dict
    _lineno_map: dict | None = field(default=None)
    _prologue_start: int = 0


def root_module():
    """The module that generated code calls by its root name."""
    return sys.modules.get(root_name(), flambeau)


def access(base, target):
    """`base.a.b`, with getattr for parts that are no names: access("self", "seq.0") is 'getattr(self.seq, "0")'."""
    text = base
    for part in target.split("."):
        if part.isidentifier() and not keyword.iskeyword(part):
            text = f"{text}.{part}"
        else:
            text = f'getattr({text}, "{part}")' if _PLAIN.fullmatch(part) else f"getattr({text}, {part!r})"
    return text


def accepted(method, *args, **options):
    """method(*args) with those of the options that it takes: CodeGens of programs may know fewer."""
    parameters = inspect.signature(method).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        options = {name: value for name, value in options.items() if name in {p.name for p in parameters}}
    return method(*args, **options)


class _Globals:
    """What the function needs from outside, under names of its own."""

    def __init__(self, names):
        self.names = names
        self.found = {"inf": float("inf"), "nan": float("nan"), "NoneType": type(None), "device": _C.device,
                      root_name(): root_module(), "pytree": _pytree,
                      "fx_pytree": importlib.import_module("flambeau.fx._pytree")}
        self.found.update({name: value for name, (_, value) in _CUSTOM.items()})
        self.wrapped = {}

    def text(self, obj):
        """An expression for a function or class: below the library's name where it is found there."""
        name = qualified_name(obj)
        head, _, rest = name.partition(".")
        if head in ROOTS and rest and _resolves(rest, obj):
            return name
        if not rest and _resolves_builtin(name, obj):
            return name
        return self.object(name, obj)

    def object(self, name, obj):
        """An object under a name like this."""
        name = self.names.create_name(name.replace(".", "_"), obj if obj.__hash__ is not None else None)
        self.found[name] = obj
        return name


def _resolves(path, obj):
    value = root_module()
    try:
        for part in path.split("."):
            value = getattr(value, part)
    except AttributeError:
        return False
    return value is obj


def _resolves_builtin(name, obj):
    return getattr(__builtins__, name, None) is obj if isinstance(__builtins__, types.ModuleType) \
        else __builtins__.get(name) is obj


class CodeGen:
    """How a graph becomes a function. Subclasses change its `def` line, its `return` line and its globals.

    gen_fn_def          the lines up to the body
    generate_output     the line that returns
    process_inputs      from the function's arguments to the placeholders' values (for Interpreter)
    process_outputs     from what the output Node returns to the function's result
    additional_globals  [(name, object)] for the code
    """

    def __init__(self):
        self._body_transformer = None
        self._func_name = "forward"

    @staticmethod
    def register_builtin(name, import_str, obj):
        """Gives all generated functions a global `name`; import_str is the statement that makes it in a file."""
        _CUSTOM[name] = (import_str, obj)

    def copied(self):
        """A copy that shares nothing that changes."""
        return copy.copy(self)

    def transforming(self, make_transformer):
        """See Graph.on_generate_code."""
        before = self._body_transformer
        self._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def kept():
            try:
                yield
            finally:
                self._body_transformer = before

        return kept()

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        """The `def` line, for arguments as they stand in it ("x : int = 3")."""
        if not free_vars or free_vars[0] != "self":
            free_vars = ["self", *free_vars]
        if expanded_def:
            arguments = "".join(f"\n{_INDENT}{v}," for v in free_vars) + "\n"
        else:
            arguments = ", ".join(free_vars)
        return f"def {self._func_name}({arguments}){maybe_return_annotation}:"

    def generate_output(self, output_args, *, descs=None, repr_fn=None):
        """The line that returns output_args; `descs`: a comment for each; repr_fn writes a value."""
        return f"return {(repr_fn or repr)(output_args)}" + _trailer(descs)

    def process_inputs(self, *args):
        """The values of the placeholders: the arguments."""
        return args

    def process_outputs(self, outputs):
        """The function's result: what the output Node returns."""
        return outputs

    def additional_globals(self):
        """Further globals of the code: none."""
        return []

    def _gen_python_code(self, nodes, root_module, namespace, *, verbose=False, include_stride=False,
                         include_device=False, colored=False, expanded_def=False, additional_meta=None):
        writer = _Writer(self, root_module, _Globals(namespace))
        notes = _Notes(verbose, include_stride, include_device, colored, additional_meta or ())
        return writer.code(list(nodes), notes, expanded_def)


class _BoxedCodeGen(CodeGen):
    """The function takes one list of all arguments and empties it, so that the caller keeps none alive."""

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        """The `def` line and those that unpack the list."""
        names = [v.partition(":")[0].partition("=")[0].strip() for v in free_vars if v != "self"]
        head = super().gen_fn_def(["self", "args_list"], maybe_return_annotation, expanded_def=expanded_def)
        if not names:
            return head
        return f"{head}\n{_INDENT}{', '.join(names)}{',' if len(names) == 1 else ''} = args_list" \
               f"\n{_INDENT}args_list.clear()"


def _trailer(descs):
    return f"  # {', '.join(map(str, descs))}" if descs else ""


class _Notes:
    """What generated code says besides what runs: the program's lines, dtypes and shapes."""

    def __init__(self, verbose, stride, device, colored, meta):
        self.verbose, self.stride, self.device, self.meta = verbose, stride, device, meta
        self._color = (lambda code, text: f"\x1b[{code}m{text}\x1b[0m") if colored else (lambda code, text: text)
        self._last = None

    def before(self, node):
        """A comment line with the place in the program, where it is another than the last one's."""
        if not self.verbose or node.op in ("placeholder", "output"):
            return []
        place = last_line(node.stack_trace) if node.stack_trace else None
        if place == self._last or (place is None and self._last is None):
            return []
        self._last = place
        return ["", self._color("90", f"# {place or 'recorded without the lines of the program'}")]

    def annotation(self, node):
        """The text after the name: `: "f32[2, 3]"`."""
        value = node.meta.get("val", node.meta.get("tensor_meta")) if self.verbose else None
        parts = []
        if value is not None and hasattr(value, "shape") and hasattr(value, "dtype"):
            parts.append(value_text(value, self.stride, self.device))
        parts += [f"{key}={node.meta[key]}" for key in self.meta if key in node.meta] if self.verbose else []
        return f': "{self._color("34", " ".join(parts))}"' if parts else None


def last_line(trace):
    """The innermost line of a recorded stack: `file.py:3 in forward: y = x + 1`."""
    found = re.findall(r'File "([^"]*)", line (\d+), in (.*)\n\s*(.*)', trace)
    if not found:
        return trace.strip().rpartition("\n")[2]
    file, line, name, code = found[-1]
    return f"{file}:{line} in {name}: {code.strip()}"


class _Writer:
    """Writes one function."""

    def __init__(self, codegen, root, outside):
        self.codegen, self.root, self.outside = codegen, root, outside
        self.free, self.body, self.returns = [], [], ""
        self.lines = {}  # number of a body line -> index of its Node

    def code(self, nodes, notes, expanded_def):
        """The PythonCode of these Nodes."""
        last_uses = _last_uses(nodes)
        for index, node in enumerate(nodes):
            self.body += notes.before(node)
            line = self.statement(node, notes)
            if line is not None:
                self.lines[len(self.body)] = index
                self.body.append(line + self.freed(node, last_uses.get(node, ())))
        body = self.body or ["pass"]
        if self.codegen._body_transformer:
            body = self._transformed(body)
        for name, value in self.codegen.additional_globals():
            self.outside.found[name] = value
        prologue = accepted(self.codegen.gen_fn_def, self.free, self.returns, expanded_def=expanded_def)
        return self._joined(prologue, body)

    def _transformed(self, body):
        lines = self.codegen._body_transformer([line + "\n" for line in body])
        self.lines = {}
        return "".join(lines).removesuffix("\n").split("\n")

    def _joined(self, prologue, body):
        wraps = "\n".join(f'{root_name()}.fx._symbolic_trace.wrap("{name}")' for name in self.outside.wrapped)
        start = "\n" + wraps + "\n\n" + prologue + "\n"
        source = start + "\n".join(_INDENT + line if line else "" for line in body) + "\n" + _INDENT
        offset = start.count("\n") + 1
        return PythonCode(source, self.outside.found, {line + offset: k for line, k in self.lines.items()}, offset - 1)

    def freed(self, node, unused):
        """`;  x = None` for values that are used here for the last time."""
        if node.op in ("output", "placeholder"):
            return ""
        names = [self.text(n) for n in unused if n is not node]
        if not node.users:
            names.append(self.text(node))
        return f";  {' = '.join([*names, 'None'])}" if names else ""

    def text(self, arg):
        """An argument as an expression."""
        for kind, write in _ARGUMENTS:
            if isinstance(arg, kind):
                return write(self, arg)
        if isinstance(arg, (type, types.FunctionType, types.BuiltinFunctionType)):
            return self.outside.text(arg)
        return repr(arg)

    def arguments(self, args, kwargs):
        """What stands between the parentheses of a call."""
        return ", ".join([*map(self.text, args), *(f"{key} = {self.text(value)}" for key, value in kwargs.items())])

    def annotated(self, node, notes, name):
        """A name with its type."""
        noted = notes.annotation(node)
        if noted is None and node.type is not None:
            noted = f" : {self.type(node.type)}"
        return name + (noted or "")

    def type(self, kind):
        """A type as an expression, with what it needs from outside."""
        if isinstance(kind, typing.ForwardRef):
            kind = kind.__forward_arg__
        if isinstance(kind, str) or kind is None:
            return repr(kind)
        if kind is ...:
            return "..."
        if isinstance(kind, list):  # the arguments of a Callable
            return f"[{', '.join(map(self.type, kind))}]"
        if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
            return "NoneType" if kind is type(None) else self.outside.text(kind)
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if getattr(kind, "__module__", None) == "typing" and getattr(kind, "__args__", None) is not None:
            return f"{self.typing(kind)}[{','.join(map(self.type, arguments)) or '()'}]"
        if arguments and origin in (list, dict, tuple, set):
            return f"{origin.__name__}[{', '.join(map(self.type, arguments))}]"
        return self.outside.object(type_text(kind), kind)

    def typing(self, kind):
        """`typing_List`: a name of typing's as a global."""
        name = getattr(kind, "_name", None) or "Union"
        name = "Union" if name == "Optional" else name  # which says its None itself
        self.outside.found[f"typing_{name}"] = getattr(typing, name)
        return f"typing_{name}"

    def statement(self, node, notes):
        """The line of a Node; None for an argument that needs none."""
        name = self.text(node)
        if node.op == "placeholder":
            return self.placeholder(node, notes, name)
        if node.op == "output":
            if node.type is not None:
                self.returns = f" -> {self.type(node.type)}"
            return accepted(self.codegen.generate_output, node.args[0], descs=node.meta.get("desc"), repr_fn=self.text)
        if node.op == "get_attr":
            value = access(self.root, node.target)
        elif node.op == "call_module":
            value = f"{access(self.root, node.target)}({self.arguments(node.args, node.kwargs)})"
        elif node.op == "call_method":
            value = f"{access(self.text(node.args[0]), node.target)}({self.arguments(node.args[1:], node.kwargs)})"
        else:
            return self.function(node, notes, name)
        return f"{self.annotated(node, notes, name)} = {value}"

    def placeholder(self, node, notes, name):
        """The argument goes into the `def` line."""
        raw = node.target.replace("*", "")
        default = f" = {self.text(node.args[0])}" if node.args else ""
        self.free.append(f"{self.annotated(node, notes, node.target)}{default}")
        return None if raw == name else f"{name} = {raw}"

    def function(self, node, notes, name):
        """A call_function: operators as signs."""
        target = node.target
        head = self.annotated(node, notes, name)
        if is_operator(target) and not node.kwargs:
            kind = target.__name__
            if kind in INFIX and len(node.args) == INFIX[kind].count("{}"):
                return f"{head} = {INFIX[kind].format(*map(self.operand, node.args))}"
            if kind in INPLACE and len(node.args) == INPLACE[kind].count("{}"):
                first = self.text(node.args[0])
                done = INPLACE[kind].format(*map(self.text, node.args))
                return f"{done};  {head} = {'None' if kind == 'setitem' else first}"
        if target is getattr and len(node.args) == 2 and isinstance(node.args[1], str) \
                and node.args[1].isidentifier() and isinstance(node.args[0], Node):
            return f"{head} = {access(self.text(node.args[0]), node.args[1])}"
        text = self.outside.text(target)
        if node.meta.get("is_wrapped"):
            self.outside.wrapped.setdefault(text)
        return f"{head} = {text}({self.arguments(node.args, node.kwargs)})"

    def operand(self, arg):
        """An argument beside a sign: a negative or complex number in parentheses."""
        text = self.text(arg)
        return f"({text})" if isinstance(arg, (int, float)) and text.startswith("-") else text


def _last_uses(nodes):
    """{Node: the Nodes used there for the last time}."""
    last = {}
    for node in nodes:
        if node.op == "output":
            continue
        for used in node._input_nodes:
            last[used] = node
    for node in nodes:
        if node.op == "output":
            for used in node._input_nodes:
                last.pop(used, None)
    found = {}
    for used, node in last.items():
        found.setdefault(node, []).append(used)
    return found


def _tuple(writer, value):
    if hasattr(value, "_fields") and type(value) is not tuple:
        return f"{writer.outside.text(type(value))}({', '.join(map(writer.text, value))})"
    return f"({', '.join(map(writer.text, value))}{',' if len(value) == 1 else ''})"


def _dict(writer, value):
    return "{" + ", ".join(f"{writer.text(key)}: {writer.text(item)}" for key, item in value.items()) + "}"


def _slice(writer, value):
    return f"slice({writer.text(value.start)}, {writer.text(value.stop)}, {writer.text(value.step)})"


def _of_library(_, value):
    return f"{root_name()}.{repr(value).removeprefix('torch.')}"


def _function(writer, value):
    return writer.outside.text(value)


_ARGUMENTS = (
    (Node, lambda _, node: repr(node)),
    (tuple, _tuple),
    (list, lambda writer, value: f"[{', '.join(map(writer.text, value))}]"),
    (dict, _dict),
    (slice, _slice),
    (enum.Enum, lambda writer, value: f"{writer.outside.text(type(value))}.{value.name}"),
    ((_C.dtype, _C.memory_format), _of_library),
    ((_C.Op, Overload, Packet), _function),
)
