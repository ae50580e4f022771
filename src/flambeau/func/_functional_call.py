"""Modules as functions of their parameters: called with other tensors, or several models stacked into one."""

from contextlib import contextmanager

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS
from ..utils._pytree import tree_flatten, tree_unflatten


def _merged(dicts):
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, (list, tuple)):
        raise ValueError("functional_call: the parameters and buffers come in a dict, or in a list or tuple of dicts, "
                         f"got {type(dicts).__name__}")
    if not all(isinstance(d, dict) for d in dicts):
        raise ValueError("functional_call: the list of parameters and buffers holds something other than dicts: "
                         f"{[type(d).__name__ for d in dicts]}")
    merged = {}
    for d in dicts:
        repeated = merged.keys() & d.keys()
        if repeated:
            raise ValueError(f"functional_call: more than one of the dicts gives a value for {sorted(repeated)}; give "
                             "each name once")
        merged.update(d)
    return merged


def _members(module):
    """{dotted name: (its table, name there)} of every parameter and buffer, shared ones under each of their names."""
    found = {}
    for path, part in module.named_modules(remove_duplicate=False):
        for table in (part._parameters, part._buffers):
            for name, value in table.items():
                if value is not None:
                    found[f"{path}.{name}" if path else name] = table, name
    return found


def _with_ties(given, members):
    """The given tensors, and those of names that share a module's tensor with a given name."""
    by_tensor = {}
    for name, (table, key) in members.items():
        by_tensor.setdefault(id(table[key]), []).append(name)
    wanted = dict(given)
    for names in by_tensor.values():
        values = {id(given[n]): given[n] for n in names if n in given}
        if len(values) > 1:
            raise ValueError(f"functional_call: {names} are one tied tensor, and got different values; give one of "
                             "them, or pass tie_weights=False")
        for n in names if values else ():
            wanted[n] = next(iter(values.values()))
    return wanted


_ABSENT = object()


def _place(module, name, value):
    """(module, table, key) of a dotted name: of a parameter, a buffer, or an attribute that is a tensor or new."""
    path, _, key = name.rpartition(".")
    owner = module.get_submodule(path)
    table = next((t for t in (owner._parameters, owner._buffers) if key in t), vars(owner))
    now = table[key] if key in table else getattr(owner, key, _ABSENT)
    for what, given in (("the value given for", value), ("what the module has as", now)):
        if given is not _ABSENT and given is not None and not isinstance(given, _C.Tensor):
            raise TypeError(f"functional_call: {what} {shown(name)} is no Tensor, but a {type(given).__name__}")
    return owner, table, key


def _check_names(given, members):
    missing, unexpected = [n for n in members if n not in given], [n for n in given if n not in members]
    if missing or unexpected:
        raise RuntimeError("functional_call: with strict=True the names must be those of the module; missing: "
                           f"{missing}, unexpected: {unexpected}")


@contextmanager
def _replaced(module, given, tie_weights, strict):
    members = _members(module) if tie_weights or strict else {}
    wanted = _with_ties(given, members) if tie_weights else dict(given)
    if strict:
        _check_names(wanted, members)
    places = {n: _place(module, n, value) for n, value in wanted.items()}
    before = [(owner, table, key, table.get(key, _ABSENT)) for owner, table, key in places.values()]
    try:
        for n, (owner, table, key) in places.items():
            if key in table:
                table[key] = wanted[n]
            else:  # the module puts it where it belongs: a Parameter among its parameters
                setattr(owner, key, wanted[n])
        yield
        for n in given:  # what the module itself put in their place, such as a new buffer
            owner, table, key = places[n]
            now = table[key] if key in table else getattr(owner, key, None)
            if now is not given[n]:
                given[n] = now
    finally:
        for owner, table, key, value in before:
            if value is not _ABSENT:
                table[key] = value
            elif hasattr(owner, key):
                delattr(owner, key)


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with these tensors in place of its parameters and buffers; the module stays as it was.

    The tensors are named as in `module.named_parameters()`; names that are left out keep the module's own, and names
    that the module does not have become attributes for the call (an error with `strict`). Buffers that the module
    writes to in place are written in the given tensors. `tie_weights` gives tensors that the module shares
    between names the same replacement.

    >>> import flambeau
    >>> linear = flambeau.nn.Linear(2, 1)
    >>> given = {"weight": flambeau.ones(1, 2), "bias": flambeau.zeros(1)}
    >>> flambeau.func.functional_call(linear, given, flambeau.tensor([3., 4.]))
    tensor([7.])
    """
    if not hasattr(module, "_parameters"):
        raise TypeError(f"functional_call: expected a Module, got {type(module).__name__}")
    given = _merged(parameter_and_buffer_dicts)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def _stacked(name, tensors):
    with_gradient = tensors[0].requires_grad
    if any(t.requires_grad is not with_gradient for t in tensors):
        raise RuntimeError(f"stack_module_state: {name} requires a gradient in some models and not in others; call "
                           "requires_grad_() on all")
    result = OPS["stack"]([t.detach() for t in tensors])
    return result.requires_grad_() if with_gradient else result


def stack_module_state(models):
    """(parameters, buffers) of several modules of one kind, stacked, for `vmap` of `functional_call`: an ensemble.

    >>> import flambeau
    >>> models = [flambeau.nn.Linear(2, 1) for _ in range(3)]
    >>> parameters, buffers = flambeau.func.stack_module_state(models)
    >>> def call(p, b, x):
    ...     return flambeau.func.functional_call(models[0], (p, b), (x,))
    >>> flambeau.vmap(call, in_dims=(0, 0, None))(parameters, buffers, flambeau.ones(5, 2)).shape
    torch.Size([3, 5, 1])
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: the list of models is empty")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError("stack_module_state: some models are in training mode and some in eval mode; call train() "
                           "or eval() on all")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: all models must have one class, got "
                           f"{sorted({type(m).__name__ for m in models})}")
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return ({name: _stacked(name, [p[name] for p in parameters]) for name in parameters[0]},
            {name: _stacked(name, [b[name] for b in buffers]) for name in buffers[0]})


def replace_all_batch_norm_modules_(root):
    """Takes the running statistics from every batch norm in the module, in place: inside `vmap` no batch could move
    them. They then normalise by the batch at hand, in training and in evaluation.

    >>> import flambeau
    >>> net = flambeau.func.replace_all_batch_norm_modules_(flambeau.nn.Sequential(flambeau.nn.BatchNorm1d(2)))
    >>> net[0].running_mean is None
    True
    """
    for module in root.modules():
        if "running_mean" in module._buffers and "running_var" in module._buffers:
            module.running_mean = module.running_var = None
            if "num_batches_tracked" in module._buffers:
                module.num_batches_tracked = None
            module.track_running_stats = False
    return root


#: each, asked without arguments, gives what runs a function without writes while it records a graph, or None
RECORDERS = []


def functionalize(func, *, remove="mutations"):
    """`func` with its in-place writes kept from its inputs while it runs.

    It gets copies of its tensors; those it wrote into are copied back at the end, so that the caller sees what `func`
    alone would have done. Inside `make_fx` the graph has an operator that makes a new tensor in the place of each
    write, and copies at its end. `remove`: views stay views for "mutations" and "mutations_and_views" alike.

    >>> import flambeau
    >>> def double_(x):
    ...     return x.mul_(2)
    >>> x = flambeau.ones(2)
    >>> flambeau.func.functionalize(double_)(x), x
    (tensor([2., 2.]), tensor([2., 2.]))
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize: remove must be 'mutations' or 'mutations_and_views', got {shown(remove)}")

    def call(*args, **kwargs):
        for recorder in RECORDERS:
            run = recorder()
            if run is not None:
                return run(func, args, kwargs)
        leaves, spec = tree_flatten((args, kwargs))
        copies = [x.clone() if isinstance(x, _C.Tensor) else x for x in leaves]
        versions = [x._version if isinstance(x, _C.Tensor) else None for x in copies]
        positional, named = tree_unflatten(copies, spec)
        result = func(*positional, **named)
        for own, copy, version in zip(leaves, copies, versions, strict=True):
            if version is not None and copy._version != version:
                own.copy_(copy)
        return result

    return call
