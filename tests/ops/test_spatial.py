"""Padding, sliding blocks, resizing, pixels and channels against NumPy or numbers from PyTorch."""

import numpy as np
import pytest

import flambeau

F = flambeau.nn.functional
rng = np.random.default_rng(0)
NUMPY = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def array(t):
    return np.array(t.detach().tolist()).reshape(tuple(t.shape))


def made(*shape):
    return flambeau.from_numpy(rng.standard_normal(shape))


@pytest.mark.parametrize("mode", NUMPY)
@pytest.mark.parametrize("pad", [(2, 1), (0, 3), (1, 2, 2, 0), (1, 0, 2, 1, 1, 1)], ids=str)
def test_pad(mode, pad):
    nd = len(pad) // 2
    x = made(2, 3, *[4, 5, 6][:nd])
    widths = [(0, 0), (0, 0)] + [(pad[2 * k], pad[2 * k + 1]) for k in reversed(range(nd))]
    assert (array(F.pad(x, pad, mode=mode)) == np.pad(array(x), widths, mode=NUMPY[mode])).all()
    assert (array(F.pad(x, pad, value=2.5)) == np.pad(array(x), widths, constant_values=2.5)).all()


def test_gradients_of_padding_without_numbers():
    x = flambeau.ones(0, 2, 3, 3, requires_grad=True)
    y = F.pad(x, (1, 1, 0, 0), mode="replicate")
    y.sum().backward()
    assert y.numel() == 0 and x.grad.shape == x.shape


@pytest.mark.parametrize("mode", ["replicate", "reflect"])
@pytest.mark.parametrize("shape", [(2, 1, 0, 3), (2, 1, 3, 0)], ids=str)
def test_a_border_is_taken_from_something(shape, mode):
    with pytest.raises(RuntimeError, match="only the batch may be empty"):
        F.pad(flambeau.ones(shape), (1, 1, 0, 0) if shape[3] else (0, 0, 1, 1), mode=mode)


def test_negative_padding_crops():
    x = flambeau.arange(6.0)
    assert F.pad(x, (-1, 2), value=9).tolist() == [1, 2, 3, 4, 5, 9, 9]
    assert F.pad(x[None], (-2, -1), mode="replicate").tolist() == [[2, 3, 4]]


def test_blocks_and_their_sum():
    x = flambeau.arange(12.0).reshape(1, 1, 3, 4)
    columns = F.unfold(x, (2, 3))
    assert columns[0, :, 0].tolist() == [0, 1, 2, 4, 5, 6] and tuple(columns.shape) == (1, 6, 4)
    image, blocks = made(2, 3, 6, 7), made(2, 3 * 6, 6)
    form = {"kernel_size": (2, 3), "dilation": (2, 1), "padding": 1, "stride": (3, 3)}
    unfolded = F.unfold(image, **form)
    assert tuple(unfolded.shape) == tuple(blocks.shape)
    np.testing.assert_allclose((unfolded * blocks).sum().item(), (image * F.fold(blocks, (6, 7), **form)).sum().item())


def test_pixels_and_channels():
    x = made(2, 8, 3, 2)
    y = F.pixel_shuffle(x, 2)
    assert tuple(y.shape) == (2, 2, 6, 4) and (array(F.pixel_unshuffle(y, 2)) == array(x)).all()
    assert y[0, 1, 3, 2].item() == x[0, 4 + 2, 1, 1].item()
    z = x.permute(0, 3, 2, 1)[..., :-1, :]  # strided, as it lies
    assert (array(F.pixel_unshuffle(z[:, :, :2, :2], 2)) == array(F.pixel_unshuffle(z[:, :, :2, :2].clone(), 2))).all()
    assert F.pixel_shuffle(flambeau.zeros(0, 4, 2, 3), 2).shape == (0, 1, 4, 6)
    assert F.channel_shuffle(flambeau.arange(6.0).reshape(1, 6, 1), 3).flatten().tolist() == [0, 2, 4, 1, 3, 5]


# interpolate(arange(6).reshape(1, 1, 2, 3), size=(3, 4), …) from PyTorch
RESIZED = {
    ("nearest", None): [[0, 0, 1, 2], [0, 0, 1, 2], [3, 3, 4, 5]],
    ("bilinear", False): [[0, 0.625, 1.375, 2], [1.5, 2.125, 2.875, 3.5], [3, 3.625, 4.375, 5]],
    ("bilinear", True): [[0, 2 / 3, 4 / 3, 2], [1.5, 13 / 6, 17 / 6, 3.5], [3, 11 / 3, 13 / 3, 5]],
}


@pytest.mark.parametrize("form", RESIZED, ids=str)
def test_interpolate(form):
    mode, align = form
    x = flambeau.arange(6.0).reshape(1, 1, 2, 3)
    found = F.interpolate(x, size=(3, 4), mode=mode, align_corners=align)
    np.testing.assert_allclose(array(found)[0, 0], RESIZED[form], atol=1e-6)


def test_interpolate_by_factor():
    x = made(1, 2, 5, 4)
    assert (array(F.interpolate(x, scale_factor=2)) == array(x).repeat(2, 2).repeat(2, 3)).all()
    assert tuple(F.interpolate(x, scale_factor=(0.5, 1.6), mode="bicubic").shape) == (1, 2, 2, 6)
    np.testing.assert_allclose(array(F.interpolate(x, scale_factor=1.0, mode="bicubic")), array(x), atol=1e-12)


ERRORS = [
    (lambda: F.pad(flambeau.zeros(1, 1, 3), (3, 0), mode="reflect"), RuntimeError, "must be below the size that it"),
    (lambda: F.pad(flambeau.zeros(3), (1,)), RuntimeError, "pad holds two numbers per dimension, before"),
    (lambda: F.pad(flambeau.zeros(3), (-4, 0)), RuntimeError, "cannot be cut by padding"),
    (lambda: F.pad(flambeau.zeros(1, 3), (1, 1), mode="mirror"), NotImplementedError, "mirror"),
    (lambda: F.unfold(flambeau.zeros(1, 1, 3, 3), 4), RuntimeError, "the kernel does not fit: an image of"),
    (lambda: F.fold(flambeau.zeros(1, 5, 4), (3, 3), 2), RuntimeError, "must be a multiple of the block"),
    (lambda: F.interpolate(flambeau.zeros(1, 1, 3)), ValueError, "size or scale_factor"),
    (lambda: F.interpolate(flambeau.zeros(1, 1, 3), 4, mode="bilinear"), NotImplementedError, "bilinear"),
    (lambda: F.pixel_shuffle(flambeau.zeros(1, 3, 2, 2), 2), RuntimeError, "needs channels in multiples of 4"),
    (lambda: F.pixel_shuffle(flambeau.zeros(2, 2), 2), RuntimeError, "at least 3 dimensions"),
    (lambda: F.pixel_shuffle(flambeau.zeros(1, 3, 2, 2), 0), RuntimeError, "must be positive, got 0"),
    (lambda: F.pixel_unshuffle(flambeau.zeros(1, 3, 2, 3), 2), RuntimeError, "divisible by downscale_factor"),
]


@pytest.mark.parametrize("call, error, text", ERRORS, ids=[t for _, _, t in ERRORS])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_only_the_batch_of_what_is_mirrored_may_be_empty():
    pad = flambeau.nn.functional.pad
    for mode in ("reflect", "replicate"):
        assert pad(flambeau.zeros(0, 3, 4), (1, 1), mode=mode).shape == (0, 3, 6)
        for shape in ((3, 0, 4), (0, 4), (3, 2, 0)):
            with pytest.raises(RuntimeError, match="only the batch may be empty"):
                pad(flambeau.zeros(shape), (1, 1), mode=mode)
