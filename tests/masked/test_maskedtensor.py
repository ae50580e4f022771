"""Masked tensors: every family of rules against the values that count, gradients, layouts, and what is refused."""

import copy
import io
import json
import os
import pickle
import subprocess
import sys

import numpy
import pytest

import flambeau
from flambeau import masked
from flambeau.masked import as_masked_tensor, is_masked_tensor, masked_tensor
from flambeau.masked.maskedtensor.rules import RULES
from flambeau.ops.kinds import OPS

from . import cases

X = flambeau.tensor([[0.5, -2, 3], [4, 0.25, -6]])
K = flambeau.tensor([[True, False, True], [False, False, True]])
M = masked_tensor(X, K)
LAYOUTS = {"strided": lambda m: m, "sparse_coo": lambda m: m.to_sparse(), "sparse_csr": lambda m: m.to_sparse_csr()}


def numbers(m):
    """The values that count, with NaN for the others, as NumPy's masked array would fill them."""
    return m.to_dense().detach().to(flambeau.float64).to_tensor(numpy.nan).numpy()


def same(m, expected):
    numpy.testing.assert_allclose(numbers(m), expected.to(flambeau.float64).numpy(), rtol=1e-6)
    return True


def array(m):
    """NumPy's masked array of a strided one."""
    return numpy.ma.masked_array(m.get_data().numpy(), ~m.get_mask().numpy())


UNARY = [name for name, op in OPS.items() if op.kind == "elementwise" and not op.is_inplace
         and name in RULES and not name.startswith("_") and len(op.arguments) == 1]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, layout):
    data = flambeau.tensor([[0.5, 0.2, 0.7], [0.1, 0.3, 0.9]])
    data = (10 * data).to(flambeau.int32) if name.startswith("bitwise") else data
    found = OPS[name](LAYOUTS[layout](masked_tensor(data, K)))
    expected = OPS[name](data)
    assert found.dtype is expected.dtype and found.layout is getattr(flambeau, layout)
    same(found, expected.to(flambeau.float64).masked_fill(~K, numpy.nan))


BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "fmod", "remainder", "atan2", "pow", "eq", "lt", "ge",
          "logaddexp", "hypot", "floor_divide", "true_divide", "greater"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, layout):
    op, other = getattr(flambeau, name), X.abs() + 1
    a, b = LAYOUTS[layout](M), LAYOUTS[layout](masked_tensor(other, K))
    expected = op(X, other).to(flambeau.float64).masked_fill(~K, numpy.nan)
    same(op(a, b), expected)
    if layout == "strided":
        same(op(M, other), expected)
        same(op(other, M), op(other, X).to(flambeau.float64).masked_fill(~K, numpy.nan))
        with pytest.raises(ValueError, match="masks of the arguments differ"):
            op(M, masked_tensor(other, ~K))


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amin", "amax", "std", "var", "all", "any"])
@pytest.mark.parametrize("dim", [None, 0, 1, (0, 1)])
def test_reductions(name, dim):
    if name == "prod" and dim == (0, 1):
        dim = None  # takes one dimension
    x = M > 0 if name in ("all", "any") else M
    found = getattr(x, name)() if dim is None else getattr(flambeau, name)(x, dim)
    reference, options = numpy.ma.masked_array(X.numpy() > 0, ~K.numpy()) if name in ("all", "any") else array(M), {}
    if name in ("std", "var"):
        options = {"ddof": 1}
    with numpy.errstate(all="ignore"):
        expected = getattr(reference, name.removeprefix("a") if name in ("amin", "amax") else name)(dim, **options)
    counts = K.any() if dim is None or dim == (0, 1) else K.any(dim)
    assert flambeau.equal(found.get_mask(), counts)
    expected = numpy.ma.filled(numpy.ma.masked_array(expected, dtype=float), numpy.nan)
    if name in ("std", "var"):  # NumPy masks what has no spread
        numpy.testing.assert_allclose(numpy.nan_to_num(numbers(found)), numpy.nan_to_num(expected), rtol=1e-5)
    else:
        numpy.testing.assert_allclose(numbers(found), expected, rtol=1e-5)


def test_places_and_norms():
    assert M.argmax().item() == 2 and M.argmin(1).get_data().tolist() == [0, 2]
    assert M.to_sparse().argmax().item() == 2
    assert M.norm().item() == pytest.approx((0.25 + 9 + 36)**0.5)
    assert flambeau.logsumexp(M, 1).get_data()[1].item() == pytest.approx(-6)
    same(M.cumsum(1), flambeau.tensor([[0.5, numpy.nan, 3.5], [numpy.nan, numpy.nan, -6]]))
    assert masked.sum(M.get_data(), 1, mask=M.get_mask()).tolist() == M.sum(1).get_data().tolist()


def test_nothing_counts():
    none = masked_tensor(X, flambeau.zeros_like(K))
    for name in ("sum", "amax", "mean", "argmin"):
        found = getattr(none, name)()
        assert not found.get_mask() and str(found) == "MaskedTensor(--, False)"
        with pytest.raises(ValueError, match="masked"):
            found.item()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_reductions_of_all_layouts(layout):
    m = LAYOUTS[layout](M)
    assert m.sum().item() == -2.5 and m.amax().item() == 3 and m.prod().item() == -9
    assert m.mean().item() == pytest.approx(-2.5 / 3)
    if layout != "strided":
        with pytest.raises(TypeError, match="to_dense"):
            m.sum(1)


@pytest.mark.parametrize("move", [
    lambda t: t[0], lambda t: t[:, 1:], lambda t: t[1, 2], lambda t: t[K], lambda t: t[flambeau.tensor([1, 0, 1])],
    lambda t: t.t(), lambda t: t.T, lambda t: t.reshape(3, 2), lambda t: t.view(6), lambda t: t.flatten(),
    lambda t: t.permute(1, 0), lambda t: t.unsqueeze(0).expand(2, 2, 3), lambda t: t.unsqueeze(1).squeeze(1),
    lambda t: flambeau.cat([t, t], 1), lambda t: flambeau.stack([t, t]), lambda t: t.split(2, 1)[1],
    lambda t: t.chunk(2)[1], lambda t: t.unbind(1)[2], lambda t: list(t)[1], lambda t: t.flip(0), lambda t: t.roll(1),
    lambda t: t.narrow(1, 0, 2), lambda t: t.unfold(1, 2, 1), lambda t: t.index_select(1, flambeau.tensor([2, 0])),
    lambda t: t.gather(1, flambeau.tensor([[0], [2]])), lambda t: t.repeat(2, 1), lambda t: t.clone(),
    lambda t: t.contiguous(), lambda t: t.diagonal()])
def test_moves(move):
    found = move(M)
    assert flambeau.equal(found.get_data(), move(X)) and flambeau.equal(found.get_mask(), move(K))


def test_views_share_memory():
    m = masked_tensor(X, K)
    m[0].mul_(2)
    assert m.get_data()[0].tolist() == [1, -4, 6] and X[0, 0] == 0.5


def test_joined_with_plain():
    assert flambeau.cat([M, X]).get_mask().tolist() == [*K.tolist(), [True] * 3, [True] * 3]
    assert flambeau.where(K, M, X).get_mask().all() and flambeau.where(K, M, 0.0).get_mask().all()
    assert not flambeau.where(K, X, M).get_mask()[0, 1]


def test_products():
    zeroed = X.masked_fill(~K, 0)
    found = M @ M.t()
    assert flambeau.equal(found.get_data(), zeroed @ zeroed.t()) and found.get_mask().all()
    pairs = M.t() @ M
    assert pairs.get_mask().tolist() == [[True, False, True], [False] * 3, [True, False, True]]
    weight = flambeau.arange(6.0).reshape(2, 3)
    assert flambeau.equal(flambeau.nn.functional.linear(M, weight, flambeau.ones(2)).get_data(),
                          zeroed @ weight.t() + 1)


def test_normalisations():
    for name in ("softmax", "log_softmax"):
        found = getattr(flambeau, name)(M, 1)
        flambeau.testing.assert_close(found.get_data()[0][K[0]], getattr(X[0][K[0]], name)(0))
        assert flambeau.equal(found.get_mask(), K)


class TestGradients:
    def test_leaves(self):
        m = masked_tensor(X, K, requires_grad=True)
        for _ in range(2):
            (3 * m).sum().backward()
        assert is_masked_tensor(m.grad) and flambeau.equal(m.grad.get_mask(), K)
        same(m.grad, flambeau.full((2, 3), 6.0).masked_fill(~K, numpy.nan))

    def test_what_does_not_count_gets_none(self):
        x = flambeau.tensor([1.0, numpy.nan, numpy.inf], requires_grad=True)
        kept = flambeau.tensor([True, False, False])
        (as_masked_tensor(x, kept).exp() * 2).mean().backward()
        assert is_masked_tensor(x.grad) and x.grad.to_tensor(0).tolist() == pytest.approx([2 * numpy.e, 0, 0])

    def test_through_other_operators(self):
        x = flambeau.ones(3, requires_grad=True)
        (as_masked_tensor(x * 2, flambeau.tensor([True, False, True])) * 3).sum().backward()
        assert x.grad.to_tensor(0).tolist() == [6, 0, 6]

    def test_the_other_argument(self):
        other = flambeau.ones(2, 3, requires_grad=True)
        (M * other).sum().backward()
        assert flambeau.equal(other.grad, X.masked_fill(~K, 0))

    def test_where(self):
        x = flambeau.tensor([-10.0, 0, 200], requires_grad=True)
        low = x < 100
        y = flambeau.where(low, as_masked_tensor(x, low).exp(), masked_tensor(flambeau.ones(3), ~low))
        y.sum().backward()
        assert x.grad.to_tensor(0).tolist() == pytest.approx([numpy.exp(-10.0), 1, 0])

    @pytest.mark.parametrize("function", [
        lambda m: m.sum(1), lambda m: m.mean(0), lambda m: m[:, 2:].var(0), lambda m: m.amax(), lambda m: m.softmax(1),
        lambda m: m[:, 1:] * m[:, 1:], lambda m: m.to_sparse().sin().to_dense(), lambda m: m.reshape(3, 2).cumsum(0),
        lambda m: (m.to_sparse_csr() * m.to_sparse_csr()).to_dense(), lambda m: m @ m.t(), lambda m: m.clamp(-1, 2)])
    def test_is_right(self, function):
        def values(x):
            found = function(as_masked_tensor(x, K))
            return found.get_data()[found.get_mask()]
        x = X.double().requires_grad_()
        values(x).sum().backward()
        step, grad = 1e-6, x.grad.to_tensor(0) if is_masked_tensor(x.grad) else x.grad
        for place in numpy.argwhere(K.numpy()):
            moved = X.double()
            moved[tuple(place)] += step
            slope = (values(moved).sum() - values(X.double()).sum()) / step
            assert grad[tuple(place)].item() == pytest.approx(slope.item(), abs=1e-4)

    def test_integers_have_none(self):
        with pytest.raises(RuntimeError, match="float"):
            masked_tensor(X.long(), K, requires_grad=True)

    def test_data_and_tensor(self):
        m = masked_tensor(X, K, requires_grad=True)
        (m.to_tensor(7.0) * 2).sum().backward()
        same(m.grad, flambeau.full((2, 3), 2.0).masked_fill(~K, numpy.nan))
        assert m.get_data().requires_grad and not m.data.requires_grad


class TestInPlace:
    def test_values_change_and_the_mask_stays(self):
        m = masked_tensor(X, K)
        m.add_(1).mul_(M).exp_()
        same(m, ((X + 1) * X).exp().masked_fill(~K, numpy.nan))
        assert m.zero_().sum().item() == 0 and m.fill_(2).sum().item() == 6 and m.copy_(M).sum().item() == -2.5
        sparse = M.to_sparse()
        assert sparse.mul_(2) is sparse and sparse.sum().item() == -5

    def test_history(self):
        x = flambeau.ones(2, 3, requires_grad=True)
        m = as_masked_tensor(x, K) * 1
        m.mul_(5)
        m.sum().backward()
        assert x.grad.to_tensor(0).sum().item() == 15

    def test_refused(self):
        leaf = masked_tensor(X, K, requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf"):
            leaf.add_(1)
        with pytest.raises(TypeError, match="has no mask"):
            X.clone().add_(M)
        with pytest.raises(ValueError, match="mask"):
            masked_tensor(X, K).copy_(masked_tensor(X, ~K))
        with pytest.raises(TypeError, match="__setitem__"):
            M[0] = 1.0
        with pytest.raises(TypeError, match="out="):
            flambeau.add(M, M, out=M.clone())


class TestMaking:
    def test_copies(self):
        x, k = X.clone(), K.clone()
        m = masked_tensor(x, k)
        x.zero_(), k.fill_(True)
        assert m.sum().item() == -2.5

    @pytest.mark.parametrize("error, data, mask, text", [
        (TypeError, 3, K, "data must be a plain tensor"), (TypeError, M, K, "data must be a plain tensor"),
        (TypeError, X, [True], "mask must be a plain tensor"), (TypeError, X, K.int(), "dtype bool"),
        (ValueError, X, K[0], "one shape"), (TypeError, X.to_sparse(), K, "one layout"),
        (TypeError, X.to_sparse_csc(), K.to_sparse_csc(), "layout must be one of"),
        (TypeError, X * 1j, K, "complex")])
    def test_refused(self, error, data, mask, text):
        for make in (masked_tensor, as_masked_tensor):
            with pytest.raises(error, match=text):
                make(data, mask)

    def test_sparse(self):
        places = K.to_sparse()
        m = masked_tensor(X.sparse_mask(places), places)
        assert m.layout is flambeau.sparse_coo and m.is_sparse and m.is_sparse_coo() and not m.is_sparse_csr()
        same(m, X.masked_fill(~K, numpy.nan))
        assert masked_tensor(X.to_sparse(), places).sum().item() == -2.5  # data may have more values than the mask
        other = flambeau.sparse_coo_tensor(flambeau.tensor([[0, 0, 1], [0, 1, 2]]), flambeau.ones(3), (2, 3))
        with pytest.raises(ValueError, match="same places"):
            masked_tensor(other, places)
        assert M.to_sparse().to_tensor(9.0)[0, 1] == 9
        assert M.to_sparse().to_sparse_csr().to_sparse().sum().item() == -2.5

    def test_a_tensor_with_history(self):
        x = X.clone().requires_grad_()
        with pytest.warns(UserWarning, match="leaf"):
            m = masked_tensor(x, K, requires_grad=True)
        m.sum().backward()
        assert x.grad is None and m.grad is not None

    def test_parameters(self):
        parameter = flambeau.nn.Parameter(masked_tensor(X, K))
        assert is_masked_tensor(parameter) and parameter.requires_grad


class TestAround:
    def test_text(self):
        assert repr(M) == ("MaskedTensor(\n  [\n    [  0.5000,       --,   3.0000],\n"
                           "    [      --,       --,  -6.0000]\n  ]\n)")
        assert repr(M.sum()) == "MaskedTensor( -2.5000, True)"
        assert repr((M > 0)[0]) == "MaskedTensor(\n  [True,       --, True]\n)"
        assert repr(M.to_sparse()) == repr(M)

    def test_copies(self):
        for layout in LAYOUTS.values():
            m = layout(masked_tensor(X, K))
            for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m)), m.clone(), m.detach()):
                same(other, X.masked_fill(~K, numpy.nan))
                assert other.layout is m.layout
        assert M.double().dtype is flambeau.float64 and M.to("meta").device.type == "meta"
        with pytest.raises(TypeError):
            flambeau.save(M, io.BytesIO())

    def test_shape(self):
        assert M.shape == (2, 3) and len(M) == 2 and M.stride() == (3, 1) and M.is_contiguous()
        assert not M.t().is_contiguous() and M.t().contiguous().is_contiguous()
        for method in ("contiguous", "is_contiguous"):
            with pytest.raises(ValueError, match="no order"):
                getattr(M.to_sparse(), method)()

    def test_numbers(self):
        one = masked_tensor(flambeau.tensor(3), flambeau.tensor(True))
        assert int(one) == float(one) == one.item() == 3 and bool(one)
        for name in ("numpy", "tolist"):
            with pytest.raises(RuntimeError, match="to_tensor"):
                getattr(M, name)()

    def test_refused_operators(self):
        for call in (lambda: M.max(), lambda: M.sort(), lambda: M.median(), lambda: M.topk(1)):
            with pytest.raises(TypeError, match="not available for masked tensors"):
                call()

    def test_like(self):
        assert flambeau.ones_like(M).sum().item() == 3 and flambeau.zeros_like(M).get_mask().tolist() == K.tolist()
        assert flambeau.allclose(M, M) and is_masked_tensor(M) and not is_masked_tensor(X)


@pytest.mark.parity
def test_pytorch_has_the_same_results():
    python = os.environ.get("FLAMBEAU_TORCH_PYTHON", sys.executable)
    done = subprocess.run([python, cases.__file__, "torch"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{python} has no PyTorch; set FLAMBEAU_TORCH_PYTHON to one that has")
    assert cases.results("flambeau") == json.loads(done.stdout)
