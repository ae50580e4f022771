"""A function's statements with `return` at their ends alone, and without `break` and `continue`, as graphs need them.

    for x in xs:                 going, gone = True, False
        if x > 3:                for x in xs (while going):
            return x                 if x > 3: value, gone, going = x, True, False
    return 0                     if gone: return value
                                 else: return 0
"""

import ast

_LOOPS = (ast.For, ast.While)


def straight(body):
    """The statements of a function."""
    return _Straight().function(body)


def _has(nodes, kinds, through):
    """Whether statements have one of these, those in blocks of `through` included."""
    for node in nodes:
        if isinstance(node, kinds):
            return True
        if isinstance(node, through) and _has([*node.body, *getattr(node, "orelse", ())], kinds, through):
            return True
    return False


def _name(text, ctx=None):
    return ast.Name(text, ctx or ast.Load())


def _set(text, value):
    return ast.Assign([_name(text, ast.Store())], value, lineno=0)


class _Straight:
    def __init__(self):
        self.count = 0

    def function(self, body):
        """Statements after which the function ends."""
        made = []
        for k, s in enumerate(body):
            rest = body[k + 1:]
            if isinstance(s, ast.If) and _has([s], ast.Return, (ast.If, ast.With, *_LOOPS)):
                made.append(_like(s, test=s.test, body=self.function([*s.body, *rest]),
                                  orelse=self.function([*s.orelse, *rest])))
                return made
            if isinstance(s, _LOOPS):
                loop = self.loop(s)
                made += loop[:-1]
                if isinstance(loop[-1], ast.If):  # it may have returned
                    return [*made, self.function([loop[-1], *rest])[0]]
                made.append(loop[-1])
            elif isinstance(s, ast.With) and _has([s], ast.Return, (ast.If, ast.With, *_LOOPS)):
                return [*made, _like(s, items=s.items, body=self.function([*s.body, *rest]))]
            else:
                made.append(s)
            if isinstance(s, (ast.Return, ast.Raise)) or raises(s):
                return made
        return [*made, ast.Return(ast.Constant(None))]

    def loop(self, node):
        """What comes before a loop, and the loop; behind it, where it may return, an If that does so."""
        through = (ast.If, ast.With)
        leaves = _has(node.body, ast.Return, (*through, *_LOOPS))
        stops = _has(node.body, ast.Break, through)
        if not (leaves or stops or _has(node.body, ast.Continue, through)):
            return [_like(node, body=self.inside(node.body, None, None), going=None)]
        self.count += 1
        going = f"$going_{self.count}" if leaves or stops else None
        gone = (f"$gone_{self.count}", f"$value_{self.count}") if leaves else None
        before = [_set(going, ast.Constant(True))] if going else []
        if gone:
            before += [_set(gone[0], ast.Constant(False)), _set(gone[1], ast.Constant(None))]
        made = _like(node, body=self.inside(node.body, going, gone), going=going)
        after = [ast.If(_name(gone[0]), [ast.Return(_name(gone[1]))], [])] if gone else []
        return [*before, made, *after]

    def inside(self, body, going, gone):
        """Statements of a loop's body."""
        made = []
        for k, s in enumerate(body):
            if isinstance(s, ast.Continue):
                return made
            if isinstance(s, ast.Break):
                return [*made, _set(going, ast.Constant(False))]
            if isinstance(s, ast.Return):
                value = s.value or ast.Constant(None)
                return [*made, _set(gone[1], value), _set(gone[0], ast.Constant(True)),
                        _set(going, ast.Constant(False))]
            if isinstance(s, _LOOPS):
                loop = self.loop(s)
                made += loop[:-1]
                if isinstance(loop[-1], ast.If):
                    return [*made, *self.inside([loop[-1], *body[k + 1:]], going, gone)]
                made.append(loop[-1])
            elif isinstance(s, ast.If) and _has([s], (ast.Return, ast.Break, ast.Continue), (ast.If, ast.With)):
                rest = body[k + 1:]
                return [*made, _like(s, test=s.test, body=self.inside([*s.body, *rest], going, gone),
                                     orelse=self.inside([*s.orelse, *rest], going, gone))]
            else:
                made.append(s)
        return made


def raises(s):
    """Whether a statement of a program's text raises an exception."""
    return isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and ast.unparse(
        s.value.func) == "ops.prim.RaiseException"


def _like(node, **changes):
    """A copy of a node with other parts."""
    made = type(node)(**{name: getattr(node, name) for name in node._fields if hasattr(node, name)})
    for name, value in changes.items():
        setattr(made, name, value)
    return ast.copy_location(made, node)
