"""Images resized: PyTorch's numbers, adjoint gradients, and what is refused."""

import pytest

import flambeau
from flambeau.nn import functional as F

#: (mode, antialias, align_corners) -> PyTorch's result for IMAGE at size (2, 3)
GOLDEN = {
    ('bilinear', True, None): [0.161538, -0.115407, 0.119944, 0.008954, 0.044442, -0.117351],
    ('bicubic', True, None): [0.176619, -0.15285, 0.144062, -0.002421, 0.073959, -0.152747],
    ('lanczos', True, None): [0.152199, -0.145178, 0.132996, -0.005146, 0.079591, -0.151206],
    ('bicubic', False, True): [0.0, -0.255541, 0.494114, 0.359058, -0.585639, 0.773327],
    ('nearest-exact', False, None): [0.798487, -0.618137, 0.39674, 0.359058, -0.585639, 0.773327],
}  # fmt: skip
#: (mode, antialias) -> PyTorch's result for BYTES at size (2, 6)
GOLDEN_BYTES = {
    ('bilinear', False): [23, 107, 171, 91, 115, 158, 214, 203, 170, 85, 37, 8],
    ('bicubic', False): [17, 113, 186, 86, 107, 170, 223, 197, 169, 89, 41, 0],
    ('bicubic', True): [27, 90, 157, 111, 121, 144, 203, 173, 147, 111, 55, 0],
    ('bilinear', True): [34, 97, 150, 111, 119, 136, 193, 176, 149, 106, 54, 12],
}  # fmt: skip


def image():
    return (flambeau.arange(20.0).reshape(1, 1, 4, 5) * 1.7).sin().double()


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_numbers(case):
    mode, antialias, corners = case
    found = F.interpolate(image(), size=(2, 3), mode=mode, antialias=antialias, align_corners=corners)
    assert found.flatten().tolist() == pytest.approx(GOLDEN[case], abs=2e-6)


@pytest.mark.parametrize("case", GOLDEN_BYTES, ids=str)
def test_bytes_are_resized_in_whole_numbers(case):
    x = flambeau.tensor([[0, 255, 10, 200], [90, 0, 255, 30], [255, 255, 0, 1]], dtype=flambeau.uint8)[None, None]
    found = F.interpolate(x, size=(2, 6), mode=case[0], antialias=case[1])
    assert found.dtype == flambeau.uint8 and found.flatten().tolist() == GOLDEN_BYTES[case]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("size", [(40, 33), (97, 64), (75, 7)])
def test_bytes_do_not_depend_on_what_is_resized_beside_them(mode, antialias, size):
    """Rows and columns are computed 32 at a time; alone, or turned, each has the same numbers."""
    x = flambeau.randint(0, 256, (2, 3, 75, 100), dtype=flambeau.uint8)

    def resized(image, height, width):
        return F.interpolate(image, (height, width), mode=mode, antialias=antialias)

    wide, high = resized(x, 75, size[1]), resized(x, size[0], 100)
    for k in (0, 31, 32, 74):
        assert flambeau.equal(resized(x[:, :, k:k + 1], 1, size[1]), wide[:, :, k:k + 1])
    for k in (0, 31, 64, 99):
        assert flambeau.equal(resized(x[..., k:k + 1], size[0], 1), high[..., k:k + 1])
    assert flambeau.equal(resized(x.transpose(2, 3), 100, size[0]), high.transpose(2, 3))
    assert (wide - resized(x.double(), 75, size[1]).clamp(0, 255)).abs().max() < 0.6
    assert (resized(x, *size) - resized(wide.double(), *size).clamp(0, 255)).abs().max() < 0.6


@pytest.mark.parametrize(("mode", "dims"), [("nearest", 1), ("nearest", 3), ("linear", 1), ("bilinear", 2),
                                            ("bicubic", 2), ("trilinear", 3), ("area", 2), ("nearest-exact", 2)])
def test_a_constant_stays_constant(mode, dims):
    x = flambeau.full((2, 3, *(5, 4, 3)[:dims]), 2.5, requires_grad=True)
    for how in ({"scale_factor": 1.7}, {"size": 3}, {"scale_factor": 0.6, "recompute_scale_factor": True}):
        y = F.interpolate(x, mode=mode, **how)
        assert flambeau.allclose(y, flambeau.full_like(y, 2.5))
        x.grad = None
        y.sum().backward()
        assert x.grad.sum().item() == pytest.approx(y.numel(), rel=1e-5)


def test_a_number_stands_for_all_dimensions():
    x = flambeau.rand(1, 2, 4, 6)
    assert flambeau.equal(F.interpolate(x, 8), F.interpolate(x, (8, 8)))
    assert flambeau.equal(F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=[2, 2.0]))
    assert F.interpolate(x, scale_factor=1.5, mode="area").shape == (1, 2, 6, 9)
    for wrong in ({"size": (8,)}, {"scale_factor": (2.0,)}, {"size": (8, 8, 8)}):
        with pytest.raises(ValueError, match="one number per spatial dimension"):
            F.interpolate(x, **wrong)
    with pytest.raises(RuntimeError, match="makes no size"):
        F.interpolate(x, scale_factor=1e300)


def test_half_precision_and_views():
    x = flambeau.randn(2, 3, 6, 5)
    wide = F.interpolate(x.half().float(), scale_factor=2, mode="bilinear")
    half = F.interpolate(x.half(), scale_factor=2, mode="bilinear")
    assert half.dtype == flambeau.float16 and flambeau.equal(half, wide.half())
    turned = x.permute(0, 1, 3, 2)
    assert flambeau.equal(F.interpolate(turned, size=(7, 7), mode="bicubic"),
                          F.interpolate(turned.contiguous(), size=(7, 7), mode="bicubic"))


@pytest.mark.parametrize(("shape", "options", "error"), [
    ((1, 1, 4), {"scale_factor": 2, "mode": "bilinear"}, NotImplementedError),
    ((1, 1, 4), {"scale_factor": 2, "size": 3}, ValueError),
    ((1, 1, 4), {}, ValueError),
    ((1, 1, 4, 4), {"size": (2,)}, ValueError),
    ((1, 1, 4, 4), {"size": (2.5, 3)}, TypeError),
    ((1, 1, 4, 4), {"size": 2, "align_corners": True}, ValueError),
    ((1, 1, 4), {"size": 2, "mode": "linear", "antialias": True}, ValueError),
    ((1, 1, 4, 4), {"size": 2, "mode": "lanczos"}, ValueError),
    ((1, 1, 4, 4), {"size": 0}, RuntimeError),
    ((1, 1, 4, 4), {"size": 2, "recompute_scale_factor": True}, ValueError),
])
def test_refused(shape, options, error):
    with pytest.raises(error):
        F.interpolate(flambeau.zeros(shape), **options)


def test_older_names():
    x = flambeau.randn(1, 2, 3, 3)
    with pytest.warns(UserWarning, match="old name"):
        assert flambeau.equal(F.upsample(x, scale_factor=2), F.interpolate(x, scale_factor=2))
    with pytest.warns(UserWarning, match="old form"):
        found = F.upsample_bilinear(x, scale_factor=2)
    assert flambeau.equal(found, F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True))
    with pytest.warns(UserWarning, match="old form"):
        assert flambeau.equal(F.upsample_nearest(x, size=5), F.interpolate(x, size=5))
