"""Module: registration, lookup, walking the tree, conversion, repr, copies, and the path in error messages."""

import copy
import gc
import inspect
import pickle
import traceback
import weakref

import pytest

import flambeau
from flambeau import _absent, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.blocks = nn.ModuleList([nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1))])
        self.register_buffer("scale", flambeau.ones(1))
        self.register_buffer("cache", flambeau.zeros(2), persistent=False)
        self.width = 3

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x * self.scale


PARAMETERS = ["first.weight", "first.bias", "blocks.0.weight", "blocks.0.bias", "blocks.1.1.weight", "blocks.1.1.bias"]


def test_names_of_everything():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == PARAMETERS
    assert [name for name, _ in net.named_buffers()] == ["scale", "cache"]
    assert [name for name, _ in net.named_children()] == ["first", "blocks"]
    assert [name for name, _ in net.named_modules()] == [
        "", "first", "blocks", "blocks.0", "blocks.1", "blocks.1.0", "blocks.1.1"
    ]  # fmt: skip
    assert [name for name, _ in net.named_parameters(prefix="net", recurse=False)] == []
    assert net(flambeau.zeros(4, 2)).shape == (4, 1)
    for name in ("first", "scale", "width", "forward", "training"):
        assert name in dir(net)


def test_shared_members_are_listed_once():
    net = nn.Module()
    net.a = nn.Linear(1, 1)
    net.b = net.a
    net.c = nn.Linear(1, 1)
    net.c.weight = net.a.weight
    assert [name for name, _ in net.named_parameters()] == ["a.weight", "a.bias", "c.bias"]
    assert [name for name, _ in net.named_parameters(remove_duplicate=False)] == [
        "a.weight", "a.bias", "b.weight", "b.bias", "c.weight", "c.bias"
    ]  # fmt: skip
    assert len(list(net.modules())) == 3 and len(list(net.children())) == 2


def test_assignment_decides_the_table():
    m = nn.Module()
    m.x = 3
    m.x = nn.Parameter(flambeau.ones(1))
    assert "x" in m._parameters and "x" not in m.__dict__
    m.x = nn.Linear(1, 1)
    assert "x" in m._modules and not m._parameters
    m.x = nn.Buffer(flambeau.ones(1))
    assert "x" in m._buffers and not m._modules
    m.x = None
    assert m._buffers == {"x": None} and m.x is None
    del m.x
    assert not hasattr(m, "x")
    m.plain = flambeau.ones(2)  # a tensor alone is an ordinary attribute
    assert not m._buffers and "plain" in m.__dict__
    m.quiet = nn.Buffer(flambeau.ones(1), persistent=False)
    assert list(m.state_dict()) == [] and [n for n, _ in m.named_buffers()] == ["quiet"]
    object.__setattr__(m, "hidden", nn.Linear(1, 1))
    assert list(m.children()) == [] and m.hidden.in_features == 1


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda m: setattr(m, "child", 3), TypeError, "cannot assign 'int' as child module 'child'"),
        (lambda m: setattr(m, "p", flambeau.ones(1)), TypeError, "as parameter 'p'"),
        (lambda m: setattr(m, "b", "no"), TypeError, "cannot assign 'str' as buffer 'b'"),
        (lambda m: m.register_parameter("a.b", None), KeyError, "can't contain '.'"),
        (lambda m: m.register_parameter("", None), KeyError, "can't be an empty"),
        (lambda m: m.register_parameter("forward", None), KeyError, "'forward' already exists"),
        (lambda m: m.register_parameter("q", 3), TypeError, r"must be a flambeau\.nn\.Parameter or None"),
        (lambda m: m.register_buffer("q", 3), TypeError, r"must be a flambeau\.Tensor or None"),
        (lambda m: m.register_buffer(3, None), TypeError, "buffer names must be strings"),
        (lambda m: m.add_module("q", 3), TypeError, "int is not a Module subclass"),
        (lambda m: m.missing, AttributeError, "'Module' object has no attribute 'missing'"),
        (lambda m: delattr(m, "missing"), AttributeError, "missing"),
        (lambda m: m.get_submodule("child.x"), AttributeError, "has no attribute `x`"),
        (lambda m: m.get_submodule("p"), AttributeError, "is an attribute and no Module"),
        (lambda m: m.get_parameter("child.in_features"), AttributeError, "not an nn.Parameter"),
        (lambda m: m.train("yes"), ValueError, "mode must be a bool"),
        (lambda m: m(1), NotImplementedError, "a module says what it computes in a method"),
        (lambda m: m.to(flambeau.int64), TypeError, "floating point or complex"),
        (lambda m: m.to(3.5), TypeError, "device, dtype, non_blocking"),
    ],
)
def test_wrong_use(act, error, text):
    m = nn.Module()
    m.child = nn.Linear(1, 1)
    m.p = nn.Parameter(flambeau.ones(1))
    m.register_buffer("b", flambeau.ones(1))
    with pytest.raises(error, match=text):
        act(m)


def test_assignment_before_init():
    class Early(nn.Module):
        def __init__(self):
            self.number = 1
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__"):
        Early()
    with pytest.raises(TypeError, match="unexpected arguments"):
        nn.Module(3)


def test_by_dotted_name():
    net = Net()
    assert net.get_submodule("blocks.1.1") is net.blocks[1][1] and net.get_submodule("") is net
    assert net.get_parameter("blocks.0.bias") is net.blocks[0].bias
    assert net.get_buffer("scale") is net.scale
    net.set_submodule("blocks.1.0", nn.Tanh())
    assert isinstance(net.blocks[1][0], nn.Tanh)
    with pytest.raises(AttributeError):
        net.set_submodule("blocks.1.7", nn.Tanh(), strict=True)


def test_subclass_getattr_falls_back_on_the_tables():
    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.module, name)

        def forward(self, x):
            return self.module(x)

    wrapped = Wrapper(Net())
    assert wrapped.width == 3 and wrapped.first is wrapped.module.first
    assert wrapped(flambeau.zeros(1, 2)).shape == (1, 1)


def test_properties_and_class_attributes_win():
    class Halved(nn.Module):
        kind = "halved"

        def __init__(self):
            super().__init__()
            self.register_parameter("raw", nn.Parameter(flambeau.full((1,), 4.0)))
            self._limit = 1

        @property
        def weight(self):
            return self.raw / 2

        @property
        def limit(self):
            return self._limit

        @limit.setter
        def limit(self, value):
            self._limit = value + 1

    module = Halved()
    assert module.kind == "halved" and module.weight.item() == 2
    module.limit = 4
    assert module.limit == 5 and "limit" not in module.__dict__
    module.limit = [4][0] + 1
    assert module._limit == 6
    with pytest.raises(AttributeError):
        module.weight = 3


def test_forward_of_the_instance_and_own_call():
    layer = nn.Linear(2, 2)
    layer.forward = lambda x: "patched"
    assert layer(flambeau.zeros(2)) == "patched"
    del layer.forward
    assert layer(flambeau.zeros(2)).shape == (2,)

    class Counted(nn.Identity):
        calls = 0

        def __call__(self, *args, **kwargs):
            Counted.calls += 1
            return super().__call__(*args, **kwargs)

    assert Counted()(input=5) == 5 and Counted()(4) == 4 and Counted.calls == 2


def test_call_set_on_the_class_later():
    class Plain(nn.Identity):
        pass

    module = Plain()
    assert module(1) == 1
    Plain.__call__ = lambda self, x: x + 1
    assert module(1) == 2


def test_train_eval_apply_requires_grad():
    net = Net()
    assert not any(m.training for m in net.eval().modules())
    assert all(m.training for m in net.train().modules())
    order = []
    assert net.apply(lambda m: order.append(type(m).__name__)) is net
    assert order == ["Linear", "Linear", "ReLU", "Linear", "Sequential", "ModuleList", "Net"]
    assert not any(p.requires_grad for p in net.requires_grad_(False).parameters())


def test_zero_grad():
    net = Net()
    net(flambeau.ones(1, 2)).sum().backward()
    assert net.first.bias.grad is not None
    net.zero_grad(set_to_none=False)
    assert net.first.bias.grad.tolist() == [0, 0, 0]
    net.zero_grad()
    assert net.first.bias.grad is None


def test_conversion_keeps_the_parameters_identity():
    net = Net()
    net.register_buffer("count", flambeau.zeros(1, dtype=flambeau.int64))
    weight = net.first.weight
    assert net.double() is net and net.first.weight is weight
    assert weight.dtype == flambeau.float64 and net.scale.dtype == flambeau.float64
    assert net.count.dtype == flambeau.int64
    assert net.to(flambeau.bfloat16).first.bias.dtype == flambeau.bfloat16
    assert net.to("cpu", flambeau.float32).first.bias.dtype == flambeau.float32
    assert net.to(flambeau.zeros(1, dtype=flambeau.float64)).first.bias.dtype == flambeau.float64
    assert net.half().first.bias.dtype == flambeau.float16
    assert net.to(device="cpu", dtype=flambeau.float32, non_blocking=True).first.bias.dtype == flambeau.float32
    assert net.cpu() is net and net.float().bfloat16().scale.dtype == flambeau.bfloat16


def test_conversion_takes_the_gradients_along():
    layer = nn.Linear(1, 1)
    layer(flambeau.ones(1)).backward()
    layer.double()
    assert layer.weight.grad.dtype == flambeau.float64 and layer.weight.requires_grad


def test_meta_module_gets_memory():
    layer = nn.Linear(2, 3, device="meta")
    layer.to_empty(device="cpu")
    assert layer.weight.device.type == "cpu" and layer.weight.shape == (3, 2)


def test_repr_of_a_tree():
    class Described(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.ReLU())
            self.nothing = None
            self.register_module("absent", None)

        def extra_repr(self):
            return "a=1\nb=2"

    assert repr(Described()) == (
        "Described(\n  a=1\n  b=2\n  (inner): Sequential(\n    (0): ReLU()\n  )\n  (absent): None\n)"
    )


def test_deepcopy_and_pickle():
    net = Net()
    seen = []
    net.first.register_forward_hook(lambda m, args, out: seen.append(m))
    twin = copy.deepcopy(net)
    assert twin.first.weight is not net.first.weight
    assert flambeau.equal(twin.first.weight, net.first.weight)
    twin(flambeau.zeros(1, 2))
    assert seen == [twin.first]
    shallow = copy.copy(net)
    assert shallow.first is net.first
    again = pickle.loads(pickle.dumps(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))))
    assert isinstance(again[0].weight, nn.Parameter) and again[0].weight.requires_grad
    assert again(flambeau.randn(4, 2)).shape == (4, 2)


def test_deepcopy_keeps_sharing():
    net = nn.Module()
    net.a = nn.Linear(1, 1)
    net.b = net.a
    net.w = net.a.weight
    twin = copy.deepcopy(net)
    assert twin.a is twin.b and twin.w is twin.a.weight


def test_parameter():
    data = flambeau.ones(2)
    param = nn.Parameter(data)
    assert isinstance(param, flambeau.Tensor) and param.requires_grad and param.is_leaf
    assert param.data_ptr() == data.data_ptr() and not data.requires_grad
    with flambeau.no_grad():
        assert nn.Parameter(flambeau.ones(1)).requires_grad
    assert not isinstance(data, nn.Parameter) and not isinstance(param * 2, nn.Parameter)
    assert repr(param) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert nn.Parameter().numel() == 0
    twin = copy.deepcopy(param)
    assert type(twin) is nn.Parameter and twin.data_ptr() != param.data_ptr()
    again = pickle.loads(pickle.dumps(nn.Parameter(data, requires_grad=False)))
    assert type(again) is nn.Parameter and not again.requires_grad and again.tolist() == [1, 1]
    with pytest.raises(RuntimeError):
        nn.Parameter(flambeau.ones(2, dtype=flambeau.int64))


def test_buffer():
    buffer = nn.Buffer(flambeau.ones(2))
    assert isinstance(buffer, nn.Buffer) and not isinstance(flambeau.ones(2), nn.Buffer)
    assert buffer.persistent and not buffer.requires_grad

    class Older(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = nn.Buffer(flambeau.ones(2))

        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor)

    assert list(Older().state_dict()) == ["mean"]


def test_modules_are_collected_with_their_cycles():
    net = Net()
    net.first.parent = [net]  # a cycle that is not registered
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def shown(error):
    return "".join(traceback.format_exception_only(error)).splitlines()


def test_errors_name_the_path():
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(4, 1)))
    with pytest.raises(RuntimeError) as caught:
        net(flambeau.zeros(1, 2))
    assert shown(caught.value)[-2] == "  in: 1.1 (Linear(in_features=4, out_features=1, bias=True))"
    assert shown(caught.value)[-1].startswith("  hint: in_features")
    with pytest.raises(RuntimeError) as caught:
        net[1][1](flambeau.zeros(1, 2))
    assert shown(caught.value)[-2] == "  in: Linear(in_features=4, out_features=1, bias=True)"


def test_errors_keep_their_type_and_name_skipped_levels():
    class Picky(nn.Module):
        def forward(self, x):
            raise KeyError(x)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict({"picky": Picky()})
            self.loose = [Picky()]

        def forward(self, x):
            return self.parts["picky"](x) if x == "in" else self.loose[0](x)

    with pytest.raises(KeyError) as caught:
        Outer()("in")
    assert caught.value.__notes__ == ["  in: parts.picky (Picky())"]
    with pytest.raises(KeyError) as caught:
        Outer()("loose")
    assert caught.value.__notes__ == ["  in: <Picky> (Picky())"]


def test_errors_that_are_handled_leave_no_trace():
    class Careful(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            try:
                return self.inner(x)
            except RuntimeError:
                return None

    assert Careful()(flambeau.zeros(1, 3)) is None


def test_options_for_new_tensors():
    assert nn.factory_kwargs({"dtype": flambeau.float64}) == {"dtype": flambeau.float64}
    assert nn.factory_kwargs(None) == {}
    with pytest.raises(TypeError, match="unexpected"):
        nn.factory_kwargs({"size": 3})
    with pytest.raises(TypeError, match="device is given both as a keyword and in"):
        nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"device": "cpu"}})


def test_options_of_another_compiler_are_said_once_to_change_nothing(monkeypatch):
    monkeypatch.setattr(_absent, "_said", set())
    m = nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="change nothing"):
        m.compile(options={"max_autotune": True})
    m.compile(options={"max_autotune": True})
    fast = flambeau.compile(m, mode="reduce-overhead", fullgraph=True, dynamic=True)
    assert fast(flambeau.ones(1, 2)).shape == (1, 2)


def test_to_takes_non_blocking_after_the_dtype_only():
    for given in (("cpu", True), (None, True), (True,)):
        with pytest.raises(TypeError, match="non_blocking"):
            nn.Linear(1, 1).to(*given)
    for given in (("cpu", None, True), (flambeau.float64, True), (flambeau.ones(1), True)):
        nn.Linear(1, 1).to(*given)


def test_a_module_is_not_copied_by_to():
    layer = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="deepcopy"):
        layer.to("cpu", copy=True)
    assert layer.to("cpu", copy=False) is layer


def test_operators_as_attributes_of_a_class_are_no_methods():
    """kornia keeps the convolution of a loss as an attribute of its class."""
    class Net(nn.Module):
        act, conv = flambeau.relu, flambeau.nn.functional.conv1d

        def forward(self, x):
            return self.act(self.conv(x, weight=flambeau.ones(1, 1, 2)))

    assert Net()(flambeau.tensor([[[1.0, 2.0, -9.0]]])).tolist() == [[[3.0, 0.0]]] and Net.act is flambeau.relu


def test_the_signature_of_a_module():
    """captum asks a model how it is called."""
    class Named(nn.Linear):
        def __call__(self, input, scale=1):
            return super().__call__(input) * scale

    assert str(inspect.signature(nn.Linear(1, 1))) == "(*args, **kwargs)"
    assert str(inspect.signature(nn.ReLU)) == "(inplace=False)"
    assert str(inspect.signature(Named(1, 1))) == "(input, scale=1)"
    assert all(hasattr(nn.Linear, name) for name in dir(nn.Linear))


def test_a_property_that_raises_attributeerror_gives_way_to_what_is_registered():
    class Base(nn.Module):
        @property
        def p(self):
            return super().p

    net = Base()
    with pytest.raises(AttributeError, match="super"):
        _ = net.p
    net.register_buffer("p", flambeau.ones(1))
    assert net.p.tolist() == [1.0]
