"""One detector, run by either library: its state, detections, losses and gradients, written to a file.

As a program it is torchvision's side: it reads requests from stdin, one JSON object per line, and answers each with a
line when its file is written. Nothing of Flambeau is needed.
"""

import json
import sys
import warnings

import numpy as np

SIZES = ((3, 90, 120), (3, 110, 70))
BOXES = ([[5, 8, 60, 70], [30, 20, 110, 85], [70, 5, 100, 30]], [[10, 10, 50, 100]])


def images(torch):
    draw = np.random.default_rng(0)
    return [torch.from_numpy(draw.random(size)) for size in SIZES]


def targets(torch):
    """Boxes with labels, masks and keypoints of each image."""
    found = []
    for size, boxes in zip(SIZES, BOXES, strict=True):
        masks = np.zeros((len(boxes), *size[1:]), np.uint8)
        points = np.ones((len(boxes), 17, 3), np.float32)
        for k, (x1, y1, x2, y2) in enumerate(boxes):
            masks[k, y1:(y1 + y2) // 2, x1:x2 - 3] = 1
            points[k, :, 0] = np.linspace(x1, x2, 17)
            points[k, :, 1] = np.linspace(y2, y1, 17)
            points[k, 5, 2] = 0
        found.append({"boxes": torch.tensor(boxes, dtype=torch.float64), "masks": torch.from_numpy(masks),
                      "labels": torch.arange(1, len(boxes) + 1) % 4, "keypoints": torch.from_numpy(points)})
        found[-1]["labels"][0] = 1
        if request_classes[0] == 2:
            found[-1]["labels"].fill_(1)
    return found


request_classes = [5]


def build(torch, models, request):
    torch.manual_seed(0)
    request_classes[0] = request["settings"].get("num_classes", 91)
    return models.get_model(request["name"], weights=None, weights_backbone=None, **request["settings"])


def shapes(torch, models, request):
    """Keys, shapes and dtypes of the model as it is by default."""
    with torch.device("meta"):
        model = models.get_model(request["name"], weights=None, weights_backbone=None)
    return [[key, list(value.shape), str(value.dtype).partition(".")[2]] for key, value in model.state_dict().items()]


def detections(torch, model):
    """What it finds, one array per image and kind; with the statistics of the images, or all scores would be equal."""
    for module in model.modules():
        if hasattr(module, "momentum"):
            module.momentum = 1.0
    torch.manual_seed(2)
    with torch.no_grad():
        model.double().train()(images(torch), targets(torch))
        found = model.eval()(images(torch))
    return {f"{kind} {k}": value.numpy() for k, result in enumerate(found) for kind, value in sorted(result.items())}


def step(torch, model):
    """The losses and the gradient's norm of one training step, with the random numbers of seed 1."""
    torch.manual_seed(1)
    losses = model.double().train()(images(torch), targets(torch))
    sum(losses.values()).backward()
    squares = sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None)
    return {name: float(loss.detach()) for name, loss in losses.items()} | {"gradient": squares ** 0.5}


def serve(torch, models):
    for line in sys.stdin:
        request = json.loads(line)
        model = build(torch, models, request)
        found = {f"weight {key}": value.numpy().copy() for key, value in model.state_dict().items()}
        found |= {f"found {key}": value for key, value in detections(torch, model).items()}
        facts = {"shapes": shapes(torch, models, request), "step": step(torch, build(torch, models, request)),
                 "repr": repr(model)}
        np.savez(request["file"], facts=json.dumps(facts), **found)
        print("done", flush=True)


if __name__ == "__main__":
    import torch
    import torchvision

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    serve(torch, torchvision.models)
