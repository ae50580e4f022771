"""Everything Python can call in the native types meets odd objects: exceptions at worst, never a crash."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau
from flambeau.ops import dims

NATIVE = Path(__file__).resolve().parents[2] / "native" / "bind"

PROGRAM = r'''
import gc, inspect, random, sys, types, warnings
import flambeau as fb
from flambeau import _C
warnings.simplefilter("ignore")

class Raises:
    """An object each of whose methods raises."""
    def __getattribute__(self, name): raise OSError(name)
    def __index__(self): raise OSError
    def __len__(self): raise OSError
    def __iter__(self): raise OSError
    def __getitem__(self, k): raise OSError
    def __float__(self): raise OSError
    def __bool__(self): raise OSError
    def __hash__(self): raise OSError
    def __eq__(self, other): raise OSError
    def __str__(self): raise OSError
    def __call__(self, *a, **k): raise OSError
    @property
    def __class__(self): raise OSError

class Name(str):
    def __hash__(self): return 1
    def __eq__(self, other): return False

class Sub(fb.Tensor): pass

def odd_tensors():
    leaf = fb.ones(2, 3, requires_grad=True)
    made = leaf * 2
    view = fb.zeros(4)[1:]
    stale = fb.ones(3, requires_grad=True).clone()
    v = stale[0]
    stale.mul_(2)
    with fb.no_grad():
        hidden = made[0]
    with fb.inference_mode():
        inference = fb.ones(2)
    return [leaf, made, view, v, hidden, inference, fb.empty(0), fb.tensor(1.5), fb.empty(2, device="meta"),
            fb.ones(1).expand(3), Sub([1.0]), fb.ones(2, dtype=fb.complex64).conj(), fb.tensor([True])]

def values():
    cycle = []
    cycle.append(cycle)
    return [None, 0, -1, 2**63, -2**63, 2**70, 0.5, float("nan"), 1j, "", "\ud800", "cpu", b"\xff", Name("size"), [],
            cycle, (1, "\ud800"), {"\ud800": 1}, object(), Raises(), int, fb.float32, fb.device("cpu"), fb.Size([2, 3]),
            slice(None, "x"), Ellipsis, lambda *a: 1 / 0, memoryview(b"12345678"), range(3), fb.Generator(), type,
            fb.add, *odd_tensors()]

def instances():
    made = fb.ones(2, requires_grad=True) * 2
    class F(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x): return x.clone()
        @staticmethod
        def backward(ctx, g): return g
    custom = F.apply(fb.ones(2, requires_grad=True)).grad_fn
    return [*odd_tensors(), made.grad_fn, made.grad_fn.next_functions[0][0], custom, fb.Generator(), fb.float32,
            fb.device("meta"), fb.Size([2, 3]), fb.Size([2**62, 4]), fb.contiguous_format, fb.strided, fb.add, fb.max,
            fb.nn.Linear(2, 2), fb.ones(2).untyped_storage()]

def attributes(cls):
    for base in cls.__mro__:
        if base is object: continue
        for name, member in list(vars(base).items()):
            if name in ("__del__", "__subclasshook__", "share_memory_", "__class__", "__init_subclass__"): continue
            yield name, member

def attempt(f, *a, **k):
    global calls
    calls += 1
    try:
        return f(*a, **k)
    except (Exception, RecursionError):
        return None

calls = 0
seed, part = int(sys.argv[1]), sys.argv[2]
draw = random.Random(seed)
pool = values()
types_of = {type(x) for x in instances()}
Op = type(fb.add)
NATIVE = (types.GetSetDescriptorType, types.MethodDescriptorType, types.WrapperDescriptorType,
          types.MemberDescriptorType, types.BuiltinFunctionType)
if part == "attributes":
    made = [*instances(), fb.ones(1).expand(2**62)]
    for cls in types_of:
        for name, member in attributes(cls):
            if not isinstance(member, NATIVE): continue
            for x in [*pool, *made]:
                attempt(getattr, member, "__get__", None) and attempt(member.__get__, x, type(x))
            for x in made if hasattr(type(member), "__set__") else ():
                if type(x) is not cls: continue
                for value in pool:
                    attempt(member.__set__, x, value)
                attempt(member.__set__, pool[5], x)
                attempt(member.__delete__, x)
    for x in made:
        for name in ("\ud800", "x" * 9, "_saved_\ud800", "_raw_saved_self"):
            attempt(getattr, x, name); attempt(setattr, x, name, 1); attempt(delattr, x, name)
elif part == "methods":
    for x in instances():
        for name, member in attributes(type(x)):
            if not callable(member) or isinstance(member, (type, Op)): continue
            if isinstance(member, types.FunctionType) and not name.startswith("__"): continue  # Python's own
            for _ in range(6):
                bound = attempt(getattr, x, name)
                if bound is None: break
                attempt(bound, *draw.choices(pool, k=draw.randrange(4)))
                named = {draw.choice(("\ud800", "dim", "out")): draw.choice(pool)}
                attempt(member, *draw.choices(pool, k=draw.randrange(1, 4)), **named)
elif part == "types":
    for cls in types_of:
        for value in pool:
            attempt(cls, value); attempt(cls, value, value); attempt(cls, **{"\ud800": value})
            attempt(cls.__new__, value)
            attempt(cls.__new__, cls, value); attempt(type(cls).__call__, cls, size=value, device=value)
elif part == "operators":
    import operator
    names = ("add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift lt le eq ne gt ge getitem iadd "
             "imul ipow contains concat delitem").split()
    for x in instances():
        for y in pool:
            for name in names:
                attempt(getattr(operator, name), x, y); attempt(getattr(operator, name), y, x)
            attempt(operator.setitem, x, y, y)
        for f in (len, iter, hash, repr, str, bool, int, float, complex, operator.index, operator.neg,
                  operator.invert, abs, memoryview, reversed, dir):
            attempt(f, x)
else:  # module functions
    skip = {"set_num_threads", "fail_allocation", "set_handlers", "set_level_handlers", "set_node_handlers",
            "set_modes", "set_levels"}
    for name, member in sorted(vars(_C).items()):
        if not callable(member) or isinstance(member, type) or name in skip or name.startswith("__"): continue
        for _ in range(60):
            attempt(member, *draw.choices(pool, k=draw.randrange(5)))
    for name in ("ones", "zeros", "tensor", "arange", "add", "cat", "sum", "einsum", "rand", "full"):
        for value in pool:
            for key in ("device", "dtype", "\ud800", "generator", "out", "layout", "memory_format"):
                attempt(getattr(fb, name), fb.ones(2), **{key: value}); attempt(getattr(fb, name), 2, **{key: value})
gc.collect()
print("calls", calls, flush=True)
import os
os._exit(0)  # what private functions were given is not asked to leave the interpreter as it was
'''


@pytest.mark.parametrize("part", ("attributes", "methods", "types", "operators", "functions"))
def test_odd_objects(part):
    run = subprocess.run([sys.executable, "-X", "faulthandler", "-c", PROGRAM, "1", part], capture_output=True,
                         text=True, timeout=200)
    assert run.returncode == 0 and int(run.stdout.split()[-1]) > 500, run.stderr[-3000:]


def test_every_table_goes_through_the_guard():
    if not NATIVE.is_dir():
        pytest.skip("the native sources are not here")
    for path in NATIVE.glob("*.cpp"):
        text = path.read_text()
        for table in re.findall(r"Py(?:GetSetDef|MethodDef|Type_Slot) \w+(?:\[\])? = \{(.*?)\};", text, re.S):
            for name, function in re.findall(r'\{"(\w+)", ([^,}]+)', table):
                guarded = function.startswith(("slot<", "method<", "PyObject_Generic", "T_"))
                assert guarded, f"{path.name}: {name} has no guard"
            for function in re.findall(r"\(void\*\)\s*(\w+)", table):
                assert function.startswith("Py") or f"{function}[]" in text, f"{path.name}: {function} has no guard"
        by_hand = re.findall(r"reinterpret_cast<PyCFunction>|\(PyCFunction\)", text)
        assert not by_hand, f"{path.name} casts a function by hand"


def test_integers_are_read_where_their_error_is_seen():
    """A conversion that failed unseen leaves its exception to whatever Python code runs next."""
    if not NATIVE.is_dir():
        pytest.skip("the native sources are not here")
    for path in [*NATIVE.glob("*.cpp"), *NATIVE.glob("*.h")]:
        for at in re.finditer(r"PyLong_AsLongLong\(", path.read_text()):
            following = path.read_text()[at.start():at.start() + 120]
            assert "PyErr_Occurred()" in following, f"{path.name}: read it with integer_of: {following.splitlines()[0]}"


class Refuses:
    def __index__(self):
        raise KeyError("refused")


class RefusesTruth(int):
    def __bool__(self):
        raise KeyError("refused")


@pytest.mark.parametrize("call", [
    lambda: dims.wrap_dims([-2], Refuses(), None),
    lambda: flambeau.ones(2, 3).size(Refuses()),
    lambda: flambeau.ones(2, 3).stride(Refuses()),
    lambda: flambeau.ones(2, 3).sum(0, keepdim=RefusesTruth(1)),
])
def test_what_an_argument_raises_arrives(call):
    with pytest.raises(KeyError, match="refused"):
        call()


@pytest.mark.parametrize("name", ["size", "stride"])
def test_size_and_stride_take_one_dimension(name):
    method = getattr(flambeau.ones(2, 3), name)
    assert method(dim=1) == method(1) == method(-1) and tuple(method(None)) == tuple(method())
    for args, kwargs in [((0, 1), {}), ((), {"axis": 0}), ((0,), {"dim": 0})]:
        with pytest.raises(TypeError, match="one argument, dim"):
            method(*args, **kwargs)
