"""Operators on the device and on the CPU: the op table's samples, results and gradients, side by side."""

import flambeau as fb
from flambeau import linalg

from ...ops import battery

#: how far results of two ways to compute may lie apart, by dtype
NEAR = {fb.float16: 4e-3, fb.bfloat16: 3e-2, fb.float32: 1e-4, fb.complex64: 1e-4, fb.float64: 1e-9,
        fb.complex128: 1e-9}


def moved(sample):
    """The same call on the device; gradients are asked for where they were."""
    return battery.map_tensors(lambda t: t.detach().to("cuda").requires_grad_(t.requires_grad), sample)


def leaves(sample):
    return [t for t in battery.tensors((*sample.args, *sample.kwargs.values())) if t.requires_grad]


def gradients(name, sample, results):
    """The gradients of a sum of the results with fixed weights, by the leaves in order."""
    losses = [(t.abs() if t.is_complex() else t).cpu() for t in results if t.requires_grad]
    if not losses:
        return []
    sum((loss * fb.linspace(0.5, 1.5, loss.numel(), dtype=loss.dtype).view(loss.shape)).sum()
        for loss in losses).backward()
    return [t.grad for t in leaves(sample) if t.grad is not None]


def same(a, b, near=None):
    if a.dtype not in NEAR:
        return bool((a.cpu() == b).all())
    a, b = (fb.view_as_real(t.detach().cpu().resolve_conj()) if t.is_complex() else t.detach().cpu() for t in (a, b))
    near = near or NEAR[b.dtype]
    return a.shape == b.shape and fb.allclose(a.double(), b.double(), rtol=near, atol=near, equal_nan=True)


def _of_eigh(values, vectors):
    return [values, (vectors * values.sin().to(vectors.dtype).unsqueeze(-2)) @ vectors.mH,
            (vectors.mH @ vectors).detach()]


def _of_svd(u, s, v):
    k = s.shape[-1]
    return [s, (u[..., :k] * s.sin().to(u.dtype).unsqueeze(-2)) @ v[..., :k, :], (u.mH @ u).detach(),
            (v @ v.mH).detach()]


def _of_eigvals(values):
    return [values.sum(-1), values.square().sum(-1)]


def _of_eig(values, vectors):
    return [*_of_eigvals(values), (vectors * values.square().unsqueeze(-2)) @ linalg.inv(vectors),
            vectors.abs().square().sum(-2).detach()]


#: what is unique of results that are not: vectors have any phase, the eigenvalues of a general matrix any order. Only
#: this has derivatives, too
UNIQUE = {"linalg_eigh": _of_eigh, "linalg_svd": _of_svd, "svd": lambda u, s, v: _of_svd(u, s, v.mH),
          "linalg_eig": _of_eig, "linalg_eigvals": _of_eigvals}


def samples_of(name, dtype, requires_grad):
    """An operator's samples, but for those that mean something else on a device."""
    absent = battery.NOT_THERE.get(name, lambda sample: False)
    return [s for s in battery.samples(name, dtype, requires_grad=requires_grad) if not absent(s)]


def results_of(name, sample):
    """The tensors that a call gives, or what is unique of them."""
    found = battery.tensors(battery.run(name, sample))
    return UNIQUE[name](*found) if name in UNIQUE else found


def compare(name, dtype, near=None, backward=True):
    """Runs an operator's samples here and there; (how many agreed, what did not). `backward`: gradients too."""
    agreed, wrong = 0, []
    floating = backward and (dtype.is_floating_point or dtype.is_complex)
    try:
        samples = samples_of(name, dtype, floating)
    except battery.REFUSALS:
        return 0, []
    for sample in samples:
        there = moved(sample)
        try:
            expected = results_of(name, sample)
        except battery.REFUSALS:
            continue
        found = results_of(name, there)
        pairs = [*zip(found, expected, strict=True)]
        if floating:
            pairs += zip(gradients(name, there, found), gradients(name, sample, expected), strict=True)
        if all(a.is_cuda and same(a, b, near) for a, b in pairs):
            agreed += 1
        else:
            wrong.append((name, dtype, sample, [(a.cpu(), b) for a, b in pairs if not same(a, b, near)]))
    return agreed, wrong


def matrices(*shape, dtype=fb.float64):
    """Matrices of full rank, the same ones each time."""
    n = fb.Size(shape).numel()
    x = (fb.arange(n, dtype=fb.float64).square() * 0.7).sin().view(shape)
    return (x + 1j * x.cos() if dtype.is_complex else x).to(dtype)


def check_svd(a, full, near):
    """Matrices decomposed on the device: the CPU's shapes and singular values, falling; they give `a`, and U and V are
    unitary."""
    u, s, v = (t.cpu() for t in linalg.svd(a.cuda(), full_matrices=full))
    k = s.shape[-1]
    assert [t.shape for t in (u, s, v)] == [t.shape for t in linalg.svd(a, full_matrices=full)]
    assert same(s, linalg.svdvals(a), near) and bool((s.diff(dim=-1) <= 0).all())
    assert same((u[..., :k] * s.to(a.dtype).unsqueeze(-2)) @ v[..., :k, :], a, near)
    for q in (u.mH @ u, v @ v.mH):
        assert same(q, fb.eye(q.shape[-1], dtype=a.dtype).expand(q.shape), near)
    assert same(linalg.svdvals(a.cuda()), s, near)
