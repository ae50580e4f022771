"""linalg, fft, special, signal, masked, func, autograd, random."""

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.autograd import Function, grad
from flambeau.func import functional_call, jacrev, vmap


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        result: Tensor = 3 * x ** 2 * g
        return result


def decompositions(a: Tensor) -> Tensor:
    U, S, Vh = torch.linalg.svd(a, full_matrices=False)
    Q, R = torch.linalg.qr(a)
    values = torch.linalg.eigh(a @ a.mT).eigenvalues
    solved = torch.linalg.solve(a @ a.mT + torch.eye(3), torch.ones(3))
    return U @ torch.diag(S) @ Vh + Q @ R + values.sum() + solved.sum() + torch.linalg.norm(a) + torch.linalg.det(a)


def spectra(x: Tensor) -> Tensor:
    spectrum = torch.fft.rfft(x, n=8, dim=-1, norm="ortho")
    window = torch.signal.windows.hann(8) * torch.hann_window(8)
    return torch.fft.irfft(spectrum) * window + torch.fft.fftshift(torch.fft.fftfreq(8))


def functions(x: Tensor) -> Tensor:
    s = torch.special
    return s.expit(x) + s.erf(x) + s.logsumexp(x, 0) + s.gammaln(x.abs() + 1)


def derivatives(x: Tensor) -> Tensor:
    def f(t: Tensor) -> Tensor:
        return (t ** 2).sum()

    (first,) = grad(f(x), [x])
    second: Tensor = torch.func.grad(f)(x)
    rows: Tensor = vmap(torch.func.grad(f))(x[None])
    jacobian: Tensor = jacrev(torch.sin)(x)
    checked: bool = torch.autograd.gradcheck(torch.sin, (x.double().detach().requires_grad_(),))
    assert checked
    cubes: Tensor = Cube.apply(x)
    return first + second + rows[0] + jacobian.sum() + cubes


def masked(x: Tensor) -> Tensor:
    return torch.masked.mean(x, dim=0, mask=x > 0)


layer = torch.nn.Linear(2, 2)
functional_call(layer, dict(layer.named_parameters()), (torch.ones(1, 2),))
decompositions(torch.eye(3) + 1)
spectra(torch.arange(8.0))
functions(torch.ones(3))
derivatives(torch.ones(3, requires_grad=True))
masked(torch.arange(3.0))
with torch.enable_grad(), torch.autograd.graph.save_on_cpu():
    torch.ones(1)
with torch.set_grad_enabled(False):
    seed: int = torch.initial_seed()
state: Tensor = torch.get_rng_state()
torch.set_rng_state(state)
with torch.random.fork_rng():
    torch.rand(2)
