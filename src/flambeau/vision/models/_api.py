"""The registry of models and of published weights, and what a function that builds a model does with `weights=`."""

import dataclasses
import difflib
import enum
import fnmatch
import functools
import importlib
import inspect
import json
import os
import urllib.error
import warnings as _warnings
from pathlib import Path

from flambeau import hub
from flambeau._shown import shown

BUILTIN_MODELS = {}
_PREFIX = "https://download.pytorch.org/models/"
#: what `pretrained=True` stood for, where it is not the first of the weights
_PRETRAINED = {"Raft_Large_Weights": "C_T_SKHT_V2", "Raft_Small_Weights": "C_T_V2",
               "KeypointRCNN_ResNet50_FPN_Weights": "COCO_V1", "RegNet_Y_128GF_Weights": None,
               "ViT_H_14_Weights": None}


# --- weights ----------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Weights:
    """Published weights: where the file is, what makes the preprocessing, and facts (categories, metrics …)."""

    url: str
    transforms: object
    meta: dict


class WeightsEnum(enum.Enum):
    """The published weights of one model; `DEFAULT` is the best of them.

    >>> weights = flambeau.vision.models.ResNet50_Weights.DEFAULT
    >>> weights, weights.meta["num_params"], weights.meta["categories"][:2]
    (ResNet50_Weights.IMAGENET1K_V2, 25557032, ['tench', 'goldfish'])
    """

    @classmethod
    def verify(cls, obj):
        """`obj` as a member of this class: a member, its name or None; TypeError for anything else."""
        if obj is None or isinstance(obj, cls):
            return obj
        if isinstance(obj, str):
            return cls[obj.removeprefix(cls.__name__ + ".")]
        raise TypeError(f"weights: expected a member of {cls.__name__}, its name or None; got {_named(obj)}")

    def get_state_dict(self, *args, **kwargs):
        """The weights as `hub.load_state_dict_from_url` gives them: downloaded once, then read from the cache."""
        try:
            return hub.load_state_dict_from_url(self.url, *args, **kwargs)
        except urllib.error.URLError as error:
            folder = kwargs.get("model_dir", args[0] if args else None) or os.path.join(hub.get_dir(), "checkpoints")
            raise urllib.error.URLError(
                f"{self}: {self.url} cannot be reached ({error.reason}); without a network, put the file into "
                f"{folder}, from where it is read, or build the model with weights=None") from error

    def __repr__(self):
        return f"{type(self).__name__}.{self.name}"

    def __reduce_ex__(self, protocol):
        return getattr, (type(self), self.name)  # a member travels by its name: its value holds functions

    __str__ = __repr__
    url = property(lambda self: self.value.url)
    transforms = property(lambda self: self.value.transforms)
    meta = property(lambda self: self.value.meta)


def _named(value):
    return str(value) if isinstance(value, enum.Enum) else shown(value)


@functools.cache
def _facts(name):
    """A data file beside this module."""
    return json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))


@functools.cache
def categories(name):
    """The classes of a data set, in the order of the outputs: imagenet, coco, coco_person, voc or kinetics400."""
    return _facts("categories")[name].split("|")


def _preset(kind, **settings):
    """The preprocessing that the weights were trained for; transforms are loaded here, with the first one."""
    transforms = importlib.import_module("flambeau.vision.transforms")
    presets = importlib.import_module("flambeau.vision.transforms._presets")
    if isinstance(settings.get("interpolation"), str):
        settings["interpolation"] = transforms.InterpolationMode(settings["interpolation"])
    return getattr(presets, kind)(**settings)


def _weights(url, preset, settings, meta):
    meta = {key: _READ[key](value) if key in _READ and value else value for key, value in meta.items()}
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    return Weights(url.replace("~/", _PREFIX), functools.partial(_preset, preset, **settings), meta)


#: facts that the file holds in another form
_READ = {"min_size": tuple, "categories": categories, "keypoint_names": categories,
         "unquantized": lambda name: get_weight(name)}


def weights_enum(name, module):
    """The class of a model's published weights, from the data file; `module` is where it is a global."""
    facts = dict(_facts("weights")[name])
    default = facts.pop("DEFAULT")
    members = {key: _weights(*value) for key, value in facts.items()}
    return WeightsEnum(name, members | {"DEFAULT": members[default]}, module=module)


# --- the registry -----------------------------------------------------------------------------------------------------

def register_model(name=None):
    """A decorator: the function builds the model `name` (its own name if None) for `get_model` and `list_models`."""
    def register(function):
        key = function.__name__ if name is None else name
        if key in BUILTIN_MODELS:
            raise ValueError(f"register_model: there is a model {shown(key)} already, "
                             f"of {BUILTIN_MODELS[key].__module__}")
        BUILTIN_MODELS[key] = function
        return function
    return register


def _patterns(given):
    return [given] if isinstance(given, str) else list(given)


def list_models(module=None, include=None, exclude=None):
    """The names of all models, sorted; of one module, or by shell patterns.

    >>> flambeau.vision.models.list_models(include=["vgg*", "resnet*"], exclude="*1*")
    ['resnet34', 'resnet50']
    """
    names = [name for name, function in BUILTIN_MODELS.items()
             if module is None or function.__module__.rpartition(".")[0] == module.__name__]
    if include is not None:
        names = [name for name in names if any(fnmatch.fnmatch(name, p) for p in _patterns(include))]
    if exclude is not None:
        names = [name for name in names if not any(fnmatch.fnmatch(name, p) for p in _patterns(exclude))]
    return sorted(names)


def get_model_builder(name):
    """The function that builds the model of this name; ValueError if there is none."""
    found = BUILTIN_MODELS.get(str(name).lower())
    if found is None:
        near = difflib.get_close_matches(str(name).lower(), BUILTIN_MODELS, 3)
        hint = f"did you mean {' or '.join(near)}?" if near else "list_models() has the names"
        raise ValueError(f"get_model: no model is named {shown(name)}; {hint}")
    return found


def get_model(name, **config):
    """`get_model_builder(name)(**config)`.

    >>> flambeau.vision.models.get_model("squeezenet1_1", weights=None, num_classes=10).num_classes
    10
    """
    return get_model_builder(name)(**config)


def get_model_weights(name):
    """The class of the published weights of a model, named or given by the function that builds it."""
    return _get_enum_from_fn(get_model_builder(name) if isinstance(name, str) else name)


def get_weight(name):
    """The weights of a full name such as "ResNet50_Weights.IMAGENET1K_V2"; "….DEFAULT" is the best."""
    kind, dot, member = str(name).partition(".")
    if not dot:
        raise ValueError(f"get_weight: expected 'CLASS.NAME', as in 'ResNet50_Weights.DEFAULT'; got {shown(name)}")
    for function in BUILTIN_MODELS.values():
        found = _enum_of(function)
        if found is not None and found.__name__ == kind:
            return found[member]
    raise ValueError(f"get_weight: no model has weights of a class {shown(kind)}")


def _enum_of(function):
    """What `builder` noted, or the annotation of `weights` in a function of somebody else's."""
    if hasattr(function, "_weights"):
        return function._weights
    found = inspect.signature(function, eval_str=True).parameters.get("weights")
    candidates = [] if found is None else [found.annotation, *getattr(found.annotation, "__args__", ())]
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, WeightsEnum)), None)


def _get_enum_from_fn(fn):
    found = _enum_of(fn)
    if found is None:
        raise ValueError(f"get_model_weights: {getattr(fn, '__name__', shown(fn))} does not say which weights it "
                         "takes; annotate its parameter `weights` with their class, derived from WeightsEnum")
    return found


# --- functions that build models --------------------------------------------------------------------------------------

def resolve(kind, weights, kwargs, old="pretrained"):
    """The member of `kind` that is asked for; takes the older keyword (`pretrained=True`) out of `kwargs`."""
    if isinstance(weights, bool) or old in kwargs:
        wanted = kwargs.pop(old, weights)
        first = _PRETRAINED.get(kind.__name__, next(iter(kind)).name)
        if wanted and first is None:
            raise ValueError(f"{old}=True: {kind.__name__} has none that it could stand for; choose one of "
                             f"{', '.join(w.name for w in kind)} with {old.replace('pretrained', 'weights')}=")
        _warnings.warn(f"{old}={shown(wanted)} is the older form of {old.replace('pretrained', 'weights')}="
                       f"{f'{kind.__name__}.{first}' if wanted else None}", stacklevel=3)
        return kind[first] if wanted else None
    return kind.verify(weights)


def fix(kwargs, **settings):
    """Adds settings that the model or its weights decide; ValueError where the caller decides otherwise."""
    for name, value in settings.items():
        if kwargs.setdefault(name, value) != value:
            raise ValueError(f"{name} must be {shown(value)} for this model and these weights; "
                             f"got {shown(kwargs[name])}")
    return kwargs


def fill(model, weights, progress=True):
    """Loads the published weights, if any, and gives the model back."""
    if weights is not None:
        model.load_state_dict(weights.get_state_dict(progress=progress, check_hash=True))
    return model


def builder(kind, name=None, weighted=None, loading=None, backbone=None, **fixed):
    """A decorator: from `make(**kwargs)`, a model, to a registered function of `weights`, `progress` and `kwargs`.

    kind: the class of its weights. fixed: settings that make the model what it is. weighted(weights): settings that
    given weights ask for, beside the number of classes. loading((weights, progress), kwargs): makes and fills the model
    where more depends on them. backbone: the class of weights for a part of the model, `weights_backbone`, by default
    its first and none if the whole has weights; make gets them with `progress`.
    """
    def decorate(make):
        @functools.wraps(make)
        def build(*args, weights=None, progress=True, **kwargs):
            weights, progress = _positional(make.__name__, args, weights, progress)
            chosen = resolve(kind, weights, kwargs)
            if backbone is not None:
                part = kwargs.pop("weights_backbone", next(iter(backbone)))
                part = resolve(backbone, part, kwargs, "pretrained_backbone")
                kwargs |= {"weights_backbone": part if chosen is None else None, "progress": progress}
            if chosen is not None and chosen.meta.get("categories"):
                fix(kwargs, num_classes=len(chosen.meta["categories"]))
            if chosen is not None and weighted is not None:
                fix(kwargs, **weighted(chosen))
            if chosen is not None and loading is not None:
                return loading((chosen, progress), kwargs)
            return fill(make(**fix(kwargs, **fixed)), chosen, progress)

        return _advertised(build, make, kind, backbone, name)
    return decorate


def _advertised(build, make, kind, backbone, name):
    """The function with its signature, registered."""
    P = inspect.Parameter
    own = [p for p in inspect.signature(make).parameters.values() if p.name not in ("weights_backbone", "progress")]
    part = [] if backbone is None else [P("weights_backbone", P.KEYWORD_ONLY, default=next(iter(backbone)))]
    common = [P("weights", P.KEYWORD_ONLY, default=None), P("progress", P.KEYWORD_ONLY, default=True)]
    build.__signature__ = inspect.Signature(sorted([*common, *own, *part], key=lambda p: p.kind))
    build._weights = kind
    return register_model(name)(build)


def _positional(name, args, weights, progress):
    """`weights` and `progress`, which older programs give by position."""
    if len(args) > 2:
        raise TypeError(f"{name}: expected keywords (weights, progress, and the model's own); got {len(args)} values "
                        "without a name")
    if args:
        _warnings.warn(f"{name}: give weights and progress by name", stacklevel=3)
    return (*args, *(weights, progress)[len(args):])
