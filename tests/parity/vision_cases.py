"""Transforms of pictures that both libraries run: expressions in T (classes), F (functions) and x (the picture).

`python vision_cases.py FOLDER OUT` runs them with PyTorch and torchvision and writes what came out; the comparison
imports this file and runs them with Flambeau.
"""

import pickle
import sys
import warnings
from pathlib import Path

#: what works in v1 and v2, on PIL pictures and tensors
BOTH = """
F.resize(x, [50, 70])
F.resize(x, 60)
F.resize(x, [64], max_size=80)
F.resize(x, [300, 400])
F.resize(x, [50, 70], interpolation=M.NEAREST)
F.resize(x, [50, 70], interpolation=M.NEAREST_EXACT)
F.resize(x, [50, 70], interpolation=M.BICUBIC)
F.resize(x, [200, 300], interpolation=M.BICUBIC)
F.resize(x, [50, 70], antialias=False)
F.resize(x, [50, 70], interpolation=M.BICUBIC, antialias=False)
F.pad(x, 5)
F.pad(x, [5, 9], fill=3)
F.pad(x, [1, 2, 3, 4], padding_mode="edge")
F.pad(x, [1, 2, 3, 4], padding_mode="reflect")
F.pad(x, [1, 2, 3, 4], padding_mode="symmetric")
F.pad(x, [-3, 4, -2, 5])
F.crop(x, 10, 20, 30, 40)
F.crop(x, -5, -6, 300, 310)
F.center_crop(x, [40, 50])
F.center_crop(x, [300, 301])
F.center_crop(x, 31)
F.resized_crop(x, 10, 20, 60, 50, [32, 32])
F.hflip(x)
F.vflip(x)
F.five_crop(x, [32, 40])
F.ten_crop(x, [32, 40])
F.ten_crop(x, 32, vertical_flip=True)
F.perspective(x, [[0, 0], [99, 0], [99, 79], [0, 79]], [[5, 3], [90, 8], [93, 70], [4, 75]])
F.perspective(x, [[0, 0], [99, 0], [99, 79], [0, 79]], [[5, 3], [90, 8], [93, 70], [4, 75]], fill=[7.0])
F.perspective(x, [[0, 0], [99, 0], [99, 79], [0, 79]], [[5, 3], [90, 8], [93, 70], [4, 75]], M.NEAREST)
F.adjust_brightness(x, 1.4)
F.adjust_brightness(x, 0.3)
F.adjust_contrast(x, 1.7)
F.adjust_contrast(x, 0.2)
F.adjust_saturation(x, 1.9)
F.adjust_saturation(x, 0.0)
F.adjust_hue(x, 0.21)
F.adjust_hue(x, -0.37)
F.adjust_gamma(x, 0.7)
F.adjust_gamma(x, 2.2, gain=0.9)
F.adjust_sharpness(x, 2.0)
F.adjust_sharpness(x, 0.4)
F.rotate(x, 30)
F.rotate(x, 90)
F.rotate(x, -17.5, expand=True)
F.rotate(x, 33, interpolation=M.BILINEAR, fill=[4.0])
F.rotate(x, 33, center=[10, 20])
F.rotate(x, 45, M.BILINEAR, expand=True, fill=[9.0])
F.affine(x, 20.0, [5, -7], 1.2, [10.0])
F.affine(x, -33.0, [5, 7], 0.8, [10.0, 4.0], interpolation=M.BILINEAR)
F.affine(x, 12.0, [0, 0], 1.0, [0.0, 0.0], interpolation=M.BILINEAR, fill=[12.0])
F.affine(x, 12.0, [3, 1], 1.0, [0.0, 0.0], center=[3, 9])
F.rgb_to_grayscale(x)
F.rgb_to_grayscale(x, num_output_channels=3)
F.gaussian_blur(x, 5)
F.gaussian_blur(x, [3, 7], [0.7, 1.9])
F.gaussian_blur(x, [9, 9], sigma=2.0)
F.invert(x)
F.posterize(x, 3)
F.solarize(x, 120 if isinstance(x, P) or not x.is_floating_point() else 0.47)
F.autocontrast(x)
F.equalize(x)
F.get_dimensions(x)
F.get_image_size(x)
F.elastic_transform(x, torch.rand(1, *hw, 2) * 0.2 - 0.1)
F.elastic_transform(x, torch.rand(1, *hw, 2) * 0.2 - 0.1, interpolation=M.NEAREST, fill=[3.0])
T.Compose([T.Resize(60), T.CenterCrop(50)])(x)
T.Resize([40, 30])(x)
T.CenterCrop(45)(x)
T.Pad([3, 4], fill=8)(x)
T.Lambda(lambda y: y)(x)
T.RandomApply([T.RandomHorizontalFlip(), T.RandomVerticalFlip()], p=0.6)(x)
T.RandomOrder([T.RandomHorizontalFlip(), T.RandomRotation(20)])(x)
T.RandomChoice([T.RandomHorizontalFlip(1), T.RandomVerticalFlip(1), T.RandomRotation(20)])(x)
T.RandomCrop(40)(x)
T.RandomCrop([40, 50], padding=4)(x)
T.RandomCrop(130, pad_if_needed=True, fill=2)(x)
T.RandomCrop(48, padding=[3, 5], padding_mode="reflect")(x)
T.RandomHorizontalFlip()(x)
T.RandomVerticalFlip(0.4)(x)
T.RandomResizedCrop(48)(x)
T.RandomResizedCrop([30, 50], scale=(0.3, 0.6), ratio=(0.9, 1.1), interpolation=M.BICUBIC)(x)
T.RandomResizedCrop(48, scale=(5.0, 6.0))(x)
T.FiveCrop(30)(x)
T.TenCrop(30)(x)
T.RandomPerspective(0.4, p=0.8)(x)
T.RandomRotation(40)(x)
T.RandomRotation((10, 50), interpolation=M.BILINEAR, expand=True, fill=5)(x)
T.RandomAffine(25, translate=(0.1, 0.2), scale=(0.8, 1.3), shear=12)(x)
T.RandomAffine(25, shear=(-8, 8, -4, 4), interpolation=M.BILINEAR, fill=9)(x)
T.RandomAffine(0, translate=(0.3, 0.3))(x)
T.ColorJitter(0.4, 0.3, 0.2, 0.1)(x)
T.ColorJitter(brightness=(0.5, 1.1))(x)
T.ColorJitter(hue=0.4, saturation=0.5)(x)
T.Grayscale()(x)
T.Grayscale(3)(x)
T.RandomGrayscale(0.6)(x)
T.GaussianBlur(5)(x)
T.GaussianBlur((5, 9), sigma=(0.5, 3.0))(x)
T.RandomInvert(0.6)(x)
T.RandomPosterize(2, 0.7)(x)
T.RandomSolarize(100 if isinstance(x, P) or not x.is_floating_point() else 0.4, 0.7)(x)
T.RandomAdjustSharpness(1.8, 0.7)(x)
T.RandomAutocontrast(0.6)(x)
T.RandomEqualize(0.6)(x)
T.ElasticTransform(40.0, 4.0)(x)
T.ElasticTransform(80.0, fill=3)(x)
T.AutoAugment()(x)
T.AutoAugment(T.AutoAugmentPolicy.CIFAR10)(x)
T.AutoAugment(T.AutoAugmentPolicy.SVHN, fill=128)(x)
T.RandAugment()(x)
T.RandAugment(3, 20, interpolation=M.BILINEAR)(x)
T.TrivialAugmentWide()(x)
T.TrivialAugmentWide(fill=[7.0], interpolation=M.BILINEAR)(x)
T.AugMix()(x)
T.AugMix(5, 2, 3, 0.5, all_ops=False)(x)
""".strip().splitlines()
PICTURES = """
F.to_tensor(x)
F.pil_to_tensor(x)
T.ToTensor()(x)
T.PILToTensor()(x)
F.to_grayscale(x)
F.to_grayscale(x, 3)
T.Compose([T.RandomResizedCrop(48), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([.4], [.3])])(x)
T.Compose([T.RandomCrop(48, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([.4] * 3, [.2] * 3)])(x)
T.Compose([T.Resize(48), T.CenterCrop(40), T.PILToTensor(), T.ConvertImageDtype(torch.float32)])(x)
""".strip().splitlines()
TENSORS = """
F.to_pil_image(x)
T.ToPILImage()(x)
F.normalize(F.convert_image_dtype(x, torch.float32), [0.4, 0.5, 0.6], [0.2, 0.3, 0.25])
T.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.25])(F.convert_image_dtype(x, torch.float64))
F.convert_image_dtype(x, torch.float32)
F.convert_image_dtype(x, torch.uint8)
F.convert_image_dtype(x, torch.int16)
F.convert_image_dtype(F.convert_image_dtype(x, torch.uint8), torch.int64)
F.convert_image_dtype(F.convert_image_dtype(x, torch.int16), torch.uint8)
F.convert_image_dtype(x, torch.float64)
T.ConvertImageDtype(torch.float16)(x)
F.erase(x, 5, 6, 20, 30, torch.zeros((), dtype=x.dtype))
F.erase(x, 5, 6, 20, 30, torch.arange(3, dtype=x.dtype)[:, None, None])
T.RandomErasing(0.8)(x)
T.RandomErasing(1.0, value=3)(x)
T.RandomErasing(1.0, value=(1, 2, 3))(x)
T.RandomErasing(1.0, value="random")(F.convert_image_dtype(x, torch.float32))
T.RandomErasing(1.0, scale=(0.9, 1.0), ratio=(5.0, 6.0))(x)
T.LinearTransformation(torch.eye(3 * 8 * 8) * 0.5, torch.ones(3 * 8 * 8))(x.double().float()[:, :8, :8].contiguous())
T.RandomCrop(40)(torch.stack([x, x]))
T.RandomRotation(30)(torch.stack([x, x]))
F.resize(torch.stack([x, x]), [30, 40])
F.adjust_hue(torch.stack([x, x]), 0.3)
F.gaussian_blur(torch.stack([x, x]), 3)
F.equalize(torch.stack([x, x.flip(-1)]))
F.autocontrast(torch.stack([x, x // 2]))
""".strip().splitlines()
V2 = """
T.RandomResize(30, 60)(x)
T.RandomShortestSize([30, 40, 50], max_size=64)(x)
T.ScaleJitter((60, 60))(x)
T.RandomZoomOut(p=0.8)(x)
T.RandomZoomOut(fill=9, side_range=(1.5, 3.0), p=1.0)(x)
T.RandomPhotometricDistort(p=0.7)(x)
T.RandomChannelPermutation()(x)
T.JPEG((20, 80))(x)
T.RGB()(x)
T.Identity()(x)
T.ToImage()(x)
T.ToPILImage()(T.ToImage()(x))
T.ToDtype(torch.float32, scale=True)(T.ToImage()(x))
T.ToDtype(torch.float64)(T.ToImage()(x))
T.GaussianNoise()(F.to_dtype(F.to_image(x), torch.float32, scale=True))
T.GaussianNoise(0.1, 0.3, clip=False)(F.to_dtype(F.to_image(x), torch.float32, scale=True))
T.GaussianNoise(0.05)(F.to_dtype(F.to_image(x), torch.uint8, scale=True))
T.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.25])(F.to_dtype(F.to_image(x), torch.float32, scale=True))
T.Resize(None, max_size=64)(x)
F.permute_channels(F.to_image(x), [2, 0, 1])
F.grayscale_to_rgb(F.rgb_to_grayscale(x))
F.get_size(x)
F.horizontal_flip(x)
F.vertical_flip(x)
F.uniform_temporal_subsample(V.Video(torch.stack([F.pil_to_tensor(x) if isinstance(x, P) else x] * 7)), 3)
T.UniformTemporalSubsample(4)(V.Video(torch.arange(7 * 3 * 4 * 4).view(7, 3, 4, 4)))
T.RandomErasing(1.0)(F.to_image(x))
T.Compose([T.ToImage(), T.RandomResizedCrop(48), T.RandomHorizontalFlip(), T.ToDtype(torch.float32, scale=True)])(x)
""".strip().splitlines()
#: v2 on a sample of an image, boxes, a mask, key points and a label
SAMPLES = """
T.Resize([50, 60])(s)
T.Resize(40, max_size=50)(s)
T.CenterCrop(60)(s)
T.CenterCrop(200)(s)
T.Pad([3, 4, 5, 6], fill={V.Image: 3, V.Mask: 1, "others": 0})(s)
T.RandomCrop(50)(s)
T.RandomCrop(130, pad_if_needed=True)(s)
T.RandomHorizontalFlip(1.0)(s)
T.RandomVerticalFlip(1.0)(s)
T.RandomResizedCrop(48)(s)
T.RandomRotation(40)(s)
T.RandomRotation(40, expand=True)(s)
T.RandomAffine(25, translate=(0.1, 0.2), scale=(0.8, 1.3), shear=12)(s)
T.RandomPerspective(0.4, p=1.0)(s)
T.ElasticTransform(40.0, 4.0)(s)
T.RandomZoomOut(p=1.0)(s)
T.RandomIoUCrop()(s)
T.SanitizeBoundingBoxes()(T.RandomIoUCrop()(s))
T.SanitizeBoundingBoxes(min_size=30, labels_getter=lambda q: q["labels"])(s)
T.ScaleJitter((60, 60))(s)
T.RandomShortestSize(40)(s)
T.RandomResize(20, 90)(s)
T.RandomPhotometricDistort()(s)
T.ColorJitter(0.4, 0.3, 0.2, 0.1)(s)
T.ClampBoundingBoxes()(s)
T.ClampKeyPoints()(s)
T.ConvertBoundingBoxFormat("CXCYWH")(s)
T.ConvertBoundingBoxFormat("XYWH")(s)
T.RandomApply([T.RandomHorizontalFlip(1.0)], p=0.5)(s)
T.ToDtype({V.Image: torch.float32, V.Mask: torch.int64, "others": None}, scale=True)(s)
T.ToPureTensor()(s)
T.GaussianBlur(3)(s)
T.RandomErasing(1.0)({k: v for k, v in s.items() if k in ("image", "labels")})
T.Compose([T.RandomCrop(60), T.RandomHorizontalFlip(), T.SanitizeBoundingBoxes()])(s)
T.SetClampingMode("hard")(s)
T.RandomGrayscale(1.0)(s)
T.Lambda(lambda q: q + 1, V.Mask)(s)
T.TrivialAugmentWide()({k: v for k, v in s.items() if k in ("image", "labels")})
T.RandAugment()({k: v for k, v in s.items() if k in ("image", "labels")})
T.CutMix(num_classes=10)(torch.stack([s["image"]] * 4).float(), torch.arange(4))
T.MixUp(num_classes=10)(torch.stack([s["image"]] * 4).float(), torch.arange(4))
T.MixUp(alpha=0.4)(torch.stack([s["image"]] * 4).float(), torch.eye(4))
T.CutMix(alpha=0.4, num_classes=5)({"images": torch.stack([s["image"]] * 4), "labels": torch.arange(4)})
""".strip().splitlines()
BOXES = """
F.convert_bounding_box_format(b, new_format="XYXY")
F.convert_bounding_box_format(b, new_format="XYWH")
F.convert_bounding_box_format(b, new_format="CXCYWH")
F.clamp_bounding_boxes(b)
F.resize(b, [50, 60])
F.crop(b, 10, 12, 50, 40)
F.center_crop(b, [50, 40])
F.pad(b, [3, 4, 5, 6])
F.hflip(b)
F.vflip(b)
F.rotate(b, 30)
F.rotate(b, 30, expand=True)
F.rotate(b, 20, center=[5.0, 7.0])
F.affine(b, 20.0, [5, -7], 1.2, [10.0, 3.0])
F.perspective(b, [[0, 0], [99, 0], [99, 79], [0, 79]], [[5, 3], [90, 8], [93, 70], [4, 75]])
F.elastic(b, torch.rand(1, 80, 100, 2) * 0.2 - 0.1)
F.resized_crop(b, 5, 6, 50, 60, [32, 30])
F.get_size(b)
""".strip().splitlines()
ROTATED = """
F.convert_bounding_box_format(b, new_format="XYXYXYXY")
F.convert_bounding_box_format(b, new_format="XYWHR")
F.convert_bounding_box_format(b, new_format="CXCYWHR")
""".strip().splitlines()
DRAWS = ("Random", "Jitter", "Aug", "Elastic", "elastic", "Blur", "Mix", "Noise", "JPEG")
SIZE = (100, 80)  # width, height: every photo is brought to it


def photos(folder, count):
    """{name: a PIL picture} of the files that Pillow reads."""
    from PIL import Image
    found = {}
    for path in sorted(Path(folder).iterdir()):
        if path.suffix in (".jpg", ".png") and len(found) < count:
            found[path.name] = Image.open(path).convert("RGB").resize(SIZE)
    return found


def plain(value):
    """What came out as data: arrays, numbers, names of kinds."""
    import numpy as np
    if hasattr(value, "getbands"):
        return ("PIL", value.mode, np.asarray(value).copy())
    if hasattr(value, "detach"):
        kind = type(value).__name__.replace("Parameter", "Tensor")
        extra = [str(getattr(value, name)).replace("flambeau", "torch") for name in
                 ("format", "canvas_size", "clamping_mode") if hasattr(value, name)]
        return (kind, str(value.dtype).rpartition(".")[2], *extra, value.detach().numpy().copy())
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def sample(torch, vision, picture):
    """A picture with everything that can be said about it."""
    V, F = vision.tv_tensors, vision.transforms.functional
    boxes = torch.tensor([[5.0, 6.0, 40.0, 50.0], [30.0, 20.0, 95.0, 79.0], [50.0, 60.0, 52.0, 61.0]])
    return {"image": V.Image(F.pil_to_tensor(picture)), "labels": torch.tensor([4, 7, 1]), "name": "a",
            "boxes": V.BoundingBoxes(boxes, format="XYXY", canvas_size=(80, 100)),
            "mask": V.Mask((torch.arange(80 * 100).view(1, 80, 100) // 997 % 3).to(torch.uint8)),
            "points": V.KeyPoints(torch.tensor([[3.0, 4.0], [60.5, 70.25], [99.0, 1.0]]), canvas_size=(80, 100))}


def boxes(torch, vision):
    """Boxes in every format that has sides along the axes, floats and integers."""
    V = vision.tv_tensors
    for name, rows in (("XYXY", [[5.0, 6, 40, 50], [30, 20, 95, 79]]), ("XYWH", [[5.0, 6, 35, 44], [30, 20, 65, 59]]),
                       ("CXCYWH", [[22.0, 28, 34, 44], [62, 50, 64, 58]])):
        for dtype in (torch.float32, torch.int64):
            yield f"{name} {str(dtype).rpartition('.')[2]}", V.BoundingBoxes(
                torch.tensor(rows).to(dtype), format=name, canvas_size=(80, 100))


def rotated(torch, vision):
    V = vision.tv_tensors
    for name, rows in (("XYWHR", [[5.0, 6, 35, 44, 20], [30, 20, 60, 50, -35]]),
                       ("CXCYWHR", [[22.0, 28, 34, 44, 10], [62, 50, 44, 38, 70]]),
                       ("XYXYXYXY", [[10.0, 10, 40, 20, 35, 45, 5, 35], [50, 40, 70, 45, 68, 60, 48, 55]])):
        yield name, V.BoundingBoxes(torch.tensor(rows), format=name, canvas_size=(80, 100))


def drawn():
    """A picture made by arithmetic, for tests without photographs."""
    import numpy as np
    from PIL import Image
    y, x = np.mgrid[:SIZE[1], :SIZE[0]]
    planes = [(x * x // 7 + y * 3) % 256, (x * 2 + y * y // 5) % 256, (x * y // 11 + 40) % 256]
    return Image.fromarray(np.stack(planes, -1).astype("uint8"))


def digest(value):
    """A short number of what came out; floats are rounded to four digits."""
    import zlib

    import numpy as np
    if isinstance(value, np.ndarray):
        value = (np.round(value, 4) + 0.0 if value.dtype.kind == "f" else value).astype(value.dtype)
        return zlib.crc32(np.ascontiguousarray(value).tobytes(), zlib.crc32(f"{value.dtype}{value.shape}".encode()))
    if isinstance(value, dict):
        value = [(key, value[key]) for key in sorted(value)]
    if isinstance(value, (list, tuple)):
        return zlib.crc32(str([digest(v) for v in value]).encode())
    return zlib.crc32(str(value).encode())


def inputs(torch, vision, pictures):
    """(what it is, version, expressions, the names they use) of everything that is compared."""
    F1 = vision.transforms.functional
    for file, picture in pictures.items():
        gray = picture.convert("L")
        byte = F1.pil_to_tensor(picture)
        kinds = {"PIL": picture, "PIL L": gray, "uint8": byte, "float32": byte.float() / 255}
        for version in ("v1", "v2"):
            for kind, x in kinds.items():
                cases = BOTH + (PICTURES if "PIL" in kind else TENSORS) + (V2 if version == "v2" else [])
                yield (file, version, kind), cases, {"x": x}
        yield (file, "v2", "sample"), SAMPLES, {"s": sample(torch, vision, picture)}
    for name, b in boxes(torch, vision):
        yield ("-", "v2", f"boxes {name}"), BOXES, {"b": b}
    for name, b in rotated(torch, vision):
        yield ("-", "v2", f"boxes {name}"), ROTATED + BOXES[3:], {"b": b}


def evaluate(torch, expression, space, seed):
    import random
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        return plain(eval(expression, space))
    except Exception as error:
        return ("raises", type(error).__name__, str(error)[:200])


def run(torch, vision, pictures, only="", seeds=3, leave=()):
    """{(file, version, kind, expression, seed): what came out}"""
    from PIL import Image
    warnings.simplefilter("ignore")
    results = {}
    for (file, version, kind), cases, names in inputs(torch, vision, pictures):
        if kind in leave or (only and not any(only in f"{version} {kind} {e}" for e in cases)):
            continue
        T = vision.transforms if version == "v1" else vision.transforms.v2
        space = {"torch": torch, "T": T, "F": T.functional, "M": vision.transforms.InterpolationMode, "P": Image.Image,
                 "V": vision.tv_tensors, "hw": (80, 100), **names}
        for expression in cases:
            if only in f"{version} {kind} {expression}":
                draws = any(word in expression for word in DRAWS)
                for seed in range(seeds if draws else 1):
                    results[file, version, kind, expression, seed] = evaluate(torch, expression, space, seed)
    return results


if __name__ == "__main__":
    import torch
    import torchvision
    import torchvision.transforms.v2
    files = {"drawn": drawn()} if sys.argv[1] == "-" else photos(sys.argv[1], int(sys.argv[3]))
    with open(sys.argv[2], "wb") as out:
        pickle.dump(run(torch, torchvision, files, sys.argv[4], int(sys.argv[5])), out)
