"""vision.utils: grids, drawing and flow colours by what each pixel must be."""

import io

import pytest

import flambeau
from flambeau.vision import utils

pytest.importorskip("PIL")
BLACK = flambeau.zeros(3, 20, 24, dtype=flambeau.uint8)
BOX = flambeau.tensor([[5, 6, 15, 12]])


def painted(image):
    """Where the image is not black."""
    return (image != 0).any(0)


# --- grids ------------------------------------------------------------------------------------------------------------

def test_a_grid_has_every_image_in_its_place():
    images = flambeau.rand(5, 3, 4, 6)
    grid = utils.make_grid(images, nrow=3, padding=2, pad_value=0.5)
    assert grid.shape == (3, 2 * 6 + 2, 3 * 8 + 2)
    for k in range(5):
        y, x = k // 3 * 6 + 2, k % 3 * 8 + 2
        assert flambeau.equal(grid[:, y:y + 4, x:x + 6], images[k])
    assert (grid[:, 8:, 18:] == 0.5).all()  # the place of a sixth


def test_grids_of_one_image_of_grey_ones_and_of_lists():
    image = flambeau.rand(3, 4, 6)
    assert flambeau.equal(utils.make_grid(image), image)
    assert utils.make_grid(image[0]).shape == (3, 4, 6)
    assert utils.make_grid(image[None, :1].expand(2, -1, -1, -1), padding=0).shape == (3, 4, 12)
    assert flambeau.equal(utils.make_grid([image, image]), utils.make_grid(flambeau.stack([image, image])))


def test_normalized_values():
    images = flambeau.stack([flambeau.linspace(0, 1, 12), flambeau.linspace(2, 6, 12)]).reshape(2, 3, 2, 2)
    both = utils.make_grid(images, padding=0, normalize=True)
    assert flambeau.allclose(both, utils.make_grid(images / 6, padding=0))
    each = utils.make_grid(images, padding=0, normalize=True, scale_each=True)
    assert flambeau.allclose(each[:, :, :2], each[:, :, 2:])
    given = utils.make_grid(images, padding=0, normalize=True, value_range=(2, 4))
    assert given[:, :, :2].max() == 0 and given.max() == 1
    assert images.max() == 6  # the argument is as it was


def test_grids_that_are_refused():
    for bad, error in ((3, TypeError), ([1, 2], TypeError), (flambeau.zeros(2), ValueError)):
        with pytest.raises(error, match="make_grid"):
            utils.make_grid(bad)
    with pytest.raises(TypeError, match="value_range"):
        utils.make_grid(flambeau.rand(2, 3, 4, 4), normalize=True, value_range=[0, 1])


def test_a_saved_image_has_the_nearest_bytes():
    file = io.BytesIO()
    utils.save_image(flambeau.tensor([0.0, 0.4999, 1.5, -3]).reshape(1, 2, 2), file, "png")
    found = flambeau.vision.io.decode_png(flambeau.frombuffer(bytearray(file.getvalue()), dtype=flambeau.uint8))
    assert found[0].tolist() == [[0, 127], [255, 0]]


# --- drawing ----------------------------------------------------------------------------------------------------------

def test_a_box_is_its_outline():
    found = utils.draw_bounding_boxes(BLACK, BOX, colors="red", width=2)
    outline = flambeau.zeros(20, 24, dtype=flambeau.bool)
    outline[6:13, 5:16] = True
    outline[8:11, 7:14] = False
    assert flambeau.equal(painted(found), outline)
    assert found[0].max() == 255 and found[1:].max() == 0
    assert BLACK.max() == 0  # the argument is as it was


def test_a_filled_box_is_tinted():
    found = utils.draw_bounding_boxes(BLACK, BOX, colors=[(255, 0, 0)], fill=True)
    assert found[0, 9, 10] == 100 and found[0, 6, 10] == 255


def test_a_turned_box_has_its_corners_and_a_dashed_first_side():
    corners = flambeau.tensor([[2, 3, 21, 3, 21, 15, 2, 15]])
    found = painted(utils.draw_bounding_boxes(BLACK, corners, colors="red"))
    assert found[15, 2:22].all() and found[3:16, 21].all() and found[3:16, 2].all()
    assert found[3, 2:22].tolist() == [x <= 5 or 10 <= x <= 15 or x == 19 for x in range(20)]


def test_default_colours_differ():
    boxes = flambeau.tensor([[0, 0, 3, 3], [5, 0, 8, 3], [10, 0, 13, 3]])
    found = utils.draw_bounding_boxes(BLACK + 7, boxes)
    assert [found[:, 0, x].tolist() for x in (0, 5, 10)] == [[0, 0, 0], [1, 127, 31], [2, 254, 62]]


def test_labels_are_written():
    plain = utils.draw_bounding_boxes(BLACK, BOX, colors="red")
    labelled = utils.draw_bounding_boxes(BLACK, BOX, ["x"], colors="red", label_colors="blue")
    assert labelled[2].max() > 200 and plain[2].max() == 0
    filled = utils.draw_bounding_boxes(BLACK, BOX, ["x"], colors="red", fill_labels=True,
                                       label_background_colors=["lime"])
    assert filled[1].max() == 255
    none = utils.draw_bounding_boxes(BLACK, BOX, [None], colors="red")
    assert flambeau.equal(none, plain)


def test_images_keep_their_dtype_and_get_colour():
    assert utils.draw_bounding_boxes(BLACK[:1], BOX, colors="red").shape == (3, 20, 24)
    found = utils.draw_bounding_boxes(flambeau.rand(3, 20, 24), BOX, colors="red")
    assert found.dtype == flambeau.float32 and found[0, 6, 5] == 1


def test_drawing_that_is_refused():
    image, boxes = BLACK, BOX
    for arguments, error, message in (
            (([1], boxes), TypeError, "tensor"), ((image.int(), boxes), ValueError, "int32"),
            ((image[0], boxes), ValueError, "one image"), ((image[:2], boxes), ValueError, "channels"),
            ((image, boxes.flip(1)), ValueError, "x1 <= x2"), ((image, boxes, ["a", "b"]), ValueError, "label"),
            ((image, boxes, None, []), ValueError, "colors"), ((image, boxes, None, 3), ValueError, "colors")):
        with pytest.raises(error, match=message):
            utils.draw_bounding_boxes(*arguments)
    with pytest.warns(UserWarning, match="nothing is drawn"):
        assert utils.draw_bounding_boxes(image, boxes[:0]) is image
    with pytest.warns(UserWarning, match="font="):
        utils.draw_bounding_boxes(image, boxes, font_size=3)
    mask = flambeau.zeros(20, 24, dtype=flambeau.bool)
    for masks, message in ((mask.float(), "bool"), (mask[:3], "20, 24"), (mask[None, None], "shape")):
        with pytest.raises(ValueError, match=message):
            utils.draw_segmentation_masks(image, masks)
    points = flambeau.zeros(1, 3, 2)
    with pytest.raises(ValueError, match="instances"):
        utils.draw_keypoints(image, points[0])
    with pytest.raises(ValueError, match="visibility"):
        utils.draw_keypoints(image, points, visibility=flambeau.ones(3))


def test_masks_are_mixed_in_and_black_where_two_meet():
    masks = flambeau.zeros(2, 20, 24, dtype=flambeau.bool)
    masks[0, :10] = True
    masks[1, 8:] = True
    found = utils.draw_segmentation_masks(BLACK + 100, masks, alpha=0.5, colors=["red", (0, 0, 200)])
    assert found[:, 0, 0].tolist() == [177, 50, 50]
    assert found[:, 9, 0].tolist() == [50, 50, 50]
    assert found[:, 19, 0].tolist() == [50, 50, 150]
    whole = utils.draw_segmentation_masks(flambeau.zeros(3, 20, 24), masks[0], alpha=1.0, colors="white")
    assert whole.dtype == flambeau.float32 and flambeau.equal(whole[0], masks[0].float())


def test_keypoints_are_discs_and_lines_join_those_that_are_seen():
    points = flambeau.tensor([[[4.0, 4], [14, 4], [4, 14]]])
    seen = flambeau.tensor([[1, 1, 0]])
    found = utils.draw_keypoints(BLACK, points, [(0, 1), (0, 2)], "red", radius=1, width=1, visibility=seen)
    assert found[:, 3, 4].tolist() == [255, 0, 0]
    assert found[:, 4, 9].tolist() == [255, 255, 255]
    assert not painted(found)[8:].any()


def test_flow_colours():
    flow = flambeau.tensor([[[1.0, 0, -1, 0.5]], [[0.0, 0, 0, 0]]])
    assert utils.flow_to_image(flow)[:, 0].T.tolist() == [[255, 0, 0], [255, 255, 255], [0, 209, 255], [255, 127, 127]]
    assert utils.flow_to_image(flow.expand(2, 2, 1, 4)).shape == (2, 3, 1, 4)
    for bad in (flow.double(), flow[:1]):
        with pytest.raises(ValueError, match="flow_to_image"):
            utils.flow_to_image(bad)
