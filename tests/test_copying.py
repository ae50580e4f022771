"""Copying and pickling tensors."""

import copy
import pickle

import pytest

import flambeau


def same(a, b):
    return a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride() and a.tolist() == b.tolist()


@pytest.mark.parametrize("protocol", range(2, 6))
def test_pickle(protocol):
    base = flambeau.arange(12.0).reshape(3, 4)
    tensors = [base, base[1], base.t(), base[:, ::2], flambeau.ones(2, dtype=flambeau.bfloat16), flambeau.tensor(3),
               flambeau.empty(0, 2), flambeau.tensor([1 + 2j]), flambeau.ones(2, requires_grad=True)]
    again = pickle.loads(pickle.dumps(tensors, protocol))
    for a, b in zip(tensors, again, strict=True):
        assert same(a, b)
        assert a.requires_grad == b.requires_grad
    again[1].fill_(7)
    assert again[0][1].tolist() == [7.0] * 4
    assert base[1].tolist() == [4.0, 5.0, 6.0, 7.0]


def test_pickle_of_others():
    p = pickle.loads(pickle.dumps(flambeau.nn.Parameter(flambeau.ones(2))))
    assert isinstance(p, flambeau.nn.Parameter)
    assert p.requires_grad
    assert pickle.loads(pickle.dumps(flambeau.ones(2, 3, device="meta"))).is_meta
    assert pickle.loads(pickle.dumps(flambeau.float16)) is flambeau.float16
    assert pickle.loads(pickle.dumps(flambeau.Size((1, 2)))) == (1, 2)
    joined = (3,) + flambeau.Size([1])
    assert joined == (3, 1) and type(joined) is flambeau.Size is type(flambeau.Size([1]) + (3,))
    assert pickle.loads(pickle.dumps(flambeau.device("cpu"))) == flambeau.device("cpu")


def test_deepcopy():
    base = flambeau.arange(4.0)
    a, b, c = copy.deepcopy([base, base[1:], base])
    assert a is c
    b.fill_(9)
    assert a.tolist() == [0, 9, 9, 9]
    assert base.tolist() == [0, 1, 2, 3]
    leaf = flambeau.ones(2, requires_grad=True)
    (leaf * 3).sum().backward()
    leaf.note = ["text"]
    again = copy.deepcopy(leaf)
    assert again.requires_grad
    assert again.grad.tolist() == [3.0, 3.0]
    assert again.grad is not leaf.grad
    assert again.note == ["text"]
    assert again.note is not leaf.note
    with pytest.raises(RuntimeError, match="only leaves are copied"):
        copy.deepcopy(leaf * 2)
    assert copy.deepcopy(flambeau.ones(2, device="meta")).is_meta


def test_a_view_without_elements_may_begin_past_its_memory():
    x = flambeau.ones(0, 3)[:, 1:]
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert other.shape == (0, 2) and other.stride() == (3, 1)


def test_shallow_copy_shares_memory():
    x = flambeau.zeros(3)
    y = copy.copy(x)
    assert y is not x
    y.fill_(1)
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_subclasses_keep_their_type():
    class Mine(flambeau.Tensor):
        pass

    x = flambeau.ones(2).as_subclass(Mine)
    x.tag = 5
    again = copy.deepcopy(x)
    assert type(again) is Mine
    assert again.tag == 5


def test_resize_keeps_what_is_there_and_leaves_views_their_memory():
    x = flambeau.arange(4.0)
    y = x[1:3]
    assert x.resize_(100_000).shape == (100_000,)
    assert x[:4].tolist() == [0.0, 1.0, 2.0, 3.0] and y.tolist() == [1.0, 2.0]
    y.fill_(7)
    assert y.tolist() == [7.0, 7.0]
    assert x.resize_(2, 2).tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_arrays_beside_tensors_act_as_tensors():
    np = pytest.importorskip("numpy")
    t, a = flambeau.tensor([1.0, 2.0]), np.array([3.0, 4.0], dtype=np.float32)
    for result in (t * a, a * t):
        assert isinstance(result, flambeau.Tensor) and result.tolist() == [3.0, 8.0]
    assert (a > t).tolist() == [True, True] and (t - a).dtype == flambeau.float32


def test_a_tensor_that_is_there_stays_itself():
    for device in ("cpu", "meta"):
        x = flambeau.ones(3, device=device)
        assert x.to(device) is x and x.to(flambeau.device(device)) is x and x.to(x.device) is x
    x = flambeau.ones(3)
    assert x.cpu() is x and x.cpu(flambeau.contiguous_format) is x
    assert x.to("meta").is_meta and x.to("cpu", copy=True) is not x
    with pytest.raises(RuntimeError, match="nowhere"):
        x.to("nowhere")


class Wrapper(flambeau.Tensor):
    """A tensor that holds another one and no memory."""

    __torch_function__ = flambeau._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held):
        return flambeau.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, device=held.device)

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def inner(x):
            return x.held if isinstance(x, Wrapper) else x

        result = func(*map(inner, args), **{key: inner(x) for key, x in (kwargs or {}).items()})
        return cls(result) if isinstance(result, flambeau.Tensor) else result


def test_a_wrapper_is_copied_with_what_it_holds():
    module = flambeau.nn.Linear(2, 2)
    module.weight = flambeau.nn.Parameter(Wrapper(flambeau.ones(2, 2)))
    copied = copy.deepcopy(module)
    assert type(copied.weight) is Wrapper and isinstance(copied.weight, flambeau.nn.Parameter)
    copied.weight.held.zero_()
    assert module.weight.held.tolist() == [[1, 1], [1, 1]] and copied.weight.requires_grad
    module.to(flambeau.float64)
    assert module.weight.held.dtype is flambeau.float64 and isinstance(module.weight, flambeau.nn.Parameter)
