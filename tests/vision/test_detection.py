"""Detectors: keys are those of a stored table; parts do what they promise; whole networks train and detect."""

import math
import warnings

import pytest

import flambeau
from flambeau import nn
from flambeau.vision import models
from flambeau.vision.models import detection
from flambeau.vision.models.detection import _keypoints, _masks, _utils, anchor_utils, backbone_utils, rpn, transform
from flambeau.vision.models.detection.image_list import ImageList

from .test_models import digest

#: detector -> [parameters, entries of the state dict, a digest of their names and shapes]: torchvision's
TABLE = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": [19410754, 330, "d7fc8b58aefa1882"],
    "fasterrcnn_mobilenet_v3_large_fpn": [19410754, 330, "d7fc8b58aefa1882"],
    "fasterrcnn_resnet50_fpn": [41808406, 348, "2b4138df9ca2ced5"],
    "fasterrcnn_resnet50_fpn_v2": [43712278, 404, "e6ea0c9ae72d4438"],
    "fcos_resnet50_fpn": [32322720, 372, "269b8ac152ac425c"],
    "keypointrcnn_resnet50_fpn": [59190378, 366, "94ad92b179a95d93"],
    "maskrcnn_resnet50_fpn": [44454513, 360, "c5402495a2c4f373"],
    "maskrcnn_resnet50_fpn_v2": [46359409, 432, "6179881840c5eca2"],
    "retinanet_resnet50_fpn": [34068119, 354, "42321e006bf352ee"],
    "retinanet_resnet50_fpn_v2": [38198935, 362, "0e17a36350bddd3c"],
    "ssd300_vgg16": [35641826, 71, "f1e9b78055d6b040"],
    "ssdlite320_mobilenet_v3_large": [3440060, 476, "d373faa2ac0067de"],
}


def built(name, **settings):
    return models.get_model(name, weights=None, weights_backbone=None, **settings)


@pytest.mark.parametrize("name", TABLE)
def test_parameters_and_keys(name):
    with flambeau.device("meta"):
        assert digest(built(name)) == TABLE[name]


def test_the_table_has_all_detectors():
    assert models.list_models(detection) == sorted(TABLE)


# --- boxes as offsets -------------------------------------------------------------------------------------------------

def boxes(n, seed=0):
    flambeau.manual_seed(seed)
    corner = flambeau.rand(n, 2) * 50
    return flambeau.cat([corner, corner + 2 + flambeau.rand(n, 2) * 40], 1)


def test_what_is_encoded_is_decoded():
    given, wanted = boxes(20), boxes(20, 1)
    coder = _utils.BoxCoder((10.0, 10.0, 5.0, 5.0))
    offsets = coder.encode([wanted[:5], wanted[5:]], [given[:5], given[5:]])
    assert [len(part) for part in offsets] == [5, 15]
    assert flambeau.allclose(coder.decode(flambeau.cat(offsets), [given])[:, 0], wanted, atol=1e-4)
    assert coder.encode_single(given, given).abs().max() == 0
    for normalize in (True, False):
        linear = _utils.BoxLinearCoder(normalize)
        assert flambeau.allclose(linear.decode(linear.encode(wanted, given), given), wanted, atol=1e-4)


def test_decoded_sides_are_bounded():
    box, far = flambeau.tensor([[0.0, 0, 16, 16]]), flambeau.tensor([[0.0, 0, 90, 0]])
    found = _utils.BoxCoder((1.0,) * 4).decode_single(far, box)
    assert (found[0, 2] - found[0, 0]).item() == pytest.approx(1000)


# --- matching and drawing ---------------------------------------------------------------------------------------------

OVERLAPS = flambeau.tensor([[0.9, 0.1, 0.45, 0.2], [0.0, 0.2, 0.5, 0.3]])


def test_a_matcher_has_two_thresholds():
    assert _utils.Matcher(0.5, 0.3)(OVERLAPS).tolist() == [0, -1, 1, -2]
    assert _utils.Matcher(0.6, 0.3, allow_low_quality_matches=True)(OVERLAPS).tolist() == [0, -1, 1, -2]
    with pytest.raises(ValueError, match="above"):
        _utils.Matcher(0.3, 0.5)
    with pytest.raises(ValueError, match="no objects"):
        _utils.Matcher(0.5, 0.5)(OVERLAPS[:0])


def test_every_object_gets_a_box_of_ssd():
    assert _utils.SSDMatcher(0.95)(OVERLAPS).tolist() == [0, -1, 1, -1]


def test_samples_are_balanced():
    labels = flambeau.tensor([1, 0, 0, -1, 2, 0, 3, 0, 0, 0])
    (positive,), (negative,) = _utils.BalancedPositiveNegativeSampler(6, 0.34)([labels])
    assert positive.sum() == 2 and negative.sum() == 4
    assert (labels[positive.bool()] > 0).all() and (labels[negative.bool()] == 0).all()
    (positive,), (negative,) = _utils.BalancedPositiveNegativeSampler(100, 0.5)([labels])
    assert positive.sum() == 3 and negative.sum() == 6


# --- anchors ----------------------------------------------------------------------------------------------------------

def test_anchors_are_around_the_places_of_their_map():
    anchors = anchor_utils.AnchorGenerator(((4,), (8,)), ((0.25, 1.0),) * 2)
    batch = ImageList(flambeau.zeros(2, 3, 16, 32), [(16, 32), (10, 10)])
    found = anchors(batch, [flambeau.zeros(2, 1, 2, 4), flambeau.zeros(2, 1, 1, 2)])
    assert len(found) == 2 and found[0].shape == (2 * (8 + 2), 4) and anchors.num_anchors_per_location() == [2, 2]
    assert found[0][:2].tolist() == [[-4, -1, 4, 1], [-2, -2, 2, 2]]
    assert found[0][2:4].tolist() == [[4, -1, 12, 1], [6, -2, 10, 2]]
    assert found[0][-1].tolist() == [12, -4, 20, 4]
    with pytest.raises(AssertionError, match="2 maps"):
        anchors(batch, [flambeau.zeros(2, 1, 2, 4)])


def test_default_boxes_are_shares_of_the_image():
    default = anchor_utils.DefaultBoxGenerator([[2]], scales=[0.25, 1.0], clip=False)
    assert default.num_anchors_per_location() == [4]
    (found,) = default(ImageList(flambeau.zeros(1, 3, 100, 100), [(100, 100)]), [flambeau.zeros(1, 1, 2, 2)])
    centres, sides = (found[:, :2] + found[:, 2:]) / 2, found[:, 2:] - found[:, :2]
    assert centres[::4].tolist() == [[25, 25], [75, 25], [25, 75], [75, 75]]
    root = math.sqrt(2)
    expected = flambeau.tensor([[25, 25], [50, 50], [25 * root, 25 / root], [25 / root, 25 * root]])
    assert flambeau.allclose(sides[:4], expected, atol=1e-4)
    assert anchor_utils.DefaultBoxGenerator([[2]] * 3, 0.2, 0.8).scales == pytest.approx([0.2, 0.5, 0.8, 1.0])


# --- images in and out ------------------------------------------------------------------------------------------------

def test_images_are_resized_with_their_targets():
    change = transform.GeneralizedRCNNTransform(20, 30, [0.5] * 3, [0.5] * 3).eval()
    target = {"boxes": flambeau.tensor([[1.0, 2, 5, 8]]), "masks": flambeau.ones(1, 10, 40, dtype=flambeau.uint8),
              "keypoints": flambeau.tensor([[[4.0, 4, 1]]])}
    batch, (found,) = change([flambeau.rand(3, 10, 40)], [target])
    assert batch.image_sizes == [(7, 30)] and batch.tensors.shape == (1, 3, 32, 32)
    assert flambeau.allclose(found["boxes"], flambeau.tensor([[0.75, 1.4, 3.75, 5.6]]))
    assert found["masks"].shape == (1, 7, 30) and found["keypoints"][0, 0].tolist() == pytest.approx([3, 2.8, 1])
    assert target["boxes"][0, 0] == 1  # the argument is as it was
    (back,) = change.postprocess([{"boxes": found["boxes"]}], batch.image_sizes, [(10, 40)])
    assert flambeau.allclose(back["boxes"], target["boxes"])
    assert transform.GeneralizedRCNNTransform(9, 9, [0.0], [1.0], 1, fixed_size=(6, 4)).eval()(
        [flambeau.rand(1, 5, 5)])[0].tensors.shape == (1, 1, 4, 6)
    with pytest.raises(TypeError, match="divide bytes"):
        change([flambeau.zeros(3, 4, 4, dtype=flambeau.uint8)])


def test_masks_are_pasted_into_their_boxes():
    found = _masks.paste_masks_in_image(flambeau.ones(1, 1, 8, 8), flambeau.tensor([[4.0, 2, 20, 12]]), (16, 18))
    inside = found[0, 0] > 0.5
    assert found.shape == (1, 1, 16, 18)
    assert inside[4:11, 6:].all() and not inside[:1].any() and not inside[:, :3].any()
    assert _masks.paste_masks_in_image(flambeau.ones(0, 1, 8, 8), flambeau.zeros(0, 4), (5, 6)).shape == (0, 1, 5, 6)


def test_keypoints_are_found_where_their_maps_are_largest():
    maps = flambeau.full((1, 2, 8, 8), -5.0)
    maps[0, 0, 2, 6] = maps[0, 1, 5, 1] = 5
    box = flambeau.tensor([[10.0, 20, 26, 36]])
    points, scores = _keypoints.heatmaps_to_keypoints(maps, box)
    assert (points[0, :, :2] - flambeau.tensor([[23.0, 25], [13, 31]])).abs().max() <= 0.5 and scores.min() > 2
    cells, valid = _keypoints.keypoints_to_heatmap(flambeau.tensor([[[26.0, 36, 1], [11, 20, 0], [9, 30, 1]]]), box, 8)
    assert cells.tolist() == [[63, 0, 0]] and valid.tolist() == [[1, 0, 0]]


# --- backbones --------------------------------------------------------------------------------------------------------

def test_backbones_freeze_what_is_not_trained():
    backbone = backbone_utils.resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=2)
    trained = {name.split(".")[1] for name, p in backbone.body.named_parameters(prefix="body") if p.requires_grad}
    assert trained == {"layer3", "layer4"}
    assert not any(isinstance(m, nn.BatchNorm2d) for m in backbone.modules())
    maps = backbone(flambeau.zeros(1, 3, 64, 64))
    assert [(name, tuple(x.shape)) for name, x in maps.items()] == [
        ("0", (1, 256, 16, 16)), ("1", (1, 256, 8, 8)), ("2", (1, 256, 4, 4)), ("3", (1, 256, 2, 2)),
        ("pool", (1, 256, 1, 1))]
    with pytest.raises(ValueError, match="0 to 5"):
        backbone_utils.resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=6)
    with pytest.raises(ValueError, match="returned_layers"):
        backbone_utils.resnet_fpn_backbone(backbone_name="resnet18", weights=None, returned_layers=[0, 1])


def test_trained_layers_are_all_without_weights():
    with pytest.warns(UserWarning, match="without weights all 5"):
        assert backbone_utils._validate_trainable_layers(False, 2, 5, 3) == 5
    assert backbone_utils._validate_trainable_layers(True, None, 5, 3) == 3
    with pytest.raises(ValueError, match="0 to 5"):
        backbone_utils._validate_trainable_layers(True, 7, 5, 3)


def test_weights_of_older_versions_load():
    head = rpn.RPNHead(4, 3)
    state = {key.replace("conv.0.0.", "conv."): value for key, value in head.state_dict().items()}
    other = rpn.RPNHead(4, 3)
    other.load_state_dict(state)
    assert flambeau.equal(other.conv[0][0].weight, head.conv[0][0].weight)
    masks = detection.mask_rcnn.MaskRCNNHeads(4, (4, 4), 1)
    state = {f"mask_fcn{int(key[0]) + 1}.{key[4:]}": value for key, value in masks.state_dict().items()}
    detection.mask_rcnn.MaskRCNNHeads(4, (4, 4), 1).load_state_dict(state)
    tower = detection.retinanet.RetinaNetRegressionHead(4, 1)
    state = {f"conv.{2 * int(key[5])}.{key[9:]}" if key.startswith("conv") else key: value
             for key, value in tower.state_dict().items()}
    detection.retinanet.RetinaNetRegressionHead(4, 1).load_state_dict(state)


# --- whole detectors --------------------------------------------------------------------------------------------------

class Small(nn.Module):
    """A backbone of two maps."""

    out_channels = 32

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 32, 4, 4), nn.Conv2d(32, 32, 2, 2)

    def forward(self, x):
        first = self.first(x).relu()
        return {"0": first, "1": self.second(first)}


def anchors():
    return anchor_utils.AnchorGenerator(((12,), (24,)), ((0.5, 1.0, 2.0),) * 2)


def two_stages(kind, **settings):
    """With heads that are as small."""
    heads = detection.faster_rcnn
    return kind(Small(), min_size=48, max_size=64, rpn_anchor_generator=anchors(), rpn_pre_nms_top_n_test=30,
                rpn_post_nms_top_n_train=20, box_batch_size_per_image=16, box_score_thresh=0.0,
                box_detections_per_img=5, box_head=heads.TwoMLPHead(32 * 49, 32),
                box_predictor=heads.FastRCNNPredictor(32, 3), **settings)


MAKERS = {
    "faster": lambda: two_stages(detection.FasterRCNN),
    "mask": lambda: two_stages(
        detection.MaskRCNN, mask_head=detection.mask_rcnn.MaskRCNNHeads(32, (16,), 1),
        mask_predictor=detection.mask_rcnn.MaskRCNNPredictor(16, 16, 3)),
    "keypoint": lambda: two_stages(
        detection.KeypointRCNN, keypoint_head=detection.keypoint_rcnn.KeypointRCNNHeads(32, (16,)),
        keypoint_predictor=detection.keypoint_rcnn.KeypointRCNNPredictor(16, 2)),
    "retina": lambda: detection.RetinaNet(Small(), 3, min_size=48, max_size=64, anchor_generator=anchors(),
                                          score_thresh=0.0),
    "fcos": lambda: detection.FCOS(Small(), 3, min_size=48, max_size=64, score_thresh=0.0,
                                   anchor_generator=anchor_utils.AnchorGenerator(((4,), (8,)), ((1.0,),) * 2)),
    "ssd": lambda: detection.ssd.SSD(Small(), anchor_utils.DefaultBoxGenerator([[2], [2]]), (48, 48), 3),
}
LOSSES = {
    "faster": {"loss_classifier", "loss_box_reg", "loss_objectness", "loss_rpn_box_reg"},
    "mask": {"loss_classifier", "loss_box_reg", "loss_objectness", "loss_rpn_box_reg", "loss_mask"},
    "keypoint": {"loss_classifier", "loss_box_reg", "loss_objectness", "loss_rpn_box_reg", "loss_keypoint"},
    "retina": {"classification", "bbox_regression"},
    "fcos": {"classification", "bbox_regression", "bbox_ctrness"},
    "ssd": {"classification", "bbox_regression"},
}


def pictures():
    """Two images and their targets; the second shows nothing."""
    images = [flambeau.zeros(3, 40, 60), flambeau.rand(3, 50, 40)]
    images[0][:, 10:30, 15:45] = 1
    masks = flambeau.zeros(1, 40, 60, dtype=flambeau.uint8)
    masks[0, 10:30, 15:45] = 1
    shown = {"boxes": flambeau.tensor([[15.0, 10, 45, 30]]), "labels": flambeau.tensor([1]), "masks": masks,
             "keypoints": flambeau.tensor([[[15.0, 10, 1], [45, 30, 1]]])}
    return images, [shown, {"boxes": flambeau.zeros(0, 4), "labels": flambeau.zeros(0, dtype=flambeau.int64),
                            "masks": flambeau.zeros(0, 50, 40, dtype=flambeau.uint8),
                            "keypoints": flambeau.zeros(0, 2, 3)}]


@pytest.mark.parametrize("kind", MAKERS)
def test_detectors_learn_an_object_and_find_it(kind):
    flambeau.manual_seed(0)
    model = MAKERS[kind]().train()
    images, targets = pictures()
    optimizer = flambeau.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    history = []
    for _ in range(25):
        losses = model(images, targets)
        assert set(losses) == LOSSES[kind]
        total = sum(losses.values())
        assert math.isfinite(total)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        history.append(total.item())
    assert sum(history[-3:]) < 0.8 * sum(history[:3])
    first, second = model.eval()([*images])
    assert set(first) >= {"boxes", "labels", "scores"} and set(second) == set(first)
    assert (first["scores"][:-1] >= first["scores"][1:]).all() and (first["labels"] < 3).all()
    assert first["boxes"].amin() >= 0 and (first["boxes"].amax(0) <= flambeau.tensor([60, 40, 60, 40]) + 1e-3).all()
    if kind == "mask":
        assert first["masks"].shape[1:] == (1, 40, 60)
    if kind == "keypoint":
        assert first["keypoints"].shape[1:] == (2, 3) and first["keypoints_scores"].shape[1] == 2


@pytest.mark.parametrize("kind", MAKERS)
def test_targets_are_checked(kind):
    model = MAKERS[kind]().train()
    images, targets = pictures()
    bad = [dict(targets[0], boxes=flambeau.tensor([[5.0, 5, 5, 9]])), targets[1]]
    for given, message in ((None, r"\.eval\(\)"), (targets[:1], "2 images"), (bad, r"target 0 has"),
                           ([dict(targets[0], boxes=[1]), targets[1]], "must be a tensor"),
                           ([dict(targets[0], boxes=flambeau.zeros(4)), targets[1]], r"\[n, 4\]")):
        with pytest.raises(AssertionError, match=message):
            model(images, given)


def test_a_detector_gets_other_heads_for_other_classes():
    """The usual way to fine-tune: the last layers are replaced."""
    model = MAKERS["mask"]()
    channels = model.roi_heads.box_predictor.cls_score.in_features
    model.roi_heads.box_predictor = detection.faster_rcnn.FastRCNNPredictor(channels, 7)
    channels = model.roi_heads.mask_predictor.conv5_mask.in_channels
    model.roi_heads.mask_predictor = detection.mask_rcnn.MaskRCNNPredictor(channels, 8, 7)
    images, targets = pictures()
    targets[0]["labels"][:] = 6
    assert all(math.isfinite(loss) for loss in model.train()(images, targets).values())
    assert rpn.AnchorGenerator is anchor_utils.AnchorGenerator


def test_builders_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="num_classes"):
        detection.FasterRCNN(Small())
    with pytest.raises(ValueError, match="out_channels"):
        detection.RetinaNet(nn.Identity(), 3)
    with pytest.raises(ValueError, match="num_classes must be 91"):
        detection.fasterrcnn_resnet50_fpn(weights="COCO_V1", num_classes=7)
    with pytest.raises(ValueError, match="one anchor per place"):
        detection.FCOS(Small(), 3, anchor_generator=anchors())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert models.get_model_weights("ssd300_vgg16").DEFAULT.meta["num_params"] == TABLE["ssd300_vgg16"][0]


@pytest.mark.parametrize("name", TABLE)
def test_published_numbers_of_parameters(name):
    published = models.get_model_weights(name).DEFAULT.meta["num_params"]
    if name == "ssdlite320_mobilenet_v3_large":
        assert published == TABLE[name][0]
    assert abs(published - TABLE[name][0]) < 2e5  # frozen normalisation has buffers instead of parameters
