"""Faster R-CNN   (Ren et al. 2015), with feature pyramids   (Lin et al. 2017)."""

from flambeau import nn
from flambeau.nn import functional as F
from flambeau.vision.ops import MultiScaleRoIAlign
from flambeau.vision.ops.feature_pyramid_network import LastLevelP6P7
from flambeau.vision.ops.misc import Conv2dNormActivation, FrozenBatchNorm2d

from .._utils import he_fan_out, init
from ..mobilenetv3 import mobilenet_v3_large
from ..resnet import resnet50
from ._builders import MOBILENET, RESNET, RESNET_V2, detector, published
from .anchor_utils import AnchorGenerator
from .backbone_utils import _mobilenet_extractor, _resnet_fpn_extractor
from .generalized_rcnn import GeneralizedRCNN
from .roi_heads import RoIHeads
from .rpn import RegionProposalNetwork, RPNHead
from .transform import GeneralizedRCNNTransform

__all__ = ["FasterRCNN", "FasterRCNN_MobileNet_V3_Large_320_FPN_Weights", "FasterRCNN_MobileNet_V3_Large_FPN_Weights",
           "FasterRCNN_ResNet50_FPN_V2_Weights", "FasterRCNN_ResNet50_FPN_Weights",
           "fasterrcnn_mobilenet_v3_large_320_fpn", "fasterrcnn_mobilenet_v3_large_fpn", "fasterrcnn_resnet50_fpn",
           "fasterrcnn_resnet50_fpn_v2"]

FasterRCNN_ResNet50_FPN_Weights = published("FasterRCNN_ResNet50_FPN_Weights", __name__)
FasterRCNN_ResNet50_FPN_V2_Weights = published("FasterRCNN_ResNet50_FPN_V2_Weights", __name__)
FasterRCNN_MobileNet_V3_Large_FPN_Weights = published("FasterRCNN_MobileNet_V3_Large_FPN_Weights", __name__)
FasterRCNN_MobileNet_V3_Large_320_FPN_Weights = published("FasterRCNN_MobileNet_V3_Large_320_FPN_Weights", __name__)


def _default_anchorgen():
    """One size and three ratios for each of five maps."""
    return AnchorGenerator(((32,), (64,), (128,), (256,), (512,)), ((0.5, 1.0, 2.0),) * 5)


def pooler(output_size):
    """What pools the boxes from the four maps that are named by their numbers."""
    return MultiScaleRoIAlign(featmap_names=["0", "1", "2", "3"], output_size=output_size, sampling_ratio=2)


class TwoMLPHead(nn.Module):
    """Two hidden layers on all numbers of a pooled box."""

    def __init__(self, in_channels, representation_size):
        super().__init__()
        self.fc6 = nn.Linear(in_channels, representation_size)
        self.fc7 = nn.Linear(representation_size, representation_size)

    def forward(self, x):
        return F.relu(self.fc7(F.relu(self.fc6(x.flatten(1)))))


class FastRCNNConvFCHead(nn.Sequential):
    """Convolutions on a pooled box of input_size (channels, height, width), then hidden layers."""

    def __init__(self, input_size, conv_layers, fc_layers, norm_layer=None):
        channels, height, width = input_size
        blocks = []
        for wanted in conv_layers:
            blocks.append(Conv2dNormActivation(channels, wanted, norm_layer=norm_layer))
            channels = wanted
        blocks.append(nn.Flatten())
        channels *= height * width
        for wanted in fc_layers:
            blocks += [nn.Linear(channels, wanted), nn.ReLU(inplace=True)]
            channels = wanted
        super().__init__(*blocks)
        init(self, conv=he_fan_out, norms=False)


class FastRCNNPredictor(nn.Module):
    """Logits of the classes, and the box's offsets for each class."""

    def __init__(self, in_channels, num_classes):
        super().__init__()
        self.cls_score = nn.Linear(in_channels, num_classes)
        self.bbox_pred = nn.Linear(in_channels, num_classes * 4)

    def forward(self, x):
        if x.ndim == 4 and tuple(x.shape[2:]) != (1, 1):
            raise ValueError(f"FastRCNNPredictor: expected features [n, c] or [n, c, 1, 1], got {list(x.shape)}")
        x = x.flatten(1)
        return self.cls_score(x), self.bbox_pred(x)


def _check(name, backbone, num_classes, predictor):
    """What a detector needs of its parts."""
    if not hasattr(backbone, "out_channels"):
        raise ValueError(f"{name}: the backbone needs an attribute out_channels, the channels of each of its maps")
    if (num_classes is None) == (predictor is None):
        raise ValueError(f"{name}: give num_classes or a predictor of your own, which has it, and not both; got "
                         f"num_classes={num_classes}")


class FasterRCNN(GeneralizedRCNN):
    """Faster R-CNN on a backbone that gives maps of `out_channels` each.

    num_classes: with the background, class 0. min_size, max_size, image_mean, image_std: GeneralizedRCNNTransform.
    rpn_…: RegionProposalNetwork, with its numbers in training and testing. box_…: RoIHeads. Parts that are not given
    are made for a pyramid of four levels and a fifth by pooling.
    """

    def __init__(self, backbone, num_classes=None, min_size=800, max_size=1333, image_mean=None, image_std=None,
                 rpn_anchor_generator=None, rpn_head=None, rpn_pre_nms_top_n_train=2000, rpn_pre_nms_top_n_test=1000,
                 rpn_post_nms_top_n_train=2000, rpn_post_nms_top_n_test=1000, rpn_nms_thresh=0.7,
                 rpn_fg_iou_thresh=0.7, rpn_bg_iou_thresh=0.3, rpn_batch_size_per_image=256, rpn_positive_fraction=0.5,
                 rpn_score_thresh=0.0, box_roi_pool=None, box_head=None, box_predictor=None, box_score_thresh=0.05,
                 box_nms_thresh=0.5, box_detections_per_img=100, box_fg_iou_thresh=0.5, box_bg_iou_thresh=0.5,
                 box_batch_size_per_image=512, box_positive_fraction=0.25, bbox_reg_weights=None, **kwargs):
        _check(type(self).__name__, backbone, num_classes, box_predictor)
        channels = backbone.out_channels
        anchors = rpn_anchor_generator if rpn_anchor_generator is not None else _default_anchorgen()
        head = rpn_head if rpn_head is not None else RPNHead(channels, anchors.num_anchors_per_location()[0])
        rpn = RegionProposalNetwork(
            anchors, head, rpn_fg_iou_thresh, rpn_bg_iou_thresh, rpn_batch_size_per_image, rpn_positive_fraction,
            {"training": rpn_pre_nms_top_n_train, "testing": rpn_pre_nms_top_n_test},
            {"training": rpn_post_nms_top_n_train, "testing": rpn_post_nms_top_n_test}, rpn_nms_thresh,
            score_thresh=rpn_score_thresh)
        box_roi_pool = box_roi_pool if box_roi_pool is not None else pooler(7)
        if box_head is None:
            box_head = TwoMLPHead(channels * box_roi_pool.output_size[0] ** 2, 1024)
        if box_predictor is None:
            box_predictor = FastRCNNPredictor(1024, num_classes)
        heads = RoIHeads(box_roi_pool, box_head, box_predictor, box_fg_iou_thresh, box_bg_iou_thresh,
                         box_batch_size_per_image, box_positive_fraction, bbox_reg_weights, box_score_thresh,
                         box_nms_thresh, box_detections_per_img)
        transform = GeneralizedRCNNTransform(min_size, max_size, image_mean or [0.485, 0.456, 0.406],
                                             image_std or [0.229, 0.224, 0.225], **kwargs)
        super().__init__(backbone, rpn, heads, transform)


def resnet_pyramid(weights, trained, layers, progress, extra=None):
    """The pyramid of a ResNet-50: with weights, its normalisation is frozen. extra: (channels in, out) of two more
    levels by convolution, above the last three blocks."""
    norm = FrozenBatchNorm2d if trained else nn.BatchNorm2d
    network = resnet50(weights=weights, progress=progress, norm_layer=norm)
    if extra is None:
        return _resnet_fpn_extractor(network, layers)
    return _resnet_fpn_extractor(network, layers, returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(*extra))


def second_version(weights, layers, num_classes, progress):
    """The parts of the second version's detectors   (Li et al. 2021): more layers, all of them normalised."""
    backbone = _resnet_fpn_extractor(resnet50(weights=weights, progress=progress), layers, norm_layer=nn.BatchNorm2d)
    anchors = _default_anchorgen()
    head = RPNHead(backbone.out_channels, anchors.num_anchors_per_location()[0], conv_depth=2)
    boxes = FastRCNNConvFCHead((backbone.out_channels, 7, 7), [256] * 4, [1024], norm_layer=nn.BatchNorm2d)
    return {"backbone": backbone, "num_classes": num_classes, "rpn_anchor_generator": anchors, "rpn_head": head,
            "box_head": boxes}


def _mobilenet(weights, trained, layers, num_classes, progress, **kwargs):
    norm = FrozenBatchNorm2d if trained else nn.BatchNorm2d
    network = mobilenet_v3_large(weights=weights, progress=progress, norm_layer=norm)
    backbone = _mobilenet_extractor(network, True, layers)
    anchors = AnchorGenerator(((32, 64, 128, 256, 512),) * 3, ((0.5, 1.0, 2.0),) * 3)
    return FasterRCNN(backbone, num_classes, rpn_anchor_generator=anchors, **({"rpn_score_thresh": 0.05} | kwargs))


@detector(FasterRCNN_ResNet50_FPN_Weights, RESNET, eps=0.0)
def fasterrcnn_resnet50_fpn(weights, trained, layers, num_classes, progress, **kwargs):
    """Faster R-CNN on a pyramid of ResNet-50   (Ren et al. 2015). kwargs: those of FasterRCNN."""
    return FasterRCNN(resnet_pyramid(weights, trained, layers, progress), num_classes=num_classes, **kwargs)


@detector(FasterRCNN_ResNet50_FPN_V2_Weights, RESNET_V2)
def fasterrcnn_resnet50_fpn_v2(weights, _, layers, num_classes, progress, **kwargs):
    """Faster R-CNN with more layers in its heads, all of them normalised   (Li et al. 2021)."""
    return FasterRCNN(**second_version(weights, layers, num_classes, progress), **kwargs)


@detector(FasterRCNN_MobileNet_V3_Large_FPN_Weights, MOBILENET)
def fasterrcnn_mobilenet_v3_large_fpn(weights, trained, layers, num_classes, progress, **kwargs):
    """Faster R-CNN on a pyramid of MobileNet v3."""
    return _mobilenet(weights, trained, layers, num_classes, progress, **kwargs)


@detector(FasterRCNN_MobileNet_V3_Large_320_FPN_Weights, MOBILENET)
def fasterrcnn_mobilenet_v3_large_320_fpn(weights, trained, layers, num_classes, progress, **kwargs):
    """The same for small images, of 320 pixels."""
    small = {"min_size": 320, "max_size": 640, "rpn_pre_nms_top_n_test": 150, "rpn_post_nms_top_n_test": 150}
    return _mobilenet(weights, trained, layers, num_classes, progress, **(small | kwargs))
