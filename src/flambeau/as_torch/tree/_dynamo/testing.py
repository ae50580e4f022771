"""torch._dynamo.testing: backends that count or keep the graphs they get."""

from .... import as_strided, float32, randint, randn
from ....compiler import compile, lookup_backend
from ....utils._pytree import tree_leaves

_CALLS = ("call_function", "call_method", "call_module")


class CompileCounter:
    """A backend that counts graphs (frame_count) and the calls in them (op_count)."""

    def __init__(self):
        self.clear()

    def __call__(self, gm, example_inputs):
        self.frame_count += 1
        self.op_count += sum(node.op in _CALLS for node in gm.graph.nodes)
        return gm.forward

    def clear(self):
        """Counts from here on."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """A CompileCounter that keeps the graphs and hands them on to another backend; "eager" runs them as they are."""

    def __init__(self, backend):
        super().__init__()
        self.backend = backend

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        made = super().__call__(gm, example_inputs)
        is_plain = self.backend in ("eager", "aot_eager", "inductor")
        return made if is_plain else lookup_backend(self.backend)(gm, example_inputs)

    def clear(self):
        """Counts from here on."""
        super().clear()
        self.graphs = []


class EagerAndRecordGraphs:
    """A backend that keeps the graphs it gets."""

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward


def same(a, b, tol=1e-4, equal_nan=False):
    """Whether two results have the same tensors, nearly, and the same other values."""
    ours, theirs = tree_leaves(a), tree_leaves(b)
    return len(ours) == len(theirs) and all(
        x.allclose(y, atol=tol, rtol=tol, equal_nan=equal_nan) if hasattr(x, "allclose") else x == y
        for x, y in zip(ours, theirs, strict=True))


def rand_strided(size, stride, dtype=None, device="cpu", extra_size=0):
    """A tensor of random numbers with these strides, in memory for extra_size elements more."""
    needed = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if all(size) else 0
    dtype = float32 if dtype is None else dtype
    plain = randn(needed + extra_size, dtype=dtype, device=device) if dtype.is_floating_point or dtype.is_complex else \
        randint(0, 2, (needed + extra_size,), device=device).to(dtype)
    return as_strided(plain, size, stride)


def standard_test(self, fn, nargs, expected_ops=None, expected_ops_dynamic=None, expected_frame_count=1):
    """What tests of a compiler do with a function of `nargs` tensors: it gives the same compiled, twice, as one graph
    of expected_ops calls."""
    counter = CompileCounter()
    compiled, inputs = compile(fn, fullgraph=True, backend=counter), [randn(10, 10) for _ in range(nargs)]
    for again in (inputs, inputs, [randn(10, 10) for _ in range(nargs)]):
        ours, theirs = [x.clone() for x in again], [x.clone() for x in again]
        self.assertTrue(same(compiled(*ours), fn(*theirs)))
    self.assertEqual(counter.frame_count, expected_frame_count)
    if expected_ops is not None:
        self.assertIn(counter.op_count, (expected_ops, expected_ops_dynamic))
