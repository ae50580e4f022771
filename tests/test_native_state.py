"""All mutable memory that the native library has for good, with the reason for each: the compiled library is asked, so
that nothing is left out. What is switched on or under way is in `process` and `tls` (native/core/state.h) and nowhere
else; the rest are caches, memory kept for later, tables filled while the library is loaded, and Python's objects.
"""

import re
import shutil
import subprocess

import pytest

from flambeau import _C

STATE = {
    "process": "what is switched on in the process; read and written under the interpreter lock",
    "tls": "what is switched on and under way in a thread",
}
#: (pattern of the name after `flambeau::`, reason). Names of functions' own variables begin with the function's.
ALLOWED = [
    # --- filled while the library is loaded or an operator is defined, under the interpreter lock
    (r"(op_table\(\)::table|add_op\(.*\)::replaced|new_id\(.*\)::taken)", "operators by name"),
    (r"(primitive_table\(\)::table|table\(\)::rows|ElementwiseRows::add\(.*\)::levels|registered\(\)::loops)",
     "rows of kernels, registered by static objects before anything runs"),
    (r"((\w+::)?rows|registration|table|arithmetic|bitwise|order|functions)", "objects that register rows"),
    (r"(conv|fft|gemm|recurrent|winograd)_kernels_(f32|f64|u64)|(attention|chain|half)_kernels|loops_of_level",
     "loops by instruction set"),
    (r"distance_loops|column_loop_levels|(half_tiles|float_parts)_by_(vectors|matrices)|half_packing"
     r"|attention::half_rows_of_attention", "loops by instruction set"),
    (r"(is_intel|multiplies_\w+)\(.*\)::(intel|granted|offered|more)", "what the processor offers, found once"),
    (r"simd_cast_levels", "conversions by instruction set"),
    (r".*::(chosen|best|level|fast)|distances<\w+>\(.*\)::loops|dots\(.*\)::fours",
     "the loops this processor takes, found once"),
    (r"tile\(.*\)::fused", "whether the processor multiplies bytes in one step, asked once"),
    (r"library_fmod", "the C library's function, found while loading"),
    # --- Python's objects and what Python asks to be writable
    (r"(DType|DeviceObject|Format|Generator|Node|Message|Op|OpMethod|Shared(Group|Memory)|Size|Tensor)Type|(LinAlg|OutOfMemory)Error",
     "Python types"),
    (r"symbol_types|token_of|meaning_of|open_sizes|open_tensor",
     "the types of open numbers, and Python functions for them, set when a program first traces with open sizes"),
    (r"(module|array)_type|scalar_base|known|scalar_types|.*::copyreg", "what belongs to Python, found once"),
    (r"(dtypes|formats|names|kTypes)", "Python's objects for dtypes and formats, made once"),
    (r"(\w+_)?(methods|members|getset|slots|spec|def|functions|attributes)|.*::spec", "tables handed to Python"),
    (r"slot_\w+", "operators behind number slots, found once"),
    (r"(s_dispatch|s_function|.*::name|.*::names|.*::expected)", "interned or keyword names"),
    (r"\w+_handler|handlers|disabled_override|global_hooks|library|.*::explain|.*::types",
     "Python functions that native code calls, set while the package is imported"),
    (r"(op_\w+|.*::(op_\w+|op|copy|fill|clone|index|reshape|real|add|as_strided|masked_select|masked_fill|index_put))",
     "operators that native code calls, found once (OpHandle)"),
    # --- memory kept for later
    (r"free_(nodes|scopes|storages|tensors)|FreeListBase::all", "free lists; used under the interpreter lock"),
    (r"bins|stats|until_failure|cache_limit\(\)::limit", "the caching allocator; used under the interpreter lock"),
    (r"(fft::)?kept<.*>\(.*\)::(known|mutex|guard|lock)", "plans of Fourier transforms; behind their mutex"),
    (r".*::cache", "primitives of oneDNN; behind the cache's mutex"),
    (r"last_number", "the last number that memory got whose writes are followed; under the interpreter lock"),
    (r"smalls", "captured functions whose calls were small; under the interpreter lock"),
    (r"AtOnce::here", "whether this thread computes such a call at once"),
    (r"weights_stay\(.*\)::seen", "at which version weights were seen, to guess whether keeping them packed pays"),
    (r"bytes_of_constants", "what plans keep of numbers; under the interpreter lock"),
    (r"cache", "plans of captured programs; under the interpreter lock"),
    (r"alone|patience", "whether threads that share short loops found others on the processor"),
    (r"fills_unwritten", "whether new memory gets NaN, a switch of the process"),
    (r"listening", "who hears of the steps of this thread's plans"),
    (r"programs::Loaded::recording_", "the exported program that this thread runs"),
    (r"noted_plans", "a list of Python's to which plans that this thread makes are added"),
    (r"onednn::(engine\(\)::e|stream\(\)::s)", "oneDNN's engine, and its stream of each thread"),
    (r"lapack::.*|LeastSquares<.*>::\w+\(.*\)::\w+", "LAPACK's routines, found once"),
    (r"buffers|converted|spare|outer_devices|recorder", "scratch memory, autocast's copies, spare lists of a thread"),
    (r"default_generator\(\)::g", "the default generator; it has its own lock"),
    # --- CUDA
    (r"cuda::(state\(\)::s|opened|known\(int\)::all)",
     "the driver and what it said of devices; under the interpreter lock"),
    (r"cuda::(kept\(int\)::all|captures\(\)::count|known_lanes\(\)::known)",
     "streams made so far and which were current together, spare events; under the interpreter lock"),
    (r"lanes|cuda::lanes_added", "what streams are to the engine, filled while the library is loaded"),
    (r"cuda::last_launches", "names of operators for errors that come late; under the interpreter lock"),
    (r"cuda::pool_of\(int\)::pools", "the memory that graphs of one stream share; under the interpreter lock"),
    (r"cuda::side_of\(.*\)::sides", "the stream and memory of recordings; under the interpreter lock"),
    (r"cuda::wait_mode\(\)::mode", "what is said when the processor waits for a device; under the interpreter lock"),
    (r"cuda::open_graphs\(\)::all", "graphs that are being recorded; under the interpreter lock"),
    (r"cuda::current", "the stream of each device that a thread works on"),
    (r"cuda::(memories|memory\(\)::m|new_pool\(\)::pools)",
     "memory of devices and pinned memory kept for reuse; under the interpreter lock"),
    (r"cuda::on_memory|history\(\)::h",
     "what happened to device memory, while that is recorded; under the interpreter lock"),
    (r"cuda::(plans\(\)::p|table\(\)::t|modules\(\)::m|plan_counts\(\)::counts)",
     "launch plans, kernels and their counts; under the interpreter lock"),
    (r"cuda::((\w+::)?(library|newer|batches)_of\(.*\)::|cublas::)opened",
     "NVIDIA's libraries and their handles; under the interpreter lock"),
    (r"cuda_generators\(\)::g", "the default generators of CUDA devices; each has its own lock"),
    # --- forks, profiler
    (r"arenas|common|system_arenas|kPage", "pages that forked workers share; under the interpreter lock"),
    (r"gate(_memory)?", "what a fork waits for; its own mutex"),
    (r"events|session|open_events|open_session|node_events", "the profiler's events; under the interpreter lock"),
    (r"(devices|tables|device_tables|device_groups|device_recordings).*",
     "tables of devices, filled under the interpreter lock"),
]


def variables():
    """Names of variables in writable sections, without those of other libraries and of the compiler."""
    if not shutil.which("objdump"):
        pytest.skip("objdump is not installed")
    text = subprocess.run(["objdump", "-tC", _C.__file__], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^[0-9a-f]+ .{7} \.(?:data|bss|tdata|tbss)\s+[0-9a-f]+\s+(?:\.hidden )?(.*)$", text, re.M)
    if not found:
        pytest.skip("the library has no symbols")
    own = (re.sub(r"\(anonymous namespace\)::|(baseline|avx512)::|upward::", "", name) for name in found
           if name.startswith("flambeau::"))
    return sorted({name.removeprefix("flambeau::") for name in own})


def reason(name):
    return STATE.get(name) or next((why for pattern, why in ALLOWED if re.fullmatch(pattern, name)), None)


def test_every_variable_has_a_reason():
    unknown = [name for name in variables() if reason(name) is None]
    assert not unknown, ("mutable variables outside native/core/state.h; move them there, or give them a reason here: "
                         + "; ".join(unknown))


def test_state_is_in_one_place():
    found = variables()
    assert {"process", "tls"} <= set(found)


@pytest.mark.parametrize("name", ["grad_mode", "counter", "run_op(flambeau::Call&)::depth", "dispatch_modes"])
def test_another_variable_is_found(name):
    assert reason(name) is None
