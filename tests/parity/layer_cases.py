"""Layers and inputs of the parity test; run as a script it writes results, gradients and buffers to an .npz file.

An input is a shape (normal numbers that want a gradient) or (kind, shape): pos, unit, sign, or int:n (below n).
"""

import importlib
import sys
import warnings

import numpy as np

CASES = [
    ("Linear(5,3)", [(4, 5)]),
    ("Linear(5,3)", [(2, 4, 5)]),
    ("Bilinear(2,3,4)", [(5, 2), (5, 3)]),
    ("Conv1d(2,4,3,stride=2)", [(2, 2, 9)]),
    ("Conv2d(4,8,3,padding=1,groups=2)", [(2, 4, 6, 6)]),
    ("Conv2d(4,8,(3,5),stride=2,dilation=(1,2),bias=False)", [(2, 4, 9, 13)]),
    ("Conv2d(4,4,3,padding='same',padding_mode='reflect')", [(2, 4, 6, 6)]),
    ("Conv2d(4,4,3)", [(4, 6, 6)]),
    ("Conv3d(2,4,3,padding=(1,0,2),padding_mode='circular')", [(1, 2, 5, 5, 5)]),
    ("ConvTranspose1d(2,4,3,stride=2,output_padding=1)", [(2, 2, 5)]),
    ("ConvTranspose2d(4,6,3,groups=2,stride=2,padding=1,dilation=2)", [(2, 4, 5, 5)]),
    ("ConvTranspose3d(2,4,3)", [(1, 2, 3, 3, 3)]),
    ("BatchNorm1d(3)", [(6, 3)]),
    ("BatchNorm1d(3)", [(6, 3, 4)]),
    ("BatchNorm2d(3,affine=False)", [(2, 3, 4, 4)]),
    ("BatchNorm2d(3).eval()", [(2, 3, 4, 4)]),
    ("BatchNorm3d(3,track_running_stats=False,momentum=None)", [(2, 3, 2, 2, 2)]),
    ("BatchNorm2d(3,momentum=None)", [(2, 3, 4, 4)]),
    ("LayerNorm((3,4))", [(2, 3, 4)]),
    ("LayerNorm(3,bias=False)", [(4, 3)]),
    ("RMSNorm(3)", [(4, 3)]),
    ("GroupNorm(2,4)", [(2, 4, 3, 3)]),
    ("InstanceNorm1d(3)", [(2, 3, 5)]),
    ("InstanceNorm2d(3,affine=True,track_running_stats=True)", [(2, 3, 4, 4)]),
    ("InstanceNorm2d(3,affine=True,track_running_stats=True).eval()", [(2, 3, 4, 4)]),
    ("LocalResponseNorm(2)", [(2, 4, 3, 3)]),
    ("LocalResponseNorm(3)", [(2, 4, 3)]),
    ("PReLU(3)", [(2, 3, 4)]),
    ("ReLU()", [(3, 4)]),
    ("ReLU6()", [(3, 4)]),
    ("ELU(0.5)", [(3, 4)]),
    ("CELU(0.5)", [(3, 4)]),
    ("SELU()", [(3, 4)]),
    ("GELU()", [(3, 4)]),
    ("GELU('tanh')", [(3, 4)]),
    ("SiLU()", [(3, 4)]),
    ("Mish()", [(3, 4)]),
    ("Hardswish()", [(3, 4)]),
    ("Hardsigmoid()", [(3, 4)]),
    ("Hardtanh(-.5,.5)", [(3, 4)]),
    ("LeakyReLU(.2)", [(3, 4)]),
    ("LogSigmoid()", [(3, 4)]),
    ("Softplus(2,1)", [(3, 4)]),
    ("Softsign()", [(3, 4)]),
    ("Tanhshrink()", [(3, 4)]),
    ("Hardshrink()", [(3, 4)]),
    ("Softshrink()", [(3, 4)]),
    ("Threshold(.1,2.)", [(3, 4)]),
    ("RReLU().eval()", [(3, 4)]),
    ("GLU()", [(3, 4)]),
    ("Softmax(1)", [(3, 4)]),
    ("LogSoftmax(0)", [(3, 4)]),
    ("Softmin(1)", [(3, 4)]),
    ("Softmax2d()", [(2, 3, 2, 2)]),
    ("Sigmoid()", [(3, 4)]),
    ("Tanh()", [(3, 4)]),
    ("MaxPool1d(2)", [(2, 3, 7)]),
    ("MaxPool2d((2,3),stride=1,padding=1)", [(2, 3, 7, 7)]),
    ("MaxPool2d(3,2,ceil_mode=True,dilation=2)", [(2, 3, 9, 9)]),
    ("MaxPool3d(2)", [(1, 2, 4, 4, 4)]),
    ("AvgPool1d(2,ceil_mode=True)", [(2, 3, 7)]),
    ("AvgPool2d(3,2,padding=1,count_include_pad=False)", [(2, 3, 7, 7)]),
    ("AvgPool2d(2,divisor_override=3)", [(2, 3, 6, 6)]),
    ("AvgPool3d(2,ceil_mode=True)", [(1, 2, 5, 5, 5)]),
    ("AdaptiveAvgPool1d(3)", [(2, 3, 7)]),
    ("AdaptiveAvgPool2d((2,None))", [(2, 3, 7, 5)]),
    ("AdaptiveAvgPool3d(2)", [(1, 2, 5, 4, 3)]),
    ("AdaptiveMaxPool1d(2)", [(2, 3, 7)]),
    ("AdaptiveMaxPool2d(3)", [(2, 3, 7, 5)]),
    ("AdaptiveMaxPool3d(2)", [(1, 2, 5, 4, 3)]),
    ("LPPool1d(2,3)", [(2, 3, 7)]),
    ("LPPool2d(2,2)", [(2, 3, 6, 6)]),
    ("ConstantPad2d(1,2.5)", [(2, 3, 4, 4)]),
    ("ZeroPad2d((1,2,3,-1))", [(2, 3, 4, 4)]),
    ("ReflectionPad1d(1)", [(2, 3, 4)]),
    ("ReflectionPad3d(1)", [(1, 2, 3, 3, 3)]),
    ("CircularPad3d(2)", [(1, 2, 3, 3, 3)]),
    ("ReplicationPad2d(2)", [(2, 3, 4, 4)]),
    ("Upsample(scale_factor=2)", [(1, 2, 3, 3)]),
    ("Upsample(size=(5,7),mode='bilinear',align_corners=True)", [(1, 2, 3, 3)]),
    ("Upsample(scale_factor=1.7,mode='bilinear')", [(1, 2, 3, 3)]),
    ("Upsample(scale_factor=2,mode='bicubic')", [(1, 2, 4, 4)]),
    ("Upsample(scale_factor=2,mode='linear')", [(1, 2, 4)]),
    ("Upsample(scale_factor=2,mode='trilinear')", [(1, 2, 3, 3, 3)]),
    ("Upsample(scale_factor=.6,mode='nearest-exact')", [(1, 2, 5, 5)]),
    ("PixelShuffle(2)", [(1, 8, 3, 3)]),
    ("PixelUnshuffle(2)", [(1, 2, 4, 4)]),
    ("ChannelShuffle(2)", [(1, 4, 2, 2)]),
    ("CosineSimilarity()", [(4, 3), (4, 3)]),
    ("PairwiseDistance()", [(4, 3), (4, 3)]),
    ("PairwiseDistance(1.,keepdim=True)", [(4, 3), (4, 3)]),
    ("Fold((4,5),2)", [(2, 8, 12)]),
    ("Unfold(2,padding=1,stride=2)", [(2, 2, 4, 5)]),
    ("Flatten()", [(2, 3, 4)]),
    ("Unflatten(1,(2,5))", [(3, 10)]),
    ("MSELoss()", [(3, 4), (3, 4)]),
    ("L1Loss(reduction='sum')", [(3, 4), (3, 4)]),
    ("SmoothL1Loss(beta=.5)", [(3, 4), (3, 4)]),
    ("HuberLoss(delta=.7)", [(3, 4), (3, 4)]),
    ("KLDivLoss(reduction='batchmean',log_target=True)", [(3, 4), (3, 4)]),
    ("SoftMarginLoss()", [(3, 4), ("sign", (3, 4))]),
    ("TripletMarginLoss(swap=True)", [(3, 4), (3, 4), (3, 4)]),
    ("PoissonNLLLoss(full=True)", [(3, 4), ("pos", (3, 4))]),
    ("GaussianNLLLoss(full=True)", [(3, 4), (3, 4), ("pos", (3, 4))]),
    ("CrossEntropyLoss()", [(5, 4), ("int:4", (5,))]),
    ("CrossEntropyLoss(torch.tensor([1.,2.,3.,.5]),label_smoothing=.1)", [(5, 4), ("int:4", (5,))]),
    ("CrossEntropyLoss(label_smoothing=.1)", [(5, 4, 3), ("int:4", (5, 3))]),
    ("CrossEntropyLoss(ignore_index=1,reduction='sum')", [(5, 4), ("int:4", (5,))]),
    ("CrossEntropyLoss()", [(5, 4), ("pos", (5, 4))]),
    ("NLLLoss(torch.tensor([1.,2.,3.,.5]))", [(5, 4), ("int:4", (5,))]),
    ("BCEWithLogitsLoss(pos_weight=torch.tensor([1.,2.,3.,.5]))", [(5, 4), ("unit", (5, 4))]),
    ("BCELoss()", [("unit", (5, 4)), ("unit", (5, 4))]),
    ("MultiMarginLoss(p=2)", [(5, 4), ("int:4", (5,))]),
    ("MultiLabelSoftMarginLoss()", [(5, 4), ("unit", (5, 4))]),
    ("HingeEmbeddingLoss()", [(5,), ("sign", (5,))]),
    ("CosineEmbeddingLoss(.1)", [(5, 4), (5, 4), ("sign", (5,))]),
    ("MarginRankingLoss(.1)", [(5,), (5,), ("sign", (5,))]),
    ("Embedding(5,3,padding_idx=1)", [("int:5", (2, 4))]),
    ("Embedding(5,3,scale_grad_by_freq=True)", [("int:5", (2, 4))]),
    ("Embedding(5,3,max_norm=1.)", [("int:5", (2, 4))]),
    (
        "Sequential(nn.Conv2d(1,4,3,padding=1),nn.BatchNorm2d(4),nn.ReLU(True),"
        "nn.MaxPool2d(2),nn.Flatten(),nn.Dropout(.3),nn.Linear(64,10))",
        [(3, 1, 8, 8)],
    ),
]


def make(torch, spec):
    if not isinstance(spec[0], str):
        return torch.randn(spec).requires_grad_()
    kind, _, below = spec[0].partition(":")
    if kind == "int":
        return torch.randint(0, int(below), spec[1])
    u = torch.rand(spec[1])
    return {"pos": u + 0.1, "unit": u * 0.9 + 0.05, "sign": (u > 0.5).float() * 2 - 1}[kind]


def run(torch, call, specs):
    """[result, gradients of inputs and parameters, buffers] of one layer built and fed after seed 3."""
    torch.manual_seed(3)
    layer = eval(f"nn.{call}", {"nn": torch.nn, "torch": torch})
    inputs = [make(torch, spec) for spec in specs]
    result = layer(*inputs)
    weight = torch.linspace(0.3, 1.7, max(result.numel(), 2))[: result.numel()].reshape(result.shape)
    if result.requires_grad:
        (result * weight).sum().backward()
    leaves = [t for t in (*inputs, *layer.parameters()) if t.requires_grad]
    return [t.detach().numpy() for t in (result, *(t.grad for t in leaves), *layer.buffers())]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    rows = {f"{k}.{j}": x for k, case in enumerate(CASES) for j, x in enumerate(run(torch, *case))}
    np.savez(sys.argv[1], **rows)
