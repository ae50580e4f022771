"""Keypoint R-CNN   (He et al. 2017): Faster R-CNN that also finds keypoints of each object."""

from flambeau import nn
from flambeau.nn import functional as F

from .._utils import he_fan_out, init
from ._builders import RESNET, detector, published
from .faster_rcnn import FasterRCNN, pooler, resnet_pyramid

__all__ = ["KeypointRCNN", "KeypointRCNN_ResNet50_FPN_Weights", "keypointrcnn_resnet50_fpn"]

KeypointRCNN_ResNet50_FPN_Weights = published("KeypointRCNN_ResNet50_FPN_Weights", __name__)


class KeypointRCNNHeads(nn.Sequential):
    """Convolutions of the given widths on pooled boxes."""

    def __init__(self, in_channels, layers):
        blocks = []
        for width in layers:
            blocks += [nn.Conv2d(in_channels, width, 3, stride=1, padding=1), nn.ReLU(inplace=True)]
            in_channels = width
        super().__init__(*blocks)
        init(self, conv=he_fan_out, norms=False)


class KeypointRCNNPredictor(nn.Module):
    """A map for each keypoint, of four times the size."""

    def __init__(self, in_channels, num_keypoints):
        super().__init__()
        self.kps_score_lowres = nn.ConvTranspose2d(in_channels, num_keypoints, 4, stride=2, padding=1)
        he_fan_out(self.kps_score_lowres.weight)
        nn.init.zeros_(self.kps_score_lowres.bias)
        self.up_scale, self.out_channels = 2, num_keypoints

    def forward(self, x):
        return F.interpolate(self.kps_score_lowres(x), scale_factor=float(self.up_scale), mode="bilinear",
                             align_corners=False, recompute_scale_factor=False)


class KeypointRCNN(FasterRCNN):
    """FasterRCNN with keypoints: targets have "keypoints" [n, k, 3] (x, y, visibility), and so have detections, with
    their "keypoints_scores" [n, k]."""

    def __init__(self, backbone, num_classes=None, min_size=None, max_size=1333, image_mean=None, image_std=None,
                 rpn_anchor_generator=None, rpn_head=None, rpn_pre_nms_top_n_train=2000, rpn_pre_nms_top_n_test=1000,
                 rpn_post_nms_top_n_train=2000, rpn_post_nms_top_n_test=1000, rpn_nms_thresh=0.7,
                 rpn_fg_iou_thresh=0.7, rpn_bg_iou_thresh=0.3, rpn_batch_size_per_image=256, rpn_positive_fraction=0.5,
                 rpn_score_thresh=0.0, box_roi_pool=None, box_head=None, box_predictor=None, box_score_thresh=0.05,
                 box_nms_thresh=0.5, box_detections_per_img=100, box_fg_iou_thresh=0.5, box_bg_iou_thresh=0.5,
                 box_batch_size_per_image=512, box_positive_fraction=0.25, bbox_reg_weights=None,
                 keypoint_roi_pool=None, keypoint_head=None, keypoint_predictor=None, num_keypoints=None, **kwargs):
        if num_keypoints is not None and keypoint_predictor is not None:
            raise ValueError(f"KeypointRCNN: a keypoint_predictor of your own has the keypoints; leave out "
                             f"num_keypoints={num_keypoints}")
        channels = backbone.out_channels
        keypoint_roi_pool = keypoint_roi_pool if keypoint_roi_pool is not None else pooler(14)
        keypoint_head = keypoint_head if keypoint_head is not None else KeypointRCNNHeads(channels, (512,) * 8)
        if keypoint_predictor is None:
            keypoint_predictor = KeypointRCNNPredictor(512, 17 if num_keypoints is None else num_keypoints)
        super().__init__(backbone, num_classes, min_size or (640, 672, 704, 736, 768, 800), max_size, image_mean,
                         image_std, rpn_anchor_generator, rpn_head, rpn_pre_nms_top_n_train, rpn_pre_nms_top_n_test,
                         rpn_post_nms_top_n_train, rpn_post_nms_top_n_test, rpn_nms_thresh, rpn_fg_iou_thresh,
                         rpn_bg_iou_thresh, rpn_batch_size_per_image, rpn_positive_fraction, rpn_score_thresh,
                         box_roi_pool, box_head, box_predictor, box_score_thresh, box_nms_thresh,
                         box_detections_per_img, box_fg_iou_thresh, box_bg_iou_thresh, box_batch_size_per_image,
                         box_positive_fraction, bbox_reg_weights, **kwargs)
        self.roi_heads.keypoint_roi_pool, self.roi_heads.keypoint_head = keypoint_roi_pool, keypoint_head
        self.roi_heads.keypoint_predictor = keypoint_predictor


@detector(KeypointRCNN_ResNet50_FPN_Weights, RESNET, eps=0.0, classes=2, num_keypoints=(17, 17))
def keypointrcnn_resnet50_fpn(weights, trained, layers, num_classes, progress, **kwargs):
    """Keypoint R-CNN on a pyramid of ResNet-50   (He et al. 2017). kwargs: those of KeypointRCNN."""
    return KeypointRCNN(resnet_pyramid(weights, trained, layers, progress), num_classes, **kwargs)
