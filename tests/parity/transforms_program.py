"""Computations of function transforms as programs write them: run by `PYTHON transforms_program.py LIBRARY FILE`, which
pickles every result as arrays. The same text runs under both libraries."""

import importlib
import pickle
import sys

torch = importlib.import_module(sys.argv[1])
transforms = importlib.import_module(f"{sys.argv[1]}.func")
fwAD = importlib.import_module(f"{sys.argv[1]}.autograd.forward_ad")
nn, F = torch.nn, torch.nn.functional
vmap, grad, vjp, jvp = transforms.vmap, transforms.grad, transforms.vjp, transforms.jvp
jacrev, jacfwd, hessian = transforms.jacrev, transforms.jacfwd, transforms.hessian
functional_call, stack_module_state = transforms.functional_call, transforms.stack_module_state


def jacobians():
    def predict(weight, bias, x):
        return F.linear(x, weight, bias).tanh()

    weight, bias, x, batch = torch.randn(16, 16), torch.randn(16), torch.randn(16), torch.randn(5, 16)
    return [jacrev(predict, argnums=(0, 1))(weight, bias, x), jacfwd(predict, argnums=2)(weight, bias, x),
            hessian(predict, argnums=2)(weight, bias, x),
            vmap(jacrev(predict, argnums=2), in_dims=(None, None, 0))(weight, bias, batch),
            vmap(hessian(lambda x: predict(weight, bias, x).sum()))(batch),
            jvp(grad(lambda x: predict(weight, bias, x).sin().sum()), (x,), (torch.ones(16),))[1]]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3)
        self.fc1, self.fc2 = nn.Linear(576, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return F.log_softmax(self.fc2(F.relu(self.fc1(torch.flatten(x, 1)))), dim=1)


def per_sample_gradients():
    model, data, targets = Net(), torch.randn(8, 1, 16, 16), torch.randint(0, 10, (8,))
    params = {k: v.detach() for k, v in model.named_parameters()}

    def loss(params, sample, target):
        return F.nll_loss(functional_call(model, params, (sample.unsqueeze(0),)), target.unsqueeze(0))

    return list(vmap(grad(loss), in_dims=(None, 0, 0))(params, data, targets).values())


def ensembles():
    models = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)) for _ in range(3)]
    params, buffers = stack_module_state(models)
    x = torch.randn(3, 5, 4)

    def call(params, buffers, x):
        return functional_call(models[0], (params, buffers), (x,))

    return [vmap(call)(params, buffers, x), vmap(call, in_dims=(0, 0, None))(params, buffers, x[0])]


def tangent_kernels():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    params = {k: v.detach() for k, v in net.named_parameters()}
    x1, x2 = torch.randn(4, 1, 8, 8), torch.randn(3, 1, 8, 8)

    def call(params, x):
        return functional_call(net, params, (x.unsqueeze(0),)).squeeze(0)

    first, second = ([j.flatten(2) for j in vmap(jacrev(call), (None, 0))(params, x).values()] for x in (x1, x2))
    contracted = torch.stack([torch.einsum("Naf,Mbf->NMab", a, b) for a, b in zip(first, second)]).sum(0)

    def implicit(x1, x2):
        _, pull = vjp(lambda p: call(p, x1), params)
        return vmap(lambda v: jvp(lambda p: call(p, x2), (params,), pull(v))[1])(torch.eye(3))

    return [contracted, vmap(vmap(implicit, (None, 0)), (0, None))(x1, x2)]


def meta_learning():
    def loss(w, x, y):
        return ((x @ w) ** 2 - y).pow(2).mean()

    def adapted(w, xs, ys):
        return vmap(lambda x, y: loss(w - 0.1 * grad(loss)(w, x, y), x, y))(xs, ys).mean()

    return grad(adapted)(torch.randn(4), torch.randn(6, 5, 4), torch.randn(6, 5))


def third_derivative():
    return grad(grad(grad(lambda x: x.sin())))(torch.tensor(0.7))


def randomness():
    shared = [vmap(lambda x: x + torch.randn(3), randomness=mode)(torch.zeros(4, 3)) for mode in ("different", "same")]
    return [*shared, vmap(lambda x: F.dropout(x, 0.5), randomness="different")(torch.ones(4, 6))]


def forward_mode_by_hand():
    primal, tangent, model = torch.randn(10, 10), torch.randn(10, 10), nn.Linear(10, 5)
    with fwAD.dual_level():
        first = fwAD.unpack_dual(fwAD.make_dual(primal, tangent).pow(2).softmax(1)).tangent
        duals = {n: fwAD.make_dual(p.detach(), torch.ones_like(p)) for n, p in model.named_parameters()}
        second = fwAD.unpack_dual(functional_call(model, duals, (primal,))).tangent
    return [first, second]


PROGRAMS = (jacobians, per_sample_gradients, ensembles, tangent_kernels, meta_learning, third_derivative, randomness,
            forward_mode_by_hand)


def arrays(x):
    return [arrays(v) for v in x] if isinstance(x, (list, tuple)) else x.detach().numpy()


if __name__ == "__main__":
    results = {}
    for program in PROGRAMS:
        torch.manual_seed(0)
        results[program.__name__] = arrays(program())
    with open(sys.argv[2], "wb") as out:
        pickle.dump(results, out)
