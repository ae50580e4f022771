"""The network of `cifar10` and `folder`: a vision model by name, fed with bytes, and what its weights come from."""

import difflib

import flambeau
import flambeau.nn.functional as F
from flambeau import nn

from .errors import UserError, reason

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # what published weights were trained with
SHIFT = 8  # in training a picture is moved by up to one part in this many


class Classifier(nn.Module):
    """Takes color pictures as bytes [n, 3, height, width]: scales, normalizes and, while it trains, varies them.

    The variation draws from the default random stream, which a checkpoint holds: a continued run draws the same.
    """

    def __init__(self, name, classes, size):
        super().__init__()
        self.name, self.classes, self.size = name, classes, size
        self.model = make_model(name, len(classes), size)
        self.register_buffer("mean", flambeau.tensor(MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", flambeau.tensor(STD).view(3, 1, 1), persistent=False)

    def forward(self, pictures):
        images = pictures.float() / 255
        if images.shape[-1] != self.size:
            images = F.interpolate(images, (self.size, self.size), mode="bilinear", antialias=True)
        images = (images - self.mean) / self.std
        try:
            return self.model(varied(images) if self.training else images)
        except ValueError as error:  # of batch normalization
            if self.training and len(images) == 1:
                raise UserError(f"{self.name} cannot be trained on a batch of one picture, which is what is left for "
                                "the last one: choose another --batch-size") from error
            raise


def varied(images):
    """Every picture flipped or not, and moved by a few pixels; what comes in at the edge is the mirrored edge."""
    count, _, height, width = images.shape
    flip = flambeau.rand(count) < 0.5
    images = flambeau.where(flip.view(-1, 1, 1, 1), images.flip(3), images)
    most = height // SHIFT
    down, right = flambeau.randint(0, 2 * most + 1, (2, count)).tolist()
    padded = F.pad(images, (most,) * 4, mode="reflect")
    return flambeau.stack([picture[:, y:y + height, x:x + width]
                           for picture, y, x in zip(padded, down, right, strict=True)])


def make_model(name, classes, size):
    """A classification model of flambeau.vision with its own random weights."""
    models = flambeau.vision.models  # loaded now: most commands need no vision
    known = models.list_models(module=models)
    if name not in known:
        near = difflib.get_close_matches(name, known, 5) or ["resnet18", "mobilenet_v3_small", "vit_b_16"]
        raise UserError(f"--model {name}: not a classification model; there are, of {len(known)}, {', '.join(near)}")
    options = {"num_classes": classes}
    if name in ("googlenet", "inception_v3"):
        options |= {"aux_logits": False, "init_weights": True}
    elif name.startswith("vit_"):
        options["image_size"] = size
    elif name.startswith("maxvit_"):
        options["input_size"] = (size, size)
    try:
        model = models.get_model(name, **options).eval()
        with flambeau.no_grad():
            model(flambeau.zeros(1, 3, size, size))
    except (RuntimeError, ValueError, AssertionError) as error:
        raise UserError(f"--model {name} takes no pictures of {size} x {size}: choose another --size "
                        f"({reason(error)})") from error
    return model


def load_weights(network, path):
    """Start from a file with the model's names, or from a checkpoint of this command; the tensors that stay new.

    The last layer stays new where the file was trained on another number of classes.
    """
    found = read_weights(path)
    own = network.model.state_dict()
    head = [f"{head_of(network)}.{part}" for part in ("weight", "bias")]
    new = [key for key in head if key in own and (key not in found or found[key].shape != own[key].shape)]
    counters = [key for key in own if key.endswith("num_batches_tracked") and key not in found]  # of no consequence
    auxiliary = ("aux1.", "aux2.", "AuxLogits.")  # outputs for training that the command leaves out
    unknown = [key for key in found if key not in own and not key.startswith(auxiliary)]
    missing = [key for key in own if key not in found and key not in new + counters]
    other = [key for key in own if key in found and key not in new and found[key].shape != own[key].shape]
    for what, keys in (("lacks", missing), ("has what the model has not:", unknown), ("has other sizes for", other)):
        if keys:
            raise UserError(f"{path}: not the weights of {network.name}: it {what} {', '.join(keys[:3])}"
                            + (f" and {len(keys) - 3} more" if len(keys) > 3 else ""))
    network.model.load_state_dict({key: own[key] if key in new + counters else found[key] for key in own})
    return new


def head_of(network):
    """The name of the layer that gives one number for each class: the last one of that many outputs."""
    names = [name for name, layer in network.model.named_modules()
             if len(network.classes) == getattr(layer, "out_features", getattr(layer, "out_channels", None))]
    return names[-1]


def read_weights(path):
    """{name: tensor} of a file of weights, of a checkpoint of the command, or of the usual wrappings."""
    if not path.is_file():
        raise UserError(f"{path}: no such file of weights")
    try:
        content = flambeau.load(path, weights_only=True)
    except Exception as error:  # whatever the reader finds in a damaged file
        raise UserError(f"{path}: not a file of weights, or a damaged one: {reason(error)}") from error
    if isinstance(content, dict) and isinstance(content.get("state"), dict):  # of this command
        content = content["state"].get("network")
        content = {key.removeprefix("model."): value for key, value in dict(content or {}).items()}
    for wrapping in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(wrapping), dict):
            content = content[wrapping]
    if not isinstance(content, dict) or not all(isinstance(value, flambeau.Tensor) for value in content.values()):
        raise UserError(f"{path}: not a file of weights: expected names and tensors (a state_dict)")
    return content
