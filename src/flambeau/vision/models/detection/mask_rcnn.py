"""Mask R-CNN   (He et al. 2017): Faster R-CNN that also finds each object's mask."""

from flambeau import nn
from flambeau.vision.ops.misc import Conv2dNormActivation

from .._utils import he_fan_out, init
from ._builders import RESNET, RESNET_V2, detector, published
from ._targets import older, rename
from .faster_rcnn import FasterRCNN, pooler, resnet_pyramid, second_version

__all__ = ["MaskRCNN", "MaskRCNN_ResNet50_FPN_V2_Weights", "MaskRCNN_ResNet50_FPN_Weights", "maskrcnn_resnet50_fpn",
           "maskrcnn_resnet50_fpn_v2"]

MaskRCNN_ResNet50_FPN_Weights = published("MaskRCNN_ResNet50_FPN_Weights", __name__)
MaskRCNN_ResNet50_FPN_V2_Weights = published("MaskRCNN_ResNet50_FPN_V2_Weights", __name__)


class MaskRCNNHeads(nn.Sequential):
    """Convolutions of the given widths on pooled boxes."""

    _version = 2

    def __init__(self, in_channels, layers, dilation, norm_layer=None):
        blocks = []
        for width in layers:
            blocks.append(Conv2dNormActivation(in_channels, width, kernel_size=3, stride=1, padding=dilation,
                                               dilation=dilation, norm_layer=norm_layer))
            in_channels = width
        super().__init__(*blocks)
        init(self, conv=he_fan_out, norms=False)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        if older(local_metadata):
            rename(state_dict, prefix, {f"mask_fcn{k + 1}.{kind}": f"{k}.0.{kind}"
                                        for k in range(len(self)) for kind in ("weight", "bias")})
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class MaskRCNNPredictor(nn.Sequential):
    """Twice the size, then a logit for each pixel and class."""

    def __init__(self, in_channels, dim_reduced, num_classes):
        super().__init__()
        self.conv5_mask = nn.ConvTranspose2d(in_channels, dim_reduced, 2, 2, 0)
        self.relu = nn.ReLU(inplace=True)
        self.mask_fcn_logits = nn.Conv2d(dim_reduced, num_classes, 1, 1, 0)
        for layer in (self.conv5_mask, self.mask_fcn_logits):
            he_fan_out(layer.weight)


class MaskRCNN(FasterRCNN):
    """FasterRCNN with masks: targets have "masks" [n, height, width], detections masks [n, 1, height, width] of
    probabilities."""

    def __init__(self, backbone, num_classes=None, min_size=800, max_size=1333, image_mean=None, image_std=None,
                 rpn_anchor_generator=None, rpn_head=None, rpn_pre_nms_top_n_train=2000, rpn_pre_nms_top_n_test=1000,
                 rpn_post_nms_top_n_train=2000, rpn_post_nms_top_n_test=1000, rpn_nms_thresh=0.7,
                 rpn_fg_iou_thresh=0.7, rpn_bg_iou_thresh=0.3, rpn_batch_size_per_image=256, rpn_positive_fraction=0.5,
                 rpn_score_thresh=0.0, box_roi_pool=None, box_head=None, box_predictor=None, box_score_thresh=0.05,
                 box_nms_thresh=0.5, box_detections_per_img=100, box_fg_iou_thresh=0.5, box_bg_iou_thresh=0.5,
                 box_batch_size_per_image=512, box_positive_fraction=0.25, bbox_reg_weights=None, mask_roi_pool=None,
                 mask_head=None, mask_predictor=None, **kwargs):
        if num_classes is not None and mask_predictor is not None:
            raise ValueError(f"MaskRCNN: a mask_predictor of your own has the classes; leave out "
                             f"num_classes={num_classes}")
        channels = backbone.out_channels
        mask_roi_pool = mask_roi_pool if mask_roi_pool is not None else pooler(14)
        mask_head = mask_head if mask_head is not None else MaskRCNNHeads(channels, (256, 256, 256, 256), 1)
        if mask_predictor is None:
            mask_predictor = MaskRCNNPredictor(256, 256, num_classes)
        super().__init__(backbone, num_classes, min_size, max_size, image_mean, image_std, rpn_anchor_generator,
                         rpn_head, rpn_pre_nms_top_n_train, rpn_pre_nms_top_n_test, rpn_post_nms_top_n_train,
                         rpn_post_nms_top_n_test, rpn_nms_thresh, rpn_fg_iou_thresh, rpn_bg_iou_thresh,
                         rpn_batch_size_per_image, rpn_positive_fraction, rpn_score_thresh, box_roi_pool, box_head,
                         box_predictor, box_score_thresh, box_nms_thresh, box_detections_per_img, box_fg_iou_thresh,
                         box_bg_iou_thresh, box_batch_size_per_image, box_positive_fraction, bbox_reg_weights, **kwargs)
        self.roi_heads.mask_roi_pool, self.roi_heads.mask_head = mask_roi_pool, mask_head
        self.roi_heads.mask_predictor = mask_predictor


@detector(MaskRCNN_ResNet50_FPN_Weights, RESNET, eps=0.0)
def maskrcnn_resnet50_fpn(weights, trained, layers, num_classes, progress, **kwargs):
    """Mask R-CNN on a pyramid of ResNet-50   (He et al. 2017). kwargs: those of MaskRCNN."""
    return MaskRCNN(resnet_pyramid(weights, trained, layers, progress), num_classes=num_classes, **kwargs)


@detector(MaskRCNN_ResNet50_FPN_V2_Weights, RESNET_V2)
def maskrcnn_resnet50_fpn_v2(weights, _, layers, num_classes, progress, **kwargs):
    """Mask R-CNN with more layers in its heads, all of them normalised   (Li et al. 2021)."""
    parts = second_version(weights, layers, num_classes, progress)
    mask_head = MaskRCNNHeads(parts["backbone"].out_channels, [256] * 4, 1, norm_layer=nn.BatchNorm2d)
    return MaskRCNN(**parts, mask_head=mask_head, **kwargs)
