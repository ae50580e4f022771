"""Chains of arithmetic in compiled functions: values that stay in registers are those of eager calls, to the bit."""

import pytest

import flambeau as torch

SIZES = (1, 127, 128, 129, 1000, 5001)
OPERATORS = {
    "add": lambda a, b: a + b,
    "number on the left": lambda a, b: 2 - a * (3 / b),
    "sub": lambda a, b: b - a,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: b / (a * 2),
    "square": lambda a, b: a * a,
    "twice": lambda a, b: a + a,
    "nothing": lambda a, b: (a - a) / (a + b),
    "neg": lambda a, b: -a,
    "relu": lambda a, b: torch.relu(a),
    "sqrt": lambda a, b: a.sqrt(),
    "alpha": lambda a, b: torch.add(a, b, alpha=3) - b,
    "rsub": lambda a, b: torch.rsub(a, b, alpha=1),
    "rounded": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "exp": lambda a, b: a.exp() * b,
}


def bits(t):
    return t.contiguous().view(torch.int32 if t.dtype == torch.float32 else torch.int64)


def agree(f, *args):
    expected, got = f(*args), torch.compile(f)(*args)
    for e, g in zip(expected, got, strict=True):
        assert g.dtype == e.dtype and g.shape == e.shape
        numbers = ~e.isnan()
        assert torch.equal(e.isnan(), g.isnan())
        assert torch.equal(bits(e)[numbers], bits(g)[numbers])


def numbers(n, dtype):
    x = torch.randn(n, dtype=dtype)
    x[:: 17] = float("nan")
    x[1:: 19] = float("-inf")
    x[2:: 23] = -0.0
    x[3:: 29] = 1e-40
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_between_others(name, dtype):
    step = OPERATORS[name]

    def f(a, b):
        c = step(a * b, b)
        return (step(c + 1, a) * b,)

    for n in SIZES:
        agree(f, numbers(n, dtype), numbers(n, dtype))


STEPS = {
    "+ array": lambda a, b: a + b, "+ number": lambda a, b: a + 1.5,
    "- array": lambda a, b: a - b, "- number": lambda a, b: a - 0.3,
    "* array": lambda a, b: a * b, "* number": lambda a, b: a * -2.5,
    "array -": lambda a, b: b - a, "number /": lambda a, b: 3 / a, "neg": lambda a, b: -a,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("first", STEPS)
def test_two_steps_as_one(first, dtype):
    """After a load, after each other and before a store; also where the value between the two is kept."""
    def then(step, second):
        def f(a, b):
            c = step(step(a, b), b)
            return second(step(a, b), b), second(c, b), c
        return f

    for n in (128, 300):
        for second in STEPS.values():
            agree(then(STEPS[first], second), numbers(n, dtype), numbers(n, dtype))


@pytest.mark.parametrize("seed", range(20))
def test_random_chains_with_values_that_are_read_again(seed):
    draw = torch.Generator().manual_seed(seed)

    def pick(n):
        return int(torch.randint(n, (), generator=draw))

    steps = [(list(OPERATORS)[pick(len(OPERATORS))], pick(4), pick(4)) for _ in range(12)]
    kept = [pick(12) for _ in range(3)]

    def f(*args):
        values = list(args)
        for name, i, j in steps:
            values.append(OPERATORS[name](values[-1 - i % 3], values[-1 - j]))
        return [values[4 + k] for k in kept] + values[-1:]

    n = 1 + pick(3000)
    agree(f, *[numbers(n, torch.float32) for _ in range(4)])


def test_long_arrays_are_cut_where_vectors_are_whole():
    x, y = torch.randn(300_007), torch.randn(300_007)
    agree(lambda x, y: ((x * y + 1) * y - x,), x, y)


def test_broadcast_and_strided_operands_in_a_chain():
    x, row, column = torch.randn(70, 1000), torch.randn(1000), torch.randn(70, 1)
    agree(lambda x, r, c: ((x * r + c) * r - c,), x, row, column)
    agree(lambda x, r, c: ((x * r + c) * r - c,), torch.randn(1000, 70).t(), row, column)
    agree(lambda x, y: (x * y + 1, x * y * 2 - y), x[:, ::2], x[:, 1::2])


def test_a_product_and_a_sum_are_rounded_one_by_one():
    x = torch.full((256,), 1 + 2.0**-12)
    (got,) = torch.compile(lambda a, b: (a * b - b,))(x, x)
    assert torch.equal(got, x * x - x)
    assert float(got[0]) != float(x[0].double() * x[0].double() - x[0].double())
