"""opcheck: whether an operator does on sample arguments what was registered for it."""

from collections import namedtuple
from functools import partial

from .. import _C
from .._shown import shown
from .._subclasses.fake_tensor import FakeTensorMode
from .._symbolic.shape_env import ShapeEnv
from ..autograd.grad_mode import no_grad
from ..autograd.gradcheck import gradcheck
from ..ops import OPS
from ..ops.comparison import equal
from ._operator import find


class OpCheckError(RuntimeError):
    """An operator does not do what was registered for it."""


class MetadataMismatchError(RuntimeError):
    """What a fake implementation says of a result is not what the real one gives."""


def opcheck(op, args, kwargs=None, *, test_utils=("test_schema", "test_autograd_registration", "test_faketensor",
                                                  "test_aot_dispatch_dynamic"),
            raise_exception=True, atol=None, rtol=None):
    """Tests an operator on sample arguments: {test: "SUCCESS" or the exception}; OpCheckError where it is raised.

    test_schema: it writes into what its schema says and nothing else; test_autograd_registration: gradcheck of its
    formula (float64 inputs that require grad), to atol and rtol; test_faketensor: the fake implementation agrees with
    the real one; test_aot_dispatch_dynamic: it does so for sizes that are open; test_aot_dispatch_static: as
    test_faketensor, for arguments that require grad. test_utils is one, several, or "ALL".
    """
    if (atol is None) != (rtol is None):
        raise ValueError(f"opcheck: atol and rtol are given together or not at all, got atol={atol}, rtol={rtol}")
    tolerances = {} if atol is None else {"atol": atol, "rtol": rtol}
    operator, kwargs = _checked(op), kwargs or {}
    tests = {"test_schema": _test_schema, "test_autograd_registration": partial(_test_autograd, **tolerances),
             "test_faketensor": _test_fake, "test_aot_dispatch_static": _test_fake,
             "test_aot_dispatch_dynamic": partial(_test_fake, static=False)}
    names = tuple(tests) if test_utils == "ALL" else (test_utils,) if isinstance(test_utils, str) else test_utils
    if not set(names) <= tests.keys():
        raise ValueError(f"opcheck: unknown test in {shown(names)}; known: {', '.join(tests)}")
    found = {}
    for name in names:
        try:
            tests[name](operator, args, kwargs)
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck: {name} of {operator.qualified}: {error}") from error
            found[name] = error
    return found


def _checked(op):
    """What is tested: an operator of a library, or one that has a record."""
    found = getattr(op, "_op", op)
    if isinstance(found, _C.Op):
        return _Recorded(found)
    if not isinstance(op, str) and not hasattr(op, "_operator"):
        raise ValueError(f"opcheck: expected an operator, like flambeau.ops.aten.sin.default, got {shown(op)}")
    return find(op)


class _Recorded:
    """An operator that has a record, as one of a library is asked."""

    backward, kernels = None, {"composite": None}

    def __init__(self, op):
        self.op, self.qualified = op, str(op)
        self.schema = _Arguments([_Argument(a.name, a.is_write) for a in op._schema.arguments])


_Arguments = namedtuple("_Arguments", "arguments")
_Argument = namedtuple("_Argument", "name mutated")


def _copies(args):
    return [a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, _C.Tensor) else a for a in args]


def _test_schema(operator, args, kwargs):
    before, given = _copies(args), _copies(args)
    with no_grad():
        operator.op(*given, **kwargs)
    for argument, old, new in zip(operator.schema.arguments, before, given, strict=False):
        if isinstance(old, _C.Tensor) and not argument.mutated and not equal(old.detach(), new.detach()):
            raise RuntimeError(f"{operator.qualified}: argument {argument.name} is not defined as mutated but was "
                               "written to; name it in mutates_args")


def _test_autograd(operator, args, kwargs, **tolerances):
    if operator.backward is None:
        if any(isinstance(a, _C.Tensor) and a.requires_grad for a in args) and "composite" not in operator.kernels:
            raise RuntimeError(f"{operator.qualified}: an argument requires grad, but there is no autograd formula")
        return
    if any(isinstance(a, _C.Tensor) and a.requires_grad and a.dtype in (_C.float64, _C.complex128) for a in args):
        gradcheck(lambda *given: operator.op(*given, **kwargs), _copies(args), **tolerances)


def _test_fake(operator, args, kwargs, static=True):
    real = operator.op(*_copies(args), **kwargs)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=static)
    with mode:
        fake = operator.op(*(mode.from_tensor(a.detach()) if isinstance(a, _C.Tensor) else a for a in args), **kwargs)
    pairs = zip(*((x if isinstance(x, (tuple, list)) else (x,)) for x in (real, fake)), strict=True)
    for k, (a, b) in enumerate(pairs):
        if isinstance(a, _C.Tensor) and not (a.dtype == b.dtype and _may_have(b, a.shape)):
            raise MetadataMismatchError(f"{operator.qualified}: result {k} is {a.dtype} {list(a.shape)}, but the fake "
                                        f"implementation says {b.dtype} {list(map(str, b.shape))}")


def _may_have(fake, shape):
    """Whether the sizes of a fake result, some of which only values decide, can be these."""
    if fake.dim() != len(shape):
        return False
    mode, sizes = fake.fake_mode, getattr(fake, "symbolic_sizes", None)
    if sizes is None:
        return fake.shape == shape
    found = mode.shape_env.bind_symbols([fake], [OPS["empty"](list(shape), device="meta")])
    found |= mode.shape_env.var_to_val  # what the arguments say
    ranges = mode.shape_env.var_to_range
    return all(mode.shape_env.at(e, found) == n for e, n in zip(sizes, shape, strict=True)) and \
        all(low <= found[s] <= high for s, (low, high) in ranges.items() if s in found)
