"""What a body changes: attributes that it assigns to, and values that it changes in place, also by other names."""

import ast

from .. import _C
from ..nn import Module
from ..ops.kinds import writes_by_name
from ._compile import BUILTINS, dotted
from ._inlining import path_of

#: operators whose results may be their arguments, or parts of their memory
_VIEWS = frozenset("""
    view view_as reshape reshape_as transpose t permute movedim moveaxis swapaxes swapdims expand expand_as select slice
    narrow unsqueeze squeeze flatten unflatten ravel detach contiguous to alias chunk split split_with_sizes unbind
    tensor_split hsplit vsplit dsplit unsafe_chunk unsafe_split as_strided diagonal unfold real imag view_as_real
    view_as_complex adjoint mT mH T H numpy_T conj resolve_conj resolve_neg dropout feature_dropout alpha_dropout
    feature_alpha_dropout broadcast_to broadcast_tensors meshgrid atleast_1d atleast_2d atleast_3d type_as float double
    half int long cpu cuda data requires_grad values keys items get pop copy list __getitem__ append add mul
    unchecked_unwrap_optional _unwrap_optional tuple TupleUnpack TupleIndex IfThenElse wait unchecked_cast annotate
    rot90 flip positive rrelu identity native_dropout
""".split())
#: methods and operators that change their first argument, beside those whose names end with _
_CHANGING = frozenset("append extend insert pop remove clear reverse sort setdefault update popitem _set_item Delete "
                      "backward".split())
_PURE = frozenset(("range", "len", "int", "float", "bool", "str", "isinstance", "print", "min", "max", "abs", "round",
                   "uninitialized", "enumerate", "zip"))


class Changes:
    """Of a body: `paths` of attributes whose value changes in place, `assigned` those that get another one, and local
    `names` of which a value changes in place.

    held    gives what is at a path, or None: what methods of a module change, which are not at hand, is unknown
    """

    def __init__(self, body, held):
        self.paths, self.assigned, self.names, self.held = set(), set(), set(), held
        self._from = {}  # local name: names and paths that it is given, or parts of them
        nodes = [n for s in body for n in ast.walk(s)]
        for n in nodes:
            if isinstance(n, ast.Assign):
                self._named(n.targets, n.value)
            elif isinstance(n, (ast.For, ast.comprehension)):
                self._named([n.target], n.iter)
            elif isinstance(n, ast.withitem) and n.optional_vars is not None:
                self._named([n.optional_vars], n.context_expr)
        for n in nodes:
            self._changed(n)

    def _named(self, targets, value):
        held = self.sources(value)
        for target in targets if held else ():
            for n in ast.walk(target):
                if isinstance(n, ast.Name):
                    self._from.setdefault(n.id, set()).update(held)

    def sources(self, node):
        """The names and paths whose memory a value may be, or be made of."""
        path = path_of(node)
        if path:
            return {path}
        if isinstance(node, ast.Name):
            return {node.id}
        if isinstance(node, ast.Constant):
            return set()
        if isinstance(node, (ast.Compare, ast.UnaryOp, ast.JoinedStr)) or self._is_sum(node):
            return set()
        children = [node.body, node.orelse] if isinstance(node, ast.IfExp) else list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Call):
            name = _called(node)
            if name in _PURE or (name is not None and _is_operator(node) and name not in _VIEWS and name[-1] != "_"):
                return set()
            children = [*node.args, *(k.value for k in node.keywords)]
            if isinstance(node.func, ast.Attribute) and not _is_operator(node):
                children.append(node.func.value)
        return {source for child in children if isinstance(child, ast.expr) for source in self.sources(child)}

    def _is_sum(self, node):
        """Whether a value is a new one: lists alone have sums and multiples of the same items."""
        if isinstance(node, ast.BinOp):
            if not isinstance(node.op, (ast.Add, ast.Mult)):
                return True
            operands = [node.left, node.right]
        elif isinstance(node, ast.Call) and dotted(node.func) in (["torch", "add"], ["torch", "mul"]):
            operands = node.args
        else:
            return False
        return any(isinstance(self.held(path_of(x)), _C.Tensor) or (dotted(x) or [""])[0] == "CONSTANTS"
                   for x in operands)

    def _changed(self, n):
        if isinstance(n, ast.Call):
            name = _called(n)
            if _is_operator(n):
                changed = [n.args[0]] if n.args and name is not None and _changes(name) else []
                changed += [k.value for k in n.keywords if k.arg == "out"]
                changed += _statistics(n, name)
            elif path_of(n):  # an attribute by getattr
                changed = []
            elif isinstance(n.func, ast.Attribute) and not isinstance(self.held(path_of(n.func.value)), Module):
                changed = [n.func.value] if _changes(name) else []
            elif isinstance(n.func, ast.Name) and (name in _PURE or name in BUILTINS or name in _VIEWS):
                changed = []
            else:  # a function, or a method of a module, that is not at hand
                changed = [*n.args, *(k.value for k in n.keywords)]
                changed += [n.func.value] if isinstance(n.func, ast.Attribute) else []
            for each in changed:
                self._note(each)
        for target in getattr(n, "targets", [n.target] if isinstance(n, ast.AugAssign) else ()):
            if isinstance(target, ast.Subscript):
                self._note(target.value)
            elif isinstance(target, ast.Attribute):
                self.assigned.add(path_of(target))
            elif isinstance(n, ast.AugAssign):
                self._note(target)

    def _note(self, node):
        pending = self.sources(node)
        while pending:
            source = pending.pop()
            known = self.paths if isinstance(source, tuple) else self.names
            if source not in known:
                known.add(source)
                pending |= self._from.get(source, set())


def _called(node):
    """The last part of what is called, or None."""
    func = node.func
    return func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else None


def _is_operator(node):
    names = dotted(node.func)
    return names is not None and names[0] in ("torch", "ops")


def _changes(name):
    return name in _CHANGING or writes_by_name(name)


def _statistics(node, name):
    """Running statistics, which a norm in training changes."""
    place = {"batch_norm": 5, "instance_norm": 5, "native_batch_norm": 5}.get(name)
    if place is None or len(node.args) <= place:
        return [] if place is None else node.args
    training = node.args[place]
    return [] if isinstance(training, ast.Constant) and not training.value else node.args[3:5]
