"""Gradients through collectives: what each rank gets equals the gradient of the same sum in one process."""

import flambeau
import flambeau.distributed as dist
from flambeau.distributed import _autograd as functional


def leaf(rank, *shape):
    generator = flambeau.Generator().manual_seed(rank)
    return flambeau.randn(shape, dtype=flambeau.float64, generator=generator).requires_grad_()


def weights(rank, n=3):
    return flambeau.arange(1.0, n + 1, dtype=flambeau.float64) * (rank + 1)


def gradients():
    """Every rank's loss is a weighted sum; the gradient of x is that of all losses together."""
    me, every, found = dist.get_rank(), range(4), {}
    total = sum(weights(r) for r in every)
    x = leaf(me, 3)
    (functional.all_reduce(x) * weights(me)).sum().backward()
    found["all_reduce"] = flambeau.allclose(x.grad, total)
    x = leaf(me, 3)
    sum((part * weights(me) * (k + 1)).sum() for k, part in enumerate(functional.all_gather(x))).backward()
    found["all_gather"] = flambeau.allclose(x.grad, total * (me + 1))
    x = leaf(me, 3)
    (functional.broadcast(x, 2) * weights(me)).sum().backward()
    found["broadcast"] = flambeau.allclose(x.grad, total if me == 2 else 0 * total)
    xs = [leaf(10 * me + r, 3) for r in every]
    output = flambeau.zeros(3, dtype=flambeau.float64)
    (functional.reduce_scatter(output, xs) * weights(me)).sum().backward()
    found["reduce_scatter"] = all(flambeau.allclose(x.grad, weights(r)) for r, x in enumerate(xs))
    expected = sum(leaf(10 * r + me, 3).detach() for r in every)
    found["reduce_scatter value"] = flambeau.allclose(output, expected)
    xs = [leaf(10 * me + r, r + 1) for r in every]
    outputs = [flambeau.zeros(me + 1, dtype=flambeau.float64) for _ in every]
    sum((y * weights(me, me + 1)).sum() for y in functional.all_to_all(outputs, xs)).backward()
    found["all_to_all"] = all(flambeau.allclose(x.grad, weights(r, r + 1)) for r, x in enumerate(xs))
    xs = [leaf(r, 3) for r in every]
    (functional.scatter(xs, 1) * weights(me)).sum().backward()
    found["scatter"] = me != 1 or all(flambeau.allclose(x.grad, weights(r)) for r, x in enumerate(xs))
    x = leaf(me, 3)
    sum((part * (k + 1)).sum() for k, part in enumerate(functional.gather(x, 3))).backward()
    found["gather"] = flambeau.allclose(x.grad, flambeau.full_like(x, me + 1.0))
    return found


def test_gradients(ranks):
    for found in ranks.run(gradients):
        assert all(found.values()), found
