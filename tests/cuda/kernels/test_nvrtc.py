"""What NVRTC makes of the kernels, for GPUs that this machine does not have: nothing here runs on one."""

import contextlib
import re

import pytest

import flambeau
from flambeau.cuda.kernels import custom, launches, libraries, nvrtc, pointwise
from flambeau.cuda.kernels.named import FAMILIES

from .harness import Batch, Call, Operand, PointwiseCall
from .rows import Lowered
from .test_pointwise import DTYPES, MORE, calls_of, is_flat
from .test_rows import captured

pytestmark = pytest.mark.skipif(not nvrtc.found(), reason="NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12")
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


def build(batch, arch, **options):
    return nvrtc.build(batch.source(), arch, "a batch", **options)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_one_kernel_of_each_form_and_dtype(arch):
    batch = Batch()
    for dtype in pointwise.TYPES:
        for form, aligned in (("flat", True), ("flat", False), ("strided", False)):
            operand = Operand("tensor", dtype, dtype)
            batch.add(Call("eq", form, (operand, operand), dtype, "bool", (), 64 if aligned else 32, aligned, arch))
    assert build(batch, arch).startswith(b"\x7fELF")


@pytest.mark.exhaustive
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", (*DTYPES, *MORE), ids=str)
def test_every_pointwise_kernel(dtype, arch):
    """Compiled, and nothing spilled: local memory only where a formula keeps a table of its own."""
    batch = Batch()
    for call in calls_of(dtype):
        batch.add(call.signature("strided", 32, False))
        if is_flat(call):
            batch.add(call.signature("flat", 32, True))
    assert build(batch, arch).startswith(b"\x7fELF")


WIDTHS = {"float32": 4, "float16": 8, "bfloat16": 8, "float64": 2, "int8": 16, "int64": 2, "complex64": 2,
          "complex128": 1}


@pytest.mark.parametrize("dtype", WIDTHS)
def test_flat_kernels_move_16_bytes_at_once(dtype):
    """Two loads and a store of 128 bits in the aligned form, whatever the dtype; no local memory in any form."""
    batch = Batch()
    operand = Operand("tensor", dtype, dtype)
    call = Call("mul", "flat", (operand, operand), dtype, dtype, (), 32, True, "sm_90")
    _, vector = batch.add(call)
    batch.add(call._replace(form="strided"))
    assert vector == WIDTHS[dtype]
    ptx = build(batch, "sm_90", ptx=True).decode()
    assert ".local" not in ptx
    first = ptx.split(".entry")[1]
    wide = re.findall(r"(ld|st)\.global\.v(\d)\.[a-z](\d+)", first)
    assert sorted(k for k, many, bits in wide if int(many) * int(bits) == 128) == ["ld", "ld", "st"], wide


@pytest.mark.parametrize("dtype", WIDTHS)
def test_kernels_of_other_layouts(dtype):
    """Packs are 16 bytes at once, what repeats is read alone; tiles need no local memory and fit the shared memory."""
    x, repeated, across = (Operand(kind, dtype, dtype) for kind in ("tensor", "repeated", "across"))
    width, accesses = WIDTHS[dtype], {}
    for form, vector, operands in (("packed", width, (x, repeated)), ("packed", width, (x, x)),
                                   ("tiled", 0, (x, across)), ("tiled", 0, (across, across)),
                                   *[("tiled", 2, (x, across))] * (width == 8)):
        for index in (32, 64):
            batch = Batch()
            batch.add(Call("mul", form, operands, dtype, dtype, (), index, False, "sm_90", vector))
            ptx = build(batch, "sm_90", ptx=True).decode()
            assert ".local" not in ptx, (form, operands)
            wide = re.findall(r"(ld|st)\.global\.v(\d)\.[a-z](\d+)", ptx)
            accesses[form, operands] = [k for k, many, bits in wide if int(many) * int(bits) == 128]
            if form == "tiled" and vector == 2 and index == 32:
                assert len(re.findall(r"st\.global\.v2\.[a-z]16", ptx)) == 8, ptx
    if width > 1:
        times = pointwise._TIMES[width]
        assert sorted(accesses["packed", (x, repeated)]) == ["ld"] * times + ["st"] * times
        assert sorted(accesses["packed", (x, x)]) == ["ld"] * 2 * times + ["st"] * times


def test_results_of_another_width_are_still_one_access():
    """float32 operands and bool results: 16 bytes read, 4 written."""
    x = flambeau.randn(8)
    batch = Batch()
    batch.add(PointwiseCall("lt", (x, x), {}).signature("flat", 32, True)._replace(arch="sm_90"))
    ptx = build(batch, "sm_90", ptx=True).decode()
    assert len(re.findall(r"ld\.global\.v4\.[a-z]32", ptx)) == 2
    assert re.findall(r"st\.global\.v4\.u8|st\.global\.u32", ptx)


def _texts(monkeypatch, dtype, most):
    """{kernel text: operator} of the first calls of every rule; nothing is compiled yet."""
    texts = {}
    monkeypatch.setattr(launches, "compile", lambda source, arch, name: texts.setdefault(source, name).encode())
    for name, calls in captured(dtype).items():
        for _, args, kwargs, _, result in calls[:most]:
            results = [result] if isinstance(result, flambeau.Tensor) else list(result)
            with contextlib.suppress(NotImplementedError):
                Lowered(name, args, kwargs, results=results)
    for name, args in (("rand", ((9,),)), ("multinomial", (flambeau.ones(3, 4), 2)), ("randint.high", (9, (4,)))):
        Lowered(name, args)
    return texts


def _beside_products():
    """Tails of products, 8-bit floats with scales, attention with masks, and recurrent layers, with less and less asked
    of the libraries."""
    x, w, row = flambeau.ones(16, 32), flambeau.ones(16, 32), flambeau.ones(16)
    eight, one = (flambeau.float8_e4m3fn, flambeau.float8_e5m2), flambeau.ones(())
    for use in (2, 1, 0):
        for name in ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid"):
            Lowered("_linear_tail", (x, w, row, flambeau.ones(16, 16), name, False), libraries=use)
        for a in eight:
            for out in (*eight, flambeau.float16, flambeau.bfloat16, flambeau.float32):
                Lowered("_scaled_mm", (x.to(a), w.t().to(eight[0]), one, one, row, None, out), libraries=use)
    for dtype in (flambeau.float16, flambeau.bfloat16):
        q, lse = flambeau.ones(2, 3, 4, 8, dtype=dtype), flambeau.ones(2, 3, 4)
        for mask in (flambeau.ones(4, 4, dtype=flambeau.bool), flambeau.ones(2, 1, 4, 4, dtype=dtype)):
            Lowered("fused_attention", (q, q, q, mask, False, 1.0, True), libraries=2)
            Lowered("fused_attention_backward", (q, q, q, q, mask, q, lse, False, 1.0, True), libraries=2)
    offs, scales = flambeau.tensor([2, 5, 9], dtype=flambeau.int32), flambeau.ones(16, 1).to(flambeau.float8_e8m0fnu)
    Lowered("_block_scaled_mm", (x.to(eight[0]), w.to(eight[0]).t(), scales, scales, 3, 3, flambeau.float32, False),
            results=[flambeau.ones(16, 16)], libraries=2)
    for use in (2, 0):
        Lowered("_int_mm", (x.to(flambeau.int8), w.t().to(flambeau.int8)), libraries=use)
        for dtype in (flambeau.float32, flambeau.float64, flambeau.float16, flambeau.bfloat16):
            for a, b in ((x, flambeau.ones(3, 32, 8)), (flambeau.ones(3, 8, 16), x), (x.t(), x),
                         (x[None], x.t()[None])):
                own = None if b.ndim == a.ndim == 3 else offs
                Lowered("_grouped_mm", (a.to(dtype), b.to(dtype), own, None, None), libraries=use)
    states = flambeau.ones(1, 3, 4)
    given = [flambeau.ones(5, 2), states, states, flambeau.ones(16, 2), flambeau.ones(16, 4)]
    out, kept = flambeau.ones(5, 4), flambeau.zeros(8, dtype=flambeau.uint8)
    layout = given, False, False, [3, 2], "lstm"
    Lowered("_recurrent_stack", (*layout, 8), results=[out, states, states, kept], libraries=2)
    Lowered("_recurrent_stack_backward", (None, states, None, *layout, out, kept), results=given, libraries=2)


def test_kernels_beside_calls_of_libraries(monkeypatch):
    """What decompositions copy, find and put in order around a library's call, and images of bytes."""
    texts = {}
    monkeypatch.setattr(libraries, "path_of", lambda name: "a library")
    monkeypatch.setattr(launches, "compile", lambda source, arch, name: texts.setdefault(source, name).encode())
    for dtype in (flambeau.float32, flambeau.complex128):
        a = flambeau.eye(4, dtype=dtype).expand(3, 4, 4).contiguous()
        tau, pivots = a[:, 0, :2].contiguous(), flambeau.ones(3, 4, dtype=flambeau.int32)
        for name, *args in (("linalg_qr", a, "complete"), ("geqrf", a), ("_householder_product", a, tau),
                            ("_ormqr", a, tau, a, True, True), ("linalg_ldl_factor_ex", a), ("_linalg_eig", a, True),
                            ("_ldl_solve", a, pivots, a, False), ("linalg_cholesky_ex", a), ("linalg_lu_factor_ex", a),
                            ("_linalg_svd", a, False, True), ("_linalg_eigh", a, "L", True),
                            ("_solve_triangular", a, a, True, True, False)):
            Lowered(name, args, libraries=True)
        for shape in ((2, 40, 3), (2, 40, 36), (2, 36, 36)):
            Lowered("_linalg_svd", (flambeau.ones(shape, dtype=dtype), True, True), libraries=True)
            Lowered("_linalg_svd", (flambeau.ones(shape, dtype=dtype), False, False), libraries=False)
    Lowered("linalg_ldl_factor_ex", (a,), {"hermitian": True})
    Lowered("_ldl_solve", (a, pivots, a, True))
    _beside_products()
    image = flambeau.zeros(1, 1, 4, 4, dtype=flambeau.uint8)
    for antialias in (False, True):
        Lowered("interpolate", (image, (3, 2), None, "bicubic", False, None, antialias))
    assert len(texts) > 20
    for text, name in texts.items():
        assert ".local" not in nvrtc.build(text, "sm_90", name, ptx=True).decode(), name


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_functions_of_users(arch):
    """One and several results, of every kind of dtype."""
    one = "template <typename T> T f(T x, T y, T k) { return x * y + k; }"
    two = "template <typename T> void f(T x, T y, T& a, T& b) { a = x * y; b = x - y; }"
    for dtype, others in (("float32", ("float16", "int64")), ("complex64", ("complex64", "float32")),
                          ("bfloat16", ("bfloat16", "bfloat16")), ("int64", ("int64", "bool"))):
        for code, numbers, results in ((one, 1, 1), (two, 0, 2)):
            text = custom._source(code, others, dtype, numbers, results, 2)
            assert nvrtc.build(text, arch, "f").startswith(b"\x7fELF")


#: kernels that may keep something in local memory: a register's index is not known when they are compiled
LOCAL = ()


_KERNEL = 'extern "C" __global__ '


def _together(texts):
    """[(text, operators)]: kernels that stand on the same functions as one text, since reading these takes longest."""
    groups = {}
    for text, name in texts.items():
        before, _, kernel = text.rpartition(_KERNEL)
        groups.setdefault(before, []).append((kernel, name))
    return [(before + "".join(_KERNEL + re.sub(r" \w+_kernel\(", f" kernel{k}(", kernel, count=1)
                              for k, (kernel, _) in enumerate(kernels)), [name for _, name in kernels])
            for before, kernels in groups.items()]


def test_a_kernel_of_every_rule(monkeypatch):
    """Compiled for sm_90; none uses local memory."""
    texts = _texts(monkeypatch, flambeau.float32, 1)
    assert len(texts) > 80
    for text, names in _together(texts):
        entries = nvrtc.build(text, "sm_90", " ".join(names), ptx=True).decode().split(".visible .entry ")[1:]
        assert len(entries) == len(names)
        for entry in entries:
            name = names[int(re.match(r"kernel(\d+)", entry)[1])]
            assert ".local" not in entry or name in LOCAL, name


@pytest.mark.exhaustive
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", (flambeau.float32, flambeau.bfloat16, flambeau.float64, flambeau.int64), ids=str)
def test_every_kernel_of_every_rule(monkeypatch, dtype, arch):
    for text, names in _together(_texts(monkeypatch, dtype, 8)):
        assert nvrtc.build(text, arch, " ".join(names)).startswith(b"\x7fELF")


#: fused groups: ((x * 2 + 1).exp() - x).abs().sqrt(), and a softmax by hand
CHAIN = ("each 32 uu 9 I float32 1 0 N float32 -1 -1 R float32 -1 0 N float32 -1 -1 R float32 -1 0 R float32 -1 0 "
         "R float32 -1 0 R float32 -1 0 R float32 0 0 L 2 0 2 0 1 mul float32 0 L 4 0 2 2 3 add float32 1 int "
         "L 5 0 1 4 exp float32 0 L 6 0 2 5 0 sub float32 1 int L 7 0 1 6 abs float32 0 L 8 0 1 7 sqrt float32 0")
SOFTMAX = ("rows 32 ss 6 I float32 1 0 R float32 -1 1 R float32 -1 0 R float32 -1 0 R float32 -1 1 R float32 0 0 "
           "F 1 1 1 0 amax L 2 0 2 0 1 sub float32 1 int L 3 0 1 2 exp float32 0 F 4 1 1 3 sum "
           "L 5 0 2 3 4 div float32 1 absent")

#: the chain of halves, read and written eight at once
PACKED = CHAIN.replace("uu", "pp").replace("I float32", "I bfloat16").replace("R float32 0 0", "R bfloat16 0 0")

#: (family, key) of kernels that no signature names
NAMED = [*(("optim", f"{law} {dtype}") for law in range(5) for dtype in ("float32", "float64", "bfloat16")),
         *(("norms", f"{dtype} {ord}") for dtype in ("float32", "float64", "bfloat16") for ord in ("2", "-inf", "2.5")),
         ("norms_joined", "float16 2"), ("norms_joined", "float64 0"), ("scale", "bfloat16 float32"),
         ("scale", "float64 float32"), ("optim_counts", ""),
         *(("group", key) for key in (CHAIN, CHAIN.replace("uu", "ss"), PACKED, SOFTMAX))]
#: those that are always compiled
FIRST = ("1 float32", "float32 2", "float16 2", "bfloat16 float32", "", CHAIN, PACKED, SOFTMAX)


@pytest.mark.parametrize("arch", ("sm_90", *(pytest.param(a, marks=pytest.mark.exhaustive)
                                             for a in ("sm_80", "sm_100"))))
@pytest.mark.parametrize(("family", "key"), [n if n[1] in FIRST else pytest.param(*n, marks=pytest.mark.exhaustive)
                                              for n in NAMED])
def test_kernels_that_no_signature_names(family, key, arch):
    _, text = FAMILIES[family](key)
    assert nvrtc.build(text, arch, family).startswith(b"\x7fELF")
    assert ".local" not in nvrtc.build(text, arch, family, ptx=True).decode()


def test_what_nvrtc_refuses_names_the_operator():
    with pytest.raises(RuntimeError, match=r"gelu: NVRTC \d+\.\d+ refused the kernel's text for sm_90"):
        nvrtc.build("nonsense", "sm_90", "gelu")
