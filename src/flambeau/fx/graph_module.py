"""GraphModule: a Module whose forward is generated from a graph."""

import copy
import sys
import weakref
from pathlib import Path

from .. import _C
from .._shown import class_name, shown
from ..nn import Module, Parameter
from ..serialization import save
from ._pytree_codegen import _PyTreeCodeGen
from ._source import compiled, forget, forward_of
from ._targets import root_name
from .graph import Graph

#: in GraphModule.meta: {name: value} of attributes that a GraphModule takes over from its root
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")


def _attribute(module, target):
    """The value at a dotted name."""
    for name in target.split("."):
        module = getattr(module, name)
    return module


def _has_attr(module, target):
    """Whether there is one."""
    try:
        _attribute(module, target)
    except AttributeError:
        return False
    return True


def _parent(module, target):
    """(the submodule that holds a dotted name, made of empty modules where it is missing, the last part)."""
    path, _, last = target.rpartition(".")
    for name in path.split(".") if path else ():
        inner = getattr(module, name, None)
        if inner is None:
            inner = Module()
            setattr(module, name, inner)
        module = inner
    return module, last


def _assign_attr(from_obj, to_module, target):
    """Sets a dotted name; a plain tensor becomes a buffer."""
    parent, last = _parent(to_module, target)
    if isinstance(from_obj, _C.Tensor) and not isinstance(from_obj, Parameter):
        if last in parent._buffers:
            parent._buffers[last] = from_obj
        else:
            parent.register_buffer(last, from_obj)
    else:
        setattr(parent, last, from_obj)


def _copy_attr(from_module, to_module, target):
    """Gives `to_module` what `from_module` has at a dotted name; buffers stay as persistent as they were."""
    source = from_module
    *path, last = target.split(".")
    for name in path:
        source = getattr(source, name)
    value = getattr(source, last)
    parent, _ = _parent(to_module, target)
    if last in getattr(source, "_non_persistent_buffers_set", ()):
        parent.register_buffer(last, value, persistent=False)
    elif parent is not source or last not in vars(parent).get("_modules", ()):
        _assign_attr(value, to_module, target)


def _del_attr(model, attr_name):
    """Deletes a dotted name."""
    parent, last = _parent(model, attr_name)
    delattr(parent, last)


class GraphModule(Module):
    """A Module made of a `Graph`: its `forward` is generated Python, which `code` shows and tracebacks quote.

    root        a Module, from which every attribute that the graph names is taken, or a dict of those by dotted name
    class_name  what its class is called

    After a change of the graph call `recompile()`.

    >>> import flambeau
    >>> gm = flambeau.fx.symbolic_trace(lambda x: x.relu() + 1)
    >>> print(gm.code.strip())
    def forward(self, x):
        relu = x.relu();  x = None
        add = relu + 1;  relu = None
        return add
    >>> gm(flambeau.tensor(-2.0))
    tensor(1.)
    """

    __jit_unused_properties__ = ["graph"]

    def __new__(cls, *args, **kwargs):
        base = next((c for c in cls.__mro__ if "_generated" not in vars(c)), cls)
        own = type(base.__name__, (base,), {"_generated": True, "__module__": base.__module__,
                                           "__qualname__": base.__qualname__, "__doc__": base.__doc__})
        return super().__new__(own)

    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self._take_from_module(root, graph)
        elif isinstance(root, dict):
            self._take_from_dict(root, graph)
        else:
            raise RuntimeError(f"GraphModule: root must be a Module or a dict of attributes, got {shown(root)}")
        for name in _HOOKS:
            self.__dict__[name] = []
        self.graph = graph
        self.meta = dict(getattr(root, "meta", {})) if isinstance(getattr(root, "meta", None), dict) else {}
        for name, value in self.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(self, name, value)
        if self.graph._tracer_cls and "<locals>" in self.graph._tracer_cls.__qualname__:
            self.graph._tracer_cls = None  # a class of a function cannot be named in a file

    def _take_from_module(self, root, graph):
        if hasattr(root, "training"):
            self.training = root.training
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if not _has_attr(root, node.target):
                    raise RuntimeError(f"GraphModule: {node} needs {shown(node.target)}, and "
                                       f"{class_name(type(root))} has no such attribute")
                _copy_attr(root, self, node.target)

    def _take_from_dict(self, root, graph):
        needed = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module") and node.target not in root:
                raise RuntimeError(f"GraphModule: {node} needs {shown(node.target)}, and the dict of attributes has "
                                   f"{shown(list(root))}")
        # outer attributes first, so that an inner one is set on them
        for target in sorted(dict.fromkeys(needed), key=lambda target: target.count(".")):
            _assign_attr(root[target], self, target)

    # ---- graph and code --------------------------------------------------------------------------------------------

    @property
    def graph(self):
        """Its graph; assigning another one recompiles."""
        return self._graph

    @graph.setter
    def graph(self, g):
        if not isinstance(g, Graph):
            raise AssertionError(f"graph must be a Graph, got {shown(g)}")
        before = self.__dict__.get("_graph")
        if before is not None and before is not g and self in before._owners:
            before._owners.remove(self)
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self):
        """The source of its forward."""
        if "_code" not in self.__dict__:
            raise RuntimeError("GraphModule.code: no code has been generated yet; call recompile()")
        return self._code

    def recompile(self):
        """Generates its forward anew from the graph; returns the PythonCode."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        code = self._graph.python_code(root_module="self")
        self.__dict__["_code"], self.__dict__["_lineno_map"] = code.src, code._lineno_map
        kind = type(self)
        before = vars(kind).get("forward")
        if before is not None:
            forget(before)
        kind.forward = forward_of(code)
        weakref.finalize(kind, forget, kind.forward)
        if "__call__" not in vars(kind):
            kind.__call__ = _call(kind)
        return code

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False, *,
                       fast_sympy_print=False, expanded_def=False, additional_meta=None):
        """The source of a class with its code, those of the GraphModules inside, the lines of the program and what is
        known of dtypes and shapes; printed unless print_output=False. Options as of `Graph.python_code`.
        fast_sympy_print changes nothing: sizes are printed at once in any case."""
        text = _readable(self, type(self).__name__, include_stride, include_device, colored, expanded_def,
                         additional_meta)
        if print_output:
            print(text)
        return text

    def __str__(self):
        return f"{super().__str__()}\n{self._code}\n# print_readable() shows dtypes, shapes and the program's lines too"

    # ---- submodules ------------------------------------------------------------------------------------------------

    def add_submodule(self, target, m):
        """Puts Module m at a dotted name, making empty modules on the way; False where an attribute stands there."""
        module = self
        *path, last = target.split(".")
        for name in path:
            inner = getattr(module, name, None)
            if inner is None:
                inner = Module()
                setattr(module, name, inner)
            if not isinstance(inner, Module):
                return False
            module = inner
        module.add_module(last, m)
        return True

    def delete_submodule(self, target):
        """Removes the submodule at a dotted name; False where there is none."""
        parent = self
        *path, last = target.split(".")
        for name in path:
            parent = getattr(parent, name, None)
            if not isinstance(parent, Module):
                return False
        if not isinstance(getattr(parent, last, None), Module):
            return False
        delattr(parent, last)
        return True

    def delete_all_unused_submodules(self):
        """Removes the submodules that no Node calls or reads from, and that hold none which one does."""
        used = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[:n]) for n in range(1, len(parts) + 1))
                if node.op == "call_module" and _has_attr(self, node.target):
                    used.update(f"{node.target}.{name}" for name, _ in self.get_submodule(node.target).named_modules())
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- copies and files ------------------------------------------------------------------------------------------

    def _state(self):
        """Its attributes without those that are made of the graph."""
        left_out = ("_graph", "_code", "_lineno_map", *_HOOKS)
        return {key: value for key, value in self.__dict__.items() if key not in left_out}

    def __reduce__(self):
        base = next(c for c in type(self).__mro__ if not {"_generated", "_scripted_class"} & vars(c).keys())
        return _module_of, (base, type(self).__name__, self._state(), self.graph)

    def __reduce_package__(self, exporter):
        return self.__reduce__()

    def __deepcopy__(self, memo):
        copied = self.__new__(type(self))
        memo[id(self)] = copied
        Module.__init__(copied)
        copied.__dict__.update(copy.deepcopy(self._state(), memo))
        for name in _HOOKS:
            copied.__dict__[name] = list(self.__dict__.get(name, ()))
        type(copied).__name__ = type(self).__name__
        copied.graph = copy.deepcopy(self.graph, memo)
        for hook in copied._deepcopy_hooks:
            hook(copied)
        return copied

    def __copy__(self):
        return GraphModule(self, copy.deepcopy(self.graph), type(self).__name__)

    def _replicate_for_data_parallel(self):
        """A copy for another device, whose parameters are put in place by who asks."""
        copied = self.__copy__()
        copied._is_replica = True
        return copied

    def to_folder(self, folder, module_name="FxModule"):
        """Writes a Python package into `folder`: a class `module_name` with this code, and its parameters beside it.

        `from folder import FxModule` then needs no graph. Submodules whose repr is not their constructor's call are
        stored as pickles.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        root = root_name()
        save(self.state_dict(), folder / "state_dict.pt")
        lines = [f"import {root}", f"from {root}.nn import *", "from pathlib import Path", "", "",
                 f"class {module_name}({root}.nn.Module):", "    def __init__(self):", "        super().__init__()",
                 "        here = Path(__file__).parent"]
        for name, module in self.named_children():
            save(module, folder / f"{name}.pt")
            lines.append(f"        # {_first_line(module)}")
            lines.append(f'        self.add_module("{name}", {root}.load(here / "{name}.pt", weights_only=False))')
        for table, maker in (("_buffers", "register_buffer"), ("_parameters", "register_parameter")):
            for name, value in vars(self)[table].items():
                if value is not None:
                    empty = f"{root}.empty({list(value.shape)}, dtype={root}.{str(value.dtype).rpartition('.')[2]})"
                    wrapped = f"{root}.nn.Parameter({empty})" if table == "_parameters" else empty
                    lines.append(f'        self.{maker}("{name}", {wrapped})')
        lines.append(f'        self.load_state_dict({root}.load(here / "state_dict.pt"))')
        code = self.graph.python_code("self")
        lines += ["", *("    " + line if line.strip() else "" for line in code.src.strip("\n ").split("\n"))]
        head = _imports(code.globals)
        (folder / "module.py").write_text("\n".join([*head, *lines]) + "\n")
        (folder / "__init__.py").write_text("from .module import *\n")

    # ---- hooks of passes that watch changes --------------------------------------------------------------------------

    def _register_create_node_hook(self, f):
        """f(node) is called for every Node that is added."""
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f):
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f):
        """f(node) is called for every Node that is removed."""
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f):
        self._erase_node_hooks.remove(f)

    def _register_replace_node_hook(self, f):
        """f(old=, new=, user=) is called for every use that is replaced."""
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f):
        self._replace_hooks.remove(f)

    def _register_deepcopy_hook(self, f):
        """f(copy) is called for every copy."""
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f):
        self._deepcopy_hooks.remove(f)


def _call(kind):
    """The call of a GraphModule's class: an error that comes from its code names the step and the program's line."""
    def __call__(self, *args, **kwargs):
        try:
            return super(kind, self).__call__(*args, **kwargs)
        except Exception as error:
            _note_step(self, error)
            raise

    return __call__


def _note_step(module, error):
    code = type(module).forward.__code__
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code is not code:
        step = step.tb_next
    index = (module._lineno_map or {}).get(step.tb_lineno) if step is not None else None
    nodes = list(module.graph.nodes)
    if index is None or index >= len(nodes):
        return
    trace = nodes[index].stack_trace
    note = f"  at step {nodes[index].name} of {type(module).__name__}'s graph" + (
        f", recorded from:\n    {trace.strip()}" if trace else "")
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _readable(module, name, stride, device, colored, expanded, meta):
    code = module.graph.python_code("self", verbose=True, include_stride=stride, include_device=device,
                                    colored=colored, expanded_def=expanded, additional_meta=meta).src
    text = f"class {name}({root_name()}.nn.Module):\n" + "\n".join(
        "    " + line if line.strip() else "" for line in code.strip("\n").rstrip().split("\n")) + "\n"
    inner = [_readable(child, child_name, stride, device, colored, expanded, meta)
             for child_name, child in module.named_children() if isinstance(getattr(child, "graph", None), Graph)]
    for part in inner:
        text += "\n" + "".join("    " + line + "\n" if line else "\n" for line in part.rstrip().split("\n"))
    return text


def _first_line(module):
    return str(module).partition("\n")[0]


def _imports(space):
    """Statements that give generated code its globals."""
    root = root_name()
    known = {"inf": "from math import inf", "nan": "from math import nan", "NoneType": "NoneType = type(None)",
             "device": f"from {root} import device", "pytree": f"from {root}.utils import _pytree as pytree",
             "fx_pytree": f"from {root}.fx import _pytree as fx_pytree", root: f"import {root}"}
    lines = []
    for name, value in space.items():
        if name in known:
            lines.append(known[name])
        elif hasattr(value, "__name__") and getattr(value, "__module__", None):
            lines.append(f"from {value.__module__} import {value.__name__} as {name}")
    return lines


def _module_of(base, class_name, state, graph):
    """The GraphModule of a file of pickle."""
    made = base.__new__(base)
    Module.__init__(made)
    made.__dict__.update(state)
    for name in _HOOKS:
        made.__dict__[name] = []
    type(made).__name__ = class_name
    made.graph = graph
    return made


_module_of._restores = True


class _CodeOnlyModule(Module):
    """Holds the attributes of a module whose graph is found by running its code."""

    def __init__(self, body):
        super().__init__()
        self.__dict__.update(body)


def reduce_graph_module(body, import_block):
    """The GraphModule of a file that PyTorch wrote: its code is run once to find the graph."""
    body = dict(body)
    code = body.pop("_code")
    space = {}
    exec(import_block, space)
    holder = type(body.pop("_graphmodule_cls_name", "GraphModule"), (_CodeOnlyModule,), {})
    holder.forward = compiled(_Plain(code, space))["forward"]
    module = holder(body)
    tracer = sys.modules["flambeau.fx._symbolic_trace"].Tracer()
    tracer.is_leaf_module = lambda m, name: True
    return GraphModule(module, tracer.trace(module), holder.__name__)


class _Plain:
    """Source and globals as `compiled` takes them."""

    def __init__(self, src, space):
        self.src, self.globals = src, space
