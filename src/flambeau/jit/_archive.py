"""Files of TorchScript: zip archives of a program's texts and of what its modules hold, read and written as PyTorch's.

    data.pkl, data/0, …             the module: its attributes, and the memory of their tensors
    constants.pkl, constants/0, …   what the texts call CONSTANTS.c0, …
    code/__torch__/package/x.py     the texts
    extra/name                      files beside the program
"""

import ast
import enum
import io
import os
from sys import byteorder

import flambeau

from .. import _C
from .._files.archive import Zip, as_bytes
from .._files.collector import Collector
from .._files.extent import PickleError
from .._files.loader import Loader, UnpicklingError
from .._files.objects import Refused
from .._files.pickle_reader import Allowed
from .._files.pickle_writer import Global, Reduce, Writer
from .._files.replacing import replacing
from .._files.zip_writer import ZipWriter
from .._shown import shown
from ._compile import NotScript
from ._modules import RecursiveScriptModule, ScriptFunction, ScriptModule, ScriptObject, showing
from ._operators import versioned
from ._program import CompilationUnit, Program

_NEWEST = 10  # of the versions of the format


class _Archive(Zip):
    """The entries of a TorchScript file."""

    methods = (0, 8)
    complete = True

    def __init__(self, file, name):
        super().__init__(file, name)
        tops = {path.partition("/")[0] + "/" for path in self.entries if path.endswith("constants.pkl")}
        if len(tops) != 1:
            raise RuntimeError(f"jit.load: {name} is no TorchScript file"
                               + (" but one of save: read it by load" if not tops else ""))
        self.top = tops.pop()

    def texts(self):
        """{name of a module: its text}."""
        start = f"{self.top}code/"
        found = {}
        for path in self.entries:
            if path.startswith(start) and path.endswith(".py"):
                text = bytes(self.unpacked(path[len(self.top):]))
                found[path[len(start):-3].replace("/", ".")] = text.decode("utf-8", "surrogatepass")
        return found

    def read(self, entry):
        """The bytes of an entry, which may be compressed."""
        return self.unpacked(entry) if self.size(entry) and self.entries[self.top + entry].method else \
            super().read(entry)

    def version(self):
        """The number of the format."""
        for entry in ("version", ".data/version"):
            if self.top + entry in self.entries:
                text = bytes(super().read(entry)).strip()
                if text.isdigit() and len(text) < 9:
                    return int(text)
        raise RuntimeError(f"jit.load: {self.name} does not say the version of its format")


class _Loader(Loader):
    """Builds the objects of one stream, whose classes are those of the program."""

    def __init__(self, archive, map_location, program, folder):
        super().__init__(archive, map_location, None)
        self.program, self.folder = program, folder
        plain = Allowed(call=lambda items: items)
        self.table = self.table | {f"torch.jit._pickle.{name}": plain for name in (
            "build_intlist", "build_doublelist", "build_boollist", "build_tensorlist")}
        self.table["torch.jit._pickle.restore_type_tag"] = Allowed(call=lambda value, kind: value)
        self.table["torch.jit._pickle.build_tensor_from_id"] = Allowed(call=self._by_number)
        self.constants = ()

    def _by_number(self, number):
        if type(number) is not int or not 0 <= number < len(self.constants):
            raise PickleError(f"a constant {shown(number)}")
        return self.constants[number]

    def load(self):
        try:
            result = self.reader(self.archive.read(f"{self.folder}.pkl")).load()
            self.objects.check()
            return result
        except PickleError as error:
            kind = UnpicklingError if isinstance(error, Refused) else RuntimeError
            raise kind(f"jit.load: {self.archive.name}: entry {self.folder}.pkl: {error}") from error.__cause__

    def fetch(self, number, *_):
        entry = f"{self.folder}/{number}"
        memory = flambeau.empty(self.archive.size(entry), dtype=flambeau.uint8, device="cpu")
        self.archive.read_into(entry, memoryview(memory) if memory.numel() else b"")
        return memory

    def find(self, module, name):
        if not module.startswith("__torch__"):
            return super().find(module, name)
        if "torch.classes" in module:
            raise PickleError(f"an object of {module}.{name}, a class of PyTorch's own C++ (a packed layer of a "
                              "quantized or mobile model), which is not available")
        try:
            found = self.program.find(f"{module}.{name}")
        except NotScript as error:
            raise PickleError(str(error)) from None
        if issubclass(found, RecursiveScriptModule):
            return Allowed(value=found, new=lambda: self.objects.fresh(found(), _fill))
        if issubclass(found, ScriptObject):
            return Allowed(value=found, new=lambda: self.objects.fresh(object.__new__(found), _set))
        return Allowed(value=found, call=found, keys="bare" if issubclass(found, enum.Enum) else None)


def _fill(module, state):
    if not isinstance(state, dict) or not all(type(name) is str for name in state):
        raise PickleError("attributes of a module that are no dict")
    try:
        module._fill(state)
    except (RuntimeError, TypeError, KeyError) as error:
        raise PickleError(str(error)) from None


def _set(value, state):
    if not isinstance(state, dict) or not all(name in value._open_names for name in state):
        raise PickleError(f"attributes of a {type(value).__name__} that its class does not declare")
    vars(value).update(state)


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """The module of a TorchScript file, as PyTorch's `jit.save` or ours wrote it.

    Its program can call operators and its own functions, and nothing else: it reaches no file, imports nothing and
    cannot name any object of Python. A program may still take long, or need much memory, when it is called.

    f               a path, or a file open for reading
    map_location    where the tensors go: a device, or what `flambeau.load` takes
    _extra_files    {name: anything}: the bytes of such files beside the program are put in

    What the file's program calls and is not available is a NotImplementedError when it is called. RuntimeError where
    the file is damaged or no program.

    >>> import flambeau, io
    >>> net = flambeau.nn.Linear(2, 1)
    >>> file = io.BytesIO()
    >>> flambeau.jit.save(flambeau.jit.trace(net, flambeau.ones(1, 2)), file)
    >>> flambeau.equal(flambeau.jit.load(file)(flambeau.ones(3, 2)), net(flambeau.ones(3, 2)))
    True
    """
    if _restore_shapes:
        raise NotImplementedError("jit.load: shapes of a traced program's inputs are not kept; leave _restore_shapes "
                                  "out")
    if not hasattr(f, "read"):
        path = os.fsdecode(f)
        if not os.path.exists(path):
            raise ValueError(f"jit.load: there is no file {shown(path)}")
        with open(path, "rb") as file:
            return _load(file, path, map_location, _extra_files)
    return _load(f, getattr(f, "name", "<file>"), map_location, _extra_files)


def import_ir_module(cu, filename, map_location=None, _extra_files=None, _restore_shapes=False):
    """The module of a file; its functions stay its own, so a CompilationUnit `cu` learns none of them."""
    _check_unit(cu, "import_ir_module")
    return load(filename, map_location, _extra_files, _restore_shapes)


def import_ir_module_from_buffer(cu, buffer, map_location=None, _extra_files=None, _restore_shapes=False):
    """The module of a file whose bytes are in memory."""
    _check_unit(cu, "import_ir_module_from_buffer")
    return load(io.BytesIO(buffer), map_location, _extra_files, _restore_shapes)


def _check_unit(cu, name):
    if not isinstance(cu, CompilationUnit):
        raise TypeError(f"{name}: cu must be a jit.CompilationUnit, got {shown(type(cu).__name__)}")


def _load(file, name, map_location, extra):
    archive = _Archive(file, name)
    version = archive.version()
    if version > _NEWEST:
        raise RuntimeError(f"jit.load: {name} has version {version} of the format; this library reads up to {_NEWEST}")
    program = Program(archive.texts(), (), str(name), octal=True)
    program.operators = versioned(version)
    constants = _Loader(archive, map_location, program, "constants").load()
    program.constants = tuple(constants)
    loader = _Loader(archive, map_location, program, "data")
    loader.constants = program.constants
    found = loader.load()
    if not isinstance(found, RecursiveScriptModule):
        raise RuntimeError(f"jit.load: {name} holds a {type(found).__name__}, no module")
    for key in extra or ():
        if f"{archive.top}extra/{key}" in archive.entries:
            extra[key] = bytes(archive.read(f"extra/{key}"))
    return showing(found)


# ---- writing ---------------------------------------------------------------------------------------------------------

class _Pickled(Collector):
    """Modules and objects of a program, and their tensors."""

    def special(self, obj, place):
        if isinstance(obj, RecursiveScriptModule):
            return self._module(obj)
        if isinstance(obj, ScriptObject):
            state = {name: self.typed(type(obj)._kind, name, value) for name, value in vars(obj).items()}
            return self._object(type(obj)._kind.qualified, state)
        if isinstance(obj, tuple) and hasattr(type(obj), "_fields"):
            return Reduce(Global(type(obj).__module__, type(obj).__name__), tuple(obj))
        if type(obj).__module__.startswith("__torch__") and hasattr(obj, "value"):
            return Reduce(Global(type(obj).__module__, type(obj).__name__), obj.value)  # in no tuple
        return super().special(obj, place)

    def _object(self, qualified, state):
        module, _, name = qualified.rpartition(".")
        return Reduce(Global(module, name), (), state=state, new=True, whole=True)

    def _module(self, module):
        kind = module._kind
        state = {}
        for name in kind.types:
            if name in kind.constants:
                continue
            for table in (module._parameters, module._buffers, module._modules):
                if name in table:
                    state[name] = table[name]
                    break
            else:
                value = None if name == "_is_full_backward_hook" else getattr(module, name)
                state[name] = self.typed(kind, name, value)
        return self._object(kind.qualified, state)

    def typed(self, kind, name, value):
        """A list or dict with the type that its class declares."""
        if not isinstance(value, (list, dict)):
            return value
        tag = Global("torch.jit._pickle", "restore_type_tag")
        return Reduce(tag, (value, ast.unparse(kind.types[name])))

    def tensor(self, t, place):
        return self.data(t.detach(), t.requires_grad)


def _streamed(obj):
    """(the stream of an object, {number: memory})."""
    collector = _Pickled()
    stream = Writer(collector.special).dump(obj)
    return stream, dict(collector.storages.values())


def save(m, f, _extra_files=None):
    """Writes a program with its tensors to a file, which `jit.load` reads, here and in PyTorch.

    m               what `jit.trace`, `jit.script` or `jit.load` returned
    f               a path, which is replaced as a whole, or a file open for writing
    _extra_files    {name: bytes or text} of files beside the program
    """
    if not isinstance(m, (ScriptModule, ScriptFunction)):
        raise RuntimeError(f"jit.save: expected what jit.trace or jit.script returns, got a {type(m).__name__}")
    program = m._compiled() if isinstance(m, ScriptModule) else m._program.as_module(m.qualified_name)
    if hasattr(f, "write"):
        _write(program, f, "archive", _extra_files)
        return
    path = os.fsdecode(f)
    top = os.path.splitext(os.path.basename(path))[0].encode(errors="replace").decode() or "archive"
    try:
        with replacing(path) as file:
            _write(program, file, top, _extra_files)
    except OSError as error:
        raise RuntimeError(f"jit.save: cannot write {path}: {error.strerror or error}") from error


def _write(module, file, top, extra):
    program = module._program
    data, storages = _streamed(module)
    constants, of_constants = _streamed(tuple(program.constants))
    archive = ZipWriter(file)
    for name, content in (extra or {}).items():
        archive.put(f"{top}/extra/{name}", content.encode() if isinstance(content, str) else content)
    for folder, stream, memories in (("data", data, storages), ("constants", constants, of_constants)):
        archive.put(f"{top}/{folder}.pkl", stream)
        for number, memory in memories.items():
            archive.put(f"{top}/{folder}/{number}", as_bytes(memory))
    for name, text in program.texts.items():
        archive.put(f"{top}/code/{name.replace('.', '/')}.py", text.encode("utf-8", "surrogatepass"))
    archive.put(f"{top}/version", b"%d\n" % _NEWEST)
    archive.put(f"{top}/byteorder", byteorder.encode())
    archive.put(f"{top}/.data/serialization_id", f"{_C.crc32(data):040d}".encode())
    archive.finish()
