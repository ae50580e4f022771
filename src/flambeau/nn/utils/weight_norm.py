"""Weights computed anew before every forward: from length and direction, or divided by their largest singular value."""

from ... import dot, mv, no_grad
from ..._shown import shown
from ...ops.dims import wrap_dim
from ..functional import normalize
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..parameter import Parameter


class _Computed:
    """A forward pre-hook that puts the computed tensor where the parameter was."""

    def __init__(self, name):
        self.name = name

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute(module))


def _attach(module, hook, kind):
    for other in module._forward_pre_hooks.values():
        if isinstance(other, type(hook)) and other.name == hook.name:
            raise RuntimeError(f"{kind}: {hook.name} has one already; remove it first")
    if not isinstance(module._parameters.get(hook.name), Parameter):
        raise ValueError(f"{kind}: {type(module).__name__} has no parameter {shown(hook.name)}")
    weight = module._parameters.pop(hook.name)
    hook.split(module, weight)
    module.register_forward_pre_hook(hook)
    return module


def _detach(module, kind, name, what):
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            with no_grad():
                value = hook.compute(module)
            hook.join(module)
            delattr(module, name)
            module.register_parameter(name, Parameter(value.detach()))
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"{what} of '{name}' not found in {module}")


# ---- length and direction ------------------------------------------------------------------------------------------


def length(v, dim):
    """The norm of v over all dimensions but `dim` (None: over all)."""
    if dim is None:
        return v.square().sum().sqrt()
    others = [d for d in range(v.dim()) if d != wrap_dim(dim, v.dim(), "weight_norm")]
    return v.square().sum(others, keepdim=True).sqrt() if others else v.abs()


class _WeightNorm(_Computed):
    """w = g v / |v|, the norm over all dimensions but `dim`   (Salimans & Kingma 2016)."""

    def __init__(self, name, dim):
        super().__init__(name)
        self.dim = dim

    def split(self, module, weight):
        with no_grad():
            size = length(weight, self.dim)
        module.register_parameter(self.name + "_g", Parameter(size))
        module.register_parameter(self.name + "_v", Parameter(weight.data))
        self(module, None)

    def compute(self, module):
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / length(v, self.dim))

    def join(self, module):
        delattr(module, self.name + "_g")
        delattr(module, self.name + "_v")


def weight_norm(module, name="weight", dim=0):
    """Learn the length (`weight_g`) and the direction (`weight_v`) of a weight apart   (Salimans & Kingma 2016).

    >>> from flambeau import nn
    >>> list(nn.utils.weight_norm(nn.Linear(2, 3)).state_dict())
    ['bias', 'weight_g', 'weight_v']
    """
    return _attach(module, _WeightNorm(name, None if dim == -1 else dim), "weight_norm")


def remove_weight_norm(module, name="weight"):
    """Make the weight an ordinary parameter again."""
    return _detach(module, _WeightNorm, name, "weight_norm")


# ---- largest singular value ----------------------------------------------------------------------------------------


class _SpectralNorm(_Computed):
    """w = w_orig / sigma; u, v follow the first singular vectors by power iteration   (Miyato et al. 2018)."""

    def __init__(self, name, n_power_iterations, dim, eps):
        super().__init__(name)
        if n_power_iterations <= 0:
            raise ValueError(
                f"spectral_norm: n_power_iterations must be positive, got {shown(n_power_iterations)}"
            )
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps

    def _matrix(self, weight):
        return (weight if self.dim == 0 else weight.movedim(self.dim, 0)).flatten(1)

    def split(self, module, weight):
        with no_grad():
            rows, columns = self._matrix(weight).shape
            u, v = (normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=self.eps) for n in (rows, columns))
        module.register_parameter(self.name + "_orig", weight)
        setattr(module, self.name, weight.data)
        module.register_buffer(self.name + "_u", u)
        module.register_buffer(self.name + "_v", v)

    def compute(self, module):
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self._matrix(weight)
        if module.training and isinstance(weight, Parameter):
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(normalize(mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(normalize(mv(matrix, v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the next forward may come before this one's backward
        return weight / dot(u, mv(matrix, v))

    def join(self, module):
        for ending in ("_orig", "_u", "_v"):
            delattr(module, self.name + ending)


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divide a weight by its largest singular value, estimated by power iteration   (Miyato et al. 2018).

    >>> from flambeau import nn
    >>> list(nn.utils.spectral_norm(nn.Linear(2, 3)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    return _attach(module, _SpectralNorm(name, n_power_iterations, dim, eps), "spectral_norm")


def remove_spectral_norm(module, name="weight"):
    """Make the divided weight an ordinary parameter again."""
    training, module.training = module.training, False  # the value as it is: no further power iteration
    try:
        return _detach(module, _SpectralNorm, name, "spectral_norm")
    finally:
        module.training = training
