"""Types of a source's expressions, as far as the source tells them: TorchScript wants those of attributes declared."""

import ast
import collections
import enum
import functools
import types

import flambeau

from .. import _C
from ._comments import annotations_of
from ._settled import Settled
from ._types import NotScriptable, resolved, taken_apart, type_of, type_text, without_none

_RANK = {"bool": 0, "int": 1, "float": 2, "complex": 3}
#: results of functions of Python's
_OF_FUNCTIONS = {int: "int", float: "float", bool: "bool", str: "str", len: "int", complex: "complex", ord: "int",
                 chr: "str", hash: "int", any: "bool", all: "bool", isinstance: "bool", hasattr: "bool"}
#: attributes of tensors that are no tensors
_OF_TENSORS = {"shape": "List[int]", "ndim": "int", "dtype": "int", "device": "Device", "layout": "int",
               "requires_grad": "bool", "itemsize": "int", "nbytes": "int",
               **dict.fromkeys(("is_cuda", "is_cpu", "is_sparse", "is_quantized", "is_meta", "is_leaf"), "bool")}
#: methods of tensors that give none
_METHODS = {"dim": "int", "numel": "int", "nelement": "int", "element_size": "int", "is_contiguous": "bool",
            "is_floating_point": "bool", "is_complex": "bool"}
_TEXT = {"find": "int", "rfind": "int", "index": "int", "rindex": "int", "count": "int", "split": "List[str]",
         "rsplit": "List[str]", "splitlines": "List[str]", "startswith": "bool", "endswith": "bool",
         **{f"is{name}": "bool" for name in ("alpha", "digit", "alnum", "lower", "upper", "space", "title")}}
_MAGIC = {ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Div: "__truediv__", ast.Mod: "__mod__",
          ast.FloorDiv: "__floordiv__", ast.Pow: "__pow__", ast.USub: "__neg__", ast.BitAnd: "__and__",
          ast.BitOr: "__or__", ast.BitXor: "__xor__"}


def _waited(kind):
    """The type of what a Future gives."""
    return kind[len("Future["):-1] if kind is not None and kind.startswith("Future[") else None


def _of_operator(op):
    """The type of an operator's result."""
    forms = [] if not isinstance(op, _C.Op) else [op.schema] if op.schema is not None else [
        form.schema for form in op.alternatives]
    results = {form.rpartition("-> ")[2].partition("(")[0] for form in forms}
    return {"Tensor": "Tensor", "Tensor[]": "List[Tensor]", "bool": "bool", "int": "int"}.get(
        results.pop()) if len(results) == 1 else None


class Inferred(Settled):
    """A source whose expressions have types; `found` has those of its local names."""

    def inferred(self, node):
        """The type of an expression, as TorchScript writes it; None where the source does not tell."""
        find = getattr(self, f"_t_{type(node).__name__.lower()}", None)
        return find(node) if find is not None else None

    def named(self, kind):
        """The name of a class of one's own, which becomes one of the program's."""
        return self.script.kinds.name(kind)

    def own_class(self, node):
        """The class of one's own that an expression is an object of, or None."""
        kind = self.inferred(node)
        return None if kind is None else self.script.kinds.classes.get(without_none(kind))

    def annotated(self, kind):
        """The type of an annotation, which may be a text."""
        if isinstance(kind, str):
            try:
                kind = eval(kind, self.scope)
            except Exception:  # what the module has not got is no type here
                kind = flambeau.Tensor
        return type_text(type(None) if kind is None else resolved(kind, self.scope), self.named)

    def _of(self, value):
        return None if isinstance(value, (types.ModuleType, flambeau.nn.Module)) else type_of(value, self.named)

    def _t_constant(self, node):
        return type_of(node.value)

    def _t_joinedstr(self, *_):
        return "str"

    def _t_name(self, node):
        if node.id == self.receiver:
            return self.script.kinds.names.get(self.kind)
        known = self.found.get(node.id) or self.types.get(node.id)
        if known is not None or (node.id in self.locals and node.id not in self.standing):
            return known
        return self._outside(node)

    def _outside(self, node):
        known, value = self.static(node)
        return self._of(value) if known else None

    def _t_attribute(self, node):
        base = self.inferred(node.value)
        if base is None:
            held, value = self._held(node)
            return self._of(value) if held else None
        if base == "Tensor":
            return _OF_TENSORS.get(node.attr, "Tensor")
        kind = self.script.kinds.classes.get(without_none(base))
        if kind is None:
            return None
        if issubclass(kind, enum.Enum):
            return "str" if node.attr == "name" else type_of(next(iter(kind)).value)
        return self.script.kinds.attribute(kind, node.attr)

    def _t_call(self, node):
        known, function = self.static(node.func)
        if known:
            return self._result(function, node)
        if isinstance(node.func, ast.Name):
            kind = self.own_class(node.func)
            return self.script.kinds.result(kind, "__call__") if kind is not None else None
        if not isinstance(node.func, ast.Attribute):
            return None
        base, name = self.inferred(node.func.value), node.func.attr
        head, parts = taken_apart(base) if base is not None else ("", [])
        if head == "Tensor":
            if name == "size":
                return "int" if node.args else "List[int]"
            return _METHODS.get(name) or _of_operator(getattr(_C.Tensor, name, None))
        if head == "str":
            return _TEXT.get(name, "str")
        if head == "Future":
            return _waited(base) if name == "wait" else None
        if head in ("List", "Dict"):
            return {"pop": parts[-1], "copy": base, "index": "int", "count": "int", "keys": f"List[{parts[0]}]",
                    "values": f"List[{parts[-1]}]", "get": f"Optional[{parts[-1]}]"}.get(name)
        kind = self.own_class(node.func.value)
        return self.script.kinds.result(kind, name) if kind is not None else None

    def _result(self, function, node):
        """The type of what a known function gives."""
        jit = flambeau.jit
        if function is jit.annotate:
            return type_text(self._type_value(node.args[0]), self.named)
        if function in (min, max, sum, abs, round, sorted, list, range) and node.args:
            found = self.inferred(node.args[0])
            head, parts = taken_apart(found) if found is not None else ("", [])
            return found if function in (sorted, list, abs) or head != "List" else parts[0]
        if getattr(function, "__hash__", None) is not None and function in _OF_FUNCTIONS:
            return _OF_FUNCTIONS[function]
        if isinstance(function, type):
            return self.named(function)
        if isinstance(function, _C.Op):
            return _of_operator(function)
        if function in (flambeau.tensor, flambeau.as_tensor):
            return "Tensor"
        if function is jit.fork and node.args:
            inner = self.inferred(ast.Call(node.args[0], node.args[1:], node.keywords))
            return inner and f"Future[{inner}]"
        if function is jit._unwrap_optional and node.args:
            found = self.inferred(node.args[0])
            return found and without_none(found)
        if function in (dict, collections.OrderedDict) and not node.args:
            return "Dict[str, Tensor]"
        if function is jit.wait and node.args:
            return _waited(self.inferred(node.args[0]))
        hint = annotations_of(function).get("return")
        return None if hint is None else self.annotated(hint)

    def _type_value(self, annotation):
        """The value that an annotation has in the function's module."""
        return eval(ast.unparse(annotation), self.scope)

    def _t_binop(self, node):
        left, right = self.inferred(node.left), self.inferred(node.right)
        if "Tensor" in (left, right):
            return "Tensor"
        kind = self.script.kinds.classes.get(left)
        if kind is not None:
            return self.script.kinds.result(kind, _MAGIC.get(type(node.op)))
        if left in _RANK and right in _RANK:
            return max(left, right, "float" if isinstance(node.op, ast.Div) else "int", key=_RANK.get)
        return left if left == "str" or (left or "").startswith("List") else right if (right or "")[:4] == "List" \
            else None

    def _t_unaryop(self, node):
        kind = self.own_class(node.operand)
        if isinstance(node.op, ast.Not):
            return "bool"
        return self.inferred(node.operand) if kind is None else self.script.kinds.result(kind,
                                                                                        _MAGIC.get(type(node.op)))

    def _t_compare(self, node):
        sides = [self.inferred(side) for side in (node.left, *node.comparators)]
        names = isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn))
        return "Tensor" if "Tensor" in sides and not names else "bool"

    def _t_boolop(self, node):
        kinds = {self.inferred(value) for value in node.values}
        return kinds.pop() if len(kinds) == 1 else None

    def _t_ifexp(self, node):
        kinds = {self.inferred(node.body), self.inferred(node.orelse)}
        return kinds.pop() if len(kinds) == 1 else None

    def _t_subscript(self, node):
        base = self.inferred(node.value)
        if base is None:
            return None
        base = without_none(base)
        head, parts = taken_apart(base)
        if isinstance(node.slice, ast.Slice) or head in ("Tensor", "str"):
            return base if head != "Tuple" else None
        if head in ("List", "Dict"):
            return parts[-1]
        if head == "Tuple" and isinstance(node.slice, ast.Constant) and node.slice.value < len(parts):
            return parts[node.slice.value]
        kind = self.script.kinds.classes.get(base)
        return self.script.kinds.result(kind, "__getitem__") if kind is not None else None

    def _t_list(self, node):
        kinds = {self.inferred(item) for item in node.elts} or {"Tensor"}
        return f"List[{kinds.pop()}]" if len(kinds) == 1 and None not in kinds else None

    def _t_tuple(self, node):
        kinds = [self.inferred(item) for item in node.elts]
        return f"Tuple[{', '.join(kinds)}]" if kinds and None not in kinds else None

    def _t_dict(self, node):
        if not node.keys:
            return "Dict[str, Tensor]"
        keys, values = {self.inferred(k) for k in node.keys}, {self.inferred(v) for v in node.values}
        one_each = len(keys) == len(values) == 1 and None not in keys | values
        return f"Dict[{keys.pop()}, {values.pop()}]" if one_each else None

    def _t_listcomp(self, node):
        self.bind(node.generators[0].target, self.item(node.generators[0].iter))
        inner = self.inferred(node.elt)
        return inner and f"List[{inner}]"

    # ---- names -------------------------------------------------------------------------------------------------------

    def item(self, node):
        """The type of what a loop over an expression gives."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "range":
                return "int"
            if node.func.id in ("enumerate", "zip"):
                parts = [self.item(arg) for arg in node.args[:1 if node.func.id == "enumerate" else None]]
                parts = ["int", *parts] if node.func.id == "enumerate" else parts
                return None if None in parts else f"Tuple[{', '.join(parts)}]"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "items":
            base = self.inferred(node.func.value)
            return f"Tuple[{', '.join(taken_apart(base)[1])}]" if base else None
        known, value = self.static(node)
        if known and isinstance(value, type) and issubclass(value, enum.Enum):
            return self.named(value)
        base = self.inferred(node)
        head, parts = taken_apart(base) if base is not None else ("", [])
        return parts[0] if head in ("List", "Dict") and parts else base if head in ("Tensor", "str") else None

    def bind(self, target, kind):
        """Notes the type of a name that is assigned, or of each in a tuple."""
        if isinstance(target, ast.Name):
            if target.id not in self.declared:
                self.found[target.id] = kind
        elif isinstance(target, (ast.Tuple, ast.List)):
            head, parts = taken_apart(kind) if kind is not None else ("", [])
            fits = head == "Tuple" and len(parts) == len(target.elts)
            for k, inner in enumerate(target.elts):
                self.bind(inner, parts[k] if fits else None)

    @functools.cached_property
    def result(self):
        """The type that the function gives: its annotation, or that of its return statements."""
        hint = self.hints.get("return", self)
        if hint is not self:
            return self.annotated(hint)
        try:
            kinds = {self.inferred(n.value) if n.value is not None else "NoneType" for n in ast.walk(self.node)
                     if isinstance(n, ast.Return)} or {"NoneType"}
        except NotScriptable:
            return None
        return kinds.pop() if len(kinds) == 1 else None
