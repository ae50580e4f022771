"""What TorchScript's programs are to Python: modules, functions and objects of their classes."""

import copy
import functools
import inspect
import io
import types
import typing

import flambeau

from .._aten.numbers import dtype_of
from .._graph.inside import SCRIPTING
from .._shown import shown
from ._errors import converted, is_foreign
from ._state import keeping


class Attribute(typing.NamedTuple):
    """A value of a module and the type it has in scripts."""

    value: typing.Any
    type: typing.Any


class computed:
    """A property that an attribute of the object hides: a module of the user's may have a `graph` of its own."""

    def __init__(self, function):
        self.function, self.__doc__ = function, function.__doc__

    def __get__(self, instance, owner=None):
        return self if instance is None else self.function(instance)


class Stored:
    """What has a program, and is written to files."""

    def save(self, f, _extra_files=None):
        """Writes the program and its tensors to a file (a path or a file open for writing): see `jit.save`."""
        flambeau.jit.save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files=None):
        """The bytes of such a file."""
        file = io.BytesIO()
        flambeau.jit.save(self, file, _extra_files)
        return file.getvalue()


class Constants(dict):
    """The constants of a program by their names, which are attributes, too."""

    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(f"the program has no constant {shown(name)}; it has {', '.join(self) or 'none'}")
        return self[name]


class ScriptModule(Stored, flambeau.nn.Module):
    """A module with a program. A class of one's own may derive from it: its methods run as they are, and the program is
    written from their source when it is asked for.
    """

    def __setattr__(self, name, value):
        if isinstance(value, Attribute):
            self.__dict__["_jit_types"] = {**vars(self).get("_jit_types", {}), name: value.type}
            value = value.value
        super().__setattr__(name, value)

    def _compiled(self):
        """The RecursiveScriptModule of the program, written from the source of its methods."""
        return flambeau.jit._scripted_module(self)

    @computed
    def original_name(self):
        """The name of the class that the module was an object of."""
        return self._compiled()._kind.node.name

    @computed
    def code(self):
        """The text of `forward`."""
        return self._text_of("forward")

    @computed
    def code_with_constants(self):
        """(the text of `forward`, {"c0": tensor or text} of the constants of the program)."""
        return self.code, Constants({f"c{k}": x for k, x in enumerate(self._compiled()._program.constants)})

    @computed
    def graph(self):
        """The Graph of `forward`."""
        return self._graph(False)

    @computed
    def inlined_graph(self):
        """The Graph of `forward` with all that it calls of the program written out."""
        return self._graph(True)

    def graph_for(self, *args, **kwargs):
        """The Graph of a call with such arguments: the same for all."""
        return self._graph(True)

    def _text_of(self, name):
        return self._with_method(name)._kind.source(name)

    def _graph(self, inlined, name="forward"):
        made = self._with_method(name)
        return flambeau.jit._graph_of(made._program, made._kind.qualified, inlined, name)

    def _schema_of(self, name):
        made = self._with_method(name)
        return flambeau.jit._schema_of(made._program, made._kind.qualified, name)

    def _with_method(self, name):
        """The RecursiveScriptModule of the program, which has this method."""
        made = self._compiled()
        if name not in made._kind.methods:
            raise RuntimeError(f"jit: the program has no {name} for a {made.original_name}")
        return made


class ScriptMethod(functools.partial):
    """A method of a module that has a program, of that module."""

    @property
    def owner(self):
        """The module."""
        return self.args[0]

    @property
    def name(self):
        """Its name."""
        return self.func.__name__

    @property
    def qualified_name(self):
        """Its name in the program."""
        return f"{self.owner._compiled()._kind.qualified}.{self.name}"

    @property
    def code(self):
        """Its text."""
        return self.owner._text_of(self.name)

    @property
    def graph(self):
        """Its Graph."""
        return self.owner._graph(False, self.name)

    @property
    def inlined_graph(self):
        """Its Graph with all that it calls of the program written out."""
        return self.owner._graph(True, self.name)

    @property
    def schema(self):
        """What it takes and gives."""
        return self.owner._schema_of(self.name)

    @property
    def __signature__(self):
        given = inspect.signature(self.func)
        return given.replace(parameters=list(given.parameters.values())[1:])

    @property
    def __self__(self):
        return self.args[0]

    @property
    def __func__(self):
        return self.func

    def __getattr__(self, name):
        """The function's own attributes, as methods of Python have them."""
        if name == "__wrapped__":  # that one takes the module, too
            raise AttributeError(name)
        return getattr(self.func, name)


class Method:
    """A function that a class of modules with a program has as a method."""

    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner=None):
        return self.function if instance is None else ScriptMethod(self.function, instance)


def showing(module):
    """A module of a program, whose methods have a graph and a text of their own: the outermost one."""
    kind = type(module)
    for name in module._kind.methods if isinstance(module, RecursiveScriptModule) else ():
        function = inspect.getattr_static(kind, name, None)
        if isinstance(function, types.FunctionType) and not name.startswith("__"):
            setattr(kind, name, Method(function))
    return module


class Scripted(ScriptModule):
    """A module that `jit.script` returned, beside its own class."""

    @computed
    def original_name(self):
        """The name of the class that the module was an object of."""
        return self._scripted_class.__name__


class ScriptPart(ScriptModule):
    """A module inside one that `jit.script` returned: it runs as it is, and shows its program."""

    original_name = Scripted.original_name


class ScriptObject:
    """An object of a class that a program defines."""

    _open_names = frozenset()

    def __repr__(self):
        return f"<{type(self).__name__} of a TorchScript program>"


class Autocast(ScriptObject):
    """What a program calls autocast: its text has the attributes alone, and what is inside computes by them."""

    def __enter__(self):
        inner = flambeau.autocast(self.device, dtype_of(self.fast_dtype), self._enabled)
        object.__setattr__(self, "_inner", inner)
        inner.__enter__()
        return self

    def __exit__(self, *error):
        self._inner.__exit__(*error)


class RecursiveScriptModule(ScriptModule):
    """A module whose program is TorchScript: what `jit.load` and `jit.trace` return.

    Its methods are compiled from text (`code`) and run on the tensors that it holds. Modules inside are such modules,
    too. It trains, moves and stores its state like any other Module.
    """

    _kind = _program = None
    _open_names = frozenset()

    def __init__(self, *args, **kwargs):
        if self._kind is None:
            raise TypeError("RecursiveScriptModule: modules of this class come from jit.load, jit.trace and jit.script")
        super().__init__()

    @classmethod
    def _of(cls, state):
        """A module with these attributes: {name: tensor, module or plain value}."""
        made = cls()
        made._fill(state)
        return made

    def _fill(self, state):
        kind = self._kind
        self.training = bool(state.get("training", True))
        for name, value in state.items():
            if name in ("training", "_is_full_backward_hook"):
                continue
            if name not in self._open_names:
                raise RuntimeError(f"jit: the class {kind.node.name} declares no attribute {shown(name)}")
            inner = self._program.kind_of(kind.types.get(name))
            if inner is not None and not isinstance(value, self._program.find(inner.qualified)):
                raise RuntimeError(f"jit: the attribute {shown(name)} of a {kind.node.name} must be a "
                                   f"{inner.node.name}, got a {type(value).__name__}")
            if isinstance(value, flambeau.nn.Module):
                self._modules[name] = value
            elif name in kind.parameters and (value is None or isinstance(value, flambeau.Tensor)):
                self._parameters[name] = value if value is None or isinstance(
                    value, flambeau.nn.Parameter) else flambeau.nn.Parameter(value.detach(), value.requires_grad)
            elif name in kind.buffers:
                self.register_buffer(name, value)
            else:
                object.__setattr__(self, name, value)
        for name in kind.hooks.get("__forward_pre_hooks__", ()):
            self.register_forward_pre_hook(getattr(type(self), name))
        for name in kind.hooks.get("__forward_hooks__", ()):
            self.register_forward_hook(getattr(type(self), name))

    def define(self, src):
        """Refused: methods of a finished program cannot be added."""
        raise NotImplementedError("define: methods cannot be added to a finished program; write them in the Module, "
                                  "and script or trace that")

    def _compiled(self):
        return self

    # ---- as Python sees it -------------------------------------------------------------------------------------------

    def _get_name(self):
        return "RecursiveScriptModule"

    def extra_repr(self):
        """The class that it was."""
        return f"original_name={self.original_name}"

    def forward(self, *args, **kwargs):
        """Refused where the program has none: of a trace those modules can be called that the run called."""
        raise NotImplementedError(f"forward: the program has no forward for the {self.original_name} inside, which was "
                                  "not called when it was traced; call the whole module")

    def __len__(self):
        return len(self._modules)

    def __bool__(self):
        return True

    def __iter__(self):
        if not self._of_modules():
            raise TypeError(f"a {self.original_name} is no container of modules")
        return iter(self._modules if self.original_name == "ModuleDict" else self._modules.values())

    def __contains__(self, key):
        return key in self._modules

    def __getitem__(self, index):
        if not self._of_modules():
            raise TypeError(f"a {self.original_name} is no container of modules")
        return self._modules[index] if isinstance(index, str) else list(self._modules.values())[index]

    def _of_modules(self):
        return self.original_name in ("Sequential", "ModuleList", "ModuleDict")

    def __copy__(self):
        made = type(self)()
        vars(made).update(vars(self))
        for name in ("_parameters", "_buffers", "_modules"):
            setattr(made, name, getattr(self, name).copy())
        return made

    def __deepcopy__(self, memo):
        made = memo[id(self)] = type(self)()
        vars(made).update(copy.deepcopy(vars(self), memo))
        return made

    def __reduce_ex__(self, protocol):
        raise TypeError("a TorchScript module is not pickled; write it by jit.save, and read it by jit.load")


class TopLevelTracedModule(RecursiveScriptModule):
    """A module that `jit.trace` made: the operators of one run."""

    def _get_name(self):
        return type(self).__name__


class ScriptFunction(Stored):
    """A function whose program is TorchScript: that of a trace; or, of `jit.script`, written from its source when it is
    asked for, while the function runs as it is.
    """

    def __init__(self, function, program=None, qualified=None):
        functools.update_wrapper(self, function)
        self._function, self._made = function, None if program is None else (program, qualified)
        self._finished, self._taken = program is not None, None

    @property
    def is_finished(self):
        """Whether it has a program that is not written from its source."""
        return self._finished

    @property
    def _program(self):
        return self._compiled()[0]

    def _compiled(self):
        """(Program, qualified name)."""
        if self._made is None:
            self._made = flambeau.jit._scripted_function(self._function)
        return self._made

    def __call__(self, *args, **kwargs):
        keep = keeping.get()
        before = SCRIPTING.set(True)
        try:
            if before.old_value is not True and not self._finished:
                if self._taken is None:
                    self._taken = flambeau.jit._taken_by(self._function)
                args, kwargs = self._taken(args, kwargs)
            return self._function(*args, **kwargs) if keep is None else keep(self, args, kwargs)
        except Exception:
            if is_foreign():
                raise converted()  # noqa: B904 (it has the cause of the first)
            raise
        finally:
            SCRIPTING.reset(before)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    @property
    def name(self):
        """Its name."""
        return self.__name__

    @property
    def qualified_name(self):
        """Its name in the program."""
        return self._compiled()[1]

    @property
    def code(self):
        """Its text."""
        program, qualified = self._compiled()
        return program.source(qualified)

    @property
    def graph(self):
        """The Graph of the function."""
        return flambeau.jit._graph_of(*self._compiled())

    @property
    def inlined_graph(self):
        """The Graph with all that it calls of the program written out."""
        return flambeau.jit._graph_of(*self._compiled(), True)

    @property
    def schema(self):
        """What the function takes and gives."""
        return flambeau.jit._schema_of(*self._compiled())

    def graph_for(self, *args, **kwargs):
        """The Graph of a call with such arguments: the same for all."""
        return self.inlined_graph

    def __repr__(self):
        return f"<ScriptFunction {self.__name__}>"

    def __reduce__(self):
        raise TypeError("a TorchScript function is not pickled; write it by jit.save, and read it by jit.load")
