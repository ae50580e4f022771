"""A method of a module as one body: the methods of inner modules and the functions that it calls are written into it.

What is called must end with its one return, or be brought to that form. What cannot be (a return inside a loop, a call
under a condition of an expression) stays a call.
"""

import ast
import collections
import copy

from ._compile import dotted
from ._modules import RecursiveScriptModule


class Stays(Exception):
    """What is called cannot be written into its caller."""


class Inliner:
    """Bodies of one module's methods; names of locals are unique over a body."""

    def __init__(self, program, module, kept=()):
        self.program, self.module, self.kept = program, module, frozenset(kept)
        self.used, self.depth = {"self"}, 0

    def method(self, name):
        """The FunctionDef of a method with all that it calls inside."""
        node = _parsed(self.module._kind.source(name))
        self.used = {"self", *(a.arg for a in _parameters(node))}
        scope = _Scope(self, node, {node.args.args[0].arg: _self()})
        scope.renamed.update({a.arg: ast.Name(a.arg, ast.Load()) for a in _parameters(node)[1:]})
        try:
            body, result = scope.whole(node.body)
            node.body = [*body, ast.Return(result)]
        except Stays:  # its own returns may stand anywhere
            node.body = scope.statements(node.body)
        node.args.args[0].arg = "self"
        return ast.fix_missing_locations(node)

    def fresh(self, wanted):
        """A name that no local has yet."""
        name, k = wanted, 0
        while name in self.used:
            k += 1
            name = f"{wanted}_{k}"
        self.used.add(name)
        return name

    # ---- what expressions mean ---------------------------------------------------------------------------------------

    def module_at(self, node):
        """The module that an expression is, or None."""
        path = path_of(node)
        if path is None:
            return None
        found = self.module
        for name in path:
            found = found._modules.get(name) if isinstance(found, RecursiveScriptModule) else None
        return found if isinstance(found, RecursiveScriptModule) and not (path and path[0] in self.kept) else None

    def function(self, node):
        """The qualified name of a function of the program's that an expression is, or None."""
        names = dotted(node)
        found = self.program.definition(".".join(names)) if names and names[0] == "__torch__" else None
        return ".".join(names) if found is not None and isinstance(found[0], ast.FunctionDef) else None

    def called(self, node):
        """(FunctionDef, the expression of its object or None) of a call that can be written out, or None."""
        if isinstance(node.func, ast.Attribute):
            module = self.module_at(node.func.value)
            if module is not None and node.func.attr in module._kind.methods:
                return _parsed(module._kind.source(node.func.attr)), node.func.value
        function = self.function(node.func)
        return (_parsed(self.program.source(function)), None) if function is not None else None


class _Scope:
    """One function's names: {name there: expression in the body}."""

    def __init__(self, inliner, node, renamed):
        self.inliner, self.renamed = inliner, renamed
        stores = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
        self.stored = set(stores)
        self.once = {name for name, count in collections.Counter(stores).items() if count == 1}
        self.conditional = 0

    def whole(self, body):
        """(statements, the expression of the result)."""
        body = single_return(body, "returned__")
        last = body.pop() if body and isinstance(body[-1], ast.Return) else ast.Return(None)
        made = self.statements(body)
        return made, ast.Constant(None) if last.value is None else self.expression(last.value, made)

    def statements(self, body):
        """The statements with what they call before them."""
        made = []
        for s in body:
            self.statement(s, made)
        return made

    def statement(self, s, out):
        """Adds one statement, after what it calls."""
        if isinstance(s, (ast.If, ast.While, ast.For, ast.With)):
            self._block(s, out)
        elif isinstance(s, ast.Assign):
            self._assign(s, out)
        elif isinstance(s, ast.FunctionDef):
            out.append(self._inner(s))
        else:
            out.append(self._generic(s, out))

    def _inner(self, s):
        """A function inside, which is called later: nothing is taken out of it."""
        s.name = self._name(ast.Name(s.name, ast.Store())).id
        self.renamed.update({a.arg: ast.Name(a.arg, ast.Load()) for a in _parameters(s)})
        self.conditional += 1
        s.body = self.statements(s.body)
        self.conditional -= 1
        return s

    def _block(self, s, out):
        if isinstance(s, ast.If):
            s.test = self.expression(s.test, out)
        elif isinstance(s, ast.While):
            s.test = self._unmoved(s.test)
        elif isinstance(s, ast.For):
            s.iter = self.expression(s.iter, out)
            s.target = self._generic(s.target, out)
        else:
            for item in s.items:
                item.context_expr = self.expression(item.context_expr, out)
                item.optional_vars = item.optional_vars and self._generic(item.optional_vars, out)
        s.body = self.statements(s.body) or [ast.Pass()]
        if hasattr(s, "orelse"):
            s.orelse = self.statements(s.orelse)
        out.append(s)

    def _assign(self, s, out):
        value = self.expression(s.value, out)
        target = s.targets[0]
        stands = isinstance(target, ast.Name) and target.id in self.once and (
            self.inliner.module_at(value) is not None or self.inliner.function(value) is not None)
        if stands:
            self.renamed[target.id] = value  # another name for a module or a function
            return
        out.append(ast.Assign([self._generic(t, out) for t in s.targets], value, lineno=0))

    def _unmoved(self, node):
        """An expression from which nothing is taken out: it is evaluated again, or perhaps not at all."""
        self.conditional += 1
        found = self.expression(node, [])
        self.conditional -= 1
        return found

    # ---- expressions -------------------------------------------------------------------------------------------------

    def expression(self, node, out):
        """The expression in the names of the body."""
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Call):
            return self._call(node, out)
        if isinstance(node, ast.IfExp) and not self.conditional and any(map(_calls, (node.body, node.orelse))):
            return self._either(node, out)
        if isinstance(node, (ast.IfExp, ast.BoolOp, ast.ListComp, ast.DictComp)):
            self.conditional += 1
            node = self._generic(node, out)
            self.conditional -= 1
            return node
        return self._generic(node, out)

    def _either(self, node, out):
        """One of two values as a statement, in whose branches calls can be written out."""
        test, name = self.expression(node.test, out), self.inliner.fresh("either")
        sides = []
        for side in (node.body, node.orelse):
            made = []
            value = self.expression(side, made)
            sides.append([*made, ast.Assign([ast.Name(name, ast.Store())], value, lineno=0)])
        out.append(ast.If(test, *sides))
        return ast.Name(name, ast.Load())

    def _name(self, node):
        if isinstance(node.ctx, ast.Load):
            return copy.deepcopy(self.renamed.get(node.id, node))
        if node.id not in self.renamed:
            self.renamed[node.id] = ast.Name(self.inliner.fresh(node.id), ast.Load())
        return ast.Name(self.renamed[node.id].id, node.ctx)

    def _generic(self, node, out):
        """The parts in their order; what was evaluated before a part that is written out is kept in a name."""
        if not isinstance(node, (ast.expr, ast.stmt, ast.keyword, ast.comprehension, ast.withitem)):
            return node
        if isinstance(node, ast.Name):
            return self._name(node)
        places = [(node, field, None) for field, child in ast.iter_fields(node) if isinstance(child, ast.AST)]
        places += [(child, None, k) for field, child in ast.iter_fields(node) if isinstance(child, list)
                   for k in range(len(child)) if isinstance(child[k], ast.AST)]
        if isinstance(node, (ast.ListComp, ast.DictComp)):  # names of its generators come first
            places.sort(key=lambda place: place[1] is not None)
        done = []
        for holder, field, k in places:
            child = getattr(holder, field) if k is None else holder[k]
            before = len(out)
            made = self.expression(child, out) if isinstance(child, ast.expr) else self._generic(child, out)
            if len(out) > before:
                self._kept(done, out, before)
            _put(holder, field, k, made)
            done.append((holder, field, k))
        return node

    def _kept(self, done, out, place):
        for holder, field, k in done:
            value = getattr(holder, field) if k is None else holder[k]
            if self._may_change(value):
                name = self.inliner.fresh("kept")
                out.insert(place, ast.Assign([ast.Name(name, ast.Store())], value, lineno=0))
                place += 1
                _put(holder, field, k, ast.Name(name, ast.Load()))

    def _may_change(self, node):
        """Whether an expression may have another value after a call: it calls, or reads an attribute."""
        path = path_of(node)
        if path:
            outer = self.inliner.module_at(getattr(node, "value", node))
            is_method = outer is not None and path[-1] in outer._kind.methods
            return self.inliner.module_at(node) is None and not is_method
        return isinstance(node, ast.Call) or any(map(self._may_change, ast.iter_child_nodes(node)))

    def _call(self, node, out):
        special = isinstance(node.func, ast.Name) and node.func.id in ("annotate", "unchecked_cast", "isinstance",
                                                                      "uninitialized")
        if special:  # types are no expressions
            place = 0 if node.func.id == "isinstance" else len(node.args) - 1
            if node.func.id != "uninitialized":
                node.args[place] = self.expression(node.args[place], out)
            return node
        node = self._generic(node, out)
        found = None if self.conditional else self.inliner.called(node)
        if found is None or self.inliner.depth > 200:
            return node
        try:
            return self._written_out(node, *found, out)
        except Stays:
            return node

    def _written_out(self, node, function, receiver, out):
        parameters = _parameters(function)
        given = ([receiver] if receiver is not None else []) + node.args
        defaults = dict(zip([p.arg for p in function.args.args[::-1]], function.args.defaults[::-1]))
        defaults.update((p.arg, d) for p, d in zip(function.args.kwonlyargs, function.args.kw_defaults) if d)
        values = {p.arg: value for p, value in zip(parameters, given)}
        values.update((k.arg, k.value) for k in node.keywords)
        inner = _Scope(self.inliner, function, {})
        made = []
        for p in parameters:
            value = values.get(p.arg, defaults.get(p.arg))
            if value is None:
                raise Stays
            if p.arg not in inner.stored and (isinstance(value, (ast.Name, ast.Constant)) or (path_of(value) is not None
                               and self.inliner.module_at(value) is not None)):
                inner.renamed[p.arg] = value
                continue
            name = self.inliner.fresh(p.arg)
            made.append(ast.Assign([ast.Name(name, ast.Store())], value, lineno=0))
            inner.renamed[p.arg] = ast.Name(name, ast.Load())
        self.inliner.depth += 1
        try:
            body, result = inner.whole(function.body)
        finally:
            self.inliner.depth -= 1
        out.extend((*made, *body))
        return result


# ---- helpers ---------------------------------------------------------------------------------------------------------

def _parsed(text):
    """The FunctionDef of a text: a copy that may be changed."""
    return ast.parse(text).body[0]


def _self():
    return ast.Name("self", ast.Load())


def _parameters(node):
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _calls(node):
    return any(isinstance(n, ast.Call) and not path_of(n) for n in ast.walk(node))


def _put(holder, field, k, value):
    if k is None:
        setattr(holder, field, value)
    else:
        holder[k] = value


def path_of(node):
    """("layers", "0", "weight") of an expression of what the method's own object holds; None for others."""
    names = []
    while True:
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr" and isinstance(
                node.args[1], ast.Constant):
            names.append(node.args[1].value)
            node = node.args[0]
        else:
            return tuple(reversed(names)) if isinstance(node, ast.Name) and node.id == "self" else None


def paths_in(node):
    """The paths of all that a body reads and assigns to; of `self.a.b` the whole."""
    path = path_of(node)
    if path:
        return {path}
    return {found for child in ast.iter_child_nodes(node) for found in paths_in(child)}


def _returns(body):
    return any(isinstance(n, ast.Return) for s in body for n in ast.walk(s))


def single_return(body, name):
    """The body with one return, at its end; Stays where one stands in a loop or would be needed twice."""
    if not _returns(body[:-1]) and (not body or isinstance(body[-1], ast.Return) or not _returns(body[-1:])):
        return body
    return [*_assigned(body, name), ast.Return(ast.Name(name, ast.Load()))]


def _assigned(body, name):
    """The body with its results assigned to a name."""
    for k, s in enumerate(body):
        if isinstance(s, ast.Return):
            value = ast.Constant(None) if s.value is None else s.value
            return [*body[:k], ast.Assign([ast.Name(name, ast.Store())], value, lineno=0)]
        if not _returns([s]):
            continue
        rest = body[k + 1:]
        if not isinstance(s, ast.If) or (rest and not (_ends(s.body) or _ends(s.orelse))):
            raise Stays
        sides = [side if _ends(side) else [*side, *rest] for side in (s.body, s.orelse)]
        if not all(map(_ends, sides)):
            raise Stays  # it falls off its end, or raises instead
        s.body, s.orelse = (_assigned(side, name) for side in sides)
        return [*body[:k], s]
    raise Stays


def _ends(body):
    """Whether a body certainly ends with a return."""
    last = body[-1] if body else None
    return isinstance(last, ast.Return) or (isinstance(last, ast.If) and _ends(last.body) and _ends(last.orelse))
