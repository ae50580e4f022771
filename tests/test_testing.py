"""assert_close, make_tensor, memory statistics."""

import unittest

import numpy
import pytest

import flambeau
from flambeau.testing import assert_close, make_tensor
from flambeau.testing._internal.common_utils import TestCase

t = flambeau.tensor


@pytest.mark.parametrize(("actual", "expected"), [
    (t([1.0, 2.0]), t([1.0, 2.000001])), (t([1, 2]), t([1, 2])), (1.0, 1.0 + 1e-9), ([1, t([2.0])], [1, t([2.0])]),
    ({"a": 1.0}, {"a": 1.0}), (float("inf"), float("inf")), (t([float("inf")]), t([float("inf")])), (None, None),
    (numpy.ones(2), numpy.ones(2)), (flambeau.zeros(0), flambeau.zeros(0)), (t([True]), t([True])),
])
def test_close(actual, expected):
    assert_close(actual, expected)


@pytest.mark.parametrize(("actual", "expected", "text"), [
    (t([1.0, 2.0]), t([1.0, 3.0]), "differ in 1 of 2 elements \\(50.0%\\)\n"
     "largest absolute difference 1.0 at index \\(1,\\), allowed atol=1e-05"),
    (t([1, 2]), t([1, 3]), "1 of 2 elements"), (t(1.0), t(2.0), "allowed atol=1e-05"),
    ([1, t([2.0])], [1, t([3.0])], r"at actual\[1\]"), ([1], [1, 2], "1 entries, expected 2"),
    ({"a": [1.0]}, {"a": [2.0]}, r"at actual\['a'\]\[0\]"), ({"a": 1}, {"b": 1}, "keys"),
    (t([1.0]), t([1.0]).double(), "dtype"), (t([[1.0, 2.0]]), t([1.0, 2.0]), "shape"), (1.0, 2.0, "expected 2.0"),
    (t([float("nan")]), t([float("nan")]), "differ in 1 of 1"), (None, 1, "actual is None"),
    (t([float("inf"), 1.0]), t([float("inf"), 5.0]), "1 of 2"), (1, 1.0, "type int, expected float"),
])
def test_not_close(actual, expected, text):
    with pytest.raises(AssertionError, match=text):
        assert_close(actual, expected)


def test_options():
    nan = t([float("nan"), 1.0])
    assert_close(nan, nan, equal_nan=True)
    assert_close(t([1.0]), t([1.5]), rtol=0, atol=0.6)
    assert_close(t([1.0]), t([1.0]).double(), check_dtype=False)
    with pytest.raises(ValueError, match="atol is missing"):
        assert_close(1, 1, rtol=0.1)
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(TypeError, match="no way to compare a str"):
        assert_close("a", "a")
    with pytest.raises(AssertionError, match="stride"):
        assert_close(flambeau.ones(2, 3), flambeau.ones(3, 2).t(), check_stride=True)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64",
                                   "complex64"])
def test_make_tensor(dtype):
    dtype = getattr(flambeau, dtype)
    x = make_tensor(3, 40, dtype=dtype)
    assert not x._is_view()
    assert x.dtype is dtype
    assert x.shape == (3, 40)
    y = make_tensor((5, 6), dtype=dtype, noncontiguous=True, low=None, high=None)
    assert not y.is_contiguous()
    if not dtype.is_complex and dtype is not flambeau.bool:
        z = make_tensor(1000, dtype=dtype, low=1, high=3)
        assert z.double().min().item() >= 1
        assert z.double().max().item() < 3
    assert bool((make_tensor(100, dtype=dtype, exclude_zero=True) != 0).all())


def test_make_tensor_errors():
    with pytest.raises(ValueError, match="low must be below high"):
        make_tensor(2, dtype=flambeau.float32, low=2, high=1)
    with pytest.raises(ValueError, match="requires_grad"):
        make_tensor(2, dtype=flambeau.int64, requires_grad=True)


def test_memory_statistics():
    before = flambeau.memory.stats()
    x = flambeau.empty(1 << 20)
    assert flambeau.memory.stats()["allocated"] - before["allocated"] >= 4 << 20
    del x
    assert flambeau.memory.stats()["allocated"] == before["allocated"]
    assert flambeau.memory.stats()["peak"] >= before["allocated"] + (4 << 20)
    flambeau.memory.empty_cache()
    assert flambeau.memory.stats()["cached"] <= before["cached"]
    flambeau.memory.reset_peak()


def test_older_comparison():
    flambeau.testing.assert_allclose(flambeau.ones(2), [1.0, 1.00005])
    with pytest.raises(AssertionError, match=r"rtol=0\.0001"):
        flambeau.testing.assert_allclose(flambeau.ones(1), [2.0])


def test_drawn_values_are_pytorchs():
    def drawn(**options):
        flambeau.manual_seed(3)
        return flambeau.testing.make_tensor((3, 4), device="cpu", **options)

    assert repr(drawn(dtype=flambeau.float32)[0]) == "tensor([-8.9233, -7.0998, -3.8548, -8.5148])"
    assert repr(drawn(dtype=flambeau.float32, noncontiguous=True)[0]) == "tensor([-7.0998, -8.5148, -7.9179,  4.3866])"
    assert drawn(dtype=flambeau.int64)[0].tolist() == [4, 2, 7, 3]
    assert drawn(dtype=flambeau.uint8, exclude_zero=True)[1].tolist() == [1, 1, 1, 5]
    with pytest.raises(ValueError, match=r"outside what torch\.uint8 can hold"):
        drawn(dtype=flambeau.uint8, low=-3, high=-1)
    with pytest.raises(ValueError, match="low and high must be numbers"):
        drawn(dtype=flambeau.float32, low=float("nan"))


@pytest.mark.parametrize(("x", "y"), [
    (t([1.0, 2.0]), t([1.0, 2.000001])), (t(1.0), 1.0), (1, 1.0), (True, 1), (t(True), True), (t([1.0]), [1.0]),
    ("a", "a"), (None, None), ({"a": t([1.0]), 2: [None, "b"]}, {"a": t([1.0]), 2: [None, "b"]}), ([1, 2], (1, 2)),
    (float("nan"), float("nan")), ({1, 2}, {2, 1}), (flambeau.float32, flambeau.float32), (flambeau.Size([1]), (1,)),
])
def test_equal_in_a_test_case(x, y):
    TestCase().assertEqual(x, y)
    with pytest.raises(AssertionError):
        TestCase().assertNotEqual(x, y)


@pytest.mark.parametrize(("x", "y"), [
    (t([1.0]), t([1.1])), (t([1.0]), t([1.0]).double()), ({1: 2, 2: 3}, {1: 2}), (t([[1.0]]), t([1.0])), ("a", "b"),
    ([t([1.0])], t([[1.0]])), (None, 1), ({1}, {2}), (flambeau.float32, flambeau.float64),
])
def test_unequal_in_a_test_case(x, y):
    TestCase().assertNotEqual(x, y)


def test_options_of_a_test_case():
    TestCase().assertEqual(t([1.0]), t([1.001]), atol=0.01, rtol=0)
    TestCase().assertEqual(t([1.0]), t([1.0]).double(), exact_dtype=False)
    with pytest.raises(ValueError, match="one element only, got one of 2"):
        TestCase().assertEqual(t([1.0, 1.0]), 1.0)
    with pytest.raises(AssertionError, match="they differ"):
        TestCase().assertEqual(1, 2, "they differ")


def test_facts_that_suites_skip_by():
    from flambeau.testing._internal import common_utils as facts

    assert facts.IS_LINUX + facts.IS_MACOS + facts.IS_WINDOWS <= 1
    assert facts.TEST_NUMPY and facts.TEST_CUDA is flambeau.cuda.is_available()
    assert facts.TEST_MULTIGPU is (flambeau.cuda.device_count() > 1)
    with pytest.raises(AttributeError):
        _ = facts.IS_MOON

    class Case(facts.TestCase):
        @facts.slowTest
        def test_slow(self):
            raise AssertionError

        @facts.skipIfRocm
        def test_quick(self):
            self.assertEqual(flambeau.ones(1), 1)

    found = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(found)
    assert found.testsRun == 2 and len(found.skipped) == (not facts.TEST_WITH_SLOW)
    assert len(found.failures) == facts.TEST_WITH_SLOW
