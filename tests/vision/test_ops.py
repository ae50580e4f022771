"""vision.ops: operators of regions against plain NumPy loops, derivatives against differences, laws of boxes."""

import math

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.vision import ops

DOUBLE = flambeau.float64
REGIONS = [[0, 1.2, 2.3, 6.1, 7.7], [1, -2, -1, 5, 4.4], [0, 4, 4, 20, 20], [1, 3, 3, 3.1, 3.2], [0, 30, 30, 40, 40]]


def draw(*shape, seed=0, scale=1.0, dtype=DOUBLE):
    return flambeau.tensor(np.random.default_rng(seed).standard_normal(shape) * scale, dtype=dtype)


def boxes(n, seed=0, dtype=flambeau.float32):
    random = np.random.default_rng(seed)
    corner = random.uniform(0, 80, (n, 2))
    return flambeau.tensor(np.concatenate([corner, corner + random.uniform(1, 40, (n, 2))], 1), dtype=dtype)


def regions(dtype=DOUBLE):
    return flambeau.tensor(REGIONS, dtype=dtype)


# --- suppression ------------------------------------------------------------------------------------------------------

def iou(a, b):
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(w, 0) * max(h, 0)
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def suppressed(given, scores, threshold):
    kept = []
    for k in np.argsort(-scores, kind="stable"):
        if all(iou(given[k], given[j]) <= threshold for j in kept):
            kept.append(int(k))
    return kept


@pytest.mark.parametrize("dtype", [flambeau.float64, flambeau.float32, flambeau.float16])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 1.0])
def test_nms_keeps_what_a_plain_loop_keeps(threshold, dtype):
    given, scores = boxes(300).to(dtype), draw(300, seed=1).to(dtype)
    expected = suppressed(given.double().numpy(), scores.double().numpy(), threshold)
    assert ops.nms(given, scores, threshold).tolist() == expected


def test_nms_keeps_the_first_of_equal_scores_and_takes_nan_as_the_highest():
    given = flambeau.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4], [9, 9, 10, 10]])
    assert ops.nms(given, flambeau.tensor([0.5, 0.5, math.nan]), 0.5).tolist() == [2, 0]


def test_nms_of_nothing_and_of_boxes_without_area():
    assert ops.nms(flambeau.zeros(0, 4), flambeau.zeros(0), 0.5).tolist() == []
    assert ops.nms(flambeau.zeros(3, 4), flambeau.zeros(3), 0.5).tolist() == [0, 1, 2]


def test_nms_in_threads_is_nms_in_one():
    given = boxes(36000) + flambeau.arange(36000.0)[:, None] // 60 * 200  # far apart: many stay, and loops are long
    scores = 1 - (flambeau.arange(36000) % 600 > 0).float()  # one of each group first, then all others
    threads = flambeau.get_num_threads()
    found = []
    for n in (1, 4):
        flambeau.set_num_threads(n)
        found.append(ops.nms(given, scores, 0.0))
    flambeau.set_num_threads(threads)
    assert flambeau.equal(*found)


@pytest.mark.parametrize("bad, message", [
    ((flambeau.zeros(2, 5), flambeau.zeros(2)), r"\[2, 5\]"),
    ((flambeau.zeros(2, 4), flambeau.zeros(3)), r"one score per box"),
    ((flambeau.zeros(2, 4), flambeau.zeros(2, dtype=DOUBLE)), "float64"),
    ((flambeau.zeros(2, 4).long(), flambeau.zeros(2).long()), "floating-point"),
])
def test_nms_refuses(bad, message):
    with pytest.raises(RuntimeError, match=message):
        ops.nms(*bad, 0.5)


def test_batched_nms_is_nms_of_each_group():
    given, scores, groups = boxes(200), draw(200, seed=3, dtype=flambeau.float32), flambeau.arange(200) % 3
    kept = ops.batched_nms(given, scores, groups, 0.4)
    assert scores[kept].tolist() == sorted(scores[kept].tolist(), reverse=True)
    for group in range(3):
        members = (groups == group).nonzero().squeeze(1)
        alone = members[ops.nms(given[members], scores[members], 0.4)].tolist()
        assert [k for k in kept.tolist() if k % 3 == group] == alone


def test_torch_ops_torchvision_has_the_operators():
    assert flambeau.ops.torchvision.nms(boxes(5), flambeau.rand(5), 0.5).dtype == flambeau.int64
    with pytest.raises(AttributeError, match="add"):
        _ = flambeau.ops.torchvision.add  # a record, but not of this namespace


# --- boxes ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("family, given", [(("xyxy", "xywh", "cxcywh"), 4), (("xywhr", "cxcywhr", "xyxyxyxy"), 5)])
def test_formats_become_one_another_and_back(family, given):
    x = flambeau.cat([boxes(20, dtype=DOUBLE), flambeau.linspace(-179, 179, 20, dtype=DOUBLE)[:, None]], 1)[:, :given]
    for one in family:
        start = ops.box_convert(x, family[0], one)
        for other in family:
            back = ops.box_convert(ops.box_convert(start, one, other), other, one)
            assert flambeau.allclose(back, start, atol=1e-9)


def test_a_quarter_turn_swaps_the_sides():
    corners = ops.box_convert(flambeau.tensor([[5.0, 5, 4, 2, 90]]), "cxcywhr", "xyxyxyxy").reshape(4, 2)
    assert flambeau.allclose(corners, flambeau.tensor([[4.0, 7], [4, 3], [6, 3], [6, 7]]), atol=1e-5)


def test_formats_that_are_refused():
    with pytest.raises(ValueError, match="xyzw"):
        ops.box_convert(boxes(2), "xyzw", "xyxy")
    with pytest.raises(NotImplementedError, match="upright"):
        ops.box_convert(boxes(2), "xyxy", "xywhr")
    with pytest.raises(ValueError, match="xywhr"):
        ops.box_area(boxes(2), "xywhr")


def test_box_iou_is_that_of_a_plain_loop():
    a, b = boxes(9, dtype=DOUBLE), boxes(7, seed=1, dtype=DOUBLE)
    expected = [[iou(p, q) for q in b.tolist()] for p in a.tolist()]
    assert np.allclose(ops.box_iou(a, b).numpy(), expected)


def test_rotated_boxes_that_are_not_rotated_overlap_as_upright_ones():
    a, b = boxes(9, dtype=DOUBLE), boxes(7, seed=1, dtype=DOUBLE)
    turned = [flambeau.cat([ops.box_convert(x, "xyxy", "cxcywh"), flambeau.full((len(x), 1), 180.0, dtype=DOUBLE)], 1)
              for x in (a, b)]
    assert flambeau.allclose(ops.box_iou(*turned, "cxcywhr"), ops.box_iou(a, b), atol=1e-7)


def test_two_squares_an_eighth_turn_apart_overlap_in_an_octagon():
    square = flambeau.tensor([[0.0, 0, 2, 2, 0]], dtype=DOUBLE)
    overlap = 8 * (math.sqrt(2) - 1)  # of a regular octagon around the unit circle
    found = ops.box_iou(square, square + flambeau.tensor([0.0, 0, 0, 0, 45]), "cxcywhr")
    assert found.item() == pytest.approx(overlap / (8 - overlap))


@pytest.mark.parametrize("kind", [ops.generalized_box_iou, ops.distance_box_iou, ops.complete_box_iou])
def test_iou_kinds_are_one_for_equal_boxes_and_at_most_iou(kind):
    a, b = boxes(12, dtype=DOUBLE), boxes(8, seed=1, dtype=DOUBLE)
    assert flambeau.allclose(kind(a, a).diagonal(), flambeau.ones(12, dtype=DOUBLE), atol=1e-6)
    assert (kind(a, b) <= ops.box_iou(a, b) + 1e-12).all()


@pytest.mark.parametrize("kind, loss", [(ops.generalized_box_iou, ops.generalized_box_iou_loss),
                                        (ops.distance_box_iou, ops.distance_box_iou_loss),
                                        (ops.complete_box_iou, ops.complete_box_iou_loss)])
def test_losses_are_one_minus_the_iou_of_pairs(kind, loss):
    a, b = boxes(12, dtype=DOUBLE), boxes(12, seed=1, dtype=DOUBLE)
    expected = 1 - kind(a, b).diagonal()
    assert flambeau.allclose(loss(a, b), expected, atol=1e-6)
    assert flambeau.allclose(loss(a, b, "sum"), expected.sum(), atol=1e-5)
    assert loss(a[:0], b[:0], "mean").item() == 0
    with pytest.raises(ValueError, match="'median'"):
        loss(a, b, "median")
    if loss is not ops.complete_box_iou_loss:  # whose alpha is held fixed, so that its gradient is no derivative
        assert gradcheck(loss, (a.requires_grad_(), b.requires_grad_()))


def test_focal_loss_is_weighted_cross_entropy():
    x, t = draw(6, 4), (draw(6, 4, seed=1) > 0).double()
    plain = flambeau.nn.functional.binary_cross_entropy_with_logits(x, t, reduction="none")
    assert flambeau.allclose(ops.sigmoid_focal_loss(x, t, alpha=-1, gamma=0), plain)
    p = x.sigmoid()
    expected = flambeau.where(t > 0, 0.3 * (1 - p) ** 1.5, 0.7 * p ** 1.5) * plain
    assert flambeau.allclose(ops.sigmoid_focal_loss(x, t, alpha=0.3, gamma=1.5), expected)
    with pytest.raises(ValueError, match="alpha"):
        ops.sigmoid_focal_loss(x, t, alpha=2)


def test_boxes_around_masks():
    masks = flambeau.zeros(3, 5, 6, dtype=flambeau.bool)
    masks[0, 1:3, 2:5] = True
    masks[1, 4, 5] = True
    assert ops.masks_to_boxes(masks).tolist() == [[2, 1, 4, 2], [5, 4, 5, 4], [0, 0, 0, 0]]
    assert ops.masks_to_boxes(masks[:0]).shape == (0, 4)


def test_clipping_and_removing_small_boxes():
    given = flambeau.tensor([[-5.0, 2, 30, 50], [3, 3, 3.5, 9]])
    assert ops.clip_boxes_to_image(given, (20, 25)).tolist() == [[0, 2, 25, 20], [3, 3, 3.5, 9]]
    assert ops.remove_small_boxes(given, 0.5).tolist() == [0, 1]
    assert ops.remove_small_boxes(given, 0.6).tolist() == [0]


# --- regions ----------------------------------------------------------------------------------------------------------

def bilinear(plane, y, x):
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - top, x - left
    return ((1 - dy) * ((1 - dx) * plane[top, left] + dx * plane[top, right])
            + dy * ((1 - dx) * plane[bottom, left] + dx * plane[bottom, right]))


def aligned(x, region, bins, scale, sampling, half, channel):
    """One region by roi_align's definition; `channel(c, i, j)` is the input channel of a bin."""
    planes = x[int(region[0])]
    x1, y1, x2, y2 = (v * scale - (0.5 if half else 0) for v in region[1:])
    w, h = x2 - x1, y2 - y1
    if not half:
        w, h = max(w, 1), max(h, 1)
    n, m = (sampling or math.ceil(h / bins[0])), (sampling or math.ceil(w / bins[1]))
    outputs = len({channel(c, 0, 0) for c in range(len(planes)) if channel(c, 0, 0) < len(planes)})
    found = np.zeros((outputs, *bins))
    for c, i, j in np.ndindex(*found.shape):
        plane = planes[channel(c, i, j)]
        total = sum(bilinear(plane, y1 + (i + (k + 0.5) / n) * h / bins[0], x1 + (j + (q + 0.5) / m) * w / bins[1])
                    for k in range(n) for q in range(m))
        found[c, i, j] = total / max(n * m, 1)
    return found


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("sampling", [0, 2])
def test_roi_align_is_its_definition(sampling, half):
    x = draw(2, 3, 9, 11)
    found = ops.roi_align(x, regions(), (2, 3), 0.8, sampling, half)
    expected = [aligned(x.numpy(), r, (2, 3), 0.8, sampling, half, lambda c, i, j: c) for r in REGIONS]
    assert np.allclose(found.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("sampling", [0, 2])
def test_ps_roi_align_is_its_definition(sampling):
    x = draw(2, 12, 9, 11)
    found = ops.ps_roi_align(x, regions(), (2, 3), 0.8, sampling)
    expected = [aligned(x.numpy(), r, (2, 3), 0.8, sampling, True, lambda c, i, j: (c * 2 + i) * 3 + j)
                for r in REGIONS]
    assert np.allclose(found.numpy(), expected, atol=1e-12)


def pixels(start, stop, bins, inclusive, end):
    """The pixels of each bin of roi_pool (inclusive) or ps_roi_pool."""
    start, stop = (int(math.floor(abs(v) + 0.5) * math.copysign(1, v)) for v in (start, stop))
    width = max(stop - start + inclusive, 1) / bins
    return [slice(min(max(math.floor(b * width) + start, 0), end), min(max(math.ceil((b + 1) * width) + start, 0), end))
            for b in range(bins)]


def test_roi_pool_is_the_largest_of_each_bin():
    x = draw(2, 3, 9, 11)
    found = ops.roi_pool(x, regions(), (2, 3), 0.8)
    for out, r in zip(found.numpy(), REGIONS, strict=True):
        rows, columns = pixels(r[2] * 0.8, r[4] * 0.8, 2, 1, 9), pixels(r[1] * 0.8, r[3] * 0.8, 3, 1, 11)
        for c, i, j in np.ndindex(3, 2, 3):
            part = x.numpy()[int(r[0]), c, rows[i], columns[j]]
            assert out[c, i, j] == (part.max() if part.size else 0)


def test_ps_roi_pool_is_the_mean_of_each_bin():
    x = draw(2, 12, 9, 11)
    found = ops.ps_roi_pool(x, regions(), (2, 3), 0.8)
    for out, r in zip(found.numpy(), REGIONS, strict=True):
        rows, columns = pixels(r[2] * 0.8, r[4] * 0.8, 2, 0, 8), pixels(r[1] * 0.8, r[3] * 0.8, 3, 0, 10)
        for c, i, j in np.ndindex(2, 2, 3):
            part = x.numpy()[int(r[0]), (c * 2 + i) * 3 + j, rows[i], columns[j]]
            assert out[c, i, j] == pytest.approx(part.mean() if part.size else 0)


POOLINGS = {
    "roi_align": lambda x, r: ops.roi_align(x, r, 2, 0.8, 2, True),
    "roi_align, adaptive": lambda x, r: ops.roi_align(x, r, (2, 3), 0.8),
    "roi_pool": lambda x, r: ops.roi_pool(x, r, 2, 0.8),
    "ps_roi_align": lambda x, r: ops.ps_roi_align(x, r, 2, 0.8),
    "ps_roi_pool": lambda x, r: ops.ps_roi_pool(x, r, 2, 0.8),
}


@pytest.mark.parametrize("name", POOLINGS)
def test_gradients_of_pooled_regions(name):
    x = draw(2, 4, 9, 11).requires_grad_()
    assert gradcheck(lambda x: POOLINGS[name](x, regions()), (x,))
    assert gradgradcheck(lambda x: POOLINGS[name](x, regions()), (x,))


@pytest.mark.parametrize("name", POOLINGS)
def test_pooling_in_narrow_dtypes_layouts_and_on_meta(name):
    x, r = draw(2, 4, 9, 11, dtype=flambeau.float32), regions(flambeau.float32)
    plain = POOLINGS[name](x, r)
    assert flambeau.equal(POOLINGS[name](x.to(memory_format=flambeau.channels_last), r.t().contiguous().t()), plain)
    narrow = POOLINGS[name](x.half(), r.half())
    assert narrow.dtype == flambeau.float16
    assert flambeau.equal(narrow, POOLINGS[name](x.half().float(), r.half().float()).half())
    assert POOLINGS[name](x.to("meta"), r.to("meta")).shape == plain.shape
    assert POOLINGS[name](x, r[:0]).shape == (0, *plain.shape[1:])


@pytest.mark.parametrize("name", POOLINGS)
def test_regions_of_images_that_are_not_there_are_refused(name):
    x = flambeau.zeros(2, 4, 5, 5)
    for image in (2, -1, math.nan):
        with pytest.raises(IndexError, match="from 0 to 1"):
            POOLINGS[name](x, flambeau.tensor([[image, 0.0, 0, 3, 3]]))


def test_regions_that_are_no_numbers_read_nothing():
    x = flambeau.ones(1, 4, 5, 5)
    for box in ([math.nan] * 4, [-1e30, -1e30, 1e30, 1e30], [-math.inf, 0, math.inf, 3]):
        assert ops.roi_align(x, flambeau.tensor([[0.0, *box]]), 2, 1.0, 2).abs().max() <= 1
        assert ops.roi_pool(x, flambeau.tensor([[0.0, *box]]), 2).abs().max() <= 1
    with pytest.raises(RuntimeError, match="sampling_ratio"):
        ops.roi_align(x, flambeau.tensor([[0.0, -1e30, -1e30, 1e30, 1e30]]), 2)


def test_regions_as_a_list_and_what_is_refused():
    x = draw(2, 4, 9, 11)
    listed = [regions()[[0, 2], 1:], regions()[[1, 3], 1:]]
    assert flambeau.equal(ops.roi_align(x, listed, 2), ops.roi_align(x, regions()[[0, 2, 1, 3]], 2))
    for bad in (regions()[:, 1:], [regions()], "boxes"):
        with pytest.raises(AssertionError, match="roi_align"):
            ops.roi_align(x, bad, 2)
    with pytest.raises(RuntimeError, match="multiple of 4"):
        ops.ps_roi_pool(draw(2, 6, 5, 5), regions(), 2)


# --- deformable convolution -------------------------------------------------------------------------------------------

def test_deform_conv2d_without_offsets_is_conv2d():
    x, w, b = draw(2, 4, 7, 8), draw(6, 2, 3, 3, seed=1), draw(6, seed=2)
    offset = flambeau.zeros(2, 18, 4, 4, dtype=DOUBLE)
    found = ops.deform_conv2d(x, offset, w, b, stride=2, padding=1)
    expected = flambeau.nn.functional.conv2d(x, w, b, stride=2, padding=1, groups=2)
    assert flambeau.allclose(found, expected, atol=1e-12)


def test_deform_conv2d_moved_by_whole_pixels_reads_there():
    x = draw(1, 1, 6, 6)
    offset = flambeau.tensor([1.0, -2.0], dtype=DOUBLE).reshape(1, 2, 1, 1).expand(1, 2, 6, 6)
    found = ops.deform_conv2d(x, offset, flambeau.ones(1, 1, 1, 1, dtype=DOUBLE))
    expected = flambeau.zeros(6, 6, dtype=DOUBLE)
    expected[:5, 2:] = x[0, 0, 1:, :4]
    assert flambeau.equal(found[0, 0], expected)


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_of_deform_conv2d(masked):
    given = [draw(2, 4, 5, 6), draw(2, 24, 3, 5, seed=1, scale=1.3), draw(6, 2, 3, 2, seed=2), draw(6, seed=3),
             *([draw(2, 12, 3, 5, seed=4)] if masked else [])]
    assert gradcheck(lambda x, o, w, b, m=None: ops.deform_conv2d(x, o, w, b, mask=m),
                     [t.requires_grad_() for t in given])


def test_deform_conv2d_refuses_offsets_that_do_not_fit():
    x, w = draw(1, 4, 7, 8), draw(6, 4, 3, 3)
    for shape, message in (((1, 18, 4, 4), r"\[1, 18, 5, 6\]"), ((1, 4, 5, 6), "multiple of 18")):
        with pytest.raises(RuntimeError, match=message):
            ops.deform_conv2d(x, flambeau.zeros(shape, dtype=DOUBLE), w)


# --- layers -----------------------------------------------------------------------------------------------------------

def test_drop_block_drops_blocks_and_keeps_the_mean():
    flambeau.manual_seed(0)
    found = ops.drop_block2d(flambeau.ones(8, 16, 30, 30), 0.2, 5)
    dropped = found == 0
    assert 0.1 < dropped.double().mean() < 0.3
    assert found.mean().item() == pytest.approx(1, abs=1e-4)
    blocks = -flambeau.nn.functional.max_pool2d(-dropped.float(), 5, 1)  # where 5 by 5 pixels are all dropped
    covered = flambeau.nn.functional.max_pool2d(flambeau.nn.functional.pad(blocks, [4] * 4), 5, 1)
    assert flambeau.equal(covered, dropped.float())
    x = flambeau.ones(1, 1, 4, 4)
    assert ops.drop_block2d(x, 0.5, 2, training=False) is x
    assert ops.DropBlock3d(0.5, 2).eval()(flambeau.ones(1, 1, 4, 4, 4)).min() == 1
    y = flambeau.ones(2, 2, 8, 8)
    assert ops.drop_block2d(y, 0.5, 3, inplace=True) is y
    with pytest.raises(ValueError, match="p must be"):
        ops.drop_block2d(x, 1.5, 2)


def test_old_pyramids_load():
    pyramid = ops.FeaturePyramidNetwork([4, 8], 6)
    state = {key.replace(".0.weight", ".weight").replace(".0.bias", ".bias"): value
             for key, value in pyramid.state_dict().items()}
    other = ops.FeaturePyramidNetwork([4, 8], 6)
    other.load_state_dict(state)
    for key, value in pyramid.state_dict().items():
        assert flambeau.equal(other.state_dict()[key], value)


def test_boxes_go_to_the_level_of_their_size():
    mapper = ops.poolers.LevelMapper(2, 5)
    sides = flambeau.tensor([1.0, 111, 112, 223, 224, 448, 5000])
    given = flambeau.stack([sides * 0, sides * 0, sides, sides], 1)
    assert mapper([given[:3], given[3:]]).tolist() == [0, 0, 1, 1, 2, 3, 3]


def test_layers_say_what_they_are():
    assert repr(ops.RoIAlign((2, 3), 0.5, 2, True)) == \
        "RoIAlign(output_size=(2, 3), spatial_scale=0.5, sampling_ratio=2, aligned=True)"
    assert repr(ops.DeformConv2d(4, 6, 3, bias=False, groups=2)) == \
        "DeformConv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), groups=2, bias=False)"
    assert repr(ops.MultiScaleRoIAlign(["a"], 7, 2)) == \
        "MultiScaleRoIAlign(featmap_names=['a'], output_size=(7, 7), sampling_ratio=2)"
