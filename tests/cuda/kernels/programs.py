"""Calls that no sample of the op table makes: programs, whose operators are captured as they run, forward and back."""

import flambeau as fb
from flambeau.nn import functional as F
from flambeau.vision import ops


def _boxes():
    corner, size = fb.rand(7, 2) * 6, fb.rand(7, 2) * 9  # some reach over the edge
    return fb.cat([fb.tensor([0.0, 1, 1, 0, 1, 0, 1]).unsqueeze(1), corner, corner + size], 1)


def _image(channels=3):
    return fb.randn(2, channels, 9, 8, requires_grad=True)


def _ctc():
    x = fb.randn(11, 4, 6, requires_grad=True)
    targets = fb.tensor([[1, 2, 2, 5], [3, 3, 3, 3], [4, 1, 0, 0], [2, 0, 0, 0]])
    return F.ctc_loss(x.log_softmax(2), targets, [11, 9, 7, 1], [4, 4, 2, 0])


def _impossible():
    """Targets that are too long for their input: infinite losses, without a gradient if they are made zero."""
    x = fb.randn(3, 2, 4, requires_grad=True)
    return F.ctc_loss(x.log_softmax(2), fb.tensor([[1, 1, 1], [2, 3, 0]]), [3, 2], [3, 2], zero_infinity=True)


def _deformed(mask=None):
    weight = fb.randn(4, 2, 3, 2, requires_grad=True)
    offset = fb.randn(2, 2 * 2 * 6, 5, 7, requires_grad=True)
    return ops.deform_conv2d(_image(4), offset, weight, stride=(2, 1), padding=(1, 0), mask=mask)


def _sparse():
    a, x = fb.randn(5, 6).relu().to_sparse_csr(), fb.randn(6, 3)
    return a @ x, a.t().to_sparse_csr() @ fb.randn(5, 2), fb.sparse.sampled_addmm(a, fb.randn(5, 4), fb.randn(4, 6))


def _renormed():
    weight = fb.randn(6, 5) * 3
    return F.embedding(fb.tensor([[1, 3, 1], [5, 5, 0]]), weight, max_norm=1.5, norm_type=3.0)


def _strided():
    x = fb.randn(30, requires_grad=True)
    return (x.as_strided((4, 5, 3), (3, 2, 1), 1) * fb.randn(4, 5, 3)).sum()


def _shared():
    """Elements of self that share an address: each gets its share of the gradient."""
    x = fb.randn(6, requires_grad=True).expand(4, 6)
    return (x.as_strided((4, 3), (0, 2)) * fb.randn(4, 3)).sum()


PROGRAMS = {
    "roi_align": lambda: ops.roi_align(_image(), _boxes(), (3, 2), 0.9, 2, True),
    "roi_align, a sample for each pixel": lambda: ops.roi_align(_image(), _boxes(), 2, 0.5),
    "roi_pool": lambda: ops.roi_pool(_image(), _boxes(), (3, 2), 0.9),
    "ps_roi_align": lambda: ops.ps_roi_align(_image(12), _boxes(), (3, 2), 0.9, 2),
    "ps_roi_pool": lambda: ops.ps_roi_pool(_image(12), _boxes(), (3, 2), 0.9),
    "deform_conv2d": _deformed,
    "deform_conv2d with a mask": lambda: _deformed(fb.rand(2, 2 * 6, 5, 7, requires_grad=True)),
    "ctc_loss": _ctc,
    "ctc_loss that is infinite": _impossible,
    "sparse rows": _sparse,
    "embedding with max_norm": _renormed,
    "as_strided": _strided,
    "as_strided of what is shared": _shared,
    "antialiased": lambda: F.interpolate(_image(), size=(5, 4), mode="bilinear", antialias=True),
    "antialiased bicubic": lambda: F.interpolate(_image(), size=(4, 11), mode="bicubic", antialias=True),
}
