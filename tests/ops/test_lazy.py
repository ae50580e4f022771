"""Conjugates and negatives that are views: every operator sees their values, and writes go through them."""

import copy
import io
import pickle

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck
from flambeau.func import grad, jvp, vmap

Z = [1 + 2j, -3 + 0.5j, 0.25 - 4j]


def numbers(**options):
    return flambeau.tensor(Z, dtype=flambeau.complex128, **options)


LAZY = {
    "conj": lambda z: z.conj(),
    "imag of conj": lambda z: z.conj().imag,
    "real of conj": lambda z: z.conj().real,
    "conj of conj": lambda z: z.conj().conj(),
    "negative": lambda z: z._neg_view(),
    "negative conj": lambda z: z.conj()._neg_view(),
    "part": lambda z: z.conj()[1:],
    "transposed": lambda z: z.reshape(3, 1).mH,
}


@pytest.fixture(params=LAZY)
def pair(request):
    """A lazy view, its values computed by NumPy, and the tensor that it is a view of."""
    z = numbers()
    a = z.numpy().copy()
    wanted = {"conj": a.conj(), "imag of conj": -a.imag, "real of conj": a.real, "conj of conj": a, "negative": -a,
              "negative conj": -a.conj(), "part": a.conj()[1:], "transposed": a.reshape(3, 1).conj().T}[request.param]
    return LAZY[request.param](z), wanted, z


def values(x):
    return x.resolve_conj().resolve_neg().numpy()


def test_every_way_of_reading_sees_the_values(pair):
    x, wanted, z = pair
    assert x.untyped_storage().data_ptr() == z.untyped_storage().data_ptr() and x._is_view()
    assert x.tolist() == wanted.tolist() and np.array_equal(x.numpy(force=True), wanted)
    assert x.flatten()[0].item() == wanted.flatten()[0]
    assert repr(x) == repr(flambeau.from_numpy(wanted.copy()))
    for read in (lambda x: x + 1, lambda x: 2 * x, lambda x: x.sum(0), lambda x: flambeau.cat([x, x]),
                 lambda x: x.clone(), lambda x: x.reshape(-1), lambda x: x.to(flambeau.complex64), abs,
                 lambda x: flambeau.stack([x, x]), lambda x: flambeau.tensor(x.tolist()),
                 lambda x: flambeau.atleast_2d(x) @ x.t(),
                 lambda x: x.unsqueeze(0).expand(2, *x.shape).contiguous(), lambda x: flambeau.where(x == x, x, 0),
                 lambda x: flambeau.fft.fft(x), lambda x: x.cumsum(0), lambda x: x[..., :1].squeeze()):
        found, plain = read(x), read(flambeau.from_numpy(wanted.copy()))
        assert found.dtype == plain.dtype and np.array_equal(values(found), values(plain))
    assert flambeau.equal(x, flambeau.from_numpy(wanted.copy()))


def test_writes_go_through(pair):
    x, wanted, z = pair
    for write in (lambda x: x.mul_(3), lambda x: x.copy_(x + 1), lambda x: x.add_(x), lambda x: x.zero_(),
                  lambda x: x.fill_(2), lambda x: x.flatten()[0].add_(5), lambda x: flambeau.sub(x, 1, out=x),
                  lambda x: x.__setitem__(0, 7), lambda x: x.clamp_(min=0) if not x.is_complex() else x.sgn_(),
                  lambda x: x.cumsum_(0), lambda x: x.index_fill_(0, flambeau.tensor([0]), 4)):
        plain = flambeau.from_numpy(wanted.copy())
        version = z._version
        write(x), write(plain)
        wanted = plain.numpy()
        assert np.array_equal(values(x), wanted) and z._version > version
    again = LAZY  # what the base holds is the other value
    assert any(np.array_equal(values(make(z)), wanted) for make in again.values() if make(z).shape == x.shape)


def test_flags():
    z = numbers()
    assert z.conj().is_conj() and not z.conj().is_neg() and not z.conj().conj().is_conj()
    assert z.conj().imag.is_neg() and not z.conj().imag.is_conj() and not z.conj().real.is_neg()
    assert flambeau.is_conj(z.reshape(3, 1).mH) and flambeau.is_neg(z._neg_view())
    for fresh in (z.conj().clone(), z.conj() + 0, z.conj().resolve_conj(), flambeau.conj_physical(z), z.conj().sum()):
        assert not fresh.is_conj()
    x = flambeau.ones(2)
    assert x.conj() is x and not x.is_conj() and x.resolve_conj() is x and x.resolve_neg() is x
    assert z.conj().detach().is_conj() and z.conj().data.is_conj()


def test_what_cannot_be_seen_otherwise():
    z = numbers().conj()
    with pytest.raises(RuntimeError, match="resolve_conj"):
        z.numpy()
    with pytest.raises(RuntimeError, match="resolve_conj"):
        flambeau.view_as_real(z)
    with pytest.raises(RuntimeError, match="resolve_neg"):
        z.imag.view(flambeau.int64)
    with pytest.raises(BufferError, match="resolve_conj"):
        memoryview(z)
    with pytest.raises(BufferError, match="resolve_conj"):
        z.__dlpack__()
    with pytest.raises(RuntimeError, match="bool"):
        flambeau.tensor([True])._neg_view()


def test_copies_and_files_keep_them():
    z = numbers()
    for x in (z.conj(), z.conj().imag, z._neg_view()):
        file = io.BytesIO()
        flambeau.save({"x": x, "z": z}, file)
        file.seek(0)
        loaded = flambeau.load(file)
        for found in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), loaded["x"]):
            assert found.tolist() == x.tolist() and (found.is_conj(), found.is_neg()) == (x.is_conj(), x.is_neg())
        loaded["z"].zero_()
        assert not any(loaded["x"].tolist())  # they share memory, as before


def test_derivatives():
    def through(z):
        return (z.conj() * z.conj().imag + z.mT.mH.conj() @ z.mH)._neg_view()

    z = flambeau.randn(3, 3, dtype=flambeau.complex128, requires_grad=True)
    assert gradcheck(through, (z,), check_forward_ad=True)
    y = flambeau.randn(3, dtype=flambeau.complex128, requires_grad=True)

    def written(y):
        x = y.clone()
        x.conj()[1:].mul_(y[:2])
        x.conj().imag.mul_(2)
        return x * x

    assert gradcheck(written, (y,))
    y.conj().backward(flambeau.ones_like(y))
    assert not y.grad.is_conj() and y.grad.tolist() == [1, 1, 1]


def test_inside_transforms():
    z = flambeau.randn(4, 3, dtype=flambeau.complex128)
    found = vmap(lambda row: row.conj() * row.conj().imag)(z)
    assert np.allclose(found.numpy(), z.numpy().conj() * -z.numpy().imag)
    slope = grad(lambda z: (z.conj() * z).real.sum())(z[0])
    assert np.allclose(slope.resolve_conj().numpy(), 2 * z[0].numpy())
    assert np.allclose(jvp(lambda z: z.conj(), (z,), (z,))[1].resolve_conj().numpy(), z.numpy().conj())


def test_compiled_programs_see_views_too():
    def program(z):
        y = z * 2
        x = y.conj()
        y.mul_(3)
        x.imag.add_(1)
        return x + y, x

    z = numbers()
    for found, wanted in zip(flambeau.compile(program)(z), program(z), strict=True):
        assert found.tolist() == wanted.tolist() and found.is_conj() == wanted.is_conj()


def test_on_meta():
    z = flambeau.empty(2, 3, dtype=flambeau.complex64, device="meta").mH
    assert z.is_conj() and z.shape == (3, 2) and (z + 1).shape == (3, 2) and not (z + 1).is_conj()
    assert z.mul_(2) is z and z.is_conj()


def test_optimizers_take_lazy_gradients():
    p, q = (flambeau.nn.Parameter(numbers()) for _ in range(2))
    p.grad, q.grad = numbers().conj(), numbers().conj().resolve_conj()
    for x in (p, q):
        flambeau.optim.SGD([x], lr=0.1).step()
    assert p.tolist() == q.tolist()
