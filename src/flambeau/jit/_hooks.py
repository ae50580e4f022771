"""Hooks of modules in a program: methods of the module's class, and one more that calls them around `forward`.

A class lists them as `__forward_pre_hooks__` and `__forward_hooks__`, for calls from Python. Calls inside the program
go to `forward_with_hooks`; those that the source writes as `module.forward(x)` leave the hooks out, as Python does.
"""

import ast
import itertools

from .._shown import shown
from ._merging import finished
from ._source import Source
from ._types import NotScriptable

CALLED = "forward_with_hooks"


def hooks_of(module):
    """(hooks before forward, hooks after it)."""
    return list(module._forward_pre_hooks.values()), list(module._forward_hooks.values())


def called(script, module):
    """The method that a call of a module is, whose `forward` is written: `forward`, or the one with its hooks."""
    if not any(hooks_of(module)):
        return "forward"
    if finished(module):
        raise NotScriptable(f"jit.script: the {type(module).__name__} is a finished program with hooks; add the hooks "
                            "before it is traced or scripted")
    texts = script.methods[id(module)]
    if CALLED not in texts:
        if texts.get("forward") is None:
            raise NotScriptable(f"jit.script: the {type(module).__name__} has hooks and calls itself; call forward")
        kinds = [[_kind(script, module, hook, texts) for hook in hooks] for hooks in hooks_of(module)]
        texts[CALLED] = _around(texts["forward"], *kinds)
    return CALLED


def listed(module):
    """The lines of a class that list the hooks of its modules."""
    texts = ["".join(f'"{hook.__name__}", ' for hook in hooks) for hooks in hooks_of(module)]
    tables = zip(("__forward_pre_hooks__", "__forward_hooks__"), texts, strict=True)
    return [f"{table} = [{text}]" for table, text in tables if text]


def _kind(script, module, hook, texts):
    """(name, type of its result) of a hook, which becomes a method."""
    if (module._forward_pre_hooks_with_kwargs or module._forward_hooks_with_kwargs
            or module._forward_hooks_always_called):
        raise NotScriptable("jit.script: hooks of programs take the positional arguments alone, and run where forward "
                            "does not raise: leave with_kwargs and always_call out")
    name = getattr(hook, "__name__", "")
    written = script.hooks.setdefault((id(module), name), hook)
    if not name.isidentifier() or written is not hook or hasattr(type(module), name) or name in vars(module):
        raise NotScriptable(f"jit.script: a hook of the {type(module).__name__} needs a name that no other hook, "
                            f"method or attribute has, got {shown(name)}")
    source = Source(script, hook, module)
    if name not in texts:
        texts[name] = source.text(name)
        texts[_method(name)] = Source(script, hook, module).text(_method(name))
    return name, source.result or _shape(hook, ast.parse(texts[name]))


def _shape(hook, tree):
    """"Tuple" or "" of what a hook gives whose type is not told: whether it is a tuple."""
    given = {isinstance(node.value, ast.Tuple) for node in ast.walk(tree) if isinstance(node, ast.Return)}
    if len(given) > 1:
        raise NotScriptable(f"jit.script: the type that the hook {hook.__name__} gives is not told; annotate its "
                            "result")
    return "Tuple" if given.pop() else ""


def _method(name):
    """What the program calls a hook by: PyTorch's reader has no methods of the names that are listed."""
    return f"{name}_called"


def _around(forward, before, after):
    """The text of the method that calls forward with the hooks around."""
    node = ast.parse(forward).body[0]
    receiver, *names = [arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)]
    new = (name for k in itertools.count() if (name := f"value_{k}") not in (receiver, *names))
    given = next(new)
    lines = [f"{given} = ({''.join(f'{name}, ' for name in names)})"]
    for name, kind in before:
        call = f"{receiver}.{_method(name)}({given})"
        given, known = (given, given) if kind == "NoneType" else (next(new), given)
        lines.append(call if given is known else f"{given} = {call}" if kind.startswith("Tuple") else
                     f"{given} = ({call},)")
    result = next(new)
    items = ", ".join(f"{given}[{k}]" for k in range(len(names)))
    lines.append(f"{result} = {receiver}.forward({items})")
    kind = node.returns and ast.unparse(node.returns)
    for name, found in after:
        call = f"{receiver}.{_method(name)}({given}, {result})"
        if found != "NoneType":
            result, kind = next(new), found if found not in ("", "Tuple") else None
            call = f"{result} = {call}"
        lines.append(call)
    head = f"def {CALLED}({ast.unparse(node.args)})" + (f" -> {kind}:" if kind else ":")
    return "\n".join([head, *(f"  {line}" for line in lines), f"  return {result}", ""])
