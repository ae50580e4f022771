"""Pruning: weights multiplied by a mask of zeros and ones before every forward.

`weight_orig` stays the parameter, `weight_mask` is a buffer, and `weight` is their product.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from numbers import Integral, Real

from ... import arange, contiguous_format, kthvalue, norm, ones_like, rand, rand_like, topk, zeros_like
from ..._shown import shown
from ...ops.dims import wrap_dim
from .convert_parameters import parameters_to_vector


class BasePruningMethod(ABC):
    """A way to choose what to prune: subclasses define `compute_mask` and PRUNING_TYPE.

    PRUNING_TYPE says what a further pruning of the same tensor sees: "unstructured" the entries still there,
    "structured" the channels of `self.dim` still there, "global" everything.
    """

    _tensor_name = None

    def __call__(self, module, inputs):
        """The forward pre-hook: the product stands under the tensor's name."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask for importances `t`, which keeps the zeros of default_mask."""

    def apply_mask(self, module):
        """The original times the mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = (getattr(module, self._tensor_name + end) for end in ("_mask", "_orig"))
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prune the tensor `name` of the module, after whatever pruned it before; returns the method."""
        method = _after_earlier(module, name, cls(*args, **kwargs))
        tensor = getattr(module, name)
        scores = tensor if importance_scores is None else importance_scores
        if scores.shape != tensor.shape:
            raise AssertionError(
                f"prune: importance_scores of '{name}' must have its shape {list(tensor.shape)}, got "
                f"{list(scores.shape)}"
            )
        first = not isinstance(method, PruningContainer)
        if first:
            before = ones_like(tensor)
        else:
            before = getattr(module, name + "_mask").detach().clone(memory_format=contiguous_format)
        mask = method.compute_mask(scores, default_mask=before)
        if first:
            del module._parameters[name]
            module.register_parameter(name + "_orig", tensor)
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """`t` pruned, without any module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"prune: importance_scores must have the tensor's shape {list(t.shape)}, got {list(scores.shape)}"
            )
        return t * self.compute_mask(scores, default_mask=ones_like(t) if default_mask is None else default_mask)

    def remove(self, module):
        """Make the product the parameter; what is pruned stays zero."""
        weight = self.apply_mask(module)
        name = self._tensor_name
        delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        del module._buffers[name + "_mask"]
        original.data = weight.data
        setattr(module, name, original)


def _after_earlier(module, name, method):
    """`method`, or a container of it and what the tensor was pruned by before."""
    method._tensor_name = name
    hooks = module._forward_pre_hooks
    keys = [key for key, h in hooks.items() if isinstance(h, BasePruningMethod) and h._tensor_name == name]
    if len(keys) > 1:
        raise AssertionError(f"prune: '{name}' of {type(module).__name__} has {len(keys)} pruning hooks; one (which "
                             "may be a PruningContainer) was expected")
    if not keys:
        return method
    earlier = hooks.pop(keys[0])
    container = earlier if isinstance(earlier, PruningContainer) else PruningContainer(earlier)
    container.add_pruning_method(method)
    return container


class PruningContainer(BasePruningMethod):
    """Methods applied one after the other to the same tensor."""

    def __init__(self, *args):
        self._pruning_methods = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """One more, for the same tensor."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"add_pruning_method: a BasePruningMethod is expected, got {shown(method)}")
        if method is not None and method._tensor_name != self._tensor_name:
            raise ValueError(
                f"PruningContainer: it prunes '{self._tensor_name}' and cannot take in a method for "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """The last method's mask for what the mask so far has left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            left = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError("prune: a structured method must have an attribute `dim`, and "
                                     f"{type(method).__name__} has none")
            dim = wrap_dim(method.dim, t.dim(), "prune")
            kept = default_mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
            left = (slice(None),) * dim + (kept,)
        elif method.PRUNING_TYPE == "global":
            left = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask = mask.clone()
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(dtype=mask.dtype)
        return mask


# ---- the methods ----------------------------------------------------------------------------------------------------


class _ByAmount(BasePruningMethod):
    """Prunes `amount` units: a number of them, or a fraction."""

    def __init__(self, amount):
        if not isinstance(amount, Real):
            raise TypeError("prune: amount must be an int (how many) or a float (which share), got "
                            f"{type(amount).__name__}")
        if amount < 0 or (not isinstance(amount, Integral) and amount > 1):
            raise ValueError(
                f"prune: amount must be a share between 0 and 1 or a count that is not negative, got {shown(amount)}"
            )
        self.amount = amount

    def _count(self, size):
        count = self.amount if isinstance(self.amount, Integral) else round(self.amount * size)
        if count > size:
            raise ValueError(f"prune: amount={count} is more than the {shown(size)} entries there are")
        return count


class Identity(BasePruningMethod):
    """Prunes nothing: the tensor only gets a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        """The mask as it was."""
        return default_mask

    @classmethod
    def apply(cls, module, name):
        """Give the tensor a mask."""
        return super().apply(module, name)


class RandomUnstructured(_ByAmount):
    """Prunes entries at random."""

    PRUNING_TYPE = "unstructured"

    def _chosen(self, t, count):
        return topk(rand_like(t).flatten(), count).indices

    def compute_mask(self, t, default_mask):
        """Zeros at the entries chosen."""
        count = self._count(t.numel())
        mask = default_mask.clone(memory_format=contiguous_format)
        if count:
            mask.view(-1)[self._chosen(t, count)] = 0
        return mask

    @classmethod
    def apply(cls, module, name, amount):
        """Prune `amount` entries."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(RandomUnstructured):
    """Prunes the entries of smallest magnitude."""

    def _chosen(self, t, count):
        return topk(t.abs().flatten(), count, largest=False).indices

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        """Prune `amount` entries."""
        return super(RandomUnstructured, cls).apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(_ByAmount):
    """Prunes channels (indices of `dim`) at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        super().__init__(amount)
        self.dim = dim

    def _kept(self, t, dim, size, count):
        drawn = rand(size)
        return drawn > kthvalue(drawn, k=count).values

    def compute_mask(self, t, default_mask):
        """Zeros in the channels chosen."""
        if t.dim() <= 1:
            raise ValueError(
                f"prune: structured pruning needs at least 2 dimensions, got shape {list(t.shape)}"
            )
        dim = wrap_dim(self.dim, t.dim(), "prune")
        size = t.shape[dim]
        count = self._count(size)
        if count == 0:
            return default_mask
        mask = zeros_like(t)
        mask[(slice(None),) * dim + (self._kept(t, dim, size, count),)] = 1
        return mask * default_mask.to(dtype=mask.dtype)

    @classmethod
    def apply(cls, module, name, amount, dim=-1):
        """Prune `amount` channels of `dim`."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(RandomStructured):
    """Prunes the channels (indices of `dim`) of smallest n-norm."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def _kept(self, t, dim, size, count):
        norms = norm(t, p=self.n, dim=[d for d in range(t.dim()) if d != dim])
        kept = topk(norms, size - count, largest=True).indices
        return (arange(size).unsqueeze(1) == kept).any(1)

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        """Prune `amount` channels of `dim`."""
        given = {"amount": amount, "n": n, "dim": dim, "importance_scores": importance_scores}
        return super(RandomStructured, cls).apply(module, name, **given)


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        """Both masks' zeros."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"mask shape {self.mask.shape} must match the tensor's {default_mask.shape}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module, name, mask):
        """Prune where the mask is 0."""
        return super().apply(module, name, mask=mask)


# ---- as functions; all return the module ----------------------------------------------------------------------------


def identity(module, name):
    """Give the tensor a mask of ones, so that it counts as pruned."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prune entries at random: `amount` of them, or that fraction."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prune the entries of smallest magnitude (or importance): `amount` of them, or that fraction.

    >>> from flambeau import nn
    >>> m = nn.utils.prune.l1_unstructured(nn.Linear(2, 3), "weight", amount=4)
    >>> int((m.weight == 0).sum()), list(m.state_dict())
    (4, ['bias', 'weight_orig', 'weight_mask'])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prune channels of `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prune the channels of `dim` with the smallest n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prune several tensors, given as (module, name), as if they were one.

    >>> from flambeau import nn
    >>> a, b = nn.Linear(2, 3), nn.Linear(3, 1)
    >>> nn.utils.prune.global_unstructured([(a, "weight"), (b, "weight")], nn.utils.prune.L1Unstructured, amount=5)
    >>> int((a.weight == 0).sum() + (b.weight == 0).sum())
    5
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured: parameters must be an iterable of (module, name), got "
                        f"{type(parameters).__name__}")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError(f"global_unstructured: importance_scores must be a dict, got {type(scores).__name__}")
    parameters = list(parameters)
    tensors = [getattr(module, name) for module, name in parameters]
    masks = [getattr(m, name + "_mask", ones_like(t)) for (m, name), t in zip(parameters, tensors, strict=True)]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'global_unstructured: {pruning_method.__name__} prunes whole slices (PRUNING_TYPE = '
            f'{shown(method.PRUNING_TYPE)}); only "unstructured" methods can be used here'
        )
    method._tensor_name = "all"
    everything = parameters_to_vector([scores.get(key, t) for key, t in zip(parameters, tensors, strict=True)])
    mask = PruningContainer(method).compute_mask(everything, parameters_to_vector(masks))
    for (module, name), part, t in zip(parameters, mask.split([t.numel() for t in tensors]), tensors, strict=True):
        custom_from_mask(module, name, mask=part.view_as(t))


def custom_from_mask(module, name, mask):
    """Prune where `mask` is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module, name):
    """Make pruning permanent: the pruned tensor becomes the parameter again, without mask or hook."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"prune.remove: '{name}' of {type(module).__name__} is not pruned")


def is_pruned(module):
    """Whether anything in the module is pruned."""
    return any(isinstance(h, BasePruningMethod) for m in module.modules() for h in m._forward_pre_hooks.values())
