"""Pointwise kernels of a function that a user wrote in CUDA C++: one launch, operands broadcast, of any layout."""

import math
import re
from functools import cache

from ..._shown import shown
from .compiling import compile
from .launches import FILES, blocks, layout
from .pointwise import text, type_of

THREADS = 256
_HEAD = re.compile(r"template\s*<\s*typename\s+(\w+)\s*>\s*(?:\w[\w:<>]*)\s+(\w+)\s*\(([^)]*)\)")

_KERNEL = """namespace given_ {{
{code}
}}
extern "C" __global__ void __launch_bounds__({threads}) kernel({parameters}) {{
  typedef {wide} T;
  const int64_t i_ = int64_t(blockIdx.x) * {threads} + threadIdx.x;
  if (i_ >= n_) return;
{body}}}
"""


def head_of(code):
    """(name, names of the parameters) of the function template in a text. Raises ValueError where there is none."""
    found = _HEAD.search(code)
    if not found:
        raise ValueError("jiterator: expected a text of the form `template <typename T> T name(T x, T y) { ... }`, got "
                         f"{shown(code.strip())}")
    return found[2], [re.findall(r"\w+", p)[-1] for p in found[3].split(",") if p.strip()]


def _source(code, tensors, dtype, numbers, results, rank):
    """The kernel's text; its parameters: n, results, each tensor with its layout, then numbers."""
    name, _ = head_of(code)
    storage, wide, _ = type_of(dtype, name)
    parameters = ["int64_t n_", *(f"{storage}* out{k}_" for k in range(results))]
    body, given = [], []
    for k, of in enumerate(tensors):
        parameters += [f"const {type_of(of, name)[0]}* x{k}_", f"const Layout<{rank}> at{k}_"]
        given.append(f"cast<T>(cast<{storage}>(x{k}_[offset_of<int64_t>(i_, at{k}_)]))")
    for k in range(numbers):
        parameters.append(f"{'complex128' if dtype.startswith('complex') else 'double'} number{k}_")
        given.append(f"cast<T>(number{k}_)")
    if results == 1:
        body.append(f"  out0_[i_] = cast<{storage}>(T(given_::{name}<T>({', '.join(given)})));\n")
    else:
        body.append(f"  T {', '.join(f'value{k}_' for k in range(results))};\n")
        given += [f"value{k}_" for k in range(results)]
        body.append(f"  given_::{name}<T>({', '.join(given)});\n")
        body += [f"  out{k}_[i_] = cast<{storage}>(value{k}_);\n" for k in range(results)]
    return text(*FILES) + _KERNEL.format(code=code, threads=THREADS, parameters=", ".join(parameters), wide=wide,
                                         body="".join(body))


@cache
def custom(code, tensors, dtype, numbers, results, rank, arch):
    """The image of the kernel. tensors: dtypes; dtype: what is computed in and stored."""
    return compile(_source(code, tensors, dtype, numbers, results, rank), arch, head_of(code)[0], ())


def grid(shape):
    return (blocks(math.prod(shape), THREADS), 1, 1)


def layout_of(shape, strides):
    """A layout's bytes."""
    return layout("", shape, strides).value.data
