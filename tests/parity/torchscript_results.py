"""Inputs and results of programs, of PyTorch or of Flambeau: `lib` is the library, and this module imports neither."""

import math


def leaves(x):
    """The tensors and numbers of a result."""
    if isinstance(x, dict):
        x = list(x.values())
    return [leaf for item in x for leaf in leaves(item)] if isinstance(x, (list, tuple)) else [x]


def own(lib, x):
    """Inputs with tensors of their own."""
    if isinstance(x, lib.Tensor):
        return x.clone()
    if isinstance(x, dict):
        return {key: own(lib, value) for key, value in x.items()}
    return type(x)([own(lib, item) for item in x]) if isinstance(x, (list, tuple)) else x


def result(lib, program, inputs, named):
    """What a program gives, with the seed that every reference is made with."""
    lib.manual_seed(3)
    return program(*own(lib, inputs), **own(lib, named))


def agree(lib, found, expected):
    """Whether two results are the same but for rounding."""
    found, expected = leaves(found), leaves(expected)
    return len(found) == len(expected) and all(_same(lib, a, b) for a, b in zip(found, expected, strict=True))


def _same(lib, a, b):
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) or (a != a and b != b)
    if not isinstance(a, lib.Tensor):
        return a == b
    if not isinstance(b, lib.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
        return False
    wide = lib.complex128 if a.is_complex() else lib.float64
    return lib.allclose(a.to(wide), b.to(wide), 1e-3, 1e-4, equal_nan=True)
