"""RewritingTracer: traces functions whose `assert` statements have become calls, which a trace can record."""

import ast
import inspect
import types

import flambeau

from .._source import parsed
from .._symbolic_trace import Tracer


class AST_Rewriter(ast.NodeTransformer):
    """Writes a function anew: `assert x, text` becomes `flambeau._assert(x, text)`, annotated assignments call
    `annotate`."""

    def rewrite(self, fn):
        """The function made of the changed source, with the globals and the closure that it had."""
        tree = parsed(inspect.getsource(fn))
        ast.increment_lineno(tree, fn.__code__.co_firstlineno - 1)  # tracebacks show the lines of the program
        definition = next(n for n in self.visit(tree).body if isinstance(n, ast.FunctionDef))
        definition.decorator_list = []
        outer = ast.parse(f"def _outer({', '.join(fn.__code__.co_freevars)}): pass").body[0]
        outer.body = [definition]
        module = ast.fix_missing_locations(ast.Module([outer], []))
        code = _inner(_inner(compile(module, fn.__code__.co_filename, "exec"), "_outer"), definition.name)
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        made = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__,
                                  tuple(cells[name] for name in code.co_freevars))
        made.__kwdefaults__, made.__annotations__ = fn.__kwdefaults__, fn.__annotations__
        return made

    def visit_Assert(self, node):
        """`assert x, text` as a call."""
        text = node.msg or ast.Constant("")
        call = ast.Call(_named("_assert"), [self.visit(node.test), text], [])
        return ast.copy_location(ast.Expr(call), node)

    def visit_AnnAssign(self, node):
        """`x: T = y` as `x = annotate(y, T)`."""
        if node.value is None:
            return node
        call = ast.Call(_named("fx.annotate.annotate"), [self.visit(node.value), node.annotation], [])
        return ast.copy_location(ast.Assign([node.target], call), node)


def _named(path):
    """An expression for a function of the library, which needs no global."""
    return ast.parse(f'__import__("flambeau").{path}', mode="eval").body


def _inner(code, name):
    """The code of the function `name` that is defined in `code`."""
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


class RewritingTracer(Tracer):
    """A Tracer of the rewritten forward of a Module, or of a rewritten function.

    >>> import flambeau
    >>> from flambeau.fx.experimental.rewriter import RewritingTracer
    >>> [node.name for node in RewritingTracer().trace(flambeau.nn.Sequential(flambeau.nn.ReLU())).nodes]
    ['input_1', '_0', 'output']
    """

    def trace(self, root, concrete_args=None):
        """The graph."""
        return super().trace(_rewritten(root), concrete_args)


def _rewritten(root):
    if not isinstance(root, flambeau.nn.Module):
        return AST_Rewriter().rewrite(root)
    kind = type(root)
    forward = AST_Rewriter().rewrite(kind.forward)
    changed = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
    copied = changed.__new__(changed)
    copied.__dict__.update(root.__dict__)
    copied._modules = {name: child if child is None or Tracer().is_leaf_module(child, name) else _rewritten(child)
                       for name, child in root._modules.items()}
    return copied
