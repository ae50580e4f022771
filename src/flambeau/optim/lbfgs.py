"""L-BFGS: a quasi-Newton method that keeps the last few steps."""

import flambeau

from .._shown import shown
from .optimizer import Optimizer, _check_rate, _loss_of


class LBFGS(Optimizer):
    """Steps along -H g, H built from the last `history_size` differences of parameters and gradients   (Nocedal 1980).

    All parameters are one vector: there is one group. `step` needs a closure and evaluates it several times. With
    `maximize=True` the steps go uphill. `line_search_fn="strong_wolfe"` looks for a step that fulfils the strong Wolfe
    conditions, within what is left of `max_eval` (by default 5/4 of `max_iter`).

    >>> import flambeau
    >>> w = flambeau.tensor([3.0, -4.0], requires_grad=True)
    >>> opt = flambeau.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = (w * w).sum()
    ...     loss.backward()
    ...     return loss
    >>> _ = opt.step(closure)
    >>> w.abs().max().item() < 1e-5
    True
    """

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
                 history_size=100, line_search_fn=None, *, maximize=False):
        _check_rate(type(self).__name__, lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError("LBFGS: only 'strong_wolfe' is supported as line_search_fn, got "
                               f"{shown(line_search_fn)}")
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn, "maximize": maximize})
        if len(self.param_groups) != 1:
            raise ValueError(f"LBFGS: one group of parameters is expected, got {len(self.param_groups)}; all share one "
                             "step")
        self._params = self.param_groups[0]["params"]

    # --- the parameters as one vector

    def _flat_grad(self):
        grads = [flambeau.zeros_like(p) if p.grad is None else p.grad.to_dense() for p in self._params]
        parts = [grad.reshape(-1) for grad in grads]
        parts = [flambeau.view_as_real(part).reshape(-1) if part.is_complex() else part for part in parts]
        whole = flambeau.cat(parts, 0)
        return whole.neg_() if self.param_groups[0].get("maximize") else whole

    def _loss(self, closure):
        """What is made small: the closure's loss, or its negative."""
        loss = float(_loss_of(closure))
        return -loss if self.param_groups[0].get("maximize") else loss

    def _add(self, amount, direction):
        at = 0
        for p in self._params:
            real = flambeau.view_as_real(p) if p.is_complex() else p
            real.add_(direction[at:at + real.numel()].view_as(real), alpha=amount)
            at += real.numel()

    def _evaluate(self, closure, start, amount, direction):
        """Loss and gradient at start + amount * direction; the parameters are put back."""
        self._add(amount, direction)
        loss = self._loss(closure)
        grad = self._flat_grad()
        for p, before in zip(self._params, start):
            p.copy_(before)
        return loss, grad

    @staticmethod
    def _direction(grad, state):
        """-H g by the two-loop recursion."""
        q = grad.neg()
        shares = []
        history = list(zip(state["old_stps"], state["old_dirs"], state["ro"]))
        for change, difference, rho in reversed(history):
            share = change.dot(q) * rho
            shares.append(share)
            q.add_(difference, alpha=-share.item())
        r = q * state["H_diag"]
        for (change, difference, rho), share in zip(history, reversed(shares)):
            back = difference.dot(r) * rho
            r.add_(change, alpha=(share - back).item())
        return r

    @staticmethod
    def _remember(state, grad, group):
        """The last step and what it changed in the gradient, where its curvature is positive."""
        difference = grad.sub(state["prev_flat_grad"])
        change = state["d"].mul(state["t"])
        curvature = difference.dot(change)
        if curvature > 1e-10:
            for name, value in (("old_dirs", difference), ("old_stps", change), ("ro", 1.0 / curvature)):
                if len(state[name]) == group["history_size"]:
                    state[name].pop(0)
                state[name].append(value)
            state["H_diag"] = curvature / difference.dot(difference)

    def step(self, closure):
        """Up to `max_iter` iterations; returns the loss at the start."""
        with flambeau.no_grad():
            return self._iterate(closure)

    def _iterate(self, closure):
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = _loss_of(closure)
        loss = -float(first) if group.get("maximize") else float(first)
        evaluations = 1
        state["func_evals"] += 1
        grad = self._flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first
        n_iter = 0
        while n_iter < group["max_iter"]:
            n_iter += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                state.update(d=grad.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
            else:
                self._remember(state, grad, group)
                state["d"] = self._direction(grad, state)
            state["prev_flat_grad"] = grad.clone()
            previous = state["prev_loss"] = loss
            size = grad.abs().sum().item()
            first_step = (1.0 / size if size > 1 else 1.0) * group["lr"]
            state["t"] = first_step if state["n_iter"] == 1 else group["lr"]
            slope = grad.dot(state["d"])
            if slope > -group["tolerance_change"]:
                break
            if group["line_search_fn"] is None:
                self._add(state["t"], state["d"])
                count = 0
                if n_iter != group["max_iter"]:
                    loss = self._loss(closure)
                    grad = self._flat_grad()
                    count = 1
            else:
                start = [p.clone(memory_format=flambeau.contiguous_format) for p in self._params]
                loss, grad, state["t"], count = strong_wolfe(
                    lambda amount: self._evaluate(closure, start, amount, state["d"]),  # noqa: B023
                    state["t"], state["d"], loss, grad, slope, max_ls=group["max_eval"] - evaluations)
                self._add(state["t"], state["d"])
            evaluations += count
            state["func_evals"] += count
            if (n_iter == group["max_iter"] or evaluations >= group["max_eval"]
                    or grad.abs().max() <= group["tolerance_grad"]
                    or state["d"].mul(state["t"]).abs().max() <= group["tolerance_change"]
                    or abs(loss - previous) < group["tolerance_change"]):
                break
        return first


def _cubic(x1, f1, g1, x2, f2, g2, bounds=None):
    """The minimum of the cubic through two points with slopes, kept inside the bounds."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5 if isinstance(square, float) else square.sqrt()
    if x1 <= x2:
        best = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        best = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(best, low), high)


def strong_wolfe(evaluate, t, direction, f, g, slope, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """(loss, gradient, step, evaluations) of a step that fulfils the strong Wolfe conditions.

    Brackets such a step by growing, then zooms in by cubic interpolation (Nocedal and Wright 2006, algorithms 3.5
    and 3.6).
    """
    size = direction.abs().max()
    g = g.clone()
    f_new, g_new = evaluate(t)
    count = 1
    slope_new = g_new.dot(direction)
    t_prev, f_prev, g_prev, slope_prev = 0, f, g, slope
    done = False
    bracket = None
    iteration = 0
    while iteration < max_ls:
        if f_new > f + c1 * t * slope or (iteration > 1 and f_new >= f_prev):
            bracket = [(t_prev, f_prev, g_prev, slope_prev), (t, f_new, g_new.clone(), slope_new)]
            break
        if abs(slope_new) <= -c2 * slope:
            bracket = [(t, f_new, g_new, slope_new)]
            done = True
            break
        if slope_new >= 0:
            bracket = [(t_prev, f_prev, g_prev, slope_prev), (t, f_new, g_new.clone(), slope_new)]
            break
        bounds = (t + 0.01 * (t - t_prev), t * 10)
        before, t = t, _cubic(t_prev, f_prev, slope_prev, t, f_new, slope_new, bounds)
        t_prev, f_prev, g_prev, slope_prev = before, f_new, g_new.clone(), slope_new
        f_new, g_new = evaluate(t)
        count += 1
        slope_new = g_new.dot(direction)
        iteration += 1
    if bracket is None:
        bracket = [(0, f, g, slope), (t, f_new, g_new, slope_new)]
    slow = False
    low, high = (0, 1) if bracket[0][1] <= bracket[-1][1] else (1, 0)
    while not done and iteration < max_ls:
        if abs(bracket[1][0] - bracket[0][0]) * size < tolerance_change:
            break
        t = _cubic(*_point(bracket[0]), *_point(bracket[1]))
        left, right = min(bracket[0][0], bracket[1][0]), max(bracket[0][0], bracket[1][0])
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:  # too near an end: once is accepted, twice is slow progress
            if slow or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                slow = False
            else:
                slow = True
        else:
            slow = False
        f_new, g_new = evaluate(t)
        count += 1
        slope_new = g_new.dot(direction)
        iteration += 1
        point = (t, f_new, g_new.clone(), slope_new)
        if f_new > f + c1 * t * slope or f_new >= bracket[low][1]:
            bracket[high] = point
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        else:
            if abs(slope_new) <= -c2 * slope:
                done = True
            elif slope_new * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
    t, f_new, g_new, _ = bracket[low if len(bracket) > 1 else 0]
    return f_new, g_new, t, count


def _point(entry):
    return entry[0], entry[1], entry[3]
