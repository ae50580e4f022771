"""Normalization with statistics of the batch (batch norm) or of each sample (instance norm)."""

from warnings import warn

import flambeau

from ... import empty, int64, ones, tensor, zeros
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module


class _NormBase(Module):
    """Scale, shift and running statistics, one number per channel (dimension 1)."""

    _version = 2  # version 1 had no num_batches_tracked

    def __init__(self, num_features, eps, momentum, affine, track_running_stats, device, dtype, bias):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        made = {"device": device, "dtype": dtype}
        for name, present in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, Parameter(empty(num_features, **made)) if present else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **made) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **made) if tracked else None)
        count = tensor(0, dtype=int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self):
        """Forget the running statistics: mean 0, variance 1, no batches seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """Forget the running statistics; scale 1 and shift 0."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input):
        dims = self._allowed_dims
        if input.dim() not in dims:
            raise ValueError(f"expected {' or '.join(f'{d}D' for d in dims)} input (got {input.dim()}D input)")

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats:
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                known = self.num_batches_tracked
                state_dict[key] = tensor(0, dtype=int64) if known is None or known.is_meta else known
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None,
                 dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input):
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        mean, var = self.running_mean, self.running_var
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain average of all batches
                factor = 1.0 / float(self.num_batches_tracked)
        batch_statistics = self.training or (mean is None and var is None)
        if self.training and not self.track_running_stats:
            mean = var = None
        return F.batch_norm(input, mean, var, self.weight, self.bias, batch_statistics, factor, self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch normalization of [N, C] or [N, C, L] per channel   (Ioffe & Szegedy 2015).

    Training uses the batch's mean and variance and follows them in running_mean and running_var, which evaluation uses.

    >>> import flambeau
    >>> flambeau.nn.BatchNorm1d(1)(flambeau.tensor([[1.0], [3.0]])).flatten().tolist()  # doctest: +ELLIPSIS
    [-0.9999..., 0.9999...]
    """

    _allowed_dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of [N, C, H, W] per channel   (Ioffe & Szegedy 2015).

    >>> import flambeau
    >>> flambeau.nn.BatchNorm2d(3)(flambeau.zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    _allowed_dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of [N, C, D, H, W] per channel   (Ioffe & Szegedy 2015).

    >>> import flambeau
    >>> flambeau.nn.BatchNorm3d(3)(flambeau.zeros(2, 3, 2, 2, 2)).shape
    torch.Size([2, 3, 2, 2, 2])
    """

    _allowed_dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization of [N, C, ...] over the batches of all ranks of a group; alone, over its own batch.

    >>> import flambeau
    >>> flambeau.nn.SyncBatchNorm(3)(flambeau.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None,
                 device=None, dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"BatchNorm1d: input must have 2 or more dimensions, got {input.dim()}")
        if input.size(1) == 0:
            raise ValueError(f"SyncBatchNorm: input {list(input.shape)} has no channels")

    def forward(self, input):
        training = self.training or self.running_mean is None
        if not training or not flambeau.distributed.is_initialized():
            return super().forward(input)
        group = flambeau.distributed._groups.member(self.process_group, "SyncBatchNorm")
        if group is None or group.size() == 1:
            return super().forward(input)
        self._check_input_dim(input)
        mean, var, count = _moments_of_all(input, group)
        if self.training and self.track_running_stats:
            self._keep(mean.detach(), var.detach() * (count / (count - 1)))
        shape = (1, -1) + (1,) * (input.dim() - 2)
        scale = (var + self.eps).rsqrt()
        weight = scale if self.weight is None else scale * self.weight
        bias = -mean * weight if self.bias is None else self.bias - mean * weight
        return (input * weight.view(shape) + bias.view(shape)).to(input.dtype)

    def _keep(self, mean, var):
        with flambeau.no_grad():
            self.num_batches_tracked.add_(1)
            factor = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
            self.running_var.lerp_(var.to(self.running_var.dtype), factor)

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with every BatchNorm layer in it replaced by a SyncBatchNorm with the same tensors.

        >>> from flambeau import nn
        >>> nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(3)))[0].num_features
        3
        """
        result = module
        if isinstance(module, _BatchNorm):
            bias = module.bias is not None
            result = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group, bias=bias,
            )  # fmt: skip
            for table in ("_parameters", "_buffers"):
                getattr(result, table).update(getattr(module, table))
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


def _moments_of_all(input, group):
    """(mean, variance, number of values) of each channel over the inputs of all ranks, with gradients.

    From each rank's own mean, variance and count   (Chan, Golub, LeVeque 1979): no difference of large sums.
    """
    dims = [d for d in range(input.dim()) if d != 1]
    own = input.double() if input.dtype is flambeau.float64 else input.float()
    count = input.numel() // input.size(1)
    if count:
        mean = own.mean(dims)
        var = (own - mean.view(1, -1, *(1,) * (input.dim() - 2))).square().mean(dims)
    else:  # no sample here
        mean = var = own.sum(dims)
    told = flambeau.cat([mean, var, mean.new_full((1,), count)])
    every = flambeau.stack(flambeau.distributed._autograd.all_gather(told, group))
    means, variances = every[:, :len(mean)], every[:, len(mean):-1]
    counts = every[:, -1:].detach()
    total = int(counts.sum())
    if total < 2:
        raise ValueError(f"SyncBatchNorm: a variance needs two values or more per channel, and all ranks together "
                         f"have {total} of input {list(input.shape)}")
    mean = (means * counts).sum(0) / total
    var = ((variances + (means - mean).square()) * counts).sum(0) / total
    return mean, var, total


class _InstanceNorm(_NormBase):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None,
                 dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input):
        self._check_input_dim(input)
        single = input.dim() == self._allowed_dims[0]
        channels = input.size(0 if single else 1)
        if channels != self.num_features:
            said = (f"{type(self).__name__}: input has {channels} channels (dimension {0 if single else 1}), expected "
                    f"num_features={self.num_features}")
            if self.affine:
                raise ValueError(said)
            warn(f"{said}; without affine=True that number is not used", UserWarning, stacklevel=2)
        if single:
            return self._normalize(input.unsqueeze(0)).squeeze(0)
        return self._normalize(input)

    def _normalize(self, input):
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, 0.0 if self.momentum is None else self.momentum, self.eps,
        )  # fmt: skip


class InstanceNorm1d(_InstanceNorm):
    """Normalizes each channel of each sample of [N, C, L] or [C, L]   (Ulyanov et al. 2016).

    >>> import flambeau
    >>> flambeau.nn.InstanceNorm1d(3)(flambeau.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    _allowed_dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalizes each channel of each sample of [N, C, H, W] or [C, H, W]   (Ulyanov et al. 2016).

    >>> import flambeau
    >>> flambeau.nn.InstanceNorm2d(3)(flambeau.zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    _allowed_dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalizes each channel of each sample of [N, C, D, H, W] or [C, D, H, W]   (Ulyanov et al. 2016).

    >>> import flambeau
    >>> flambeau.nn.InstanceNorm3d(3)(flambeau.zeros(2, 3, 2, 2, 2)).shape
    torch.Size([2, 3, 2, 2, 2])
    """

    _allowed_dims = (4, 5)
