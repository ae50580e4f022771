"""A body with what is known beforehand worked out: constants, branches that are not taken, norms in convolutions."""

import ast
import collections
import copy

import flambeau

from .. import _C
from ..nn.utils import fusion
from ..ops import OPS
from ._changes import Changes
from ._compile import dotted
from ._inlining import path_of
from ._operators import operator
from ._plain import FUNCTIONS as PLAIN
from ._writing import number

_DROPOUTS = frozenset(("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "dropout_"))
#: operators of numbers and texts that give the same each time, and change nothing
_SETTLED = frozenset("""
    add sub mul div floordiv remainder pow neg eq ne lt le gt ge __and__ __or__ __xor__ __is__ __isnot__ __not__ len
    ceil floor sqrt abs max min round Int Float Bool Complex str true_divide
""".split())
_CONVOLUTIONS = {"conv1d": 0, "conv2d": 0, "conv3d": 0, "conv_transpose1d": 1, "conv_transpose2d": 1,
                 "conv_transpose3d": 1, "_convolution": None}


class Tensors:
    """The constant tensors of a program that is written: CONSTANTS.c0 and so on."""

    def __init__(self, values):
        self.values, self._places = list(values), {id(value): k for k, value in enumerate(values)}

    def expression(self, value):
        """The expression of one."""
        if id(value) not in self._places:
            self._places[id(value)] = len(self.values)
            self.values.append(value)
        return ast.parse(f"CONSTANTS.c{self._places[id(value)]}", mode="eval").body

    def value(self, node):
        """The tensor that an expression is, or None."""
        names = dotted(node)
        if names is None or names[0] != "CONSTANTS" or len(names) != 2:
            return None
        found = self.values[int(names[1][1:])]
        return found if isinstance(found, _C.Tensor) else None


class Folder(ast.NodeTransformer):
    """Works out what is known. `values` are {path: expression} of attributes that stay as they are."""

    def __init__(self, tensors, parameters, held):
        self.tensors, self.values, self.parameters, self.held = tensors, {}, parameters, held
        self.known, self.changed = {}, set()

    def folded(self, body):
        """The body, worked out until nothing more is known."""
        while True:
            before = ast.dump(ast.Module(body, []))
            self.changed = Changes(body, self.held).names
            stores = collections.Counter(n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)
                                         and not isinstance(n.ctx, ast.Load))
            stores.update(self.parameters)
            self.known = {s.targets[0].id: s.value for s in body if isinstance(s, ast.Assign)
                          and isinstance(s.targets[0], ast.Name) and stores[s.targets[0].id] == 1
                          and self._stands(s.targets[0].id, s.value, stores)}
            body = used([made for s in body for made in _list(self.visit(s))])
            for n in (n for s in body for n in ast.walk(s) if isinstance(n, (ast.For, ast.While, ast.With, ast.If))):
                n.body = n.body or [ast.Pass()]
            if ast.dump(ast.Module(body, [])) == before:
                return body

    def _stands(self, name, value, stores):
        """Whether an expression may be put in the place of its name: another name for the same, or a constant."""
        if isinstance(value, ast.Name):
            return stores[value.id] <= 1
        return name not in self.changed and (isinstance(value, ast.Constant) or self.tensors.value(value) is not None)

    def is_constant(self, node):
        """Whether an expression is a literal of numbers, texts and None."""
        try:
            ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError):
            return False
        return True

    # ---- expressions -------------------------------------------------------------------------------------------------

    def visit_Name(self, node):
        """What a name stands for."""
        known = self.known.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return node if known is None else copy.deepcopy(known)

    def _attribute(self, node):
        path = path_of(node)
        if path in self.values and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return copy.deepcopy(self.values[path])
        return node

    def visit_Attribute(self, node):
        """An attribute that stays is its value."""
        found = self._attribute(node)
        return found if found is not node else self.generic_visit(node)

    def visit_Call(self, node):
        """A call whose arguments are known is its result."""
        found = self._attribute(node)
        if found is not node:
            return found
        types = isinstance(node.func, ast.Name) and node.func.id in ("annotate", "unchecked_cast", "uninitialized",
                                                                    "isinstance")
        if types:
            place = 0 if node.func.id == "isinstance" else len(node.args) - 1
            if node.func.id != "uninitialized":
                node.args[place] = self.visit(node.args[place])
            return node.args[place] if node.func.id == "unchecked_cast" and self._is_known(node.args[place]) else node
        node = self.generic_visit(node)
        names = dotted(node.func)
        if names is None or names[0] != "torch" or len(names) != 2:
            return node
        return self._operator(node, names[1])

    def _is_known(self, node):
        return self.is_constant(node) or self.tensors.value(node) is not None

    def _operator(self, node, name):
        if name in _DROPOUTS and len(node.args) == 3 and _is(node.args[2], False):
            return node.args[0]
        if node.keywords or not all(map(self._is_known, node.args)):
            return self._tensors(node, name)
        if name in _SETTLED and all(map(self.is_constant, node.args)):
            try:
                found = PLAIN[name](*map(ast.literal_eval, node.args))
            except Exception:  # the program raises it where it runs
                return node
            return literal(found) if isinstance(found, (bool, int, float, str, type(None))) else node
        return self._tensors(node, name)

    def _tensors(self, node, name):
        """A tensor that is made of constant ones alone."""
        op = OPS.get(name)
        given = [*node.args, *(k.value for k in node.keywords)]
        tensors = [self.tensors.value(x) for x in given]
        if op is None or op.random or name.endswith("_") or all(t is None for t in tensors) or not all(
                map(self._is_known, given)):
            return node
        args = [ast.literal_eval(x) if t is None else t for x, t in zip(given, tensors, strict=True)]
        places = len(node.args)
        try:
            with flambeau.no_grad():
                found = operator(name)(*args[:places], **{k.arg: v for k, v in zip(node.keywords, args[places:])})
        except Exception:  # the program raises it where it runs
            return node
        return self.tensors.expression(found) if isinstance(found, _C.Tensor) else node

    def visit_UnaryOp(self, node):
        """`not` and signs of constants."""
        return self._worked_out(self.generic_visit(node))

    def visit_Compare(self, node):
        """Comparisons of constants; something that is a tensor is not None."""
        node = self.generic_visit(node)
        is_none = isinstance(node.ops[0], (ast.Is, ast.IsNot)) and _is(node.comparators[0], None)
        if is_none and len(node.ops) == 1 and self._is_known(node.left):
            return ast.Constant(_is(node.left, None) == isinstance(node.ops[0], ast.Is))
        return self._worked_out(node)

    visit_BinOp = visit_BoolOp = visit_UnaryOp

    def visit_IfExp(self, node):
        """The side that is taken."""
        node = self.generic_visit(node)
        if not isinstance(node.test, ast.Constant):
            return node
        return node.body if node.test.value else node.orelse

    def _worked_out(self, node):
        operands = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant) and isinstance(
                node.op, ast.USub):
            return node
        if not all(isinstance(n, ast.Constant) and isinstance(n.value, (bool, int, float, str, type(None)))
                   for n in operands):
            return node
        code = compile(ast.fix_missing_locations(ast.Expression(copy.deepcopy(node))), "<constant>", "eval")
        try:
            return literal(eval(code, {"__builtins__": {}}))
        except Exception:  # the program raises it where it runs
            return node

    # ---- statements --------------------------------------------------------------------------------------------------

    def visit_Assign(self, node):
        """The value is worked out."""
        node.value = self.visit(node.value)
        node.targets = [self._target(t) for t in node.targets]
        return node

    def visit_AugAssign(self, node):
        """The value is worked out."""
        node.value, node.target = self.visit(node.value), self._target(node.target)
        return node

    def _target(self, node):
        if isinstance(node, ast.Subscript):
            node.value, node.slice = self.visit(node.value), self.visit(node.slice)
        return node

    def visit_If(self, node):
        """The branch that is taken, where that is known."""
        node = self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        return node

    def visit_While(self, node):
        """Nothing where the condition is false at once."""
        node = self.generic_visit(node)
        return [] if isinstance(node.test, ast.Constant) and not node.test.value else node

    # ---- convolutions and norms --------------------------------------------------------------------------------------

    def fused(self, body):
        """The body with norms of constant statistics worked into the convolutions before them."""
        uses = collections.Counter(n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)
                                   and isinstance(n.ctx, ast.Load))
        made = {}  # name: its statement
        for s in body:
            if not (isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and isinstance(s.value, ast.Call)):
                continue
            call = s.value
            name = dotted(call.func)
            source = call.args[0].id if call.args and isinstance(call.args[0], ast.Name) else None
            if name == ["torch", "batch_norm"] and source in made and uses[source] == 1 and source not in self.changed:
                layer = self._with_norm(made[source].value, call.args)
                if layer is not None:
                    made[source].value, s.value = layer, ast.Name(source, ast.Load())
                    uses[source] += 1
            made[s.targets[0].id] = s
        return self.folded(body)

    def _with_norm(self, layer, norm):
        """The call of a convolution with the norm's factors in its weights; None where they cannot be."""
        names = dotted(layer.func)
        kind = names[-1] if names is not None and names[0] == "torch" and names[-1] in _CONVOLUTIONS else None
        if kind is None or len(layer.args) < 2 or layer.keywords or not _is(norm[5], False):
            return None
        weight, mean, var = (self.tensors.value(x) for x in (layer.args[1], norm[3], norm[4]))
        transposed = _CONVOLUTIONS[kind] if kind != "_convolution" else not _is(layer.args[6], False)
        groups = layer.args[8 if kind == "_convolution" else 6] if len(layer.args) > (
            8 if kind == "_convolution" else 6) else ast.Constant(1)
        if weight is None or mean is None or var is None or (transposed and not _is(groups, 1)):
            return None
        scale, shift, bias = (self.tensors.value(x) for x in (norm[1], norm[2], layer.args[2] if len(
            layer.args) > 2 else ast.Constant(None)))
        with flambeau.no_grad():
            weight, bias = fusion.fuse_conv_bn_weights(weight, bias, mean, var, ast.literal_eval(norm[7]), scale, shift,
                                                       bool(transposed))
        layer = copy.deepcopy(layer)
        layer.args[1:3] = [self.tensors.expression(t.detach()) for t in (weight, bias)]
        return layer


def literal(value):
    """A number, text or None as an expression."""
    return ast.parse(number(value), mode="eval").body if isinstance(value, (float, complex)) else ast.Constant(value)


def used(body):
    """The body without assignments of values that nothing uses and that change nothing."""
    while True:
        read = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        kept = [s for s in map(_inside, body) if not (
            isinstance(s, ast.Pass) or (isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(
                s.targets[0], ast.Name) and s.targets[0].id not in read and _is_pure(s.value)))]
        if len(kept) == len(body):
            return kept
        body = kept


def _inside(s):
    """A statement whose own bodies have been seen to."""
    if isinstance(s, ast.If) and all(isinstance(t, ast.Pass) for t in (*s.body, *s.orelse)) and _is_pure(s.test):
        return ast.Pass()
    return s


def _is_pure(node):
    for n in ast.walk(node):
        if isinstance(n, ast.Call) and not path_of(n):
            names = dotted(n.func)
            is_operator = names is not None and names[0] == "torch" and len(names) == 2
            is_typed = names in (["annotate"], ["unchecked_cast"], ["uninitialized"])
            if not is_typed and not (is_operator and not names[1].endswith("_") and not getattr(
                    OPS.get(names[1]), "random", True)):
                return False
    return True


def _is(node, value):
    """Whether an expression is this constant."""
    return isinstance(node, ast.Constant) and type(node.value) is type(value) and node.value == value


def _list(x):
    return [] if x is None else x if isinstance(x, list) else [x]
