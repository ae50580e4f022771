"""Forms of composites that only `ops.aten` has: what decompositions and graphs of PyTorch's call by position.

A reduction is a number here: 0 none, 1 mean, 2 sum. `ops.aten.x` is the record `x.flat` where x is a composite and has
one; a primitive is itself there, because dispatch hooks compare what they get with it.
"""

from .._C import float32
from .kinds import OPS, composite
from .pooling import unpooled
from .top_level import _reduced


def _form(schema):
    """Decorator: a composite `name.flat`, which no namespace but ops.aten shows."""
    name, rest = schema.split("(", 1)
    return composite(f"{name}.flat({rest}", namespace=None, method=False, skip="the flat form of a tested function")


def _loss(schema):
    """The flat form of a loss, whose reduction is a number; its other arguments are the loss's own, by name."""
    name, _ = schema.split("(", 1)

    @_form(f"{schema} -> Tensor")
    def loss(self, target, *others):
        given = dict(zip(names, others, strict=True))
        return OPS[name](self, target, **{**given, "reduction": _reduced(given["reduction"])})

    names = [name for name, *_ in loss.arguments][2:]


_loss("mse_loss(Tensor self, Tensor target, any reduction=1)")
_loss("l1_loss(Tensor self, Tensor target, any reduction=1)")
_loss("soft_margin_loss(Tensor self, Tensor target, any reduction=1)")
_loss("multilabel_margin_loss(Tensor self, Tensor target, any reduction=1)")
_loss("smooth_l1_loss(Tensor self, Tensor target, any reduction=1, float beta=1.0)")
_loss("huber_loss(Tensor self, Tensor target, any reduction=1, float delta=1.0)")
_loss("binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, any reduction=1)")
_loss("nll_loss(Tensor self, Tensor target, Tensor? weight=None, any reduction=1, int ignore_index=-100)")
_loss("multi_margin_loss(Tensor self, Tensor target, float p=1, float margin=1.0, Tensor? weight=None, "
      "any reduction=1)")
_loss("ctc_loss(Tensor log_probs, Tensor targets, any input_lengths, any target_lengths, int blank=0, any reduction=1, "
      "bool zero_infinity=False)")


@_form("_convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
       "bool transposed, int[] output_padding, int groups, bool benchmark, bool deterministic, bool cudnn_enabled, "
       "bool allow_tf32=True) -> Tensor")
def _convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *switches):
    """convolution, as traces name it: with switches of cuDNN, of which those of backends.cudnn count here."""
    return OPS["convolution"](input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@_form("max_unpool2d(Tensor self, Tensor indices, int[2] output_size) -> Tensor")
def max_unpool2d(self, indices, output_size):
    """nn.functional.max_unpool2d into images of this size."""
    return unpooled(self, indices, output_size)


@_form("max_unpool3d(Tensor self, Tensor indices, int[3] output_size, int[3] stride, int[3] padding) -> Tensor")
def max_unpool3d(self, indices, output_size, stride, padding):
    """nn.functional.max_unpool3d into volumes of this size."""
    return unpooled(self, indices, output_size)


@_form("adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)")
def adaptive_max_pool2d(self, output_size):
    """nn.functional.adaptive_max_pool2d with the places."""
    return OPS["adaptive_max_pool"](self, output_size, 2)


@_form("adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)")
def adaptive_max_pool3d(self, output_size):
    """nn.functional.adaptive_max_pool3d with the places."""
    return OPS["adaptive_max_pool"](self, output_size, 3)


@_form("fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> "
       "(Tensor, Tensor)")
def fractional_max_pool2d(self, kernel_size, output_size, random_samples):
    """nn.functional.fractional_max_pool2d with the places."""
    return OPS["fractional_max_pool"](self, kernel_size, output_size, random_samples, 2)


@_form("fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples) -> "
       "(Tensor, Tensor)")
def fractional_max_pool3d(self, kernel_size, output_size, random_samples):
    """nn.functional.fractional_max_pool3d with the places."""
    return OPS["fractional_max_pool"](self, kernel_size, output_size, random_samples, 3)


# --- operators that decompositions end in, and whose work other records do -------------------------------------------

def _only(schema):
    """Decorator: a composite that no namespace but ops.aten shows."""
    return composite(schema, namespace=None, method=False, skip="another name of a tested operator")


@_only("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor")
def _softmax(self, dim, half_to_float):
    """softmax."""
    return OPS["softmax"](self, dim, dtype=float32 if half_to_float else None)


@_only("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor")
def _log_softmax(self, dim, half_to_float):
    """log_softmax."""
    return OPS["log_softmax"](self, dim, dtype=float32 if half_to_float else None)


def _labelled(name):
    @_only(f"{name}_forward(Tensor self, Tensor target, Tensor? weight, any reduction, int ignore_index) -> "
           "(Tensor, Tensor)")
    def forward(self, target, weight, reduction, ignore_index):
        """nll_loss, and the weight that a mean divides by."""
        loss = OPS["nll_loss"](self, target, weight, ignore_index=ignore_index, reduction=_reduced(reduction))
        counted = target != ignore_index
        total = counted.sum().to(self.dtype) if weight is None else weight[target[counted]].sum()
        return loss, total if reduction else self.new_zeros(())

    @_only(f"{name}_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, any reduction, "
           "int ignore_index, Tensor total_weight) -> Tensor")
    def backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
        """The gradient of nll_loss."""
        return OPS["_nll_loss_backward"](grad_output, self, target, weight, ignore_index, _reduced(reduction))

    return forward, backward


for _name in ("nll_loss", "nll_loss2d"):
    _labelled(_name)


@_only("mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, any reduction) -> Tensor")
def mse_loss_backward(grad_output, self, target, reduction):
    """2 (self - target), divided by their number for a mean."""
    return (self - target) * grad_output * (2 / self.numel() if _reduced(reduction) == "mean" else 2)


@_only("cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, any reduction=1, int ignore_index=-100, "
       "float label_smoothing=0.0) -> Tensor")
def cross_entropy_loss(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    """nn.functional.cross_entropy with the reduction as a number."""
    return OPS["cross_entropy"](self, target, weight, ignore_index=ignore_index, reduction=_reduced(reduction),
                                label_smoothing=label_smoothing)


@_only("native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor rstd, "
       "Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)")
def native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    """The gradients of native_layer_norm, None for those that output_mask leaves out."""
    inner = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    outer = tuple(range(input.ndim - len(normalized_shape)))
    standard = (input - mean) * rstd
    g = grad_out if weight is None else grad_out * weight
    to_input = rstd * (g - g.mean(inner, True) - standard * (g * standard).mean(inner, True))
    found = to_input, (grad_out * standard).sum(outer) if outer else grad_out * standard, \
        grad_out.sum(outer) if outer else grad_out
    return tuple(t if asked else None for t, asked in zip(found, output_mask, strict=True))


@_only("native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
       "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> "
       "(Tensor, Tensor, Tensor)")
def native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
                               output_mask):
    """The gradients of native_batch_norm, None for those that output_mask leaves out."""
    found = OPS["_batch_norm_backward"](grad_out, input, weight, running_mean, running_var, save_mean, save_invstd,
                                        train, eps)
    return tuple(t if asked else None for t, asked in zip(found, output_mask, strict=True))


@_only("_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
       "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)")
def _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps):
    """native_batch_norm with statistics that stay."""
    found = OPS["native_batch_norm"](input, weight, bias, running_mean, running_var, False, momentum, eps)[0]
    return found, input.new_empty((0,)), input.new_empty((0,))


@_only("_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
       "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)")
def _native_batch_norm_legit(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """native_batch_norm."""
    return OPS["native_batch_norm"](input, weight, bias, running_mean, running_var, training, momentum, eps)


@_only("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor")
def native_dropout_backward(grad_output, mask, scale):
    """The gradient of native_dropout."""
    return grad_output * mask * scale


@_only("glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor")
def glu_backward(grad_output, self, dim):
    """The gradient of glu for both halves."""
    value, gate = self.chunk(2, dim)
    open_ = gate.sigmoid()
    return OPS["cat"]([grad_output * open_, grad_output * value * open_ * (1 - open_)], dim)


@_only("linalg_vector_norm(Tensor self, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None)"
       " -> Tensor")
def linalg_vector_norm(self, ord=2, dim=None, keepdim=False, *, dtype=None):
    """linalg.vector_norm."""
    return OPS["vector_norm"](self, ord, dim, keepdim, dtype=dtype)


# --- images -----------------------------------------------------------------------------------------------------------

@_only("max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, "
       "int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor")
def max_pool2d_with_indices_backward(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """The gradient of max_pool2d."""
    return OPS["max_pool_backward"](grad_output, indices, self.shape[-2:])


@_only("avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, "
       "bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor")
def avg_pool2d_backward(grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                        divisor_override):
    """The gradient of avg_pool2d."""
    return OPS["avg_pool_backward"](grad_output, self.shape, kernel_size, stride or kernel_size, padding, ceil_mode,
                                    count_include_pad, divisor_override)


@_only("_adaptive_avg_pool2d(Tensor self, int[2] output_size) -> Tensor")
def _adaptive_avg_pool2d(self, output_size):
    """adaptive_avg_pool2d."""
    return OPS["adaptive_avg_pool"](self, output_size, 2)


@_only("_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor")
def _adaptive_avg_pool2d_backward(grad_output, self):
    """The gradient of adaptive_avg_pool2d."""
    return OPS["adaptive_avg_pool_backward"](grad_output, self.shape, 2)


def _resized(name, mode, aligned):
    """Sizes or, in the overload .vec, factors."""
    corners = "bool align_corners, " if aligned else ""

    @_only(f"{name}(Tensor self, int[]? output_size, {corners}any scale_factors=None, any scales_w=None, "
           "any scales_d=None) -> Tensor")
    def resize(self, output_size, *rest):
        """nn.functional.interpolate."""
        corners, factors = (rest[0] if aligned else None), rest[aligned]
        factors = factors if output_size is None else None
        return OPS["interpolate"](self, output_size, factors and list(factors), mode, corners)
    return resize


for _nd, _smooth in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    _resized(f"upsample_nearest{_nd}d", "nearest", False)
    _resized(f"upsample_{_smooth}{_nd}d", _smooth, True)
_resized("upsample_bicubic2d", "bicubic", True)


def _bordered(name, mode):
    @_only(f"{name}(Tensor self, int[] padding) -> Tensor")
    def border(self, padding):
        """nn.functional.pad."""
        return OPS["pad"](self, padding, mode)
    return border


for _nd in (1, 2, 3):
    _bordered(f"reflection_pad{_nd}d", "reflect")
    _bordered(f"replication_pad{_nd}d", "replicate")


# --- memory -----------------------------------------------------------------------------------------------------------

@_only("_unsafe_index(Tensor self, Tensor?[] indices) -> Tensor")
def _unsafe_index(self, indices):
    """Elements by tensors of indices, which are checked all the same."""
    return OPS["index"](self, indices)


@_only("_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor")
def _unsafe_index_put(self, indices, values, accumulate=False):
    """index_put, which checks its indices all the same."""
    return OPS["index_put"](self, indices, values, accumulate)


@_only("copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor")
def copy(self, src, non_blocking=False):
    """src in the shape and dtype of self."""
    return OPS["expand"](src, self.shape).to(self.device, self.dtype, copy=True)


@_only("_unsafe_view(Tensor self, int[] size) -> Tensor")
def _unsafe_view(self, size):
    """A view of another shape."""
    return self.view(size)


@_only("lift_fresh_copy(Tensor self) -> Tensor")
def lift_fresh_copy(self):
    """A copy."""
    return self.clone()


# --- sparse matrices --------------------------------------------------------------------------------------------------

@_only("_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
def _sparse_addmm(self, mat1, mat2, *, beta=1, alpha=1):
    """sparse.addmm."""
    return OPS["addmm"](self, mat1, mat2, beta=beta, alpha=alpha)


@_only("_pin_memory(Tensor self, device? device=None) -> Tensor")
def _pin_memory(self, device=None):
    """A copy in memory that CUDA devices copy from directly."""
    return self.pin_memory(device)
