"""`_foreach_*`: a call over lists of tensors is the operator's own call for each of them."""

import pytest

import flambeau
from flambeau._tensor import foreach

UNARY = foreach._UNARY.split()
BINARY = foreach._BINARY.split()
LISTS = [flambeau.tensor([0.25, 0.5, 0.75]), flambeau.rand(2, 3), flambeau.tensor(0.5, dtype=flambeau.float64)]
OTHERS = [t + 1 for t in LISTS]


def same(found, expected):
    assert type(found) is tuple and len(found) == len(expected)
    for x, y in zip(found, expected):
        assert x.dtype == y.dtype
        flambeau.testing.assert_close(x, y)


def both(name, expected, *arguments, **options):
    """The function and its form in place."""
    same(getattr(flambeau, f"_foreach_{name}")(LISTS, *arguments, **options), expected)
    copies = [t.clone() for t in LISTS]
    assert getattr(flambeau, f"_foreach_{name}_")(copies, *arguments, **options) is copies
    same(tuple(copies), expected)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    both(name, [getattr(flambeau, name)(t) for t in LISTS])


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    op = getattr(flambeau, name)
    number = {"maximum": flambeau.clamp_min, "minimum": flambeau.clamp_max}.get(name, op)
    both(name, [op(x, y) for x, y in zip(LISTS, OTHERS)], OTHERS)
    both(name, [number(x, 0.5) for x in LISTS], 0.5)
    word = "exponent" if name == "pow" else "scalars"
    both(name, [number(x, y) for x, y in zip(LISTS, (0.25, 2, 0.5))], **{word: (0.25, 2, 0.5)})


@pytest.mark.parametrize("name", foreach._POINTWISE.split())
def test_pointwise(name):
    op = getattr(flambeau, name)
    both(name, [op(x, y, x) for x, y in zip(LISTS, OTHERS)], OTHERS, LISTS)
    both(name, [op(x, y, x, value=0.5) for x, y in zip(LISTS, OTHERS)], OTHERS, LISTS, value=0.5)
    weighed = [op(x, y, x, value=v) for x, y, v in zip(LISTS, OTHERS, (1, 2, 3))]
    both(name, weighed, OTHERS, LISTS, [1, 2, 3])
    both(name, weighed, OTHERS, LISTS, scalars=flambeau.tensor([1, 2, 3]))


def test_lerp():
    both("lerp", [flambeau.lerp(x, y, 0.25) for x, y in zip(LISTS, OTHERS)], OTHERS, 0.25)
    both("lerp", [flambeau.lerp(x, y, x) for x, y in zip(LISTS, OTHERS)], OTHERS, weights=LISTS)
    both("lerp", [flambeau.lerp(x, y, w) for x, y, w in zip(LISTS, OTHERS, (0, 1, 2))], OTHERS, weight=[0, 1, 2])


def test_one_tensor_for_all_and_alpha():
    both("add", [x + 6 for x in LISTS], flambeau.tensor(3), alpha=2)
    both("sub", [x - 2 * y for x, y in zip(LISTS, OTHERS)], OTHERS, alpha=2)
    same(flambeau._foreach_pow(2.0, LISTS), [2.0 ** x for x in LISTS])


def test_of_one_list():
    same(flambeau._foreach_norm(LISTS), [x.norm() for x in LISTS])
    same(flambeau._foreach_norm(LISTS, 1, dtype=flambeau.float64), [x.double().abs().sum() for x in LISTS])
    same(flambeau._foreach_powsum(LISTS, 3), [(x ** 3).sum() for x in LISTS])
    same(flambeau._foreach_max(LISTS), [x.max() for x in LISTS])
    same(flambeau._foreach_clone(LISTS), LISTS)
    matrices = [flambeau.rand(2, 3), flambeau.rand(4, 2)]
    others = [flambeau.rand(3, 2), flambeau.rand(2, 5)]
    same(flambeau._foreach_mm(matrices, others), [x @ y for x, y in zip(matrices, others)])
    copies = [t.clone() for t in LISTS]
    assert flambeau._foreach_copy_(copies, OTHERS) is copies
    same(tuple(copies), OTHERS)
    same(tuple(flambeau._foreach_zero_(copies)), [t * 0 for t in LISTS])


def test_gradients_pass():
    x = flambeau.tensor([2.0, 3.0], requires_grad=True)
    flambeau._foreach_mul([x, x], [x, 4])[0].sum().backward()
    assert x.grad.tolist() == [4, 6]


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: flambeau._foreach_add([], 1), RuntimeError, "self is an empty list"),
    (lambda: flambeau._foreach_add(LISTS[0], 1), TypeError, "come in a list or a tuple"),
    (lambda: flambeau._foreach_add([1.5], 1), TypeError, r"self\[0\] must be a Tensor, got 1.5"),
    (lambda: flambeau._foreach_add(LISTS, [1, 2]), RuntimeError, "got 2 for 3"),
    (lambda: flambeau._foreach_add(LISTS, OTHERS[:1]), RuntimeError, "got 1 for 3"),
    (lambda: flambeau._foreach_add(LISTS, "x"), TypeError, "got 'x'"),
    (lambda: flambeau._foreach_add(LISTS), TypeError, "expected one of"),
    (lambda: flambeau._foreach_add(LISTS, 1, alpha=2), TypeError, "alpha"),
    (lambda: flambeau._foreach_mul(LISTS, OTHERS, alpha=2), TypeError, "alpha"),
    (lambda: flambeau._foreach_mul(LISTS, flambeau.ones(2)), RuntimeError, "no dimensions"),
    (lambda: flambeau._foreach_addcmul(LISTS, OTHERS[:2], LISTS), RuntimeError, "tensor1"),
    (lambda: flambeau._foreach_max([flambeau.ones(0)]), RuntimeError, "max"),
])
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
