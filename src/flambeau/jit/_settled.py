"""What is settled when a program is written from its source: modules, constants, whether something is None."""

import ast
import builtins
import enum
import inspect
import types

import flambeau

from .. import _C
from .._shown import shown
from ..fx._source import parsed
from ..nn import Module
from ..ops import OPS
from ._comments import KNOWN, Annotated, comments_of, hints_of
from ._declared import hints_of as declared_types
from ._modules import ScriptFunction, ScriptMethod
from ._types import NotScriptable, type_text

_CONTAINERS = (flambeau.nn.ModuleList, flambeau.nn.Sequential, flambeau.nn.ModuleDict, flambeau.nn.ParameterList,
               flambeau.nn.ParameterDict)
#: methods that give the modules of a container, with or without their names
_WAYS = ("items", "values", "keys", "children", "named_children")


class Settled:
    """A function's source, its names, and what of its expressions is known before it runs.

    The receiver of a method is a `module`, or an object of a class of one's own, `kind`.
    """

    def __init__(self, script, function, module=None, kinds=(), kind=None, text=None):
        self.script, self.function, self.owner, self.kind = script, function, module, kind
        self.kinds, self.types = dict(kinds), {}  # {argument: type} of the first call, and as they are declared
        self.found, self.declared = {}, set()  # {local name: type} as far as told; those that have an annotation
        self.first = 1
        try:
            if text is None:
                lines, self.first = inspect.getsourcelines(function)
                text = "".join(lines)
            comments = comments_of(text)
            tree = Annotated(comments).visit(parsed(text))
        except (OSError, TypeError, SyntaxError):
            raise NotScriptable(f"jit.script: the source of {shown(function.__name__)} is not at hand") from None
        self.node = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)), None)
        if self.node is None:
            raise NotScriptable(f"jit.script: {shown(function.__name__)} is no function that is written by def")
        self.hints = {**hints_of(self.node, comments), **getattr(function, "__annotations__", {})}
        self.scope = {**KNOWN, **function.__globals__, **_closure(function)}
        if kind is not None:
            self.scope.setdefault(kind.__name__, kind)  # its methods may name it
        args = self.node.args
        self.receiver = args.args[0].arg if (module is not None or kind is not None) and args.args else None
        stored = [n.id for n in ast.walk(self.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        self.locals = {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)} | set(stored)
        self.once = {name for name in stored if stored.count(name) == 1} - {a.arg for a in args.args}
        self.slices = {}    # local name -> the ast.Slice that it is
        self.standing = {}  # local name -> the module or number that it stands for, in a loop that is written out

    def refuse(self, node, what):
        line = self.first + getattr(node, "lineno", 1) - 1
        raise NotScriptable(f"jit.script: {self.function.__code__.co_filename}, line {line}: {what}")

    def static(self, node):
        """(True, value) of what is settled when the program is written: modules, constants, whether one is None."""
        if isinstance(node, ast.Constant):
            return True, node.value
        if isinstance(node, ast.Name):
            if node.id in self.standing:
                return True, self.standing[node.id]
            if node.id == self.receiver:
                return self.owner is not None, self.owner
            if node.id in self.locals:
                return False, None
            found = self.scope.get(node.id, getattr(builtins, node.id, None))
            return node.id in self.scope or hasattr(builtins, node.id), found
        if isinstance(node, ast.Attribute):
            return self._static_attribute(node)
        if isinstance(node, ast.Subscript):
            return self._static_item(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            known, value = self.static(node.operand)
            return (known and isinstance(value, (bool, Module)), not value)
        if isinstance(node, ast.Call):
            return self._static_call(node)
        if isinstance(node, ast.BoolOp):
            return self._static_choice(node)
        return self._static_comparison(node)

    def _static_item(self, node):
        """An operator by its name, a module or several of a container."""
        known, owner = self.static(node.value)
        if not known or not (owner is OPS or isinstance(owner, _CONTAINERS)):
            return False, None
        try:
            place = self._settled(node.slice)
        except NameError:
            return False, None
        return True, owner[place]

    def _static_choice(self, node):
        """`and` with something that is settled as false, `or` with something true."""
        decides = isinstance(node.op, ast.Or)
        found = [self.static(operand) for operand in node.values]
        found = [(known and isinstance(value, (bool, type(None), Module)), bool(value)) for known, value in found]
        if (True, decides) in found:
            return True, decides
        return all(known for known, _ in found), not decides

    def _static_call(self, node):
        """is_scripting(), and what getattr and hasattr find in a module."""
        known, function = self.static(node.func)
        if known and function is len:
            known, owner = self.static(node.args[0])
            return (True, len(owner)) if known and isinstance(owner, _CONTAINERS) else (False, None)
        if known and function in (flambeau.jit.is_scripting, flambeau.jit.is_tracing):
            return True, function is flambeau.jit.is_scripting
        if known and function in (getattr, hasattr):
            owner_known, owner = self.static(node.args[0])
            try:
                name = self._settled(node.args[1])
            except NameError:
                return False, None
            if owner_known and isinstance(owner, Module):
                if function is hasattr:
                    return True, hasattr(owner, name)
                value = getattr(owner, name, None)
                return value is None or isinstance(value, Module), value
        return False, None

    def _static_attribute(self, node):
        known, owner = self.static(node.value)
        if isinstance(owner, enum.Enum) and node.attr in ("name", "value"):
            return known, getattr(owner, node.attr)
        if not known or not isinstance(owner, (Module, types.ModuleType, type)) or not hasattr(owner, node.attr):
            return False, None
        value = getattr(owner, node.attr)
        if isinstance(owner, Module) and value is None and self._may_change(owner, node.attr):
            return False, None
        if isinstance(owner, Module) and not (value is None or isinstance(
                value, (Module, types.MethodType, types.FunctionType, _C.Op, ScriptFunction, ScriptMethod))):
            return False, None  # what an attribute is may change: the program reads it
        return True, value

    @staticmethod
    def _may_change(module, name):
        """Whether an attribute is declared as an optional value."""
        hints = declared_types(module)
        try:
            return name in hints and type_text(hints[name]).startswith(("Optional", "Union"))
        except (NotScriptable, NameError, AttributeError, SyntaxError):
            return False  # an optional module

    def _static_comparison(self, node):
        """Whether something is None or among modules, and comparisons with a member of an enumeration."""
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)) and len(node.ops) == 1:
            known, owner = self.static(node.comparators[0])
            key_known, key = self.static(node.left)
            is_settled = known and key_known and isinstance(owner, _CONTAINERS)
            return is_settled, is_settled and (key in owner) == isinstance(node.ops[0], ast.In)
        if not (isinstance(node, ast.Compare) and len(node.ops) == 1
                and isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.Is, ast.IsNot))):
            return False, None
        op, other = node.ops[0], node.comparators[0]
        (known, left), (other_known, right) = self._held(node.left), self._held(other)
        if known and other_known and (isinstance(left, enum.Enum) or isinstance(right, enum.Enum)):
            return True, (left == right) == isinstance(op, (ast.Eq, ast.Is))
        is_none = isinstance(op, (ast.Is, ast.IsNot)) and isinstance(other, ast.Constant) and other.value is None
        return known and is_none, (left is None) == isinstance(op, ast.Is)

    def _held(self, node):
        """(True, value) of what is settled, or of an attribute of a module as it is now."""
        known, value = self.static(node)
        if not known and isinstance(node, ast.Attribute):
            owner_known, owner = self.static(node.value)
            if owner_known and isinstance(owner, (Module, type)) and hasattr(owner, node.attr):
                may_change = isinstance(owner, Module) and self._may_change(owner, node.attr)
                return not may_change, getattr(owner, node.attr)
        return known, value

    def _attribute_value(self, node):
        """(True, value) of an attribute of the method's own module."""
        is_own = self.owner is not None and isinstance(node, ast.Attribute) and isinstance(
            node.value, ast.Name) and node.value.id == self.receiver
        return (True, getattr(self.owner, node.attr)) if is_own and hasattr(self.owner, node.attr) else (False, None)

    def _settled(self, node):
        """The value of an expression of what is known."""
        if isinstance(node, ast.Slice):
            bounds = (node.lower, node.upper, node.step)
            return slice(*(None if bound is None else self._settled(bound) for bound in bounds))
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        known = {self.receiver: self.owner, **self.standing}
        if names & self.locals - known.keys():
            raise NameError
        return eval(ast.unparse(node), {**self.scope, **known})

    def _modules_of(self, node):
        """The items of a loop over modules: modules, or tuples with indices or keys; None for other loops."""
        call = node.func if isinstance(node, ast.Call) else None
        if isinstance(call, ast.Name) and call.id in ("enumerate", "zip", "reversed"):
            inner = [self._modules_of(arg) for arg in node.args]
            if not inner or any(items is None for items in inner):
                return None
            return list({"enumerate": enumerate, "zip": zip, "reversed": reversed}[call.id](*inner))
        way = call.attr if isinstance(call, ast.Attribute) and call.attr in _WAYS and not node.args else None
        known, value = self.static(call.value if way else node)
        if not known or not isinstance(value, Module if way else _CONTAINERS):
            return None
        is_dict = isinstance(value, (flambeau.nn.ModuleDict, flambeau.nn.ParameterDict))
        return list(getattr(value, way)() if way else value.keys() if is_dict else value)

    def _numbers_of(self, node):
        """The numbers of a loop over a range whose numbers name modules (`getattr(self, f"conv{k}")`), or None."""
        call = node.iter
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"
                and isinstance(node.target, ast.Name) and self._is_looked_up(node, node.target.id)):
            return None
        try:
            return list(range(*map(self._settled, call.args)))
        except (NameError, AttributeError, TypeError):
            return self.refuse(node, "the range of a loop that names modules must be known")

    @staticmethod
    def _is_looked_up(node, name):
        """Whether a getattr or hasattr in a loop is given the loop's number."""
        return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in ("getattr", "hasattr")
                   and any(isinstance(m, ast.Name) and m.id == name for m in ast.walk(n)) for n in ast.walk(node))


def _closure(function):
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if _filled(cell)}


def _filled(cell):
    try:
        return cell.cell_contents is not None or True
    except ValueError:
        return False
