"""What the modules' parity command runs: PyTorch's own module samples and ours, as plain data, and how one is run.

`run` is the same for both libraries; run as a script, with PyTorch, it writes [(case, what PyTorch gave)] to a file.
"""

import dataclasses
import functools
import importlib
import inspect
import pickle
import re
import sys
import warnings

import numpy as np

#: modules without samples in PyTorch: (call, inputs); an input is a shape (normal numbers that want a gradient),
#: (kind, shape) with kind pos, unit, sign or int:n (below n), or any other value as ("value", x)
EXTRA = [
    ("Identity()", [(3, 4)]),
    ("Flatten()", [(2, 3, 4)]),
    ("Flatten(0, 1)", [(2, 3, 4)]),
    ("Unflatten(1, (2, 5))", [(3, 10)]),
    ("Dropout(.3)", [(4, 50)]),
    ("Dropout(.3, inplace=False)", [(1,)]),
    ("Dropout1d(.5)", [(4, 6, 3)]),
    ("Dropout1d(.5)", [(6, 3)]),
    ("Dropout2d(.5)", [(4, 6, 3, 3)]),
    ("Dropout3d(.5)", [(4, 6, 2, 2, 2)]),
    ("AlphaDropout(.3)", [(4, 50)]),
    ("FeatureAlphaDropout(.3)", [(4, 10, 3)]),
    ("RReLU()", [(4, 50)]),
    ("RReLU(.1, .2)", [(4, 50)]),
    ("Hardsigmoid()", [(4, 50)]),
    ("GLU(0)", [(4, 5)]),
    ("EmbeddingBag(7, 3)", [("int:7", (2, 4))]),
    ("EmbeddingBag(7, 3, mode='max')", [("int:7", (2, 4))]),
    ("EmbeddingBag(7, 3, mode='sum', padding_idx=2)", [("int:7", (2, 4))]),
    ("EmbeddingBag(7, 3, mode='sum', include_last_offset=True)", [("int:7", (8,)), ("value", [0, 3, 8])]),
    ("EmbeddingBag(7, 3, mode='sum')", [("int:7", (8,)), ("value", [0, 3]), ("pos", (8,))]),
    ("EmbeddingBag(7, 3, max_norm=1.)", [("int:7", (2, 4))]),
    ("Embedding(7, 3, padding_idx=-1)", [("int:7", (2, 4))]),
    ("Embedding(7, 3, max_norm=1., norm_type=1.)", [("int:7", (2, 4))]),
    ("Embedding(7, 3, scale_grad_by_freq=True)", [("int:7", (2, 4))]),
    ("CosineSimilarity()", [(4, 3), (4, 3)]),
    ("CosineSimilarity(0, eps=.1)", [(4, 3), (4, 3)]),
    ("PairwiseDistance()", [(4, 3), (4, 3)]),
    ("PairwiseDistance(1., keepdim=True)", [(4, 3), (4, 3)]),
    ("Fold((4, 5), 2)", [(2, 8, 12)]),
    ("Fold((4, 5), (2, 3), dilation=1, padding=1, stride=(2, 1))", [(12, 15)]),
    ("Unfold(2, padding=1, stride=2)", [(2, 2, 4, 5)]),
    ("Unfold((2, 3), dilation=(1, 2))", [(2, 4, 6)]),
    ("PixelShuffle(2)", [(1, 8, 3, 3)]),
    ("PixelUnshuffle(2)", [(1, 2, 4, 4)]),
    ("ChannelShuffle(2)", [(1, 4, 2, 2)]),
    ("CrossMapLRN2d(3)", [(2, 4, 3, 3)]),
    ("TripletMarginLoss()", [(3, 4), (3, 4), (3, 4)]),
    ("TripletMarginLoss(swap=True, reduction='sum')", [(3, 4), (3, 4), (3, 4)]),
    ("TripletMarginWithDistanceLoss()", [(3, 4), (3, 4), (3, 4)]),
    ("TripletMarginWithDistanceLoss(swap=True, margin=2.)", [(3, 4), (3, 4), (3, 4)]),
    ("AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10])", [(6, 8), ("int:20", (6,))]),
    ("AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10, 15], div_value=2., head_bias=True)", [(6, 8), ("int:20", (6,))]),
    ("AdaptiveLogSoftmaxWithLoss(8, 20, [5])", [(8,), ("value", 7)]),
    ("MaxUnpool1d(2)", [(2, 3, 4), ("spread:2", (2, 3, 4))]),
    ("MaxUnpool2d(2, stride=2)", [(2, 3, 4, 4), ("spread:4", (2, 3, 4, 4))]),
    ("MaxUnpool3d(2)", [(1, 2, 2, 2, 2), ("spread:8", (1, 2, 2, 2, 2))]),
    ("AvgPool1d(2, ceil_mode=True)", [(2, 3, 7)]),
    ("AvgPool2d(3, 2, padding=1, count_include_pad=False)", [(2, 3, 7, 7)]),
    ("MaxPool2d(3, 2, ceil_mode=True, dilation=2)", [(2, 3, 9, 9)]),
    ("MaxPool1d(2, return_indices=True)", [(2, 3, 9)]),
    ("MaxPool2d((2, 3), return_indices=True, padding=1)", [(2, 3, 9, 9)]),
    ("AdaptiveMaxPool2d((2, None), return_indices=True)", [(2, 3, 9, 8)]),
    ("FractionalMaxPool2d(2, output_ratio=.6, return_indices=True)", [(2, 3, 9, 8)]),
    ("FractionalMaxPool3d((2, 3, 2), output_size=(3, 4, 2), return_indices=True)", [(2, 3, 9, 8, 7)]),
    *[(f"Upsample(scale_factor={s}, mode='{m}'{a})", [(2, 3) + (5, 4, 3)[:d]])
      for m, d in (("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 2), ("linear", 1),
                   ("bilinear", 2), ("bicubic", 2), ("trilinear", 3))
      for s in (2, 1.7, 0.6)
      for a in (("", ", align_corners=True", ", recompute_scale_factor=True") if "linear" in m or m == "bicubic"
                else ("",))],
    ("Upsample(size=(5, 7), mode='bilinear', align_corners=True)", [(1, 2, 3, 3)]),
    ("UpsamplingNearest2d(scale_factor=2)", [(1, 2, 3, 3)]),
    ("UpsamplingBilinear2d(scale_factor=2)", [(1, 2, 3, 3)]),
    ("UpsamplingBilinear2d(size=(7, 5))", [(1, 2, 3, 3)]),
    *[(f"Lazy{kind}{d}d({args})", [(4, 3) + (5, 6, 4)[:d]])
      for kind, args in (("BatchNorm", ""), ("InstanceNorm", "affine=True"), ("Conv", "4, 2"),
                         ("ConvTranspose", "4, 2"))
      for d in (1, 2, 3)],
    ("LazyLinear(5)", [(2, 3)]),
    ("LazyLinear(5, bias=False)", [(2, 3)]),
    ("BatchNorm2d(3, momentum=None)", [(2, 3, 4, 4)]),
    ("BatchNorm1d(3, track_running_stats=False)", [(6, 3)]),
    ("InstanceNorm2d(3, affine=True, track_running_stats=True)", [(2, 3, 4, 4)]),
    ("Conv2d(4, 8, (3, 5), stride=2, dilation=(1, 2), bias=False, groups=2)", [(2, 4, 9, 13)]),
    ("Conv2d(4, 4, 3, padding='same', padding_mode='reflect')", [(2, 4, 6, 6)]),
    ("Conv3d(2, 4, 3, padding=(1, 0, 2), padding_mode='circular')", [(1, 2, 5, 5, 5)]),
    ("ConvTranspose2d(4, 6, 3, groups=2, stride=2, padding=1, output_padding=1, dilation=2)", [(2, 4, 5, 5)]),
    ("Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(True), nn.MaxPool2d(2), nn.Flatten(), "
     "nn.Dropout(.3), nn.Linear(64, 10))", [(3, 1, 8, 8)]),
    ("Sequential(nn.LSTM(3, 4, 2, dropout=.4, proj_size=2))", [(5, 2, 3)]),
    ("Sequential(nn.GRU(3, 4, 2, dropout=.4, bidirectional=True))", [(5, 2, 3)]),
    ("Transformer(8, 2, 2, 2, 16)", [(3, 2, 8), (4, 2, 8)]),
    ("TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2, norm=nn.LayerNorm(8))", [(3, 2, 8), (4, 2, 8)]),
    ("MultiheadAttention(8, 2, dropout=.3, kdim=6, vdim=4, add_bias_kv=True, add_zero_attn=True)",
     [(3, 2, 8), (5, 2, 6), (5, 2, 4)]),
]  # fmt: skip


# ---- plain data -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Case:
    """One module: how it is built and called, in plain data that both libraries decode."""

    module: str
    label: str
    dtype: str
    training: bool
    build: object
    call: object
    error: bool = False


def encode(torch, x):
    """Plain data that says what `x` is; `decode` makes it again, in either library."""
    if isinstance(x, torch.Tensor):
        return "tensor", str(x.dtype).split(".")[1], array(x), x.requires_grad
    if isinstance(x, torch.nn.utils.rnn.PackedSequence):
        return "packed", [encode(torch, part) for part in x]
    if isinstance(x, torch.nn.Module):
        name, args, kwargs = x._made_by
        return "module", name, encode(torch, args), encode(torch, kwargs)
    if isinstance(x, (torch.dtype, torch.device)):
        return type(x).__name__, str(x).removeprefix("torch.")
    if dataclasses.is_dataclass(x):
        fields = {f.name: getattr(x, f.name) for f in dataclasses.fields(x) if f.init}
        return "module", type(x).__name__, encode(torch, ()), encode(torch, fields)
    if isinstance(x, dict):
        return "dict", {k: encode(torch, v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return "tuple" if isinstance(x, tuple) else "list", [encode(torch, v) for v in x]
    if callable(x):
        for path in ("nn.functional", ""):
            if getattr(_at(torch, path), x.__name__, None) is x:
                return "function", f"{path}.{x.__name__}"
        raise TypeError(f"no name for {x}")
    assert x is None or isinstance(x, (bool, int, float, complex, str)), type(x)
    return "value", x


def _at(torch, path):
    return functools.reduce(getattr, [name for name in path.split(".") if name], torch)


def decode(torch, data):
    """The object that `encode` described, of the library `torch`."""
    kind, *rest = data
    if kind == "tensor":
        name, array, wants = rest
        return torch.from_numpy(array.copy()).to(getattr(torch, name)).requires_grad_(wants)
    if kind == "packed":
        return torch.nn.utils.rnn.PackedSequence(*(decode(torch, part) for part in rest[0]))
    if kind == "module":
        name, args, kwargs = rest
        return getattr(torch.nn, name)(*decode(torch, args), **decode(torch, kwargs))
    if kind == "dtype":
        return getattr(torch, rest[0])
    if kind == "device":
        return torch.device(rest[0])
    if kind == "function":
        return _at(torch, rest[0])
    if kind == "dict":
        return {k: decode(torch, v) for k, v in rest[0].items()}
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](decode(torch, v) for v in rest[0])
    if kind == "source":
        return eval(f"nn.{rest[0]}", {"nn": torch.nn, "torch": torch})
    return rest[0]


# ---- running one ----------------------------------------------------------------------------------------------------


def flat(torch, x):
    """The tensors in a result or an argument, in order."""
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for part in x for t in flat(torch, part)] if isinstance(x, (list, tuple)) else []


def array(t):
    """A copy of the tensor's numbers; NumPy has no bfloat16, float32 stands for it."""
    if t is None:
        return None
    return (t.detach().float() if "bfloat16" in str(t.dtype) else t.detach()).cpu().numpy().copy()


def state(module):
    """{key: initial value}; a lazy module's tensors have no value yet."""
    lazy = {n for n, p in (*module.named_parameters(), *module.named_buffers())
            if type(p).__name__.startswith("Uninitialized")}  # fmt: skip
    return {k: "lazy" if k in lazy else array(v) for k, v in module.state_dict().items()}


def moved(torch, x, device):
    """Tensors on a device, as leaves again; modules are made on the CPU, so that they begin with its numbers."""
    if isinstance(x, torch.Tensor):
        return x.detach().to(device).requires_grad_(x.requires_grad)
    if isinstance(x, torch.nn.utils.rnn.PackedSequence):
        return x.to(device)
    if isinstance(x, dict):
        return {k: moved(torch, v, device) for k, v in x.items()}
    return type(x)(moved(torch, v, device) for v in x) if isinstance(x, (list, tuple)) else x


def run(torch, case, device="cpu"):
    """{aspect: value} of one case, up to the aspect "error" (its type) where one is raised."""
    found = {}
    try:
        torch.manual_seed(0)
        module = decode(torch, case.build)
        found["text"] = repr(module)
        found["state"] = state(module)
        module = module.to(device, getattr(torch, case.dtype)).train(case.training)
        args, kwargs = (moved(torch, decode(torch, part), device) for part in case.call)
        torch.manual_seed(1)
        result = module(*args, **kwargs)
        found["output"] = [array(t) for t in flat(torch, result)]
        score = 0
        for t in flat(torch, result):
            if t.requires_grad:
                score = score + (t * torch.linspace(0.3, 1.7, t.numel() + 1, dtype=t.dtype, device=t.device)[1:]
                                 .reshape(t.shape)).sum()
        if isinstance(score, torch.Tensor):
            score.backward()
        found["input gradients"] = [array(t.grad) for t in flat(torch, (args, kwargs)) if t.requires_grad]
        found["parameter gradients"] = {k: array(p.grad) for k, p in module.named_parameters()}
        found["buffers"] = {k: array(b) for k, b in module.named_buffers()}
        if any(isinstance(v, str) for v in found["state"].values()):
            found["materialized"] = state(module)
    except Exception as error:
        found["error"] = type(error).__name__, str(error)[:300]
    return found


# ---- PyTorch's side -------------------------------------------------------------------------------------------------


def remember_arguments(torch):
    """Modules given as arguments (a Transformer's layer) tell afterwards what they were made of."""
    for cls in (torch.nn.TransformerEncoderLayer, torch.nn.TransformerDecoderLayer, torch.nn.LayerNorm):
        def init(self, *args, _init=cls.__init__, _name=cls.__name__, **kwargs):
            _init(self, *args, **kwargs)
            self._made_by = (_name, args, kwargs)

        init.__signature__ = inspect.signature(cls.__init__)
        cls.__init__ = init


def pytorchs_cases(torch, wanted, dtypes):
    """PyTorch's samples and error samples, in every dtype, in training and evaluation."""
    common = importlib.import_module("torch.testing._internal.common_modules")
    for info in common.module_db:
        name = info.module_cls.__name__
        if not wanted(name):
            continue
        takes_dtype = "dtype" in inspect.signature(info.module_cls.__init__).parameters
        for dtype in dtypes:
            for training in (True, False) if info.train_and_eval_differ else (True,):
                torch.manual_seed(7)
                kind = getattr(torch, dtype)
                options = {"device": "cpu", "dtype": kind, "requires_grad": True, "training": training}
                try:
                    samples = [(s, False) for s in info.module_inputs_func(info, **options)]
                except (NotImplementedError, RuntimeError):
                    continue  # the samples themselves need an operator that has no kernel for the dtype
                if info.module_error_inputs_func:
                    errors = info.module_error_inputs_func(info, **options)
                    samples += [(e.module_error_input, True) for e in errors]
                for k, (sample, is_error) in enumerate(samples):
                    made, fed = sample.constructor_input, sample.forward_input
                    kwargs = made.kwargs | ({"dtype": kind} if takes_dtype and not is_error else {})
                    build = "module", name, encode(torch, made.args), encode(torch, kwargs)
                    call = ((), {}) if fed is None else (fed.args, fed.kwargs)
                    yield Case(name, f"sample {k} {sample.desc}", dtype, training, build,
                               tuple(encode(torch, part) for part in call), is_error)


def make(torch, spec, dtype):
    """One input of an EXTRA case."""
    if not isinstance(spec[0], str):
        return torch.randn(spec, dtype=dtype).requires_grad_()
    kind, _, number = spec[0].partition(":")
    if kind == "value":
        return torch.tensor(spec[1])
    if kind == "int":
        return torch.randint(0, int(number), spec[1])
    if kind == "spread":
        count = int(np.prod(spec[1][2:]))
        return (torch.arange(count) * int(number) + 1).reshape(spec[1][2:]).expand(spec[1])
    u = torch.rand(spec[1], dtype=dtype)
    return {"pos": u + 0.1, "unit": u * 0.9 + 0.05, "sign": (u > 0.5).to(dtype) * 2 - 1}[kind]


def own_cases(torch, wanted, dtypes):
    for k, (source, specs) in enumerate(EXTRA):
        name = re.match(r"\w+", source)[0]
        if not wanted(name):
            continue
        for dtype in dtypes:
            for training in (True, False):
                torch.manual_seed(k)
                inputs = tuple(make(torch, spec, getattr(torch, dtype)) for spec in specs)
                call = encode(torch, inputs), encode(torch, {})
                yield Case(name, source, dtype, training, ("source", source), call)


def main(path, only="", dtypes="float32,float64"):
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    remember_arguments(torch)
    wanted = re.compile(only).search
    dtypes = dtypes.split(",")
    cases = [*pytorchs_cases(torch, wanted, dtypes), *own_cases(torch, wanted, dtypes)]
    with open(path, "wb") as file:
        pickle.dump([(dataclasses.asdict(case), run(torch, case)) for case in cases], file)


if __name__ == "__main__":
    main(*sys.argv[1:])
