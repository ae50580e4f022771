"""CSR times dense against SciPy, in turn in one process: `python -m benchmarks.sparse`.

A ratio above 1 is faster than SciPy, which uses one thread.
"""

import time

import numpy
import scipy.sparse

import flambeau

#: rows = columns, density, columns of the dense matrix
SIZES = ((10_000, 1e-3, 1), (10_000, 1e-3, 8), (10_000, 1e-3, 64), (10_000, 1e-3, 256), (100_000, 1e-4, 1),
         (2_000, 0.05, 128))


def matrices(n, density, columns, dtype):
    draw = numpy.random.default_rng(0)
    a = scipy.sparse.random(n, n, density, format="csr", random_state=draw, dtype=dtype)
    x = flambeau.sparse_csr_tensor(*map(flambeau.from_numpy, (a.indptr, a.indices, a.data)), a.shape)
    b = draw.standard_normal((n, columns)).astype(dtype)
    return a, b, x, flambeau.from_numpy(b)


def race(pair, rounds=40):
    """The fastest visit of each, taken in turn: what the machine does besides slows threads more than one alone."""
    taken = [[], []]
    for _ in range(rounds):
        for call, times in zip(pair, taken, strict=True):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    return [min(times) for times in taken]


def main():
    print(f"{'rows':>8}{'columns':>9}{'values':>10}{'dtype':>9}{'SciPy ms':>10}{'here ms':>9}{'ratio':>7}")
    for dtype in ("float32", "float64"):
        for n, density, columns in SIZES:
            a, b, x, y = matrices(n, density, columns, dtype)
            numpy.testing.assert_allclose((x @ y).numpy(), a @ b, rtol=1e-3, atol=1e-3)
            theirs, mine = race((lambda a=a, b=b: a @ b, lambda x=x, y=y: x @ y))
            times = f"{theirs * 1e3:>10.3f}{mine * 1e3:>9.3f}{theirs / mine:>7.2f}"
            print(f"{n:>8}{columns:>9}{a.nnz:>10}{dtype:>9}{times}")


if __name__ == "__main__":
    main()
