"""The kinds of operator records: each function below turns one record into one native Op.

A record says everything that an operator's results depend on. What every record of a kind shares (shape rule, type
promotion, in-place and `out=` forms, test plan) is the kind's; a record writes down only what deviates.

Fields common to all kinds
    schema      "name(Tensor self, int dim, *, bool keepdim=False) -> Tensor": PyTorch's argument names and defaults.
                `Tensor(a!)` marks an argument that the kernel writes to, `Tensor(training!)` one that it writes to
                if the argument `training` is true; the first argument of a name that ends in `_` needs no mark.
    d           derivatives: {input name(s): rule}. A rule's parameter names say what is saved for it:
                `g` (gradient of the result; `g0`, `g1`, … of several, zeros where none arrives; `some_grads`, a tuple
                with None for those), any argument by its name, `result`
                (`result0`, …), `self_shape` / `self_dtype` (metadata of argument `self`: keeps no memory),
                `self_geometry` (its sizes, strides and offset, instead), and
                `needs` (a tuple of bools: which of the rule's inputs want a gradient). A tuple key, as
                ("input", "weight"), is one rule that returns a tuple of gradients. For a Tensor[] argument the rule
                returns a list, and `needs` has a bool for each of its tensors. The engine sums a gradient down to its
                input's broadcast shape and dtype.
    namespace   where the function is public: "" (flambeau itself), "nn.functional", "special", "linalg" … or None
    method      whether it is also a Tensor method (the default for namespace "" with a first argument `self`)
    inplace     whether `name_` exists as a method;   out: whether `out=` is accepted
                A record whose own name ends in `_`, as "normal_", exists in place only: its row pushes the first
                argument itself as the result and writes into it.
    aliases     further public names: "multiply" (function, method and in-place method, as the record's own name),
                "nn.functional.relu" (a function of that namespace only)
    node        what its graph nodes are called, where PyTorch's name is not made of the record's own
    autocast    what autocast does with its arguments: "half" (products, which keep their sums in float32), "float32"
                (losses, long sums, decompositions), "given" (made of products, but computed in the dtype it is given);
                without it nothing, and a composite's parts decide
    older       ("beta self mat1 mat2", …): orders of the arguments in old programs, numbers before their tensors
    keeps_format  whether channels_last arguments make channels_last results
    fresh       whether the result of tensors is there to be written to, as that of `zeros` is: inside forward mode it
                takes the tangents of what is written into it
    ref         "numpy.multiply": the reference, resolved when a test asks
    samples     plain data naming a sample generator of tests/ops/samples/: "pairs" or ("reals", -3, 3)
    doc         the public docstring
    cuda        a pointwise operator's formula in CUDA C++: one expression of the arguments' names for every dtype, in
                which T is the dtype it computes in (docs/cuda.md)
"""

import importlib
import sys

from .. import _C
from .._shown import shown


class _Described:
    """An attribute of operators that is built from the record when somebody asks (ops/_describe.py)."""

    def __init__(self, what, of_type=None):
        self.what, self.of_type = what, of_type

    def __get__(self, op, kind):
        if op is not None:
            return getattr(importlib.import_module("flambeau.ops._describe"), self.what)(op)
        if self.of_type is None:
            raise AttributeError(f"type object {kind.__name__!r} has no {self.what}")
        return self.of_type


_C.Op.__doc__ = _Described("document", "One operator, made from its record: a function, and a method of Tensor.")
_C.Op.__signature__ = _Described("signature")
_C.Op.__kwdefaults__ = _Described("keyword_defaults")

#: name -> Op, in order of definition: the op table
OPS = {}

#: further public name, with its namespace ("subtract", "nn.functional.relu") -> Op
ALIASES = {}

#: qualified name ("mylib::name") -> Op of an operator that a program registered
LIBRARY = {}

#: name of a pointwise operator -> its formula in CUDA C++ (flambeau.cuda.kernels)
FORMULAS = {}

#: operator -> the orders of the arguments that old programs write
OLDER = {}

#: schema text -> facts that only tests and documentation ask for
FACTS = {}


#: what a record says about autocast -> the native switch
_AUTOCAST = {None: 0, "half": 1, "float32": 2, "given": 3}


def _belongs(op, module):
    """The module that `__module__` names; flambeau itself unless this says otherwise."""
    for form in (op, op.inplace_form):
        if form is not None:
            form.__module__ = module.rstrip(".")


def _alias(op, names):
    for name in names:
        if name in ALIASES:
            raise RuntimeError(f"alias {shown(name)} stands in two records")
        ALIASES[name] = op
        if "." not in name:
            _C.bind_alias(name, op)


def _define(kind, schema, d, body, *, promote="default", namespace="", method=None, inplace=False, out=False,
            aliases=(), ref=None, samples=None, doc="", atol=None, dtypes=None, skip=None, numbers="none",
            node=None, autocast=None, keeps_format=False, fresh=False, older=(), cuda=None):
    policy = _AUTOCAST[autocast]
    op = _C.define(kind, schema, promote, d, body, namespace, method, inplace, out, doc, numbers)
    name = op.name
    if node is not None:
        _C.name_nodes(op, node)
    if policy:
        _C.set_autocast_policy(op, policy)
    if keeps_format:
        _C.keep_format(op)
    if fresh:
        _C.mark_fresh(op)
    if older:
        _C.add_older_orders(op, older)
        OLDER[name] = older
    if namespace:
        _belongs(op, "flambeau." + namespace)
    elif namespace is None and not method:
        _belongs(op, "flambeau." + (aliases[0].rpartition(".")[0] if aliases else "ops"))
    if name in OPS:
        raise RuntimeError(f"operator {shown(name)} has two records")
    OPS[name] = op
    if cuda is not None:
        FORMULAS[name] = cuda
    FACTS[name] = (kind, schema, ref, samples, atol, dtypes, skip)
    _alias(op, aliases)
    return op


def elementwise(schema, *, promote="default", d=None, inplace=True, out=True, numbers=None, **facts):
    """Pointwise, broadcasting. promote: default, int_to_float, compare, logical, complex_to_real, select_second,
    first_only (native/kernels/elementwise.h). numbers: which arguments of type Tensor may be Python numbers: "others"
    (all but the first, the default), "one" (any, while one stays a tensor: pow(2, x)), "any" or "none"."""
    facts["numbers"] = numbers or ("one" if facts.get("namespace", "") is None else "others")
    return _define("elementwise", schema, d, None, promote=promote, inplace=inplace, out=out, **facts)


def reduction(schema, *, d=None, out=True, **facts):
    """Reduces over `dim` (absent: all)."""
    return _define("reduction", schema, d, None, out=out, **facts)


def view(schema, *, d=None, **facts):
    """The result shares memory with its first argument; the row has no kernel."""
    return _define("view", schema, d, None, **facts)


def primitive(schema, *, d=None, kernel=None, **facts):
    """Any other operator with a row {name, infer, cpu} in native/kernels. kernel: the Python function of a row whose
    kernel is `python_kernel`: it takes the arguments and returns the results, unrecorded."""
    return _define("primitive", schema, d, kernel, **facts)


def composite(schema, *, out=False, **facts):
    """Decorator: the Python body, made of other ops, is the operator; its derivatives follow from its parts."""
    def decorate(body):
        facts.setdefault("doc", body.__doc__)
        return _define("composite", schema, None, body, out=out, **facts)
    return decorate


def overloads(name, *alternatives, namespace="", method=None, doc="", aliases=()):
    """One public name for several records with different results (`max`, `max.dim`, `max.other`): the first whose
    schema fits the call is taken."""
    op = _C.define_overloads(name, alternatives, namespace, method, doc)
    OPS[name] = op
    _alias(op, aliases)
    return op


def differentiated(*tensors):
    """Whether derivatives by one of these tensors may be asked for: by the tape, or by a transform that is running."""
    return any((_C.is_grad_enabled() and t.requires_grad) or _C.level_of(t) for t in tensors if t is not None)


def writes_by_name(name):
    """Whether a name is that of an operator which writes into its first argument: `add_`, `normal_`."""
    return name.endswith("_") and not name.endswith("__")


def plain(tensor):
    """The tensor without what transforms put around it: inside `vmap` the values of the whole batch. For decisions that
    are right for every element once they are made for all."""
    while _C.level_of(tensor):
        tensor = tensor.value
    return tensor


def room(like, shape, *others):
    """Zeros of `shape` for a rule to write into: with the batch of any of these tensors, inside `vmap`."""
    zeros = like.new_zeros(shape)
    for t in others:
        if t is not None and _C.level_of(t):
            zeros = zeros + t.new_zeros((), dtype=zeros.dtype)
    return zeros


def find(name):
    """The Op of that name; `name_` finds the in-place form (copying and unpickling ask)."""
    op = OPS.get(name) or LIBRARY.get(name)
    if op is not None:
        return op
    return OPS[name.removesuffix("_")].inplace_form


def public(namespace):
    """{public name: Op} of one namespace: "" is flambeau itself. Aliases and in-place forms included."""
    names = {name: op for name, op in OPS.items() if op.namespace == namespace and "." not in name}
    for name, op in ALIASES.items():
        space, _, last = name.rpartition(".")
        if space == namespace:
            names[last] = op
    forms = {name + "_": op.inplace_form for name, op in names.items() if op.inplace_form}
    return {sys.intern(name): op for name, op in (names | forms).items()}  # found at once by a name in a program
