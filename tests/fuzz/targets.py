"""What is called: every operator, method, attribute, function, module, optimizer and transform, with hostile values.

A target is a function (values) -> (name, callable, args, kwargs); it decides what is called and with what.
"""

import importlib
import inspect
import operator

import flambeau
from flambeau.ops.kinds import FACTS, OPS

from ..ops import battery
from .values import described

#: functions that leave the process or change it for all that follows, and those that run other programs
EXCLUDED = frozenset("""
save load from_file hub compile set_default_dtype set_default_device set_default_tensor_type set_num_threads
set_num_interop_threads init_num_threads set_flush_denormal set_grad_enabled set_printoptions set_rng_state
use_deterministic_algorithms
set_deterministic_debug_mode set_float32_matmul_precision set_warn_always set_autocast_cache_enabled
set_autocast_cpu_dtype
set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype autocast_increment_nesting
autocast_decrement_nesting set_detect_anomaly set_multithreading_enabled share_memory_ __class__ __init_subclass__
__subclasshook__
__reduce__ __reduce_ex__ __getattribute__ __setattr__ __delattr__ __dir__ __new__ __doc__ __module__ __dict__
_make_subclass _make_wrapper_subclass public refusal while_loop errstate spawn summary
""".split())
NAMESPACES = ("", "nn.functional", "linalg", "fft", "special", "nn.utils", "nn.init", "autograd", "masked", "random",
              "nested",
              "sparse", "nn.utils.rnn", "signal.windows", "autograd.functional")
OPERATORS = [getattr(operator, n) for n in """
add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift lt le eq ne gt ge iadd isub imul itruediv
ifloordiv imod
ipow imatmul iand ior ixor ilshift irshift contains getitem delitem concat
""".split()] + [divmod, isinstance]
UNARY = [operator.neg, operator.pos, operator.abs, operator.invert, operator.truth, operator.index, operator.not_,
         float, int, complex,
         bool, len, iter, hash, repr, str, round, reversed, list, tuple, sum, max, format, dir, bytes, sorted]
#: what an argument's name says about its type
BY_NAME = {
    **dict.fromkeys("input self x other tensor a b query key value weight mat mat1 mat2 vec target bias".split(),
                    "Tensor"),
    **dict.fromkeys("dim axis n k p size kernel_size groups num_features in_features out_features".split(), "int"),
    **dict.fromkeys("dims shape padding stride dilation pad repeats sizes axes".split(), "int[]"),
    **dict.fromkeys("tensors parameters params seq sequences inputs outputs".split(), "Tensor[]"),
    **dict.fromkeys("reduction mode ord norm padding_mode equation device".split(), "str"),
    **dict.fromkeys("eps lr alpha beta momentum margin dropout".split(), "float"),
    **dict.fromkeys("keepdim inplace batch_first training bidirectional affine create_graph retain_graph".split(),
                    "bool"),
    "dtype": "dtype",
}
CONSTRUCTORS = [flambeau.tensor, flambeau.as_tensor, flambeau.asarray, flambeau.from_numpy, flambeau.frombuffer,
                flambeau.Tensor,
                flambeau.Size, flambeau.dtype, flambeau.device, flambeau.Generator, flambeau.LongTensor,
                flambeau.nn.Parameter,
                flambeau.from_dlpack, flambeau.UntypedStorage, flambeau.FloatStorage, flambeau.nn.ParameterList,
                flambeau.nn.Sequential]


def public(namespace):
    """(full name, function) of a namespace, without what is excluded."""
    module = importlib.import_module("flambeau." + namespace) if namespace else flambeau
    for name in sorted(dir(module)):
        full = f"{namespace}.{name}" if namespace else name
        found = getattr(module, name, None)
        if name in EXCLUDED or name.startswith("_") or not callable(found):
            continue
        if name in FACTS and found is OPS.get(name) and namespace:
            continue  # already an operator
        yield full, found


def signature_of(function):
    """[(name, type, keyword only)] of a function's parameters; None when it does not say."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(p.name, BY_NAME.get(p.name, "?"), p.kind is p.KEYWORD_ONLY) for p in parameters
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def classes(namespace, base):
    """(name, class) of the classes of a namespace that derive from `base`."""
    return [(n, c) for n, c in sorted(vars(namespace).items()) if inspect.isclass(c) and issubclass(c, base)]


class Targets:
    """The tables, made once per process; `draw` makes one call."""

    def __init__(self):
        self.operators = sorted(FACTS)
        self.schemas = {n: battery.parameters(n) for n in self.operators}
        self.samples = {}
        self.functions = [f for n in NAMESPACES for f in public(n)]
        self.signatures = {name: signature_of(f) for name, f in self.functions}
        self.methods = [n for n in sorted(dir(flambeau.Tensor)) if n not in EXCLUDED]
        self.modules = classes(flambeau.nn, flambeau.nn.Module)
        self.signatures.update({n: (signature_of(c.__init__) or [])[1:] for n, c in self.modules})
        self.optimizers = classes(flambeau.optim, flambeau.optim.Optimizer)
        self.signatures.update({n: (signature_of(c.__init__) or [])[2:] for n, c in self.optimizers})
        names = "vmap grad grad_and_value jvp vjp jacrev jacfwd hessian linearize".split()
        self.transforms = [getattr(flambeau.func, n) for n in names]
        self.kinds = [kind for kind, weight in (
            (self.operator, 40), (self.near_sample, 20), (self.method, 12), (self.attribute, 3), (self.index, 6),
            (self.assign, 5), (self.function, 14), (self.construct, 6), (self.infix, 6), (self.unary, 2),
            (self.module, 5), (self.optimizer, 1), (self.transform, 4), (self.backward, 3)) for _ in range(weight)]

    def draw(self, v):
        return v.pick(self.kinds)(v)

    # --- operators ---------------------------------------------------------------------------------------------------
    def operator(self, v):
        name = v.pick(self.operators)
        parameters = self.schemas[name]
        count = v.below(len(parameters) + 1) if v.uniform() < 0.3 else len(parameters)
        args = [v.value(t) for _, t in parameters[:count]]
        while args and len(args) > 1 and v.uniform() < 0.4:
            args.pop()
        kwargs = {n: v.value(t) for n, t in parameters[len(args):] if v.uniform() < 0.3}
        return self._form(v, name, args, kwargs)

    def near_sample(self, v):
        """A call that works, with one argument replaced."""
        name = v.pick(self.operators)
        key = name, v.uniform() < 0.3
        if key not in self.samples:
            self.samples[key] = battery.samples(name, flambeau.float32, key[1])
        if not self.samples[key]:
            return self.operator(v)
        sample = v.pick(self.samples[key])
        sample = battery.map_tensors(lambda t: t.detach().clone().requires_grad_(t.requires_grad), sample)
        args, kwargs = list(sample.args), dict(sample.kwargs)
        if args and v.uniform() < 0.9:
            k = v.below(len(args))
            args[k] = v.tensor() if isinstance(args[k], flambeau.Tensor) and v.uniform() < 0.6 else v.anything()
        elif kwargs:
            kwargs[v.pick(list(kwargs))] = v.anything()
        return self._form(v, name, args, kwargs)

    def _form(self, v, name, args, kwargs):
        """As the operator itself, with out=, or in place."""
        form = v.uniform()
        if form < 0.08:
            kwargs = {**kwargs, "out": v.tensor() if v.uniform() < 0.7 else v.anything()}
        elif form < 0.2 and args and isinstance(args[0], flambeau.Tensor):
            method = getattr(type(args[0]), name + "_", None)
            if callable(method):
                return name + "_", method, args, kwargs
        return name, OPS[name], args, kwargs

    # --- tensors -----------------------------------------------------------------------------------------------------
    def method(self, v):
        name = v.pick(self.methods)
        call = getattr(flambeau.Tensor, name)
        if not callable(call):
            return "Tensor." + name, getattr, [v.tensor(), name], {}
        parameters = self.schemas.get(name.rstrip("_"), ())[1:]
        args = [v.value(t) for _, t in parameters] if v.uniform() < 0.5 else [v.anything() for _ in range(v.below(4))]
        return "Tensor." + name, call, [v.tensor() if v.uniform() < 0.97 else v.anything(), *args], {}

    def attribute(self, v):
        name, t = v.pick(self.methods), v.tensor()
        if v.uniform() < 0.1:
            return "delattr", delattr, [t, name], {}
        value = v.tensor() if v.uniform() < 0.5 else v.anything()
        return "setattr", setattr, [t, v.pick(("data", "grad", "requires_grad", "shape", "_backward_hooks", name)),
                                    value], {}

    def index(self, v):
        return "getitem", operator.getitem, [v.tensor(), v.key()], {}

    def assign(self, v):
        value = v.tensor() if v.uniform() < 0.5 else v.anything()
        return "setitem", operator.setitem, [v.tensor(), v.key(), value], {}

    def infix(self, v):
        pair = [v.tensor(), v.anything()]
        if v.uniform() < 0.3:
            pair.reverse()
        call = v.pick(OPERATORS)
        return "operator." + call.__name__, call, pair, {}

    def unary(self, v):
        call, t = v.pick(UNARY), v.tensor()
        return "builtin " + call.__name__, call, [t], {}

    # --- functions, modules, optimizers ------------------------------------------------------------------------------
    def _arguments(self, v, name):
        signature = self.signatures[name]
        if signature is None or v.uniform() < 0.15:
            return [v.anything() for _ in range(v.below(4))], {}
        args = [v.value(t) for _, t, keyword in signature if not keyword]
        del args[len(args) - v.below(len(args) + 1) if args and v.uniform() < 0.7 else len(args):]
        kwargs = {n: v.value(t) for n, t, _ in signature[len(args):] if v.uniform() < 0.25}
        return args, kwargs

    def function(self, v):
        name, call = v.pick(self.functions)
        return name, call, *self._arguments(v, name)

    def construct(self, v):
        call = v.pick(CONSTRUCTORS)
        kwargs = {v.pick(("dtype", "device", "requires_grad", "count",
                          "offset")): v.anything()} if v.uniform() < 0.2 else {}
        args = [v.anything() if v.uniform() < 0.5 else [v.anything() for _ in range(v.below(4))]]
        return "construct " + getattr(call, "__name__", "?"), call,
        args if v.uniform() < 0.9 else args + [v.anything()], kwargs

    def module(self, v):
        name, cls = v.pick(self.modules)
        args, kwargs = self._arguments(v, name)
        args = [v.pick((1, 2, 3, 4)) if type(a) is int and v.uniform() < 0.7 else a for a in args]
        inputs = [v.tensor() for _ in range(1 + v.below(3))]

        def make_and_call(*a, **k):
            layer = cls(*a, **k)
            repr(layer)
            return layer(*inputs)
        return f"nn.{name}, called with {[list(t.shape) for t in inputs]}", make_and_call, args, kwargs

    def optimizer(self, v):
        name, cls = v.pick(self.optimizers)
        args, kwargs = self._arguments(v, name)
        leaf = flambeau.ones(v.pick(((), (2,), (2, 3), (0,))), requires_grad=True)
        given = [leaf] if v.uniform() < 0.8 else v.anything()

        def make_and_step(parameters, *a, **k):
            optimizer = cls(parameters, *a, **k)
            leaf.grad = flambeau.ones_like(leaf)
            optimizer.step()
            repr(optimizer)
            optimizer.load_state_dict(optimizer.state_dict())
        return "optim." + name, make_and_step, [given, *args], kwargs

    def transform(self, v):
        transform = v.pick(self.transforms)
        if v.uniform() < 0.6:
            name = v.pick(self.operators)
            inner, args = OPS[name], [v.value(t) for _, t in self.schemas[name]]
        else:
            inner, args = v.function(), [v.tensor() for _ in range(1 + v.below(2))]
        options = {}
        if v.uniform() < 0.3:
            options = {v.pick(("in_dims", "out_dims", "argnums", "chunk_size", "has_aux", "randomness")): v.anything()}

        def apply(*a):
            made = transform(inner, **options) if transform in (flambeau.func.vmap, flambeau.func.grad) else None
            return made(*a) if made is not None else transform(inner, *a)
        return f"{transform.__name__} of {described(inner)} {described(options)}", apply, args, {}

    def backward(self, v):
        t = v.tensor()
        if v.uniform() < 0.5:
            outputs, inputs = v.pick((t, [t, v.tensor()], v.anything())), v.pick((t, v.anything()))
            return "autograd.grad", flambeau.autograd.grad, [outputs, inputs], {}
        kwargs = {v.pick(("gradient", "retain_graph", "create_graph",
                          "inputs")): v.anything()} if v.uniform() < 0.5 else {}
        return "backward", lambda x, **k: (x * x).sin().backward(**k), [t], kwargs
