"""Random tensors and dropout; the numbers are PyTorch's for the same seed."""

import warnings

from .._shown import shown
from .arithmetic import zero
from .creation import _LIKE, _OPTIONS, empty, empty_like, zeros, zeros_like
from .kinds import composite, differentiated, elementwise, overloads, plain, primitive
from .views import broadcast_shape

_GENERATOR = "Generator? generator=None"

#: "make": memory(...) inside transforms, which put their function here when they are loaded
MEMORY = {}


def memory(shape=None, like=None, **options):
    """Memory that is filled with draws: of a shape, or as another tensor. Where each element of a `vmap` draws its own,
    it has the batch."""
    make = MEMORY.get("make")
    if make is not None:
        return make(shape, like, options)
    return empty(shape, **options) if like is None else empty_like(like)


rand = primitive(f"rand(int[] size, *, {_GENERATOR}, {_OPTIONS}) -> Tensor", out=True,
                 doc="Uniform numbers in [0, 1).\n\n>>> _ = flambeau.manual_seed(0)\n"
                     ">>> flambeau.rand(2)\ntensor([0.4963, 0.7682])")
randn = primitive(f"randn(int[] size, *, {_GENERATOR}, {_OPTIONS}) -> Tensor", out=True,
                  doc="Standard normal numbers.\n\n>>> _ = flambeau.manual_seed(0)\n"
                      ">>> flambeau.randn(2)\ntensor([ 1.5410, -0.2934])")
rand_like = primitive(f"rand_like(Tensor self, *, {_GENERATOR}, {_LIKE}) -> Tensor", method=False,
                      doc="Uniform numbers in [0, 1) with self's shape, dtype and device.\n\n"
                          ">>> flambeau.rand_like(flambeau.zeros(2, 3)).shape\ntorch.Size([2, 3])")
randn_like = primitive(f"randn_like(Tensor self, *, {_GENERATOR}, {_LIKE}) -> Tensor", method=False,
                       doc="Standard normal numbers with self's shape, dtype and device.\n\n"
                           ">>> flambeau.randn_like(flambeau.zeros(2, 3)).shape\ntorch.Size([2, 3])")

_randint_high = primitive(f"randint.high(int high, int[] size, *, {_GENERATOR}, {_OPTIONS}) -> Tensor", out=True,
                          namespace=None)
_randint_low = primitive(f"randint.low(int low, int high, int[] size, *, {_GENERATOR}, {_OPTIONS}) -> Tensor", out=True,
                         namespace=None)
randint = overloads("randint", _randint_high, _randint_low,
                    doc="Integers from low (0 unless given) up to, not including, high.\n\n"
                        ">>> flambeau.randint(3, 4, (2,))\ntensor([3, 3])")
_like_high = primitive(f"randint_like.high(Tensor self, int high, *, {_GENERATOR}, {_LIKE}) -> Tensor", namespace=None)
_like_low = primitive(f"randint_like.low(Tensor self, int low, int high, *, {_GENERATOR}, {_LIKE}) -> Tensor",
                      namespace=None)
randint_like = overloads("randint_like", _like_high, _like_low, method=False,
                         doc="randint with self's shape, dtype and device.\n\n"
                             ">>> flambeau.randint_like(flambeau.zeros(2), 3, 4)\ntensor([3., 3.])")

randperm = primitive(f"randperm(int n, *, {_GENERATOR}, {_OPTIONS}) -> Tensor", out=True,
                     doc="The integers below n in random order.\n\n>>> _ = flambeau.manual_seed(0)\n"
                         ">>> flambeau.randperm(4)\ntensor([0, 1, 3, 2])")

# --- in place ---------------------------------------------------------------------------------------------------------

_ZERO = {"self": lambda g: zeros_like(g)}

normal_ = primitive(f"normal_(Tensor self, float mean=0, float std=1, *, {_GENERATOR}) -> Tensor",
                    namespace=None, method=True, d=_ZERO, doc="Fills self with normal numbers.")
uniform_ = primitive(f"uniform_(Tensor self, float from=0, float to=1, *, {_GENERATOR}) -> Tensor",
                     namespace=None, method=True, d=_ZERO, doc="Fills self with uniform numbers of [from, to).")
_random_ = primitive(f"random_(Tensor self, int? from=None, int? to=None, *, {_GENERATOR}) -> Tensor",
                     namespace=None, d=_ZERO)


@composite(f"random_to(Tensor self, int to, *, {_GENERATOR}) -> Tensor", namespace=None)
def _random_to(self, to, *, generator=None):
    return _random_(self, 0, to, generator=generator)


random_ = overloads("random_", _random_to, _random_, namespace=None, method=True,
                    doc="Fills self with integers of [from, to); a lone number is `to`; `to` absent or None is all "
                        "that the dtype holds exactly, from `from` or zero on.")
exponential_ = primitive(f"exponential_(Tensor self, float lambd=1, *, {_GENERATOR}) -> Tensor",
                         namespace=None, method=True, d=_ZERO, doc="Fills self with exponential numbers of rate lambd.")
geometric_ = primitive(f"geometric_(Tensor self, float p, *, {_GENERATOR}) -> Tensor",
                       namespace=None, method=True, d=_ZERO,
                       doc="Fills self with the number of trials until the first success of probability p.")
cauchy_ = primitive(f"cauchy_(Tensor self, float median=0, float sigma=1, *, {_GENERATOR}) -> Tensor",
                    namespace=None, method=True, d=_ZERO, doc="Fills self with Cauchy numbers.")
log_normal_ = primitive(f"log_normal_(Tensor self, float mean=1, float std=2, *, {_GENERATOR}) -> Tensor",
                        namespace=None, method=True, d=_ZERO, doc="Fills self with exp of normal numbers.")

_bernoulli_float_ = primitive(f"bernoulli_float_(Tensor self, float p=0.5, *, {_GENERATOR}) -> Tensor", namespace=None,
                              d=_ZERO)
_bernoulli_tensor = primitive(f"bernoulli_tensor(Tensor self, Tensor p, *, {_GENERATOR}) -> Tensor",
                              node="BernoulliBackward0", namespace=None,
                              d={"self": lambda g: zeros_like(g), "p": lambda g, p_shape: g.new_zeros(p_shape)},
                              inplace=True)
bernoulli_ = overloads("bernoulli_", _bernoulli_tensor.inplace_form, _bernoulli_float_, namespace=None, method=True,
                       doc="Fills self with ones of probability p (a number, or a tensor of one each) and zeros.")


@composite(f"bernoulli(Tensor self, float? p=None, *, {_GENERATOR}) -> Tensor", out=True)
def bernoulli(self, p=None, *, generator=None):
    """Ones and zeros; self holds the probability of each one, unless one `p` is given for all.

    >>> flambeau.bernoulli(flambeau.tensor([0., 1.]))
    tensor([0., 1.])
    """
    if p is not None:
        return _bernoulli_float_(memory(self.shape, dtype=self.dtype, device=self.device), p, generator=generator)
    return _bernoulli_tensor(self.detach(), self, generator=generator)


poisson = primitive("poisson(Tensor self, Generator? generator=None) -> Tensor", method=False,
                    d=_ZERO, doc="Poisson numbers; self holds the rates.\n\n"
                                 ">>> flambeau.poisson(flambeau.zeros(2))\ntensor([0., 0.])")

standard_gamma = primitive(
    "_standard_gamma(Tensor self, Generator? generator=None) -> Tensor", method=False,
    d={"self": lambda g, self, result: g * standard_gamma_grad(self, result)},
    samples="poisson", skip=dict.fromkeys(("gradcheck", "gradgradcheck", "float32_gradient"), "random"),
    doc="Gamma numbers of rate 1; self holds the shapes. The gradient moves a sample along its quantile.")
standard_gamma_grad = elementwise(
    "_standard_gamma_grad(Tensor self, Tensor output) -> Tensor", method=False, inplace=False, out=False,
    samples="positive_pairs", skip=dict.fromkeys(("gradcheck", "gradgradcheck", "float32_gradient"), "no derivative"),
    doc="d output / d self of a gamma sample: minus the derivative of the distribution by its shape over the density.",
    cuda="gamma_slope(self, output)")
dirichlet_grad = elementwise(
    "_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor", method=False, inplace=False, out=False,
    samples="dirichlet_shares",
    skip=dict.fromkeys(("gradcheck", "gradgradcheck", "float32_gradient"), "no derivative"),
    doc="d x / d alpha of a share x, over 1 - x: minus the derivative of its marginal distribution, Beta(alpha, total "
        "- alpha), by alpha, over the density and 1 - x.", cuda="share_slope(x, alpha, total)")


def _dirichlet_slope(g, self, result):
    """A share grows by its own slope, and all shrink in proportion, so that their sum stays 1."""
    slope = dirichlet_grad(result, self, self.sum(-1, keepdim=True).expand_as(self))
    return slope * (g - (result * g).sum(-1, keepdim=True))


sample_dirichlet = primitive("_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor", method=False,
                             samples="poisson", d={"self": _dirichlet_slope},
                             skip=dict.fromkeys(("gradcheck", "gradgradcheck", "float32_gradient"), "no derivative"),
                             doc="Dirichlet numbers along the last dimension; self holds the concentrations.")
_binomial = primitive("_binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor", namespace=None,
                      method=False, samples="positive_pairs", skip="the kernel of binomial, tested by name",
                      doc="binomial of tensors of one shape.")


@composite("binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor", samples="positive_pairs",
           skip=dict.fromkeys(("gradcheck", "gradgradcheck", "float32_gradient"), "no derivative"))
def binomial(count, prob, generator=None):
    """The number of successes in `count` trials of probability `prob`, element by element.

    >>> flambeau.binomial(flambeau.tensor([5., 5.]), flambeau.tensor([0., 1.]))
    tensor([0., 5.])
    """
    shape = broadcast_shape([count.shape, prob.shape])
    counts = count.detach().expand(shape).contiguous()  # draws and the result are in the order of indices
    return _binomial(counts, prob.detach().expand(shape), generator)


multinomial = primitive(
    f"multinomial(Tensor self, int num_samples, bool replacement=False, *, {_GENERATOR}) -> Tensor", out=True,
    doc="Positions drawn with the (unnormalised) probabilities in each row of self.\n\n"
        ">>> flambeau.multinomial(flambeau.tensor([0., 1., 0.]), 1)\ntensor([1])")


def _as_number(x):
    """The number of a tensor without dimensions and derivatives; all else as it is."""
    alone = hasattr(x, "dtype") and x.dim() == 0 and not differentiated(x)
    return x.item() if alone else x


@composite(f"normal(any mean=0.0, any std=1.0, int[]? size=None, *, {_GENERATOR}, {_OPTIONS}) -> Tensor", out=True)
def normal(mean=0.0, std=1.0, size=None, *, generator=None, dtype=None, layout=None, device=None, requires_grad=False,
           pin_memory=False):
    """Normal numbers: mean and std are tensors (broadcast together), or numbers with a `size`.

    >>> flambeau.normal(flambeau.tensor([1., 2.]), 0.0)
    tensor([1., 2.])
    """
    if size is not None:
        mean, std = _as_number(mean), _as_number(std)
    tensors = [x for x in (mean, std) if hasattr(x, "dtype")]
    if not tensors:
        if size is None:
            raise TypeError("normal: expected a size with number arguments: normal(mean, std, size)")
        made = memory(size, dtype=dtype, device=device, pin_memory=pin_memory)
        made.normal_(mean, std, generator=generator)
        return made.requires_grad_() if requires_grad else made
    if size is not None:
        raise TypeError("normal: a size goes with numbers, and with tensors without dimensions that need no gradient")
    if not isinstance(std, (int, float)) and std.is_complex():
        raise RuntimeError(f"normal: std must be real, got {std.dtype}")
    smallest = std if isinstance(std, (int, float)) else float(plain(std).min()) if std.numel() else 0.0
    if smallest < 0:
        raise RuntimeError(f"normal: std must not be negative, and holds {smallest}")
    shape = broadcast_shape([x.shape for x in tensors])
    made = memory(shape, dtype=tensors[0].dtype, device=tensors[0].device).normal_(generator=generator)
    made = made.mul_(std.detach() if std is tensors[-1] else std).add_(mean.detach() if mean is tensors[0] else mean)
    for x in tensors:  # part of the graph, with derivatives of zero
        made = made + zero(x) if x.requires_grad else made
    return made


# --- dropout ----------------------------------------------------------------------------------------------------------

_dropout_scale = primitive("dropout_scale(Tensor self, Tensor mask, float p) -> Tensor",
                           node="MulBackward0", namespace=None,
                           d={"self": lambda g, mask, p: _dropout_scale(g, mask, p)})
_dropout_forward = primitive(
    "dropout_forward(Tensor self, float p, Generator? generator=None) -> (Tensor result, Tensor mask)",
    node="MulBackward0", namespace=None,
    d={"self": lambda g0, mask, p: _dropout_scale(g0, mask, p)})


def _check(name, p):
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p must be a probability between 0 and 1, got {shown(p)}")


@composite("dropout(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
           namespace="nn.functional", aliases=("dropout",))
def dropout(input, p=0.5, training=True, inplace=False):
    """In training each element is zero with probability p and otherwise scaled by 1 / (1 - p).

    Source: Srivastava et al. 2014.

    >>> flambeau.nn.functional.dropout(flambeau.ones(2), 0.5, training=False)
    tensor([1., 1.])
    """
    if not training or p == 0 or input.numel() == 0:
        _check("dropout", p)
        return input
    made = input * zeros((), dtype=input.dtype, device=input.device) if p == 1 else _dropout_forward(input, p)[0]
    return input.copy_(made) if inplace else made


@composite("native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)")
def native_dropout(input, p, train):
    """dropout and its mask.

    >>> flambeau.native_dropout(flambeau.ones(1), 0.5, False)[1]
    tensor([True])
    """
    if train is False or input.numel() == 0 or p == 0:
        return input.clone(), input.new_full(input.shape, True, dtype=bool)
    return tuple(_dropout_forward(input, p))


def _feature_noise(input, keep):
    """One draw per sample and channel."""
    if input.dim() < 2:
        raise RuntimeError("feature dropout: input must have at least 2 dimensions (batch, channels), got "
                           f"{input.dim()}")
    shape = list(input.shape[:2]) + [1] * (input.dim() - 2)
    return memory(shape, dtype=input.dtype, device=input.device).bernoulli_(keep)


def _dropout_channels(input, p, training, inplace):
    if not training or p == 0 or input.numel() == 0:
        return input
    noise = _feature_noise(input, 1 - p)
    noise = noise.zero_() if p == 1 else noise.div_(1 - p)
    return input.mul_(noise) if inplace else input * noise


def _alpha(input, p, training, inplace, noise_of):
    """Keeps mean and variance of SELU activations: dropped elements take the negative saturation value.

    Source: Klambauer et al. 2017.
    """
    if not training or p == 0 or input.numel() == 0:
        return input
    alpha = 1.7580993408473766
    if p == 1:
        made = input * zeros((), dtype=input.dtype, device=input.device)
    else:
        a = 1.0 / ((alpha * alpha * p + 1) * (1 - p)) ** 0.5
        noise = noise_of(input, 1 - p)
        shift = noise.add(-1).mul_(alpha * a).add_(alpha * a * p)
        made = input * noise.mul_(a) + shift
    return input.copy_(made) if inplace else made


def _element_noise(input, keep):
    return memory(like=input).bernoulli_(keep)


_ARGUMENTS = "bool training={}, bool inplace=False) -> Tensor"


@composite("alpha_dropout(Tensor input, float p=0.5, " + _ARGUMENTS.format(False), namespace="nn.functional",
           aliases=("alpha_dropout",))
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps the mean and variance of SELU activations.

    >>> flambeau.nn.functional.alpha_dropout(flambeau.ones(2))
    tensor([1., 1.])
    """
    _check("alpha_dropout", p)
    return _alpha(input, p, training, inplace, _element_noise)


@composite("feature_alpha_dropout(Tensor input, float p=0.5, " + _ARGUMENTS.format(False), namespace="nn.functional",
           aliases=("feature_alpha_dropout",))
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels.

    >>> flambeau.nn.functional.feature_alpha_dropout(flambeau.ones(1, 2))
    tensor([[1., 1.]])
    """
    _check("feature_alpha_dropout", p)
    return _alpha(input, p, training, inplace, _feature_noise)


@composite("dropout1d(Tensor input, float p=0.5, " + _ARGUMENTS.format(True), namespace="nn.functional")
def dropout1d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels of [N, C, L] or [C, L].

    >>> flambeau.nn.functional.dropout1d(flambeau.ones(1, 1, 2), training=False)
    tensor([[[1., 1.]]])
    """
    _check("dropout1d", p)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: input must have 3 dimensions, or 2 without a batch, got {input.dim()}")
    if input.dim() == 3:
        return _dropout_channels(input, p, training, inplace)
    made = _dropout_channels(input.unsqueeze(0), p, training, inplace).squeeze(0)
    return input if inplace else made


@composite("dropout2d(Tensor input, float p=0.5, " + _ARGUMENTS.format(True), namespace="nn.functional")
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels of [N, C, H, W].

    >>> flambeau.nn.functional.dropout2d(flambeau.ones(1, 1, 1, 2), training=False)
    tensor([[[[1., 1.]]]])
    """
    _check("dropout2d", p)
    if input.dim() != 4:
        warnings.warn(f"dropout2d: expected [N, C, H, W], got {input.dim()} dimensions; the first two count as N and C"
                      + (" (for [C, H, W] say input.unsqueeze(0))" if input.dim() == 3 else ""), stacklevel=2)
    return _dropout_channels(input, p, training, inplace)


@composite("dropout3d(Tensor input, float p=0.5, " + _ARGUMENTS.format(True), namespace="nn.functional")
def dropout3d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels of [N, C, D, H, W] or [C, D, H, W].

    >>> flambeau.nn.functional.dropout3d(flambeau.ones(1, 1, 1, 1, 1), training=False).shape
    torch.Size([1, 1, 1, 1, 1])
    """
    _check("dropout3d", p)
    if input.dim() not in (4, 5):
        warnings.warn(f"dropout3d: expected [N, C, D, H, W] or [C, D, H, W], got {input.dim()} dimensions; the first "
                      "counts as C", stacklevel=2)
    if input.dim() == 5:
        return _dropout_channels(input, p, training, inplace)
    made = _dropout_channels(input.unsqueeze(0), p, training, inplace).squeeze(0)
    return input if inplace else made


@composite("gumbel_softmax(Tensor logits, float tau=1.0, bool hard=False, float eps=1e-10, int dim=-1) -> Tensor",
           namespace="nn.functional", method=False, skip="random: tested by name")
def gumbel_softmax(logits, tau=1.0, hard=False, eps=1e-10, dim=-1):
    """A softmax of logits plus Gumbel noise   (Jang et al. 2016); `hard` gives one-hot results with its gradient.

    >>> flambeau.nn.functional.gumbel_softmax(flambeau.zeros(2, 3), hard=True).sum(-1)
    tensor([1., 1.])
    """
    if eps != 1e-10:
        warnings.warn(f"gumbel_softmax: eps={eps} has no effect: the noise needs none", stacklevel=2)
    noise = -memory(logits.shape, dtype=logits.dtype, device=logits.device).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    one_hot = zeros_like(logits).scatter(dim, soft.argmax(dim, True), 1.0)
    return one_hot - soft.detach() + soft
