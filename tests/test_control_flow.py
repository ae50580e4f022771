"""Control flow as functions: what no program of tests/programs, fx and jit asks."""

import pytest

import flambeau
from flambeau.control_flow import associative_scan

SCANS = {"sum": (lambda a, b: a + b, lambda x, dim: x.cumsum(dim)),
         "product": (lambda a, b: a * b, lambda x, dim: x.cumprod(dim)),
         "largest": (flambeau.maximum, lambda x, dim: x.cummax(dim).values)}


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8])
def test_running_results_of_an_associative_function(name, n):
    combine, running = SCANS[name]
    x = flambeau.randn(2, n, 3, dtype=flambeau.float64)
    flambeau.testing.assert_close(associative_scan(combine, x, 1, combine_mode="generic"), running(x, 1))
    flambeau.testing.assert_close(associative_scan(combine, x, -2, reverse=True), running(x.flip(1), 1).flip(1))


def test_a_linear_recurrence_as_a_scan_of_pairs_and_its_gradient():
    a, b = (flambeau.rand(6, 2, dtype=flambeau.float64, requires_grad=True) for _ in range(2))

    def steps(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    def recurrence(a, b):
        found, h = [], flambeau.zeros(2, dtype=flambeau.float64)
        for k in range(6):
            h = a[k] * h + b[k]
            found.append(h)
        return flambeau.stack(found)

    scanned = associative_scan(steps, (a, b), 0, combine_mode="generic")[1]
    flambeau.testing.assert_close(scanned, recurrence(a, b))
    ours, plain = (flambeau.autograd.grad(y.square().sum(), (a, b)) for y in (scanned, recurrence(a, b)))
    flambeau.testing.assert_close(ours, plain)


def test_the_function_of_a_scan_sees_one_slice():
    x = {"a": flambeau.arange(1, 4.0), "b": flambeau.ones(3, 2)}
    found = associative_scan(lambda x, y: {"a": x["a"] * y["a"], "b": x["b"] + y["b"] + x["a"].sum()}, x, 0)
    assert found["a"].tolist() == [1, 2, 6] and found["b"].tolist() == [[1, 1], [3, 3], [6, 6]]


def test_wrong_calls_of_an_associative_scan():
    x, add = flambeau.ones(3), lambda a, b: a + b
    wrong = [((3, x, 0), {}, ValueError), ((add, x, 0.0), {}, ValueError), ((add, x, 1), {}, IndexError),
             ((add, x, 0), {"combine_mode": "x"}, ValueError), ((add, x[:0], 0), {}, ValueError),
             ((add, [x, 3], 0), {}, ValueError), ((lambda a, b: (a, b), x, 0), {}, RuntimeError)]
    for args, kwargs, error in wrong:
        with pytest.raises(error, match=r"associative_scan|dim"):
            associative_scan(*args, **kwargs)
