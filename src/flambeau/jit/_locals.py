"""What is known of a function's local names before it runs: which are given once, and when each is used last."""

import ast
import collections


def given_once(node, arguments):
    """{local name: what it is given} of names that are assigned in one place alone, and are no other name."""
    stores = collections.Counter(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(
        n.ctx, ast.Load))
    stores.update(n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef))
    return {n.targets[0].id: n.value for n in ast.walk(node) if isinstance(n, ast.Assign) and len(n.targets) == 1
            and isinstance(n.targets[0], ast.Name) and stores[n.targets[0].id] == 1
            and n.targets[0].id not in arguments and not isinstance(n.value, ast.Name)}


def without_leftovers(body):
    """A function without branches lets go of each value after its last use: a trace of many layers needs no more memory
    than its module."""
    if not all(isinstance(s, (ast.Assign, ast.Expr, ast.Return, ast.Pass)) for s in body):
        return body
    last, stored = {}, set()
    for k, statement in enumerate(body):
        for n in ast.walk(statement):
            if isinstance(n, ast.Name):
                last[n.id] = k
        stored |= {n.id for target in getattr(statement, "targets", ()) for n in ast.walk(target)
                   if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    made = []
    for k, statement in enumerate(body):
        made.append(statement)
        gone = [ast.Name(name, ast.Del()) for name in sorted(stored) if last[name] == k]
        if gone and not isinstance(statement, ast.Return):
            made.append(ast.copy_location(ast.Delete(gone), statement))
    return made
