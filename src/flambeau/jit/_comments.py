"""Which types a function's comments tell: `# type: (Tensor, int) -> Tensor`, as programs of older PyTorch have them.

A comment below `def` has the types of all arguments and of the result. With one argument a line, each has its own
behind it, and `# type: (...) -> Tensor` follows for the result. A comment behind an assignment has the type of what is
assigned.
"""

import ast
import contextlib
import inspect
import io
import tokenize
import typing

import flambeau

from .._shown import shown
from ..fx._source import parsed

_MARK = "# type:"
#: names that comments use without importing them
KNOWN = {"torch": flambeau, "Tensor": flambeau.Tensor, "Future": flambeau.jit.Future,
         **{name: getattr(typing, name) for name in "Any Dict Final List NamedTuple Optional Tuple Union".split()}}


def comments_of(text):
    """{line: what stands behind `# type:`} of a source."""
    if _MARK not in text:
        return {}
    found = {}
    with contextlib.suppress(tokenize.TokenError, IndentationError):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            said = token.string[len(_MARK):].strip()
            if token.type == tokenize.COMMENT and token.string.startswith(_MARK) and not said.startswith("ignore"):
                found[token.start[0]] = said
    return found


def hints_of(node, comments):
    """{argument, or "return": its type} that comments tell of a FunctionDef."""
    if not comments:
        return {}
    head = range(node.lineno, max(node.lineno + 1, node.body[0].lineno))
    args = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    whole = next((_signature(said) for line in head if "->" in (said := comments.get(line, ""))
                  or said.startswith("(")), None)
    if whole is None:
        return {}
    kinds = [ast.unparse(kind) for kind in whole.argtypes]
    if kinds == ["..."]:
        kinds = [comments.get(arg.end_lineno) for arg in args]
    names = [arg.arg for arg in args][len(args) - len(kinds):]  # the comment leaves the receiver out
    found = {name: kind for name, kind in zip(names, kinds, strict=False) if kind is not None}
    return {**found, "return": ast.unparse(whole.returns)} if whole.returns is not None else found


def _signature(text):
    """The types of a comment; `returns` is None where it tells those of the arguments alone."""
    if "->" not in text:
        whole = _signature(f"{text} -> None")
        whole.returns = None
        return whole
    try:
        return ast.parse(text, mode="func_type")
    except SyntaxError:
        raise NotImplementedError(f"jit.script: the comment {shown(text)} is no signature, as '(Tensor, int) -> "
                                  "Tensor' is one") from None


def annotations_of(function):
    """{argument, or "return": its type} of a function: its annotations, and what comments tell besides."""
    found = getattr(function, "__annotations__", {})
    if "return" in found:
        return found
    try:
        text = inspect.getsource(function)
        node = next(n for n in ast.walk(parsed(text)) if isinstance(n, ast.FunctionDef)) if _MARK in text else None
    except (OSError, TypeError, SyntaxError, StopIteration):
        return found
    return found if node is None else {**hints_of(node, comments_of(text)), **found}


class Annotated(ast.NodeTransformer):
    """Assignments with a comment become assignments with an annotation."""

    def __init__(self, comments):
        self.comments = comments

    def visit_Assign(self, node):
        """One name or attribute, and its type."""
        said = self.comments.get(node.end_lineno)
        if said is None or len(node.targets) > 1 or not isinstance(node.targets[0], (ast.Name, ast.Attribute)):
            return node
        kind = ast.parse(said, mode="eval").body
        return ast.copy_location(ast.AnnAssign(node.targets[0], kind, node.value, 1), node)
