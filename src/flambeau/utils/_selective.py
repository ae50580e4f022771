"""Selective checkpointing: a policy says which operators' results are kept, and the rest is computed again."""

from enum import Enum

from .. import _C
from .._shown import shown
from .._tensor.overriding import TorchDispatchMode
from ..ops.kinds import OPS
from ..ops.namespaces import Overload

#: operators that are always computed again: they cost nothing
SAC_IGNORED_OPS = {OPS[name] for name in ("detach", "view_as") if name in OPS}


#: a product is one operator here whatever the dimensions; of (how many the factors have) -> PyTorch's for it
_PRODUCTS = {(1, 1): "dot", (2, 1): "mv", (2, 2): "mm"}

#: what these names in a list stand for: policies never see them
_STAND_FOR = {"matmul": ("mm", "bmm", "mv", "dot"), "linear": ("addmm", "mm")}


def _theirs(func, args, kwargs):
    """The operator that PyTorch would run: products go by what they multiply. Policies are asked about that one."""
    given = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
    if func is OPS["linear"]:
        return OPS["mm" if given.get("bias") is None else "addmm"]
    if func is OPS["matmul"]:
        a, b = (x.dim() for x in (*args, *kwargs.values())[:2])
        folded = (2, b) if a > 2 and b < 3 else (a, b)  # rows of a matrix, as many as there are
        return OPS[_PRODUCTS.get(folded, "bmm")]
    return func


class CheckpointPolicy(Enum):
    """What happens to one operator's result."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVED = {CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, CheckpointPolicy.MUST_CPU_OFFLOAD,
          CheckpointPolicy.PREFER_CPU_OFFLOAD}


class SelectiveCheckpointContext:
    """What a policy function is told besides the operator: whether this is the run in backward."""

    def __init__(self, *, is_recompute, op_output=None):
        self.is_recompute, self.op_output = is_recompute, op_output


class _Kept:
    """A detached result; reading it back notices a write in between."""

    def __init__(self, tensor, allow_mutation, offload):
        self.device = tensor.device if offload else None
        self.tensor = tensor.detach().cpu() if offload else tensor.detach()
        self.version, self.allow = self.tensor._version, allow_mutation

    def get(self):
        if not self.allow and self.tensor._version != self.version:
            raise RuntimeError("checkpoint: a tensor kept by the policy was changed in place before backward could "
                               "use it; clone it first, or pass allow_cache_entry_mutation=True")
        return self.tensor.detach() if self.device is None else self.tensor.to(self.device)


def _mapped(result, f):
    if isinstance(result, _C.Tensor):
        return f(result)
    if isinstance(result, (tuple, list)):
        return tuple(_mapped(r, f) for r in result)
    return result


class _FirstRun(TorchDispatchMode):
    def __init__(self, policy, kept, allow_mutation):
        self.policy, self.kept, self.allow = policy, kept, allow_mutation

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in SAC_IGNORED_OPS:
            return result
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        what = self.policy(context, _theirs(func, args, kwargs), *args, **kwargs)
        what = _as_policy(what)
        if what in _SAVED:
            offload = what in (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)
            self.kept.setdefault(func, []).append(_mapped(result, lambda t: _Kept(t, self.allow, offload)))
        else:
            self.kept.setdefault(func, []).append(None)
        return result


class _SecondRun(TorchDispatchMode):
    def __init__(self, kept):
        self.kept, self.used = kept, {}

    def __enter__(self):
        self.used = {}
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in SAC_IGNORED_OPS:
            return func(*args, **(kwargs or {}))
        results, k = self.kept.get(func, ()), self.used.get(func, 0)
        if k >= len(results):
            raise RuntimeError(f"torch.utils.checkpoint: {func.name} runs more often in the recomputation than in the "
                               "original forward: selective checkpointing has no result of it to give")
        self.used[func] = k + 1
        if results[k] is None:
            return func(*args, **(kwargs or {}))
        return _read(results[k])


def _read(kept):
    return tuple(_read(k) for k in kept) if isinstance(kept, tuple) else kept.get() if isinstance(kept, _Kept) else kept


def _as_policy(what):
    if isinstance(what, bool):
        return CheckpointPolicy.MUST_SAVE if what else CheckpointPolicy.PREFER_RECOMPUTE
    return what


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """The two contexts of `checkpoint(…, context_fn=…)` that keep some operators' results.

    The policy is a list of operators to keep, or policy(ctx, op, *args, **kwargs) -> CheckpointPolicy.

    >>> import flambeau, functools
    >>> from flambeau.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> keep = functools.partial(create_selective_checkpoint_contexts, [flambeau.mm])
    >>> w = flambeau.ones(2, 2, requires_grad=True)
    >>> checkpoint(lambda w: (w @ w).exp(), w, use_reentrant=False, context_fn=keep).sum().backward()
    >>> w.grad
    tensor([[29.5562, 29.5562],
            [29.5562, 29.5562]])
    """
    if callable(policy_fn_or_list):
        policy = policy_fn_or_list
    elif isinstance(policy_fn_or_list, (list, tuple, set)):
        chosen = set(policy_fn_or_list)
        for op in chosen:
            if not isinstance(op, (_C.Op, Overload)):
                raise ValueError(f"create_selective_checkpoint_contexts: the list must hold operators, got {shown(op)}")
        chosen |= {OPS[name] for listed, names in _STAND_FOR.items() if OPS[listed] in chosen for name in names}

        def policy(ctx, op, *args, **kwargs):
            return CheckpointPolicy.MUST_SAVE if op in chosen else CheckpointPolicy.PREFER_RECOMPUTE
    else:
        raise TypeError("create_selective_checkpoint_contexts: policy_fn_or_list must be a function or a list of "
                        f"operators, got {type(policy_fn_or_list).__name__}")
    kept = {}
    return _FirstRun(policy, kept, allow_cache_entry_mutation), _SecondRun(kept)
