"""SparseAdam: Adam that touches only the rows that have a gradient."""

import flambeau

from .optimizer import Optimizer, _check, _check_rate, _coordinates, _loss_of, sparse_like


class SparseAdam(Optimizer):
    """Adam (Kingma and Ba 2015) for sparse gradients: moments and parameters change only where a gradient is.

    >>> import flambeau
    >>> table = flambeau.nn.Embedding(3, 2, sparse=True)
    >>> opt = flambeau.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> before = table.weight.detach().clone()
    >>> table(flambeau.tensor([1])).sum().backward()
    >>> opt.step()
    >>> (table.weight != before).any(1)  # only the row that was looked up
    tensor([False,  True, False])
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        _check_rate(type(self).__name__, lr, positive=True)
        _check("epsilon value", eps, eps > 0, "a number > 0")
        for i, beta in enumerate(betas):
            _check(f"beta parameter at index {i}", beta, 0 <= beta < 1, "a number in [0, 1)")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        for number, group in enumerate(self.param_groups):
            wrong = [k for k, param in enumerate(group["params"]) if param.layout is not flambeau.strided]
            if wrong:
                raise ValueError(f"SparseAdam: parameters must be dense (their gradients are sparse); those numbered "
                                 f"{wrong} of group {number} are sparse")

    def step(self, closure=None):
        """One update; returns the closure's loss."""
        loss = _loss_of(closure) if closure is not None else None
        with flambeau.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self._step_one(param, group)
        return loss

    def _step_one(self, param, group):
        if param.grad.layout is flambeau.strided:
            raise RuntimeError("SparseAdam: this gradient is dense; use Adam, or a layer with sparse=True")
        state = self.state[param]
        if not state:
            state["step"] = 0
            state["exp_avg"] = flambeau.zeros_like(param)
            state["exp_avg_sq"] = flambeau.zeros_like(param)
        state["step"] += 1
        grad = _coordinates(param.grad)
        self._update(param, -grad if group["maximize"] else grad, state, group)

    def _update(self, param, grad, state, group):
        """m <- m + (1-b1) (g - m);  v <- v + (1-b2) (g^2 - v);  p <- p - lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
        with eps outside of the correction, as PyTorch adds it."""
        beta1, beta2 = group["betas"]
        g = grad.values()
        means = []
        for name, beta, now in (("exp_avg", beta1, g), ("exp_avg_sq", beta2, g * g)):
            before = state[name].sparse_mask(grad).values()
            change = (now - before) * (1 - beta)
            state[name].add_(sparse_like(grad, change))
            means.append(before + change)
        rate = float(group["lr"]) * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
        param.add_(sparse_like(grad, means[0] / (means[1].sqrt() + group["eps"])), alpha=-rate)
