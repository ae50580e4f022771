"""Programs whose gradients are easy to get wrong: tensors used in many places, hooks, writes through views.

Each function takes the library and returns plain lists. Run as a script with PyTorch, this file writes PyTorch's
results, `program_gradients.json`, which `test_programs.py` compares with.
"""

import importlib
import json
import sys
import warnings
from pathlib import Path

GOLDEN = Path(__file__).with_name("program_gradients.json")


def leaf(torch, *shape):
    """1, 2, 3 … in that shape."""
    n = 1
    for size in shape:
        n *= size
    return (torch.arange(n, dtype=torch.float64) + 1).reshape(shape).requires_grad_()


def values(*tensors):
    return [None if t is None else t.tolist() for t in tensors]


def recorder(log, name, scale=None):
    def hook(g):
        log.append([name, g.tolist()])
        return None if scale is None else g * scale
    return hook


# --- a tensor used in many places -----------------------------------------------------------------------------------


def many_uses(torch):
    x = leaf(torch, 3)
    y = x * 2
    z = y * y + y.sin() * x + y.sum() * x[0] + torch.cat([y, y, x]).sum()
    z.sum().backward()
    return values(x.grad)


def diamond_of_views(torch):
    x = leaf(torch, 2, 3)
    y = x * 1
    (y[0] * y[1] + y.t()[1:].sum() * y[:, 0].sum() + y.view(6)[::2].sum()).sum().backward()
    return values(x.grad)


def same_argument_twice(torch):
    x = leaf(torch, 2, 2)
    (x @ x + torch.stack([x, x, x]).sum(0) * x).sum().backward()
    return values(x.grad)


def leaf_used_after_backward(torch):
    x = leaf(torch, 2)
    y = x * 3
    y.sum().backward()
    (x * x).sum().backward()
    return values(x.grad)


def unused_branches(torch):
    x, w = leaf(torch, 3), leaf(torch, 3)
    parts = (x * w).split([1, 2])
    unused = parts[0] * 5
    parts[1].sum().backward()
    return values(x.grad, w.grad, unused)


def several_roots(torch):
    x = leaf(torch, 2)
    y = x * 2
    z = y * y
    torch.autograd.backward([z, y, z.sum()], [torch.ones_like(z), 3 * torch.ones_like(y), None])
    return values(x.grad)


def gradients_of_middle(torch):
    x = leaf(torch, 2)
    y = x * 2
    z = y * y * x
    return values(*torch.autograd.grad(z.sum(), [y, x, z], retain_graph=True), *torch.autograd.grad(z[1], [y]))


def middle_beside_stale_view(torch):
    base = leaf(torch, 2, 2) * 1
    v = base[0]
    base.mul_(2)
    y, z = v * 3, v * 5
    return values(*torch.autograd.grad(y.sum() + z.sum(), [v, base], allow_unused=True))


# --- hooks ------------------------------------------------------------------------------------------------------------


def hook_sees_the_sum(torch):
    log, x = [], leaf(torch, 2)
    x.register_hook(recorder(log, "x"))
    y = x * 2
    y.register_hook(recorder(log, "y", 10))
    (y * 3 + y * 4 + x).sum().backward()
    return [log, *values(x.grad)]


def hooks_in_order(torch):
    log, x = [], leaf(torch, 2)
    y = x * 1
    y.register_hook(recorder(log, "first", 2))
    handle = y.register_hook(recorder(log, "removed", 100))
    y.register_hook(recorder(log, "second", 3))
    y.retain_grad()
    handle.remove()
    y.sum().backward()
    return [log, *values(x.grad, y.grad)]


def hook_on_view(torch):
    log, x = [], leaf(torch, 2, 2)
    y = x * 1
    v = y[0]
    v.register_hook(recorder(log, "v", 2))
    (v * 3).sum().backward(retain_graph=True)
    (v * 3 + y * 5).sum().backward()
    return [log, *values(x.grad)]


def hook_before_and_after_write(torch):
    log, x = [], leaf(torch, 2)
    y = x * 2
    y.register_hook(recorder(log, "before", 10))
    y.mul_(3)
    y.register_hook(recorder(log, "after", 2))
    y.sum().backward()
    return [log, *values(x.grad)]


def hook_on_stale_view(torch):
    log, x = [], leaf(torch, 2, 2)
    base = x * 1
    v = base[0]
    base.mul_(2)
    assert v.grad_fn is not None  # asked for first: PyTorch dies without that
    v.register_hook(recorder(log, "v"))
    (v * 3 + v * 5).sum().backward()
    return [log, *values(x.grad)]


def hook_on_base_of_written_view(torch):
    log, x = [], leaf(torch, 2, 2)
    base = x * 1
    base[0].mul_(3)
    base.register_hook(recorder(log, "base", 2))
    (base * base).sum().backward()
    return [log, *values(x.grad)]


def hook_on_one_of_several_outputs(torch):
    log, x = [], leaf(torch, 6)
    a, b, c = (x * 1).split(2)
    b.register_hook(recorder(log, "b", 7))
    (a * 2 + b * 3 + c * 4 + b).sum().backward()
    return [log, *values(x.grad)]


def hook_returns_a_view(torch):
    x, w = leaf(torch, 2, 2), leaf(torch, 2, 2)
    y = x * 1
    y.register_hook(lambda g: g.t())
    z = w * 1
    z.register_hook(lambda g: g[:1].expand(2, 2))
    (y * leaf(torch, 2, 2) + z * y.detach() + z).sum().backward()
    return values(x.grad, w.grad)


def post_accumulate(torch):
    log, x, w = [], leaf(torch, 2), leaf(torch, 2)
    x.register_post_accumulate_grad_hook(lambda t: log.append(["x", t.grad.tolist()]))
    w.register_post_accumulate_grad_hook(lambda t: (log.append(["w", t.grad.tolist()]), setattr(t, "grad", None))[0])
    for _ in range(2):
        (x * w + x).sum().backward()
    return [sorted(log[:2]) + sorted(log[2:]), *values(x.grad, w.grad)]


def multi_grad_all(torch):
    log, x = [], leaf(torch, 2)
    a, b = x * 2, x * 3
    torch.autograd.graph.register_multi_grad_hook(
        (a, b), lambda gs: log.append([None if g is None else g.tolist() for g in gs]))
    (a * b + a).sum().backward(retain_graph=True)
    a.sum().backward()
    return [log, *values(x.grad)]


def multi_grad_any(torch):
    log, x = [], leaf(torch, 2)
    a, b = x * 2, x * 3
    torch.autograd.graph.register_multi_grad_hook((a, b), lambda g: log.append(g.tolist()), mode="any")
    (a + b).sum().backward()
    return [len(log), *values(x.grad)]


def node_hooks(torch):
    log, x = [], leaf(torch, 2)
    y = x * 3
    y.grad_fn.register_prehook(lambda gs: (log.append(["pre", gs[0].tolist()]), (gs[0] * 2,))[1])
    y.grad_fn.register_hook(lambda i, o: log.append(["post", i[0].tolist(), o[0].tolist()]))
    (y + y).sum().backward()
    return [log, *values(x.grad)]


# --- retain_grad ------------------------------------------------------------------------------------------------------


def retained_twice(torch):
    x = leaf(torch, 2)
    y = x * 2
    y.retain_grad()
    g = torch.ones_like(y)
    y.backward(g, retain_graph=True)
    first = y.grad
    y.backward(g)
    return values(first, y.grad, g, x.grad)


def retained_of_sum(torch):
    x = leaf(torch, 2)
    a, b = x * 2, x * 3
    c = a + b
    for t in (a, b, c):
        t.retain_grad()
    (c * 5).sum().backward()
    a.grad.zero_()
    return values(a.grad, b.grad, c.grad, x.grad)


def retained_before_write(torch):
    x = leaf(torch, 2)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    (y * 5).sum().backward()
    return values(y.grad, x.grad)


def retained_view_of_written_base(torch):
    x = leaf(torch, 2, 2)
    base = x * 1
    v = base[0]
    v.retain_grad()
    base.mul_(2)
    (v * 3 + v * 5).sum().backward()
    return values(v.grad, x.grad)


def retained_base_of_written_view(torch):
    x = leaf(torch, 2, 2)
    base = x * 1
    base.retain_grad()
    base[0].mul_(2)
    (base * 3).sum().backward()
    return values(base.grad, x.grad)


# --- writes through views ---------------------------------------------------------------------------------------------


def write_through_view_of_view(torch):
    x, w = leaf(torch, 3, 3), leaf(torch, 2)
    base = x * 1
    middle = base[1:]
    middle.t()[0].mul_(w)
    (base * base).sum().backward()
    return values(base, x.grad, w.grad)


def writes_through_two_views(torch):
    x = leaf(torch, 2, 3)
    base = x * 2
    row, column = base[0], base[:, 1]
    row.mul_(3)
    column.add_(row[:2].clone())
    (row.sum() + (column * 7).sum() + base.sum()).backward()
    return values(base, x.grad)


def base_written_between_uses_of_view(torch):
    x = leaf(torch, 2, 2)
    base = x * 1
    v = base[:, 0]
    before = v.clone()
    base.mul_(torch.ones_like(base) * 4)
    after = v * v.detach()
    (before * 3).sum().backward(retain_graph=True)
    first = x.grad.clone()
    after.sum().backward()
    return values(first, x.grad)


def slice_overwritten(torch):
    x, w = leaf(torch, 2, 3), leaf(torch, 3)
    base = x * 2
    v = base[1]
    base[1] = w
    (v * 3 + base[0]).sum().backward()
    return values(x.grad, w.grad)


def write_into_plain_memory(torch):
    x = leaf(torch, 3)
    out = torch.zeros(2, 3, dtype=torch.float64)
    row = out[0]
    row.copy_(x * 2)
    out[1] = x * x
    (out.sum(0) * row).sum().backward()
    return values(x.grad)


def chunks_written(torch):
    x = leaf(torch, 4)
    y = x * 1
    y[:2].mul_(2)
    y[2:].mul_(3)
    y.view(2, 2)[:, 1].sin_()
    (y * torch.arange(4, dtype=torch.float64)).sum().backward()
    return values(x.grad)


def written_in_function(torch):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(torch, 3)
    y = x * 1
    v = y[1:]
    Doubled.apply(y)
    (y * y).sum().backward(retain_graph=True)
    first = x.grad.clone()
    v.sum().backward()
    return values(first, x.grad)


# --- gradients that share memory --------------------------------------------------------------------------------------


def shares_of_one_gradient(torch):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            g = g * 1
            return g, g.detach()

    x, w = leaf(torch, 2), leaf(torch, 2)
    a, b = x * 1, w * 1
    (Twice.apply(a, b) * 2 + a * 10 + b * 100).sum().backward()
    return values(x.grad, w.grad)


def expanded_gradients(torch):
    x, w = leaf(torch, 3), leaf(torch, 3)
    a, b = x * 1, w * 1
    ((a + b).sum() + a.sum() * 2 + (b * b).sum()).backward()
    x.grad.mul_(2)
    return values(x.grad, w.grad)


def grad_shared_by_two_leaves(torch):
    x, w = leaf(torch, 2), leaf(torch, 2)
    x.grad = w.grad = torch.zeros(2, dtype=torch.float64)
    (x * 2 + w * 3).sum().backward()
    return values(x.grad, w.grad)


def double_backward_of_write(torch):
    x = leaf(torch, 2, 2)
    base = x * x
    base[0].mul_(x[1])
    (g,) = torch.autograd.grad((base * base).sum(), x, create_graph=True)
    g.sum().backward()
    return values(g, x.grad)


CASES = [f for name, f in list(globals().items())
         if callable(f) and getattr(f, "__module__", "") == __name__ and name not in ("leaf", "values", "recorder")]


def run(torch, case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(json.dumps(case(torch)))


if __name__ == "__main__":
    library = importlib.import_module("torch")
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN
    target.write_text("{\n" + ",\n".join(f"{json.dumps(case.__name__)}: {json.dumps(run(library, case))}"
                                         for case in CASES) + "\n}\n")
