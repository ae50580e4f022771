"""The test case whose `assertEqual` compares tensors by value, and what suites written with it skip tests by."""

import os
import platform
import random
import sys
import unittest
from importlib.util import find_spec

import flambeau

from ... import _C
from ..._shown import shown
from .. import _Comparison

_NUMBERS = (int, float, complex)

# --- where the tests run: what suites skip by -------------------------------------------------------------------------

IS_LINUX, IS_MACOS, IS_WINDOWS = (sys.platform.startswith(name) for name in ("linux", "darwin", "win32"))
IS_X86, IS_ARM64 = (platform.machine() in names for names in (("x86_64", "AMD64", "i386"), ("arm64", "aarch64")))
IS_CI = bool(os.environ.get("CI"))
#: machines and builds that this library has none of
IS_FBCODE = IS_SANDCASTLE = IS_JETSON = IS_S390X = IS_PPC = False
TEST_WITH_ROCM = TEST_WITH_ASAN = TEST_WITH_TSAN = TEST_WITH_UBSAN = TEST_MPS = TEST_XPU = False


def _is_installed(name):
    try:
        return find_spec(name) is not None
    except ImportError:  # a finder that refuses it
        return False


TEST_NUMPY, TEST_SCIPY, TEST_NUMBA, TEST_DILL = map(_is_installed, ("numpy", "scipy", "numba", "dill"))
#: tests marked with `slowTest` run only where this says so
TEST_WITH_SLOW = os.environ.get("PYTORCH_TEST_WITH_SLOW", "0") == "1"
_CUDA_FACTS = {"TEST_CUDA": lambda count: count > 0, "TEST_MULTIGPU": lambda count: count > 1}

slowTest = unittest.skipUnless(TEST_WITH_SLOW, "slow: set PYTORCH_TEST_WITH_SLOW=1 to run it")
skipIfRocm = unittest.skipIf(TEST_WITH_ROCM, "it does not run on ROCm")


def __getattr__(name):
    if name in _CUDA_FACTS:  # asked when it is used: the driver is not looked for before
        return _CUDA_FACTS[name](_C._cuda.device_count() if _C._cuda.available() else 0)
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}")


class _Equality(_Comparison):
    """assert_close, and besides: a number with a tensor of one element, a list with a tensor, other objects by `==`."""

    def compare(self, actual, expected, path=()):
        pair = [actual, expected]
        tensors = [isinstance(x, flambeau.Tensor) for x in pair]
        if any(tensors) and not all(tensors):
            self.with_tensor(pair, tensors.index(True), path)
        elif isinstance(actual, set) or not any(map(self.has_parts, pair)):
            if actual != expected:
                self.fail(f"actual is {actual!r}, expected {expected!r}", path)
        else:
            super().compare(actual, expected, path)

    @staticmethod
    def has_parts(x):
        numeric = isinstance(x, (flambeau.Tensor, *_NUMBERS))
        return numeric or (hasattr(x, "__len__") and not isinstance(x, (str, bytes)))

    def with_tensor(self, pair, known, path):
        t, other = pair[known], pair[1 - known]
        if isinstance(other, _NUMBERS) and t.numel() != 1:
            raise ValueError(f"assertEqual: a number equals a tensor of one element only, got one of {t.numel()}")
        made = flambeau.as_tensor(other, device=t.device)
        made = made.to(t.dtype).reshape(t.shape) if isinstance(other, _NUMBERS) else made
        self.tensors(*((t, made) if known == 0 else (made, t)), path)


class TestCase(unittest.TestCase):
    """A unittest.TestCase that seeds the random streams before each test and whose assertEqual takes tensors.

    >>> import flambeau
    >>> from flambeau.testing._internal.common_utils import TestCase
    >>> TestCase().assertEqual({"w": flambeau.ones(2)}, {"w": flambeau.ones(2) + 1e-9})
    """

    maxDiff = None

    def setUp(self):
        super().setUp()
        flambeau.manual_seed(1234)
        random.seed(1234)

    def assertEqual(self, x, y, msg=None, *, atol=None, rtol=None, equal_nan=True, exact_dtype=True,
                    exact_device=False, exact_layout=False, exact_stride=False, exact_is_coalesced=False):
        """x and y are equal, tensors and numbers within the tolerances of assert_close, containers part by part."""
        if exact_is_coalesced:
            raise NotImplementedError("assertEqual: exact_is_coalesced=True is not available; compare is_coalesced()")
        if (rtol is None) != (atol is None):
            raise ValueError("assertEqual: rtol and atol must be given together")
        checks = {"dtype": exact_dtype, "type": False, "device": exact_device, "layout": exact_layout,
                  "stride": exact_stride}
        _Equality(rtol, atol, equal_nan, checks, msg).compare(x, y)

    def assertNotEqual(self, x, y, msg=None, **options):
        """x and y are not equal, in the sense of assertEqual."""
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, **options)


def run_tests(argv=None):
    """Runs the tests of the module that is the program."""
    unittest.main(argv=argv)


def load_tests(loader, tests, pattern):
    """unittest's protocol: the tests of a module as they were found."""
    return tests
