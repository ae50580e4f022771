"""jit.freeze: a module's methods as bodies of their own, in which all that does not change is constant."""

import ast
import copy
import enum
import re

import flambeau

from .. import _C
from .._shown import shown
from ._changes import Changes
from ._classes import declared_as
from ._folding import Folder, Tensors, literal
from ._inlining import Inliner, paths_in
from ._modules import RecursiveScriptModule, ScriptModule, ScriptObject, showing
from ._program import Program

_PATH = re.compile(r"__torch__(?:\.\w+)+")


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """A module whose parameters, submodules and attributes are constants of its program: what does not change is
    worked out once. Branches of training and dropout are gone; norms become part of the convolutions before them.

    mod                a ScriptModule (what `jit.script`, `jit.trace` or `jit.load` returned) in eval mode, which stays
                       as it is
    preserved_attrs    names of attributes and methods that the result keeps, besides `forward`
    optimize_numerics  works norms into convolutions, which rounds differently; False leaves them

    Attributes that the program changes stay attributes. RuntimeError for another Module, in training mode, and for
    names that the module has not got.

    >>> import flambeau
    >>> net = flambeau.nn.Sequential(flambeau.nn.Conv2d(1, 2, 3), flambeau.nn.BatchNorm2d(2), flambeau.nn.Dropout())
    >>> frozen = flambeau.jit.freeze(flambeau.jit.script(net.eval()))
    >>> print(frozen.code)
    def forward(self: __torch__.torch.nn.modules.container.___torch_frozen.Sequential, input: Tensor):
        conv2d = torch.conv2d(input, CONSTANTS.c0, CONSTANTS.c1, [1, 1], [0, 0], [1, 1], 1)
        return conv2d
    <BLANKLINE>
    >>> list(frozen.parameters())
    []
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(f"jit.freeze: expected a ScriptModule, got {shown(type(mod).__name__)}; make one of it by "
                           "jit.script or jit.trace")
    if mod.training:
        raise RuntimeError("jit.freeze: expected a module in eval mode, got one in training mode; call eval() first")
    if isinstance(preserved_attrs, str):
        raise TypeError(f"jit.freeze: preserved_attrs must be a list of names, got the text {shown(preserved_attrs)}")
    return _Frozen(mod._compiled(), list(preserved_attrs or ()), optimize_numerics).module()


class _Frozen:
    """The parts of a frozen module, while they are written."""

    def __init__(self, module, preserved, optimize):
        self.old, self.program, self.optimize = module, module._program, optimize
        for name in preserved:
            if name not in module._kind.methods and not hasattr(module, name):
                raise RuntimeError(f"jit.freeze: the {module.original_name} has no attribute {shown(name)} that could "
                                   "be preserved")
        self.methods = [name for name in dict.fromkeys(("forward", *preserved)) if name in module._kind.methods]
        self.kept = [name for name in preserved if name not in module._kind.methods]
        self.tensors = Tensors(self.program.constants)
        self.copies = {}  # what is copied already: what attributes share they share in the frozen module

    def module(self):
        """The frozen module."""
        inliner = Inliner(self.program, self.old, self.kept)
        nodes, pending = {}, list(self.methods)
        while pending:  # methods that are called under a condition stay
            name = pending.pop(0)
            nodes[name] = inliner.method(name)
            pending += sorted({path[0] for path in paths_in(nodes[name]) if len(path) == 1
                               and path[0] in self.old._kind.methods} - {*nodes, *pending})
        self._worked_out(nodes.values())
        self.left = {(name,) for name in self.kept}.union(*map(paths_in, nodes.values()))
        texts = "".join(f"  {line}\n" for node in nodes.values() for line in ast.unparse(node).splitlines())
        return self._made(texts)

    def _worked_out(self, nodes):
        """Puts constants in the place of attributes that stay what they are, again and again: a branch that is gone
        changes nothing."""
        folders = [Folder(self.tensors, [a.arg for a in node.args.args], self._held) for node in nodes]
        values = self._constants(nodes)
        while True:
            for node, folder in zip(nodes, folders, strict=True):
                folder.values.update(values)
                node.body = folder.folded(node.body)
            values = self._constants(nodes)
            if not values:
                break
        for node, folder in zip(nodes, folders, strict=True):
            node.body = folder.fused(node.body) if self.optimize else node.body

    def _constants(self, nodes):
        """{path: expression} of the attributes that stay what they are."""
        changes = [Changes(node.body, self._held) for node in nodes]
        assigned = set().union(*(c.assigned for c in changes))
        changed = set().union(*(c.paths for c in changes))
        read = set().union(*map(paths_in, nodes))
        memory = _memory([self._held(path) for path in changed])  # of several names one changes the others, too
        changed |= {path for path in read if memory & _memory([self._held(path)])} | assigned
        return {path: value for path in sorted(read)
                if (value := self._constant(path, assigned, changed)) is not None}

    def _constant(self, path, assigned, changed):
        """The expression of an attribute that stays what it is; None for others."""
        owner = self._at(path[:-1])
        if path[0] in self.kept or not isinstance(owner, RecursiveScriptModule) or path[-1] in owner._kind.methods:
            return None
        value = getattr(owner, path[-1], owner)
        changing = assigned if value is None or isinstance(value, (bool, int, float, str, complex)) else changed
        if any(path[:k] in changing for k in range(1, len(path) + 1)):
            return None
        kind = owner._kind.types.get(path[-1])
        return self._literal(value, kind)

    def _at(self, path):
        found = self.old
        for name in path:
            found = found._modules.get(name) if isinstance(found, RecursiveScriptModule) else None
        return found

    def _held(self, path):
        """What is at a path, or None."""
        owner = None if path is None else self._at(path[:-1])
        return (getattr(owner, path[-1], None) if path else owner) if isinstance(owner, RecursiveScriptModule) else None

    def _literal(self, value, kind=None):
        if isinstance(value, _C.Tensor):
            return self.tensors.expression(value.detach() if value.requires_grad else value)
        if value is None or (isinstance(value, (bool, int, float, str, complex)) and not isinstance(value, enum.Enum)):
            return literal(value)
        if isinstance(value, _C.device):
            return ast.parse(f"torch.device({str(value)!r})", mode="eval").body
        if type(value) not in (tuple, list, dict):
            return None
        parts = [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)
        parts = [self._literal(part) for part in parts]
        if any(part is None for part in parts):
            return None
        if isinstance(value, tuple):
            return ast.Tuple(parts, ast.Load())
        half = len(value)
        made = ast.Dict(parts[:half], parts[half:]) if isinstance(value, dict) else ast.List(parts, ast.Load())
        if kind is None:
            return made if parts else None
        return ast.Call(ast.Name("annotate", ast.Load()), [copy.deepcopy(kind), made], [])

    # ---- the program -------------------------------------------------------------------------------------------------

    def _made(self, methods):
        texts = {}
        qualified = self._class((), methods, texts)
        self._reached(texts)
        names = sorted({int(n) for text in texts.values() for n in re.findall(r"CONSTANTS\.c(\d+)", text)})
        places = {n: k for k, n in enumerate(names)}
        texts = {home: re.sub(r"CONSTANTS\.c(\d+)", lambda n: f"CONSTANTS.c{places[int(n[1])]}", text)
                 for home, text in texts.items()}
        program = Program(texts, [self.tensors.values[n] for n in names], "<frozen>", self.program.octal)
        program.operators, program.is_frozen = self.program.operators, True
        return showing(self._object(program, qualified, ()))

    def _names(self, path):
        """The names that a module inside keeps, as they are declared."""
        found = {rest[0] for left in self.left if left[:len(path)] == path and (rest := left[len(path):])}
        kind = self._at(path)._kind
        return [name for name in kind.types if name in found and name not in kind.constants]

    def _whole(self, path):
        """Whether a module inside stays as it is: it is preserved, or one of its methods is called."""
        module = self._at(path)
        return bool(path) and (path[0] in self.kept or (path in self.left and isinstance(module, RecursiveScriptModule))
                               or any(left[:-1] == path and left[-1] in module._kind.methods for left in self.left))

    def _class(self, path, methods, texts):
        """Writes the class of what is left of a module; its qualified name."""
        module = self._at(path)
        kind = module._kind
        if self._whole(path):
            return kind.qualified
        home = kind.qualified.rpartition(".")[0].partition(".___torch_mangle_")[0] + ".___torch_frozen"
        home += "".join("_" + re.sub(r"\W", "_", part) for part in path)
        names = self._names(path)
        parameters = [f'"{name}", ' for name in names if name in module._parameters]
        buffers = [f'"{name}", ' for name in names if name in module._buffers]
        lines = [f"class {kind.node.name}(Module):", f"  __parameters__ = [{''.join(parameters)}]",
                 f"  __buffers__ = [{''.join(buffers)}]", "  training : bool"]
        for name in names:
            inner = self._at((*path, name))
            type_ = self._class((*path, name), "", texts) if isinstance(inner, RecursiveScriptModule) else ast.unparse(
                kind.types[name])
            lines.append(f"  {declared_as(name, type_)}")
        qualified = f"{home}.{kind.node.name}"
        methods = re.sub(r"^(  def \w+\(self)(: [\w.]+)?", rf"\1: {qualified}", methods, flags=re.MULTILINE)
        texts[home] = texts.get(home, "") + "\n".join(lines) + "\n" + methods
        return qualified

    def _reached(self, texts):
        """Adds what the texts name of the old program."""
        found, pending = {}, list(texts.values())
        while pending:
            for name in {name for whole in _PATH.findall(pending.pop()) for name in _beginnings(whole)}:
                home = name.rpartition(".")[0]
                if name in found or home not in self.program.texts or self.program.definition(name) is None:
                    continue
                node = self.program._module(home)[0][name.rpartition(".")[2]]
                found[name] = ast.get_source_segment(self.program.texts[home], node) + "\n"
                pending.append(found[name])
        for name, text in found.items():
            home = name.rpartition(".")[0]
            texts[home] = texts.get(home, "") + text

    def _object(self, program, qualified, path, whole=False):
        """What is left of a module, as an object of the new program; `whole`: it is inside one that stays."""
        module = self._at(path)
        kind = program.find(qualified)
        whole = whole or self._whole(path)
        names = module._kind.types if whole else self._names(path)
        state = {"training": False}
        for name in names:
            if name in module._kind.constants or name in ("training", "_is_full_backward_hook"):
                continue
            value = getattr(module, name)
            if isinstance(value, RecursiveScriptModule):
                inner = ast.unparse(kind._kind.types[name])
                value = self._object(program, inner, (*path, name), whole)
            state[name] = _copied(value, program, self.copies)
        return kind._of(state)


def _beginnings(whole):
    """A dotted name, and those that it begins with."""
    names = whole.split(".")
    return [".".join(names[:k]) for k in range(2, len(names) + 1)]


def _memory(values):
    """What values keep what they hold in: storages of tensors, lists, dicts and objects, those inside included."""
    found = set()
    for value in values:
        if isinstance(value, _C.Tensor):
            found.add(("storage", value.untyped_storage().data_ptr()))
        elif isinstance(value, (list, dict, ScriptObject)):
            found.add(id(value))
            found |= _memory(value if isinstance(value, list) else (vars(value) if isinstance(
                value, ScriptObject) else value).values())
        elif isinstance(value, tuple):
            found |= _memory(value)
    return found


def _copied(value, program, known):
    """A value of its own: the frozen module and the one that it was made of change by themselves. `known`: the memo of
    `copy.deepcopy`."""
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, _C.Tensor):
        made = copy.deepcopy(value.detach(), known)
        return flambeau.nn.Parameter(made, value.requires_grad) if isinstance(value, flambeau.nn.Parameter) else made
    if isinstance(value, ScriptObject):
        made = known[id(value)] = object.__new__(program.find(type(value)._kind.qualified))
        vars(made).update({name: _copied(each, program, known) for name, each in vars(value).items()})
        return made
    if isinstance(value, enum.Enum):
        return program.find(type(value).__module__ + "." + type(value).__name__)[value.name]
    if isinstance(value, dict):
        made = known[id(value)] = {}
        made.update({k: _copied(v, program, known) for k, v in value.items()})
        return made
    if isinstance(value, list):
        made = known[id(value)] = []
        made += [_copied(v, program, known) for v in value]
        return made
    return tuple(_copied(v, program, known) for v in value) if type(value) is tuple else value
