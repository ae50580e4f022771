"""jit.load and jit.save: PyTorch's files, our own, damaged and hostile ones."""

import io
import zipfile
from pathlib import Path

import pytest

import flambeau
from flambeau import nn
from flambeau._files.zip_writer import ZipWriter

GOLDEN = Path(__file__).with_name("torch_scripts.zip")


def entry(name):
    with zipfile.ZipFile(GOLDEN) as archive:
        return io.BytesIO(archive.read(name))


def same(a, b):
    if isinstance(b, flambeau.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and flambeau.allclose(a.double(), b.double(), 1e-4, 1e-5)
    if isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in b)
    if isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return (str(a) if isinstance(a, flambeau.device) else a) == b


@pytest.mark.parametrize("name", ["network", "objects", "traced", "function"])
def test_what_pytorch_wrote_gives_what_it_gave(name):
    kept = flambeau.load(entry(f"{name}.ref"))
    note = {"note.txt": ""}
    module = flambeau.jit.load(entry(f"{name}.pt"), _extra_files=note)
    assert note["note.txt"] == b"from there"
    with flambeau.no_grad():
        for inputs, result in zip(kept["inputs"], kept["results"], strict=True):
            assert same(module(*inputs), result)


@pytest.mark.parametrize("name", ["network", "objects", "traced", "function"])
def test_what_pytorch_wrote_can_be_written_again(name):
    kept = flambeau.load(entry(f"{name}.ref"))
    file = io.BytesIO()
    flambeau.jit.save(flambeau.jit.load(entry(f"{name}.pt")), file, {"a.txt": "text", "b": b"bytes"})
    notes = {"a.txt": "", "b": "", "c": "stays"}
    again = flambeau.jit.load(file, _extra_files=notes)
    assert notes == {"a.txt": b"text", "b": b"bytes", "c": "stays"}
    with flambeau.no_grad():
        assert same(again(*kept["inputs"][0]), kept["results"][0])


def test_a_loaded_module_is_a_module():
    module = flambeau.jit.load(entry("network.pt"))
    assert isinstance(module, flambeau.jit.ScriptModule) and isinstance(module, nn.Module)
    assert module.original_name == "Network" and "RecursiveScriptModule" in repr(module) and not module.training
    assert list(module.state_dict())[:2] == ["scale", "conv.weight"]
    assert module.eps == 1e-5 and module.conv.kernel_size == (3, 3)
    before = module.norm.running_mean.clone()
    module.train()
    module(flambeau.rand(4, 3, 8, 8))[0].sum().backward()
    assert module.conv.weight.grad.abs().sum() > 0 and not flambeau.equal(module.norm.running_mean, before)
    assert module.norm.num_batches_tracked == 1
    module.double()
    assert module(flambeau.rand(4, 3, 8, 8, dtype=flambeau.float64))[0].dtype == flambeau.float64
    assert "torch.relu(" in module.code and "running_mean" in module.norm.code
    assert module.graph.findNode("prim::CallMethod") and "aten::relu" in str(module.graph)


def test_methods_attributes_and_containers():
    module = flambeau.jit.load(entry("objects.pt"))
    x = flambeau.arange(9.0).reshape(3, 3)
    before = module.calls
    module(x)
    module(x)
    assert module.calls == before + 2 and module.table == {"a": 1, "b": 2} and module.colour.name == "RED"
    total, k, a, size, soft = module.other((x, 3), {"a": 5})
    assert total.tolist() == [[9, 12, 15]] and (k, a, size) == (3, 5, [3, 3]) and soft.dtype == flambeau.float64
    assert len(module.layers) == 3 and module.layers[0].in_features == 3 and [m.original_name for m in module.list] == [
        "Linear", "Linear"]
    with pytest.raises(TypeError, match="container"):
        iter(module)
    assert module(x)[0].count == 4


def test_exceptions_are_those_that_the_program_names():
    with pytest.raises(AssertionError, match="expected a matrix") as caught:
        flambeau.jit.load(entry("function.pt"))(flambeau.ones(2), None)
    assert isinstance(caught.value, flambeau.jit.Error)
    network = flambeau.jit.load(entry("network.pt"))
    with pytest.raises(ValueError, match="expected 4D input") as caught:
        network(flambeau.ones(3, 8, 8))
    lines = [str(line) for line in caught.traceback]
    assert any("code" in line or "__torch__" in line for line in lines)  # the program's own lines are in the traceback


def test_map_location():
    module = flambeau.jit.load(entry("traced.pt"), map_location="meta")
    assert all(p.is_meta for p in module.parameters())
    assert flambeau.jit.load(entry("traced.pt"), map_location=flambeau.device("cpu")).conv.weight.device.type == "cpu"


def test_what_is_no_program(tmp_path):
    with pytest.raises(ValueError, match="no file"):
        flambeau.jit.load(tmp_path / "nowhere.pt")
    file = io.BytesIO()
    flambeau.save({"a": 1}, file)
    with pytest.raises(RuntimeError, match="no TorchScript file"):
        flambeau.jit.load(file)
    with pytest.raises(RuntimeError, match="zip archive"):
        flambeau.jit.load(io.BytesIO(b"text"))
    with pytest.raises(RuntimeError, match="program and not data"):
        flambeau.load(entry("traced.pt"))
    with pytest.raises(RuntimeError, match="expected what jit"):
        flambeau.jit.save(nn.Linear(1, 1), file)


def test_damaged_files():
    """Every truncation and every flipped byte is an error of ours, or gives a module."""
    data = entry("function.pt").getvalue()
    for at in range(0, len(data), 97):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1:]):
            try:
                module = flambeau.jit.load(io.BytesIO(damaged))
            except (RuntimeError, NotImplementedError):
                continue
            assert isinstance(module, flambeau.jit.ScriptModule)


def archive(text, state=b"}", version=b"10\n", name="M"):
    """A file whose module is of the class `name` of this text."""
    file = io.BytesIO()
    out = ZipWriter(file)
    stream = b"\x80\x02c__torch__\n" + name.encode() + b"\n)\x81" + state + b"b."
    for path, content in (("data.pkl", stream), ("constants.pkl", b"\x80\x02)."), ("code/__torch__.py", text.encode()),
                          ("version", version)):
        out.put(f"archive/{path}", content)
    out.finish()
    return file


HEAD = "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"


@pytest.mark.parametrize("body", [
    "import os", "return __import__('os')", "return open('x')", "return eval('1')", "return exec('1')",
    "return self.__class__", "return self.__dict__", "return x.__class__", "return getattr(self, '__class__')",
    "return getattr(x, 'numpy')", "return self.save('x')", "return self._modules",
    "return self.register_buffer('a', x)",
    "return torch.save(x, 'x')", "return torch.load('x')", "return torch.from_file('x')", "return torch.compile(x)",
    "return x.numpy()", "return x.tofile('x')", "return x.share_memory_()", "return x.storage()", "return x.set_(x)",
    "return (lambda: x)()", "return [i for i in x.__class__.__mro__]", "class A: pass", "global a", "yield x",
    "return torch.ops.aten.relu(x)", "return torch._C", "return torch.nn.Module()", "return flambeau.ones(1)",
    "return torch.format('{0.__class__}', x)", "return '{0.__class__}'.format(x)", "x.data_ptr = 1", "self.a = 1",
    "return __builtins__", "return globals()", "return vars(self)", "return type(x)", "return object()",
    "return ops.os.system('true')", "return ops.prim.eval('1')", "return (yield)", "async def f(): pass",
    "try:\n      return x\n    except Exception:\n      return x", "return torch.jit.load('x')",
    "return x.register_hook(x)",
    "torch._register('add', x)", "return torch.__class__('x')", "ops.aten._register('add', x)", "return torch._op",
    "return ops.torchvision.__init__('x')", "return torch.nn.functional.refusals('a', 'b', 'c')",
    "return ops.aten.__dict__",
    "self = x\n    return self.a", "return [self.a for self in [x]]", "for self in [x]:\n      return self.a",
    "return x.apply_(abs)", "return x.map_(x, abs)", "return print.__self__", "return CONSTANTS.c0", "return __name__",
])
def test_a_program_reaches_nothing_but_operators(body):
    text = f"{HEAD}  def forward(self: __torch__.M, x: Tensor):\n    {body}\n"
    with pytest.raises((RuntimeError, NotImplementedError, AttributeError, TypeError)):
        flambeau.jit.load(archive(text))(flambeau.ones(2))


@pytest.mark.parametrize("name", ["__class__", "_modules", "state_dict", "__init__", "_forward_hooks", "to"])
def test_a_class_may_not_declare_what_modules_have(name):
    text = f"{HEAD}  {name} : int\n"
    with pytest.raises(RuntimeError, match="may not have an attribute"):
        flambeau.jit.load(archive(text))
    method = f"{HEAD}  def {name}(self: __torch__.M):\n    return 1\n"
    with pytest.raises(RuntimeError, match="may not have an attribute"):
        flambeau.jit.load(archive(method))


def test_what_is_declared_a_module_is_one():
    """Attributes of modules are read without a further look, so a tensor may not take a module's place."""
    inner = "class N(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n  numpy : int\n"
    text = f"{HEAD}  n : __torch__.N\n  def forward(self: __torch__.M, x: Tensor):\n    {{}}\n{inner}"
    number = b"}X\x01\x00\x00\x00nK\x01s"
    with pytest.raises(RuntimeError, match="must be a N, got a int"):
        flambeau.jit.load(archive(text.format("return self.n.numpy"), state=number))
    with pytest.raises(RuntimeError, match="or a module"):
        flambeau.jit.load(archive(text.format("self.n = x")))
    module = b"}X\x01\x00\x00\x00nc__torch__\nN\n)\x81}X\x05\x00\x00\x00numpyK\x03sbs"
    assert flambeau.jit.load(archive(text.format("return self.n.numpy"), state=module))(flambeau.ones(1)) == 3
    with pytest.raises((RuntimeError, AttributeError, TypeError)):
        flambeau.jit.load(archive(text.format("return self.n.numpy()"), state=module))(flambeau.ones(1))


@pytest.mark.parametrize("body", [
    "m = self.n\n    for m in [x]:\n      return m.numpy()", "m, k = self.n, 1\n    m = x\n    return m.numpy()",
    "m = self.n\n    m, k = x, 1\n    return m.numpy()", "m = self.n\n    return [m.numpy() for m in [x]]",
    "m = self.n\n    with m as m:\n      return m.numpy()", "m = k\n    k = m\n    return m.numpy()",
    "def m():\n      return x\n    m = self.n\n    return m.numpy()", "m = self.n\n    m += x\n    return m.numpy()",
])
def test_another_name_for_a_module_is_one_where_it_is_given_once(body):
    inner = "class N(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n  numpy : int\n"
    text = f"{HEAD}  n : __torch__.N\n  def forward(self: __torch__.M, x: Tensor):\n    {body}\n{inner}"
    state = b"}X\x01\x00\x00\x00nc__torch__\nN\n)\x81}X\x05\x00\x00\x00numpyK\x03sbs"
    with pytest.raises((RuntimeError, AttributeError, TypeError, UnboundLocalError)):
        flambeau.jit.load(archive(text, state=state))(flambeau.ones(2))


@pytest.mark.parametrize("name", ["__class__", "____class___getter", "_kind", "__dict__", "_open_names"])
def test_an_object_may_not_declare_what_objects_have(name):
    text = (f"{HEAD}  def forward(self: __torch__.M, x: Tensor):\n    return __torch__.A()\n"
            f"class A:\n  def {name}(self: __torch__.A):\n    return 1\n")
    with pytest.raises(RuntimeError, match="may not have an attribute"):
        flambeau.jit.load(archive(text))


def test_other_files_that_are_refused():
    text = f"{HEAD}  def forward(self: __torch__.M, x: Tensor):\n    return torch.relu(x)\n"
    assert flambeau.jit.load(archive(text))(flambeau.tensor([-1.0])).item() == 0
    with pytest.raises(RuntimeError, match="version 11"):
        flambeau.jit.load(archive(text, version=b"11\n"))
    with pytest.raises(RuntimeError, match="declares no attribute"):
        flambeau.jit.load(archive(text, state=b"}X\x01\x00\x00\x00aK\x01s"))
    with pytest.raises(RuntimeError, match="has no"):
        flambeau.jit.load(archive(text, name="N"))
    with pytest.raises(RuntimeError, match="no module"):
        flambeau.jit.load(archive("class M:\n  a : int\n", state=b"}X\x01\x00\x00\x00aK\x01s"))
    with pytest.raises(NotImplementedError, match=r"ops\.mine\.thing.*not registered"):
        flambeau.jit.load(archive(text.replace("torch.relu", "ops.mine.thing")))(flambeau.ones(1))
    with pytest.raises(RuntimeError):
        flambeau.jit.load(archive("class M(Module:\n"))


def test_division_of_whole_numbers_follows_the_version():
    """Up to version 3 it gave whole numbers."""
    text = f"{HEAD}  def forward(self: __torch__.M, x: Tensor):\n    return torch.div(x, 2)\n"
    x = flambeau.tensor([3, -3])
    assert flambeau.jit.load(archive(text, version=b"3\n"))(x).tolist() == [1, -1]
    assert flambeau.jit.load(archive(text))(x).tolist() == [1.5, -1.5]
    assert flambeau.jit.load(archive(text, version=b"3\n"))(x.float()).tolist() == [1.5, -1.5]


def test_writing_is_atomic(tmp_path):
    path = tmp_path / "net.pt"
    net = flambeau.jit.trace(nn.Linear(2, 1), flambeau.ones(1, 2))
    net.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["net.pt"]
    assert flambeau.equal(flambeau.jit.load(str(path))(flambeau.ones(3, 2)), net(flambeau.ones(3, 2)))
    assert flambeau.jit.load(io.BytesIO(net.save_to_buffer())).weight.shape == (1, 2)
    with pytest.raises(RuntimeError, match="cannot write"):
        net.save(tmp_path / "none" / "net.pt")


def test_names_at_the_top():
    assert flambeau.fork is flambeau.jit.fork and flambeau.ScriptFunction is flambeau.jit.ScriptFunction
    assert flambeau.wait(flambeau.fork(max, 1, 2)) == 2
    file = io.BytesIO()
    flambeau.jit.save(flambeau.jit.trace(nn.ReLU(), flambeau.ones(2)), file)
    unit = flambeau.jit.CompilationUnit()
    extra = {"note": ""}
    for bad in (None, "unit"):
        with pytest.raises(TypeError, match="CompilationUnit"):
            flambeau.import_ir_module(bad, file)
    file.seek(0)
    for module in (flambeau.import_ir_module(unit, file, None, {}),
                   flambeau.import_ir_module_from_buffer(unit, file.getvalue(), "cpu", extra)):
        assert module(flambeau.tensor([-1.0, 2.0])).tolist() == [0, 2]
