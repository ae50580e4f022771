"""What a program finds different from PyTorch under the same names: the table of `flambeau doctor` and of the page.

Names that only refuse are not here: each carries its own reason (`_absent`).
"""

#: subject -> (names, what is different and what to do). A name ending in ".*" stands for all names below it.
TABLE = {
    "Compilers": [
        ("torch.compile", "Every call runs its Python, and its operators run as a plan, with the same results; "
                          "guards, recompilation and options of a backend are not there."),
        ("torch.jit.script",
         "Runs as the Python that it is; its program is written from the source by save and code, which then say what "
         "has no form in TorchScript."),
        ("torch.jit.trace torch.jit.trace_module",
         "Sizes stay open; a size of 1 in the example stays 1 unless it is a tensor's first. Modules inside can be "
         "called; calls that do the same are one method."),
        ("torch.jit.load",
         "Programs may call operators and their own functions alone; classes of PyTorch's C++ (packed layers of "
         "quantized and mobile models) are not available."),
        ("torch.jit.optimize_for_inference",
         "Freezes, and leaves operators as they are; `compile` plans them."),
        ("torch._dynamo.config.* torch._dynamo.mark_dynamic torch._dynamo.mark_static",
         "Settings of PyTorch's compiler: they can be made and change nothing, apart from config.disable, which lets "
         "compiled functions run as they are."),
        ("torch._dynamo.explain torch._dynamo.utils.counters torch._logging.set_logs",
         "They tell of programs as this library captures them: a graph ends where a value is asked for, and there are "
         "no guards to print."),
        ("torch.onnx.export",
         "One exporter serves dynamo=True and False: the module is run, not scripted. Translations of operators of "
         "one's own are functions (g, *arguments), without onnxscript; by default the model is in eval mode."),
        ("torch.onnx.register_custom_op_symbolic torch.onnx.symbolic_helper.parse_args",
         "Arguments that are no tensors arrive as Python's numbers, texts and lists, so parse_args leaves the function "
         "as it is."),
    ],
    "Devices": [
        ("torch.cuda.is_available torch.cuda.device_count torch.xpu.is_available torch.mps.is_available "
         "torch.backends.mps.is_available torch.accelerator.is_available",
         "Of devices there are the CPU and CUDA alone; without an NVIDIA driver they answer False and 0, so that "
         "programs that ask stay on the CPU."),
        ("torch.Tensor.cuda torch.nn.Module.cuda torch.nn.Module.xpu",
         "Raises RuntimeError where there is no such device: choose it by is_available() and use `.to(device)`."),
        ("torch.Tensor.pin_memory", "Raises RuntimeError where there is no CUDA device to pin memory for."),
        ("torch.nn.DataParallel torch.nn.parallel.DataParallel torch.nn.parallel.data_parallel",
         "Without a GPU they call the module itself."),
        ("torch.backends.cudnn.* torch.backends.cuda.* torch.backends.quantized.engine",
         "Switches of precision and of cuDNN count on CUDA devices where NVIDIA's libraries are installed; the others "
         "can be set and change nothing."),
        ("torch.amp.GradScaler torch.cuda.amp.GradScaler torch.cuda.amp.autocast",
         "For \"cuda\" they switch themselves off with a warning where there is no GPU, as PyTorch does."),
    ],
    "Numbers": [
        ("torch.use_deterministic_algorithms torch.set_deterministic_debug_mode",
         "On the CPU results are always deterministic and do not depend on the number of threads. On CUDA devices it "
         "keeps cuDNN to such algorithms; sums of atomic additions are not refused."),
        ("torch.set_float32_matmul_precision",
         "TF32 is for CUDA devices. On the CPU, where it has matrix instructions (AMX), large products take 16 bits of "
         "each factor with \"high\" (PyTorch's stay exact) and 8 with \"medium\"; elsewhere they are exact."),
        ("torch.backends.mkldnn.matmul",
         "With \"ieee\" float32 numbers are multiplied as they are; otherwise processors that multiply matrices of "
         "bfloat16 in registers (AMX) split large products' numbers into three. Those are as exact, but results below "
         "2**-126 become zero. \"tf32\" leaves two of them, \"bf16\" one."),
        ("torch.nn.CrossMapLRN2d", "Follows the formula; PyTorch's sums count the first channel too often."),
        ("torch.utils.data.DataLoader",
         "Random numbers of samples do not depend on num_workers; `seeding=\"worker\"` gives PyTorch's."),
    ],
    "Several processes": [
        ("torch.distributed.init_process_group torch.distributed.new_group",
         "Ranks of one host share memory, which \"gloo\" selects; \"mpi\" uses mpi4py under mpiexec, on one host or "
         "several. \"nccl\" is for GPUs."),
        ("torch.nn.parallel.DistributedDataParallel",
         "device_ids may name the module's own GPU alone; on the CPU leave it out."),
        ("torch.distributed.is_nccl_available",
         "Answers whether there are GPUs, and nvidia-nccl-cu13 or -cu12 is installed."),
    ],
    "Files and code of others": [
        ("torch.hub.load torch.hub.list torch.hub.help",
         "Programs are not downloaded and run: get the repository and use `source=\"local\"` with its folder."),
        ("torch.ops.load_library torch.classes.load_library",
         "Raises OSError: compiled extensions are written against PyTorch's C++ interface."),
        ("torch.utils.cpp_extension.load torch.utils.cpp_extension.load_inline "
         "torch.utils.cpp_extension.CppExtension", "C++ gets memory, sizes and strides through `flambeau/extension.h`; "
                                                   "PyTorch's C++ headers are not here."),
        ("torch.utils.cpp_extension.CUDAExtension", "Raises when it is built: this build has no CUDA."),
    ],
}

#: what to do where a name is missing: the first beginning that fits
MISSING = [
    ("torchvision", "what flambeau.vision has not comes from torchvision's own Python files where those are "
                    "installed (pip install --no-deps torchvision)"),
    ("torchtext", "torchtext is no longer developed and not here: read the text files with Python, and tokenize with "
                  "code of your own"),
    ("torchaudio", "torchaudio is not here: its transforms are made of torch.stft, torch.fft and "
                   "torch.signal.windows"),
    ("torch._", "a private name of PyTorch's: use a public one, or say which is needed in an issue"),
    ("torch.", "leave it out, or say that it is needed in an issue"),
]

#: methods that only tensors have, so that a call names them whatever it is made on
METHODS = frozenset("""
    record_stream to_mkldnn int_repr q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points
    q_per_channel_axis sparse_resize_ sparse_resize_and_clear_ to_padded_tensor pin_memory
""".split())


def _rows():
    for entries in TABLE.values():
        for names, sentence in entries:
            yield from ((name, sentence) for name in names.split())


_EXACT = {name: sentence for name, sentence in _rows() if not name.endswith(".*")}
_BELOW = {name.removesuffix("*"): sentence for name, sentence in _rows() if name.endswith(".*")}


def difference(name):
    """What is different about a name; None where nothing is.

    >>> from flambeau.as_torch._differences import difference
    >>> difference("torch.nn.CrossMapLRN2d")
    "Follows the formula; PyTorch's sums count the first channel too often."
    """
    if name in _EXACT:
        return _EXACT[name]
    return next((sentence for start, sentence in _BELOW.items() if name.startswith(start)), None)


def instead(name):
    """What to do about a name that is missing."""
    return next(advice for start, advice in MISSING if f"{name}.".startswith(start))
