"""Functions of torch whose arguments differ from those of nn.functional's function of the same name.

A reduction is a number here: 0 none (what these functions do by themselves), 1 mean, 2 sum.
"""

from math import prod

from .._shown import shown
from .compressed import csr_max
from .dims import wrap_dim
from .kinds import OPS, composite
from .random import _alpha, _dropout_channels, _element_noise, _feature_noise, dropout

_REDUCTIONS = ("none", "mean", "sum")


def _flat(schema, **facts):
    """Decorator: a composite `name.flat`, public as flambeau.name only."""
    name, rest = schema.split("(", 1)
    return composite(f"{name}.flat({rest}", namespace=None, method=False, aliases=(name,),
                     skip="the flat form of a tested function", **facts)


def _reduced(reduction):
    if isinstance(reduction, str):
        return reduction
    if reduction not in (0, 1, 2):
        raise ValueError(f"reduction must be 0 (none), 1 (mean) or 2 (sum), got {reduction}")
    return _REDUCTIONS[reduction]


# --- losses -----------------------------------------------------------------------------------------------------------

@_flat("kl_div(Tensor self, Tensor target, any reduction=0, *, bool log_target=False) -> Tensor", autocast="float32")
def kl_div(self, target, reduction=0, *, log_target=False):
    """nn.functional.kl_div with the reduction as a number."""
    return OPS["kl_div"](self, target, reduction=_reduced(reduction), log_target=log_target)


@_flat("binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None,"
       " any reduction=0) -> Tensor", autocast="float32")
def binary_cross_entropy_with_logits(self, target, weight=None, pos_weight=None, reduction=0):
    """nn.functional.binary_cross_entropy_with_logits with the reduction as a number."""
    return OPS["binary_cross_entropy_with_logits"](self, target, weight, pos_weight=pos_weight,
                                                   reduction=_reduced(reduction))


@_flat("cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, any reduction=0)"
       " -> Tensor", autocast="float32")
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=0):
    """nn.functional.cosine_embedding_loss with the reduction as a number."""
    return OPS["cosine_embedding_loss"](input1, input2, target, margin, reduction=_reduced(reduction))


@_flat("hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, any reduction=0) -> Tensor",
       autocast="float32")
def hinge_embedding_loss(self, target, margin=1.0, reduction=0):
    """nn.functional.hinge_embedding_loss with the reduction as a number."""
    return OPS["hinge_embedding_loss"](self, target, margin, reduction=_reduced(reduction))


@_flat("margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, any reduction=0) -> Tensor",
       autocast="float32")
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=0):
    """nn.functional.margin_ranking_loss with the reduction as a number."""
    return OPS["margin_ranking_loss"](input1, input2, target, margin, reduction=_reduced(reduction))


@_flat("poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, any reduction) -> Tensor",
       autocast="float32")
def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """nn.functional.poisson_nll_loss with every argument given and the reduction as a number."""
    return OPS["poisson_nll_loss"](input, target, log_input, full, eps=eps, reduction=_reduced(reduction))


@_flat("triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0,"
       " float eps=1e-06, bool swap=False, any reduction=0) -> Tensor", autocast="float32")
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=0):
    """nn.functional.triplet_margin_loss with the reduction as a number."""
    return OPS["triplet_margin_loss"](anchor, positive, negative, margin, p, eps, swap, reduction=_reduced(reduction))


# --- normalization ----------------------------------------------------------------------------------------------------

@_flat("batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,"
       " bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor")
def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    """nn.functional.batch_norm with every argument given, the weights first; cudnn_enabled changes nothing."""
    return OPS["batch_norm"](input, running_mean, running_var, weight, bias, training, momentum, eps)


@_flat("instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,"
       " bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor")
def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    """nn.functional.instance_norm with every argument given, the weights first; cudnn_enabled changes nothing."""
    return OPS["instance_norm"](input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@_flat("native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, "
       "Tensor, Tensor)")
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """layer_norm, the means, and the reciprocals of the deviations."""
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    mean = input.mean(dims, True)
    rest = ((input - mean) * (input - mean)).mean(dims, True).add(eps).rsqrt()
    return OPS["layer_norm"](input, normalized_shape, weight, bias, eps), mean, rest


@_flat("native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps)"
       " -> (Tensor, Tensor, Tensor)")
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """group_norm, the means, and the reciprocals of the deviations of each sample's groups."""
    if input.numel() != N * C * HxW:
        raise RuntimeError(f"native_group_norm: input has {input.numel()} elements (shape {list(input.shape)}), but "
                           f"N * C * HxW = {N} * {C} * {HxW} = {N * C * HxW}")
    if group < 1 or C % group:
        raise RuntimeError(f"native_group_norm: C = {C} channels cannot be shared out among {group} groups")
    grouped = input.reshape(N, group, C // group * HxW)
    mean = grouped.mean(-1)
    rest = OPS["var"](grouped, -1, correction=0).add(eps).rsqrt()
    return OPS["group_norm"](input.reshape(N, C, HxW), group, weight, bias, eps).reshape(input.shape), mean, rest


@_flat("norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor")
def norm_except_dim(v, pow=2, dim=0):
    """The norm over all dimensions but one (-1: over all), as a tensor of as many dimensions.

    >>> flambeau.norm_except_dim(flambeau.tensor([[3., 4.]]))
    tensor([[5.]])
    """
    if dim == -1:
        return OPS["vector_norm"](v, pow)
    dim = wrap_dim(dim, v.dim(), "norm_except_dim")
    rows = v.movedim(dim, 0).unsqueeze(-1).flatten(1)
    return OPS["vector_norm"](rows, pow, [1]).reshape([v.size(d) if d == dim else 1 for d in range(v.dim())])


@_flat("frobenius_norm(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", out=True)
def frobenius_norm(self, dim, keepdim=False):
    """The root of the sum of squared magnitudes over `dim`.

    >>> flambeau.frobenius_norm(flambeau.tensor([[3., 4.]]), (0, 1))
    tensor(5.)
    """
    return OPS["vector_norm"](self, 2, list(dim) or None, keepdim)


# --- embeddings -------------------------------------------------------------------------------------------------------

@_flat("embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False,"
       " bool sparse=False) -> Tensor")
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """The rows of weight at indices; nn.functional.embedding with the weight first.

    >>> flambeau.embedding(flambeau.tensor([[1.], [2.]]), flambeau.tensor([1, 0]))
    tensor([[2.],
            [1.]])
    """
    padding = None if padding_idx < 0 else padding_idx
    return OPS["embedding"](indices, weight, padding, None, 2.0, scale_grad_by_freq, sparse)


# --- dropout ----------------------------------------------------------------------------------------------------------

def _checked(p):
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout: p must be a probability between 0 and 1, got {shown(p)}")


@_flat("dropout_(Tensor self, float p, bool train) -> Tensor")
def dropout_(self, p, train):
    """dropout in place."""
    _checked(p)
    return dropout(self, p, train, True)


@_flat("feature_dropout(Tensor input, float p, bool train) -> Tensor")
def feature_dropout(input, p, train):
    """Dropout of whole channels."""
    _checked(p)
    return _dropout_channels(input, p, train, False)


@_flat("feature_dropout_(Tensor self, float p, bool train) -> Tensor")
def feature_dropout_(self, p, train):
    """feature_dropout in place."""
    _checked(p)
    return _dropout_channels(self, p, train, True)


@_flat("alpha_dropout_(Tensor self, float p, bool train) -> Tensor")
def alpha_dropout_(self, p, train):
    """alpha_dropout in place."""
    _checked(p)
    return _alpha(self, p, train, True, _element_noise)


@_flat("feature_alpha_dropout_(Tensor self, float p, bool train) -> Tensor")
def feature_alpha_dropout_(self, p, train):
    """feature_alpha_dropout in place."""
    _checked(p)
    return _alpha(self, p, train, True, _feature_noise)


# --- others -----------------------------------------------------------------------------------------------------------

@_flat("adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)")
def adaptive_max_pool1d(self, output_size):
    """The largest elements of equal parts, and where they are."""
    return OPS["adaptive_max_pool1d_with_indices"](self, output_size[0])


@_flat("grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)"
       " -> Tensor")
def grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners):
    """grid_sampler of images."""
    return OPS["grid_sampler"](input, grid, interpolation_mode, padding_mode, align_corners)


@_flat("grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)"
       " -> Tensor")
def grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners):
    """grid_sampler of volumes."""
    return OPS["grid_sampler"](input, grid, interpolation_mode, padding_mode, align_corners)


@_flat("detach(Tensor self) -> Tensor")
def detach(self):
    """The same memory without history.

    >>> flambeau.detach(flambeau.ones(1, requires_grad=True)).requires_grad
    False
    """
    return self.detach()


@_flat("get_device(Tensor self) -> any")
def get_device(self):
    """The number of the device a tensor is on; -1 for the CPU."""
    return self.get_device()


@_flat("is_neg(Tensor self) -> any")
def is_neg(self):
    """Whether the tensor is a negative that is not computed yet: its memory holds the other value.

    >>> flambeau.is_neg(flambeau.ones(2, dtype=flambeau.complex64).conj().imag)
    True
    """
    return self.is_neg()


@_flat("is_distributed(Tensor self) -> any")
def is_distributed(self):
    """False."""
    return False


@_flat("is_same_size(Tensor self, Tensor other) -> any")
def is_same_size(self, other):
    """Whether both have the same shape."""
    return self.shape == other.shape


@_flat("resize_as_(Tensor self, Tensor the_template, *, memory_format? memory_format=None) -> any")
def resize_as_(self, the_template, *, memory_format=None):
    """Gives self the other's shape, in place."""
    return self.resize_as_(the_template, memory_format=memory_format)


@_flat("nuclear_norm(Tensor self, int[2]? dim=None, bool keepdim=False) -> Tensor", out=True)
def nuclear_norm(self, dim=None, keepdim=False):
    """The sum of the singular values."""
    return OPS["linalg_matrix_norm"](self, "nuc", (-2, -1) if dim is None else tuple(dim), keepdim)


def _rows_of_largest(weight, indices, ends, padding_idx):
    """The row of the table that each feature of each bag has its largest value from, the first of equal ones."""
    if padding_idx is not None:
        keep = indices != padding_idx
        ends, indices = OPS["cat"]([ends[:1], keep.cumsum(0)])[ends], indices[keep]
    return csr_max(ends.to(indices.dtype), indices, weight.detach().float())[1].clamp(min=0).to(ends.dtype)


@_flat("embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0,"
       " bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None)"
       " -> (Tensor, Tensor, Tensor, Tensor)")
def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    """nn.functional.embedding_bag with the weight first and the mode as a number (0 sum, 1 mean, 2 max); then each
    index's bag, the bags' sizes, and the rows that the largest came from (empty unless mode is 2)."""
    padding_idx = None if padding_idx is None or padding_idx < 0 else padding_idx
    made = OPS["embedding_bag"](indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode],
                                sparse, per_sample_weights, include_last_offset, padding_idx)
    ends = offsets if include_last_offset else OPS["cat"]([offsets, offsets.new_full((1,), prod(indices.shape))])
    sizes = ends.diff()
    bags = OPS["arange"](sizes.numel(), device=sizes.device).repeat_interleave(sizes)
    largest = sizes.new_empty((0,)) if mode != 2 else _rows_of_largest(weight, indices, ends, padding_idx)
    return made, bags.to(indices.dtype), sizes, largest
