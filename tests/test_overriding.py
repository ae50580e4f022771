"""Who is asked before a function runs: modes of this thread, then classes, each in the form that it has."""

import pytest

import flambeau
from flambeau import Tensor
from flambeau._tensor.overriding import DisableTorchFunctionSubclass, disable_torch_function
from flambeau.overrides import TorchDispatchMode, TorchFunctionMode
from flambeau.utils._mode_utils import all_same_mode, no_dispatch
from flambeau.utils._pytree import tree_map


class Answer(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func.__name__, args, kwargs or {}


@pytest.mark.parametrize("make, answer", [
    (lambda: flambeau.tensor([1], dtype=flambeau.int8), ("tensor", ([1],), {"dtype": flambeau.int8})),
    (lambda: flambeau.tensor([1.0], requires_grad=True), ("tensor", ([1.0],), {"requires_grad": True})),
    (lambda: flambeau.as_tensor([1]), ("as_tensor", ([1],), {})),
    (lambda: flambeau.asarray([1], copy=False), ("asarray", ([1],), {"copy": False})),
    (lambda: flambeau.sparse_coo_tensor([[0]], [1.0]), ("sparse_coo_tensor", ([[0]], [1.0]), {})),
    (lambda: flambeau.sparse_csr_tensor([0, 1], [0], [1.0]), ("sparse_csr_tensor", ([0, 1], [0], [1.0]), {})),
])
def test_modes_are_asked_for_tensors_of_data(make, answer):
    with Answer():
        assert make() == answer


def test_a_mode_may_choose_the_device_of_all_that_is_made():
    class OnMeta(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **{"device": "meta", **(kwargs or {})})

    with OnMeta():
        assert flambeau.tensor([1.0]).is_meta and flambeau.ones(2).is_meta and flambeau.as_tensor([1]).is_meta


def test_a_mode_that_declines_subclasses_is_asked_again_without_them():
    class Own(Tensor):
        pass

    class Plain(TorchFunctionMode):
        seen = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.seen.append(types)
            return NotImplemented if any(t is not Tensor for t in types) else func(*args, **(kwargs or {}))

    own = flambeau.ones(2).as_subclass(Own)
    with Plain():
        assert type(flambeau.neg(own)) is Own
    assert Plain.seen == [(Own,), ()]


@pytest.mark.parametrize("kind, protocol", [(TorchFunctionMode, "__torch_function__"),
                                            (TorchDispatchMode, "__torch_dispatch__")])
def test_a_modes_method_is_a_plain_one(kind, protocol):
    mode = type("Mode", (kind,), {protocol: classmethod(lambda *_: None)})()
    with pytest.raises(RuntimeError, match="classmethod"):
        mode.__enter__()


def test_a_plain_method_of_a_class_gets_its_object():
    class Old:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return self, func.__name__

    old = Old()
    with pytest.warns(DeprecationWarning, match="classmethod"):
        assert flambeau.neg(old) == (old, "neg")


def test_modes_are_asked_before_a_tensor_is_read_as_a_number():
    seen = []

    class Sees(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((func.__name__, [type(a) for a in args]))
            return 1.0 if func.__name__ == "full" else func(*args, **(kwargs or {}))

    with Sees():
        made = flambeau.full((3,), flambeau.zeros((), device="meta"))  # it has no value that could be read
        flambeau.ones(4).narrow(0, 1, flambeau.tensor(2))
    assert made == 1.0 and ("full", [tuple, flambeau.Tensor]) in seen
    assert ("narrow", [flambeau.Tensor, int, int, flambeau.Tensor]) in seen


def test_every_tensor_of_a_result_has_the_class():
    class Kind(flambeau.Tensor):
        pass

    x = flambeau.tensor([[3.0, 1.0], [2.0, 4.0]]).as_subclass(Kind)
    largest = x.max(0)
    assert type(largest) is flambeau.return_types.max and type(largest.values) is type(largest.indices) is Kind
    assert type(x.data) is Kind and type(flambeau.nn.Parameter(flambeau.ones(1)).data) is flambeau.Tensor
    x.data.zero_()
    assert not x.any() and x._version == 0


def test_printing_and_hooks_ask_modes_and_classes():
    class Says(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return "said" if func is flambeau.Tensor.__repr__ else func(*args, **(kwargs or {}))

    class Own(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "own" if func is Tensor.__repr__ else super().__torch_function__(func, types, args, kwargs)

    seen, x = [], flambeau.ones((), requires_grad=True)
    with Says():
        assert (repr(x), str(x), f"{x:.2f}") == ("said", "said", "1.00")
        x.register_hook(lambda g: g)
        x.backward()
    assert seen == ["__repr__", "__repr__", "__format__", "register_hook", "backward"]
    own = flambeau.ones(2).as_subclass(Own)
    assert (repr(own), str(own)) == ("own", "own") and 1.0 in own


def test_the_gradient_of_a_wrapper_is_a_wrapper():
    class Wrapper(Tensor):
        @staticmethod
        def __new__(cls, value):
            made = Tensor._make_wrapper_subclass(cls, value.shape, dtype=value.dtype)
            made.value = value
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            def value(x):
                return x.value if isinstance(x, Wrapper) else x
            result = func(*tree_map(value, args), **tree_map(value, kwargs or {}))
            return tree_map(lambda x: Wrapper(x) if isinstance(x, Tensor) else x, result)

    x = Wrapper(flambeau.ones(2)).requires_grad_()
    (x * 3).sum().backward()
    assert type(x.grad) is Wrapper and x.grad.value.tolist() == [3, 3]


def test_operators_come_to_dispatch_under_their_names():
    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen, x = [], flambeau.ones(2, 3)
    with Names():
        (x + 1).sum().sqrt_()
        x[0].flatten().softmax(0)
    assert seen == ["aten.add.Tensor", "aten.sum.default", "aten.sqrt_.default", "aten.select.int", "aten.view.default",
                    "aten._softmax.default"]


def test_functions_on_tensors_ask_what_is_like_a_tensor():
    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    like = Like()
    for function in (flambeau.numel, flambeau.is_complex, flambeau.is_floating_point, flambeau.is_nonzero,
                     flambeau.nn.init.normal_, flambeau.nn.init.kaiming_uniform_):
        assert function(like) == function.__name__


@pytest.mark.parametrize("optimizer", [flambeau.optim.SGD, flambeau.optim.Adam, flambeau.optim.RMSprop])
def test_dispatch_modes_see_what_optimizers_do(optimizer):
    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen, nets = [], [flambeau.nn.Linear(3, 2) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    for net in nets:
        net(flambeau.ones(4, 3)).pow(2).sum().backward()
    optimizer(nets[0].parameters(), lr=0.1).step()
    with Names():
        optimizer(nets[1].parameters(), lr=0.1).step()
    assert "aten.add_.Tensor" in seen or "aten.addcdiv_.default" in seen
    flambeau.testing.assert_close(nets[0].weight, nets[1].weight)


def test_the_spaces_of_overridable_functions():
    known = flambeau.overrides.get_overridable_functions()
    assert flambeau.add in known[flambeau] and flambeau.fft.fft in known[flambeau.fft] and known[pytest] == []


def test_a_class_goes_past_its_own_dispatch():
    class Doubled(Tensor):
        __torch_function__ = flambeau._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            with no_dispatch():
                return func(*args, **(kwargs or {})) * 2

    x = flambeau.Tensor._make_subclass(Doubled, flambeau.ones(2, dtype=flambeau.complex64))
    assert x.abs().tolist() == [2, 2] and x.conj().exp().shape == (2,) and all_same_mode([x, x])


class Asked(Tensor):
    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("use, func", [
    (lambda x: x.detach(), Tensor.detach), (lambda x: x.to(flambeau.float64), Tensor.to),
    (lambda x: x.half(), Tensor.half), (lambda x: x.cpu(), Tensor.cpu), (lambda x: x.numpy(), Tensor.numpy),
    (lambda x: x.requires_grad_(), Tensor.requires_grad_), (lambda x: x.type_as(flambeau.ones(1)), Tensor.type_as),
    (lambda x: x.size(), Tensor.size), (lambda x: x.sum().item(), Tensor.item), (len, Tensor.__len__),
    (repr, Tensor.__repr__), (lambda x: x.data, Tensor.data.__get__), (lambda x: x.shape, Tensor.shape.__get__),
    (lambda x: x.T, Tensor.T.__get__), (lambda x: setattr(x, "grad", None), Tensor.grad.__set__),
    (lambda x: x.add(1), Tensor.add)])
def test_a_class_is_asked_for_methods_and_attributes(use, func):
    x = flambeau.ones(2, 2).as_subclass(Asked)
    Asked.seen.clear()
    result = use(x)
    assert Asked.seen[-1] == func
    assert type(result) is Asked or not isinstance(result, Tensor)
    with DisableTorchFunctionSubclass():
        use(x)
    with disable_torch_function():
        use(x)
    assert Asked.seen[-1] == func and len(Asked.seen) <= 2


def test_what_a_class_defines_itself_is_not_asked_for():
    class Own(Asked):
        @property
        def shape(self):
            return "mine"

        def detach(self):
            return 3

    x = flambeau.ones(2).as_subclass(Own)
    Asked.seen.clear()
    assert x.shape == "mine" and x.detach() == 3 and not Asked.seen


def test_data_and_new_tensors_have_the_class():
    class Plain(Tensor):
        pass

    x = flambeau.ones(2).as_subclass(Plain)
    assert [type(y) for y in (x.data, x.new(2), x.new_tensor([1.0]), x.new_zeros(2), x.detach())] == [Plain] * 5
    x.data = flambeau.zeros(3)
    assert x.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="strided"):
        flambeau.ones(2).as_subclass(Asked).indices()
