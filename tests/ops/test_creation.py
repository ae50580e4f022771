"""What makes tensors of numbers alone: how many numbers a range has, the dtype of `out=`, refused ends."""

import pytest

import flambeau


@pytest.mark.parametrize("call, expected", [
    ((0, 6.5, 1.5), [0, 1, 2, 3, 4, 5]), ((-3.5, 3.5, 1), [-3, -2, -1, 0, 1, 2]), ((0, 9.9, 3.3), [0, 3, 6]),
    ((5.5, 0, -1.5), [5, 4, 3, 2, 1]), ((0, 64, 1.5), list(range(64))),
])
def test_a_range_of_int64_is_truncated_before_it_is_counted(call, expected):
    assert flambeau.arange(*call, dtype=flambeau.int64).tolist() == expected
    assert flambeau.arange(*call, out=flambeau.empty(0, dtype=flambeau.int64)).tolist() == expected


def test_a_range_of_other_integers_is_counted_before_it_is_truncated():
    assert flambeau.arange(0, 6.5, 1.5, dtype=flambeau.int32).tolist() == [0, 1, 2, 3, 4]
    assert flambeau.arange(0, 2, 0.5, dtype=flambeau.int32).tolist() == [0, 0, 0, 0]


def test_a_step_that_truncates_to_zero_is_refused():
    for how in ({"dtype": flambeau.int64}, {"out": flambeau.empty(0, dtype=flambeau.int64)}):
        with pytest.raises(ValueError, match="step must be nonzero"):
            flambeau.arange(0, 64, 0.5, **how)


CALLS = {"zeros": (2,), "full": ((2,), 1.5), "eye": (2,), "linspace": (0, 1, 3), "rand": (2,), "randperm": (3,),
         "randint": (0, 3, (2,)), "arange": (3,), "range": (0, 3)}


@pytest.mark.parametrize("name", CALLS)
def test_out_gives_the_dtype(name):
    make = getattr(flambeau, name)
    for dtype in (flambeau.float64, flambeau.float16, flambeau.int64, flambeau.int16):
        if name == "rand" and not dtype.is_floating_point:
            continue
        flambeau.manual_seed(0)
        expected = make(*CALLS[name], dtype=dtype)
        flambeau.manual_seed(0)
        out = flambeau.empty(0, dtype=dtype)
        assert make(*CALLS[name], out=out) is out
        assert out.dtype == dtype and flambeau.equal(out, expected)


def test_tensors_that_are_no_number_are_refused():
    for call in (lambda: flambeau.linspace(flambeau.ones(1), 1, 3), lambda: flambeau.logspace(0, flambeau.ones(2), 3),
                 lambda: flambeau.narrow(flambeau.ones(3, 3), 0, flambeau.ones(2, dtype=flambeau.int32), 1)):
        with pytest.raises(RuntimeError, match=r"must be a number or a 0-d tensor of one, got \w+ of shape \[[12]\]"):
            call()
    assert flambeau.linspace(flambeau.tensor(0), flambeau.tensor(1.0), 2).tolist() == [0, 1]


def test_cat_refuses_an_operand_as_out_even_if_it_is_empty():
    x = flambeau.empty(0)
    with pytest.raises(RuntimeError, match="shares memory with an input"):
        flambeau.cat([x, flambeau.ones(2, 3)], out=x)


def test_of_no_tensors_and_of_several_dtypes():
    assert flambeau.block_diag().shape == (1, 0)
    for tensors in ((), ([],), (flambeau.arange(2), flambeau.arange(2.0))):
        with pytest.raises(RuntimeError, match="meshgrid: "):
            flambeau.meshgrid(*tensors, indexing="ij")
