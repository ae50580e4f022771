"""Borders around the last dimensions: constant, or made of the tensor's own elements."""

from .._shown import shown
from .kinds import composite, primitive

constant_pad_nd = primitive(
    "constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor", keeps_format=True,
    d={"self": lambda g, pad: constant_pad_nd(g, [-n for n in pad])},
    method=False, samples="constant_pad_nd",
    doc="""A border of `value`: `pad` lists (before, after) from the last dimension on; negative numbers crop.

    >>> import flambeau
    >>> flambeau.constant_pad_nd(flambeau.ones(2), [1, 2], 5.0)
    tensor([5., 1., 1., 5., 5.])
    """)

_border_backward = primitive(
    "_border_backward(Tensor grad, int[] self_shape, int[] pad, str mode) -> Tensor", namespace=None, keeps_format=True,
    d={"grad": lambda g, pad, mode: _border(g, pad, mode)},
    skip="the gradient of pad, reached through it", doc="Each gradient added where its element came from.")
_border = primitive(
    "_border(Tensor self, int[] pad, str mode) -> Tensor", autocast="float32", namespace=None, keeps_format=True,
    d={"self": lambda g, self_shape, pad, mode: _border_backward(g, self_shape, pad, mode)},
    skip="the kernel of pad, reached through it", doc="A border made of the tensor's own elements.")


@composite("pad(Tensor input, int[] pad, str mode='constant', any value=None) -> Tensor",
           namespace="nn.functional", samples="pad")
def pad(input, pad, mode, value):
    """A border around the last dimensions: `pad` lists (before, after) from the last dimension on.

    Modes: constant (`value`), reflect (mirrored, without the edge), replicate (the edge), circular (the other side).

    >>> import flambeau
    >>> flambeau.nn.functional.pad(flambeau.tensor([[1., 2., 3.]]), (2, 1), mode="reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])
    """
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"pad: the modes are constant, reflect, replicate and circular, not {shown(mode)}")
    if value not in (None, 0):
        raise ValueError(f"pad: value={shown(value)} has no meaning with mode='{mode}'; leave it out")
    if len(pad) % 2 or not len(pad) // 2 + 1 <= input.ndim <= len(pad) // 2 + 2 or len(pad) > 6:
        raise NotImplementedError(f"pad: mode='{mode}' takes two numbers for each of the last 1 to 3 dimensions, which "
                                  f"follow one or two others, got pad={tuple(pad)} for {input.ndim} dimensions")
    if mode != "circular" and 0 in input.shape[input.ndim - len(pad) // 2 - 1:]:
        raise RuntimeError(f"pad: mode='{mode}' takes its border from the input, of which only the batch may be empty; "
                           f"got shape {list(input.shape)}")
    if mode == "circular" and min(pad) < 0:  # cropped first: what remains is what repeats
        input = constant_pad_nd(input, [min(p, 0) for p in pad], 0)
        pad = [max(p, 0) for p in pad]
    return _border(input.contiguous() if mode == "circular" else input, pad, mode)
