"""Primitives come to a program's `__torch_dispatch__` as PyTorch's operators, and mean there what they mean here."""

import math
import sys

import numpy as np
import pytest

import flambeau
from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils._pytree import tree_map

aten = flambeau.ops.aten


class Wrapper(Tensor):
    """Runs operators on what it wraps, and notes them."""

    __torch_function__ = flambeau._C._disabled_torch_function_impl
    calls = []

    @staticmethod
    def __new__(cls, inner):
        made = Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.calls.append((func, args[1:] if isinstance(args[0], Tensor) else args, kwargs or {}))
        args, kwargs = tree_map(lambda x: x.inner if isinstance(x, Wrapper) else x, (args, kwargs or {}))
        return tree_map(lambda x: Wrapper(x) if isinstance(x, Tensor) else x, func(*args, **kwargs))


def seen(compute, *tensors):
    """(result, calls): the calls that reach the wrappers of the tensors."""
    Wrapper.calls = []
    result = compute(*(Wrapper(t) for t in tensors))
    return result, Wrapper.calls


def values(x):
    return (x.inner if isinstance(x, Wrapper) else x).numpy()


def numbers(*shape):
    return flambeau.arange(math.prod(shape), dtype=flambeau.float32).reshape(shape).sin()


#: (what is computed, sizes of the tensors, [operators that arrive])
CALLS = [
    (lambda x: x.narrow(0, 1, 2), [(3, 4)], [aten.slice.Tensor]),
    (lambda x: x[1:], [(3, 4)], [aten.slice.Tensor]),
    (lambda x: x.t().contiguous(), [(3, 4)], [aten.t.default, aten.clone.default]),
    (lambda x: x.reshape(-1), [(3, 4)], [aten.view.default]),
    (lambda x: x.t().reshape(-1), [(3, 4)], [aten.t.default, aten.clone.default, aten.view.default]),
    (lambda x: x.flatten(1), [(2, 3, 4)], [aten.view.default]),
    (lambda x: x.T, [(3, 4)], [aten.permute.default]),
    (lambda x: x.movedim(0, -1), [(2, 3, 4)], [aten.permute.default]),
    (lambda x: x.chunk(2, 1)[1], [(3, 4)], [aten.split.Tensor]),
    (lambda x: x.split(3, 1)[1], [(3, 4)], [aten.split.Tensor]),
    (lambda x, y: x.view_as(y), [(3, 4), (4, 3)], [aten.view.default]),
    (lambda x, y: x.expand_as(y), [(1, 4), (3, 4)], [aten.expand.default]),
    (lambda x: x.max(), [(3, 4)], [aten.max.default]),
    (lambda x: x.max(1)[0], [(3, 4)], [aten.max.dim]),
    (lambda x: x.median(), [(3, 4)], [aten.median.default]),
    (lambda x: x.var(1), [(3, 4)], [aten.var.correction]),
    (lambda x: x.norm(), [(3, 4)], [aten.linalg_vector_norm.default]),
    (lambda x: 1 - x, [(3, 4)], [aten.rsub.Scalar]),
    (lambda x: 2 + x, [(3, 4)], [aten.add.Tensor]),
    (lambda x, y: F.linear(x, y), [(3, 4), (5, 4)], [aten.t.default, aten.mm.default]),
    (lambda x, y, b: F.linear(x, y, b), [(3, 4), (5, 4), (5,)], [aten.t.default, aten.addmm.default]),
    (lambda x, y, b: F.linear(x, y, b), [(2, 3, 4), (5, 4), (5,)],
     [aten.view.default, aten.t.default, aten.addmm.default, aten.view.default]),
    (lambda x, y: x @ y, [(3, 4), (4,)], [aten.mv.default]),
    (lambda x, y: x @ y, [(4,), (4,)], [aten.dot.default]),
    (lambda x, y: x @ y, [(4,), (4, 3)], [aten.unsqueeze.default, aten.mm.default, aten.squeeze.dim]),
    (lambda x, y: x @ y, [(2, 3, 4), (4, 5)], [aten.view.default, aten.mm.default, aten.view.default]),
    (lambda x, y: x @ y, [(2, 3, 4), (4,)], [aten.view.default, aten.mv.default, aten.view.default]),
    (lambda x, y: x @ y, [(2, 3, 4), (2, 4, 5)], None),
    (lambda x, y: x @ y, [(4,), (2, 4, 5)], None),
    (lambda x, y: x @ y, [(6, 1, 3, 4), (2, 4, 5)], None),
    (lambda x: F.softmax(x, -1), [(3, 4)], [aten._softmax.default]),
    (lambda x: F.log_softmax(x, -1), [(3, 4)], [aten._log_softmax.default]),
    (lambda x: F.layer_norm(x, (4,)), [(3, 4)], [aten.native_layer_norm.default]),
    (lambda x: F.group_norm(x, 2), [(3, 4)], [aten.native_group_norm.default]),
    (lambda x, w: F.rms_norm(x, (4,), w), [(3, 4), (4,)], None),
    (lambda x: F.relu6(x), [(3, 4)], [aten.hardtanh.default]),
    (lambda x: x.isfinite(), [(3, 4)], None),
    (lambda x, y: F.mse_loss(x, y), [(3, 4), (3, 4)], [aten.mse_loss.default, aten.mean.default]),
    (lambda x: F.max_pool2d(x, 2), [(1, 2, 4, 4)], [aten.max_pool2d_with_indices.default]),
    (lambda x: F.adaptive_avg_pool2d(x, 1), [(1, 2, 4, 4)], [aten.mean.dim]),
    (lambda x: F.interpolate(x, scale_factor=2), [(1, 2, 4, 4)], [aten.upsample_nearest2d.default]),
    (lambda x: F.interpolate(x, (3, 5), mode="bilinear"), [(1, 2, 4, 4)], [aten.upsample_bilinear2d.default]),
    (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(2, 3, 4), (2, 5, 4), (2, 5, 4)], None),
    (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [(2, 3, 4), (2, 5, 4), (2, 5, 4)], None),
    (lambda x: F.cross_entropy(x, flambeau.tensor([0, 1, 2])), [(3, 4)],
     [aten._log_softmax.default, aten.nll_loss_forward.default]),
    (lambda x: F.embedding(flambeau.tensor([1, 0]), x), [(3, 4)], [aten.embedding.default]),
    (lambda x: flambeau.where(x > 0, x, x), [(3, 4)], [aten.gt.Scalar, aten.where.self]),
    (lambda x: x.fill_(2), [(3, 4)], [aten.fill_.Scalar]),
    (lambda x: x.nonzero(), [(3, 4)], [aten.nonzero.default]),
]


@pytest.mark.parametrize("compute, sizes, operators", CALLS)
def test_a_call_arrives_as_pytorchs_and_computes_the_same(compute, sizes, operators):
    tensors = [numbers(*size) for size in sizes]
    expected = compute(*(t.clone() for t in tensors))
    result, calls = seen(compute, *tensors)
    if operators is not None:
        assert [func for func, *_ in calls] == operators
    assert not any(func.name in ("linear", "matmul", "fused_attention", "rms_norm", "isfinite") for func, *_ in calls)
    assert result.shape == expected.shape and result.dtype == expected.dtype
    np.testing.assert_allclose(values(result), values(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compute, arguments", [
    (lambda x: x.sort(), ()),
    (lambda x: x.sort(1, True), (1, True)),
    (lambda x: x.sum(), ()),
    (lambda x: x.sum(1), ([1],)),
    (lambda x: x.topk(2), (2,)),
    (lambda x: x.argmax(), ()),
    (lambda x: x.relu(), ()),
    (lambda x: x.narrow(0, 1, 2), (0, 1, 3)),
    (lambda x: x[1:], (0, 1, sys.maxsize)),
    (lambda x: x.view(4, 3), ([4, 3],)),
    (lambda x: x.squeeze(0), (0,)),
    (lambda x: F.leaky_relu(x), ()),
    (lambda x: F.max_pool2d(x[None], 2), ([2, 2],)),
])
def test_arguments_end_with_the_last_that_is_not_its_default(compute, arguments):
    assert seen(compute, numbers(3, 4))[1][-1][1] == arguments


def test_a_number_is_asked_for_by_its_operator():
    assert seen(lambda x: x.sum().item(), numbers(3))[1][-1][0] is aten._local_scalar_dense.default


def test_gradients_pass_the_parts():
    x, w, b = (numbers(*size).requires_grad_() for size in ((3, 4), (5, 4), (5,)))
    F.linear(x, w, b).sin().sum().backward()
    wrapped = [Wrapper(t.detach()).requires_grad_() for t in (x, w, b)]
    F.linear(*wrapped).sin().sum().backward()
    for t, like in zip(wrapped, (x, w, b), strict=True):
        np.testing.assert_allclose(values(t.grad), values(like.grad), rtol=1e-5)


def test_out_is_an_argument():
    out = Wrapper(flambeau.empty(3))
    Wrapper.calls = []
    assert flambeau.add(Wrapper(numbers(3)), 1, out=out) is out
    (func, _, kwargs), = Wrapper.calls
    assert func is aten.add.out and kwargs["out"] is out


def test_a_mode_of_a_program_sees_the_same():
    class Names(TorchDispatchMode):
        names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    with Names():
        result = F.linear(numbers(3, 4), numbers(5, 4)).narrow(0, 1, 2)
    assert Names.names[-3:] == ["t", "mm", "slice"] and result.shape == (2, 5)
