"""Models: parameters and keys are those of a stored table; they train; weights load, are cached, and are refused."""

import copy
import hashlib
import json
import pickle
import urllib.error
import warnings
from pathlib import Path

import pytest

import flambeau
from flambeau import hub, nn
from flambeau.vision import models
from flambeau.vision.models import feature_extraction, segmentation
from flambeau.vision.models._utils import IntermediateLayerGetter, _make_divisible

#: model -> [parameters, entries of the state dict, a digest of their names and shapes]: torchvision's
TABLE = json.loads((Path(__file__).parent / "models.json").read_text())
#: published with other sizes or parts than the model has by default
OTHERWISE = ("fcn", "deeplab", "googlenet", "vit", "regnet_y_128gf")


def built(name, **settings):
    """A model without values, nor weights of its parts."""
    if name.startswith(("fcn_", "deeplabv3_", "lraspp_")):
        settings["weights_backbone"] = None
    with flambeau.device("meta"):
        return models.get_model(name, **settings)


def digest(model):
    rows = [f"{key} {list(value.shape)}" for key, value in model.state_dict().items()]
    found = hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]
    return [sum(p.numel() for p in model.parameters()), len(rows), found]


# --- the table --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", sorted(TABLE))
def test_parameters_and_keys(name):
    model = built(name)
    assert digest(model) == TABLE[name]
    if not name.startswith(OTHERWISE):
        assert TABLE[name][0] == models.get_model_weights(name).DEFAULT.meta["num_params"]


def test_the_table_has_all_models():
    elsewhere = [n for n in models.list_models() if n.startswith("quantized_") or "rcnn" in n]
    others = {n for n in models.list_models() if n.startswith(("retinanet", "ssd", "fcos"))}
    assert set(models.list_models()) - set(elsewhere) - others == set(TABLE)


def test_auxiliary_classifiers_come_with_weights():
    """The published files of FCN and DeepLab have the second classifier."""
    for name in ("fcn_resnet50", "deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large"):
        parameters = sum(p.numel() for p in built(name, aux_loss=True).parameters())
        assert parameters == models.get_model_weights(name).DEFAULT.meta["num_params"]


# --- running ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x0_5", "resnet18", "mnasnet0_5",
                                  "efficientnet_b0", "regnet_x_400mf", "swin_v2_t"])
def test_a_model_runs_and_every_parameter_gets_a_gradient(name):
    flambeau.manual_seed(0)
    model = models.get_model(name, num_classes=3)
    scores = model(flambeau.rand(2, 3, 64, 64))
    assert scores.shape == (2, 3)
    scores.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", ["vit_b_32", "vgg11_bn", "alexnet", "wide_resnet50_2", "maxvit_t", "googlenet"])
def test_shapes_of_scores(name):
    assert built(name).eval()(flambeau.empty(2, 3, 224, 224, device="meta")).shape == (2, 1000)


@pytest.mark.parametrize(("name", "frames"), [("r3d_18", 8), ("mc3_18", 8), ("r2plus1d_18", 8), ("s3d", 14),
                                              ("mvit_v1_b", 16), ("mvit_v2_s", 16), ("swin3d_t", 6)])
def test_shapes_of_videos_scores(name, frames):
    assert built(name).eval()(flambeau.empty(1, 3, frames, 224, 224, device="meta")).shape == (1, 400)


def test_inception_gives_both_scores_while_training():
    images = flambeau.empty(2, 3, 299, 299, device="meta")
    both = built("inception_v3")(images)
    assert both._fields == ("logits", "aux_logits") and both.aux_logits.shape == (2, 1000)
    three = built("googlenet")(images)
    assert three._fields == ("logits", "aux_logits2", "aux_logits1")


def test_optical_flow_of_a_still_image_gives_a_flow_per_update():
    flambeau.manual_seed(0)
    model = models.optical_flow.raft_small().eval()
    image = flambeau.rand(1, 3, 128, 136)
    with flambeau.no_grad():
        flows = model(image, image, num_flow_updates=2)
    assert [list(flow.shape) for flow in flows] == [[1, 2, 128, 136]] * 2
    with pytest.raises(ValueError, match="multiples of 8"):
        model(image[..., :130], image[..., :130])
    with pytest.raises(ValueError, match="128 pixels"):
        model(image[..., :64], image[..., :64])


def test_masked_upsampling_of_equal_weights_is_a_mean():
    flow = flambeau.ones(1, 2, 3, 4)
    fine = models.optical_flow._utils.upsample_flow(flow, flambeau.zeros(1, 576, 3, 4))
    assert fine.shape == (1, 2, 24, 32)
    assert flambeau.allclose(fine[:, :, 8:16, 8:24], flambeau.tensor(8.0))


# --- initial values ---------------------------------------------------------------------------------------------------

def test_seeds_give_torchvisions_values():
    """Of a layer that is drawn late: they are right only if all before it drew as much."""
    wanted = json.loads((Path(__file__).parent / "models_seed0.json").read_text())
    for name, (key, values) in wanted.items():
        flambeau.manual_seed(0)
        found = models.get_model(name).state_dict()[key].flatten()[:4]
        assert flambeau.allclose(found, flambeau.tensor(values), rtol=1e-5, atol=1e-7), name


def test_resnets_can_begin_as_their_shortcuts():
    model = models.resnet18(zero_init_residual=True)
    assert not model.layer1[0].bn2.weight.any() and model.layer1[0].bn1.weight.all()


# --- weights ----------------------------------------------------------------------------------------------------------

@pytest.fixture
def published(tmp_path, monkeypatch):
    """A function that puts a state dict where a model's weights are read from, as if downloaded before."""
    monkeypatch.setattr(hub, "_folder", [str(tmp_path)])

    def publish(weights, state):
        path = tmp_path / "checkpoints" / weights.url.rpartition("/")[2]
        path.parent.mkdir(exist_ok=True)
        flambeau.save(state, path)
    return publish


def test_weights_are_read_from_the_cache(published):
    weights = models.SqueezeNet1_1_Weights.IMAGENET1K_V1
    state = models.squeezenet1_1().state_dict()
    published(weights, state)
    for given in (weights, "IMAGENET1K_V1", "DEFAULT", "SqueezeNet1_1_Weights.DEFAULT"):
        model = models.squeezenet1_1(weights=given)
        assert flambeau.equal(model.classifier[1].weight, state["classifier.1.weight"])
    with pytest.raises(ValueError, match="num_classes must be 1000"):
        models.squeezenet1_1(weights=weights, num_classes=10)


def test_a_download_is_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_folder", [str(tmp_path / "hub")])
    path = tmp_path / "net.pth"
    state = models.squeezenet1_1().state_dict()
    flambeau.save(state, path)
    right = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    for name in (right, "00000000"):
        (tmp_path / f"net-{name}.pth").write_bytes(path.read_bytes())

    def facts(name):
        url = (tmp_path / f"net-{name}.pth").as_uri()
        return models.Weights(url=url, transforms=None, meta={})

    kind = models.WeightsEnum("Local_Weights", {"GOOD": facts(right), "BAD": facts("00000000")})
    assert list(kind.GOOD.get_state_dict(progress=False, check_hash=True)) == list(state)
    with pytest.raises(RuntimeError, match="does not begin with"):
        kind.BAD.get_state_dict(progress=False, check_hash=True)


def test_without_a_network_the_error_says_where_the_file_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_folder", [str(tmp_path)])

    def offline(*args, **kwargs):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(hub.urllib.request, "urlopen", offline)
    with pytest.raises(urllib.error.URLError, match=r"SqueezeNet1_0_Weights.*put the file into .*checkpoints"):
        models.squeezenet1_0(weights="DEFAULT")


def test_googlenets_weights_bring_the_auxiliary_classifiers_only_if_asked(published):
    state = models.googlenet(init_weights=False).state_dict()
    published(models.GoogLeNet_Weights.DEFAULT, state)
    model = models.googlenet(weights="DEFAULT")
    assert model.aux1 is None and not model.aux_logits and model.transform_input
    assert models.googlenet(weights="DEFAULT", aux_logits=True).aux1 is not None


#: model -> a model of the same parts whose values stand for the published ones
WHOLE = {"deeplabv3_mobilenet_v3_large": {"weights_backbone": None, "aux_loss": True},
         "lraspp_mobilenet_v3_large": {"weights_backbone": None}, "vgg11": {}, "vit_b_32": {}, "mvit_v2_s": {},
         "raft_small": {}, "inception_v3": {"init_weights": False}}


@pytest.mark.parametrize("name", WHOLE)
def test_weights_settle_what_the_model_is(name, monkeypatch):
    """Number of classes, sizes, auxiliary classifiers; nothing is read for a backbone then."""
    def state(weights, **options):
        assert options == {"progress": False, "check_hash": True}
        with flambeau.device("meta"):
            return models.get_model(name, **WHOLE[name]).state_dict()

    kind = models.get_model_weights(name)
    monkeypatch.setattr(models.WeightsEnum, "get_state_dict", state)
    with flambeau.device("meta"):
        model = models.get_model(name, weights="DEFAULT", progress=False)
    assert len(model.state_dict()) == len(state(kind.DEFAULT, progress=False, check_hash=True))


def test_weights_of_a_backbone(published):
    state = models.mobilenet_v3_large().state_dict()
    published(models.MobileNet_V3_Large_Weights.IMAGENET1K_V1, state)
    model = segmentation.lraspp_mobilenet_v3_large(num_classes=3)
    assert flambeau.equal(model.backbone["0"][0].weight, state["features.0.0.weight"])


def test_older_forms_of_asking_for_weights(published):
    state = models.squeezenet1_1().state_dict()
    published(models.SqueezeNet1_1_Weights.DEFAULT, state)
    with pytest.warns(UserWarning, match="older form of weights=SqueezeNet1_1_Weights.IMAGENET1K_V1"):
        model = models.squeezenet1_1(pretrained=True)
    assert flambeau.equal(model.classifier[1].weight, state["classifier.1.weight"])
    with pytest.warns(UserWarning):
        models.squeezenet1_1(False)
    with pytest.raises(ValueError, match="weights="), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models.vit_h_14(pretrained=True)


def test_densenets_published_names_load():
    model = models.densenet121()
    state = model.state_dict()
    published_names = {key.replace("norm1", "norm.1").replace("conv2", "conv.2") if "denselayer" in key else key: value
                       for key, value in state.items()}
    assert published_names.keys() != state.keys()
    models.densenet121().load_state_dict(published_names)


def test_transformers_first_names_load():
    block = models.vision_transformer.MLPBlock(4, 8, 0.0)
    state = block.state_dict()
    old = {f"linear_{1 if key[0] == '0' else 2}.{key[2:]}": value for key, value in state.items()}
    block.load_state_dict(old)


def test_first_mnasnets_load():
    """Version 1 did not scale its first layers; weights of version 2 load without their version, too."""
    first = models.MNASNet(0.5)
    first._use_first_stem()
    assert first.layers[0].out_channels == 32 and models.MNASNet(0.5).layers[0].out_channels == 16
    model = models.MNASNet(0.5)
    model.load_state_dict(first.state_dict())
    assert model(flambeau.rand(2, 3, 64, 64)).shape == (2, 1000)
    second = models.MNASNet(0.5)
    second.load_state_dict(dict(models.MNASNet(0.5).state_dict()))
    assert second.layers[0].out_channels == 16


def test_facts_of_weights():
    weights = models.get_weight("ResNet50_Weights.IMAGENET1K_V2")
    assert weights is models.ResNet50_Weights.DEFAULT and str(weights) == "ResNet50_Weights.IMAGENET1K_V2"
    assert weights.meta["_metrics"]["ImageNet-1K"]["acc@1"] == 80.858 and weights.meta["min_size"] == (1, 1)
    assert weights.url.startswith("https://") and weights.url.endswith("-11ad3fa6.pth")
    assert weights.transforms.keywords == {"crop_size": 224, "resize_size": 232}
    assert len(models.get_model_weights("r3d_18").DEFAULT.meta["categories"]) == 400
    assert segmentation.FCN_ResNet50_Weights.DEFAULT.meta["categories"][0] == "__background__"
    assert pickle.loads(pickle.dumps(weights)) is weights and copy.deepcopy(weights) is weights


def test_weights_know_what_their_inputs_are():
    images = flambeau.randint(0, 256, (2, 3, 300, 400), dtype=flambeau.uint8)
    prepare = models.ResNet50_Weights.DEFAULT.transforms()
    assert prepare.crop_size == [224] and prepare.resize_size == [232] and prepare(images).shape == (2, 3, 224, 224)
    assert models.ResNet50_Weights.DEFAULT.transforms(crop_size=64, resize_size=70)(images).shape == (2, 3, 64, 64)
    assert models.Swin_T_Weights.DEFAULT.transforms().interpolation.value == "bicubic"
    videos = flambeau.randint(0, 256, (2, 4, 3, 120, 160), dtype=flambeau.uint8)
    assert models.video.R3D_18_Weights.DEFAULT.transforms()(videos).shape == (2, 3, 4, 112, 112)
    grey = flambeau.full((3, 5, 7), 51, dtype=flambeau.uint8)
    first, second = models.optical_flow.Raft_Small_Weights.DEFAULT.transforms()(grey, grey)
    assert flambeau.allclose(first, flambeau.full((3, 5, 7), -0.6)) and flambeau.equal(first, second)
    mean = flambeau.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    scaled = segmentation.FCN_ResNet50_Weights.DEFAULT.transforms(resize_size=None)(grey)
    assert flambeau.allclose(scaled, (0.2 - mean) / flambeau.tensor([0.229, 0.224, 0.225]).view(3, 1, 1))


def test_weights_of_another_model_are_refused():
    with pytest.raises(TypeError, match=r"member of ResNet18_Weights.*got ResNet50_Weights.IMAGENET1K_V2"):
        models.resnet18(weights=models.ResNet50_Weights.DEFAULT)
    with pytest.raises(KeyError):
        models.resnet18(weights="IMAGENET1K_V9")
    with pytest.raises(ValueError, match="groups must be 32"):
        models.resnext50_32x4d(groups=2)


# --- the registry -----------------------------------------------------------------------------------------------------

def test_names_of_models():
    assert models.list_models(include=["resnet*", "vgg*"], exclude="*1*") == ["resnet34", "resnet50"]
    assert models.list_models(segmentation) == ["deeplabv3_mobilenet_v3_large", "deeplabv3_resnet101",
                                                "deeplabv3_resnet50", "fcn_resnet101", "fcn_resnet50",
                                                "lraspp_mobilenet_v3_large"]
    assert "resnet18" in models.list_models(models) and "r3d_18" not in models.list_models(models)
    assert models.get_model_builder("ResNet50") is models.resnet50
    with pytest.raises(ValueError, match="did you mean resnet"):
        models.get_model("resnt50")


def test_a_model_of_ones_own(monkeypatch):
    monkeypatch.setattr(models._api, "BUILTIN_MODELS", dict(models._api.BUILTIN_MODELS))

    class Tiny_Weights(models.WeightsEnum):
        FIRST = models.Weights(url="file:///tiny.pth", transforms=nn.Identity, meta={"categories": ["a", "b"]})
        DEFAULT = FIRST

    @models._api.register_model()
    def tiny(*, weights: Tiny_Weights | None = None, progress=True):
        return nn.Linear(1, 2)

    assert "tiny" in models.list_models() and models.get_model("tiny").out_features == 2
    assert models.get_model_weights("tiny") is Tiny_Weights
    assert models.get_weight("Tiny_Weights.DEFAULT") is Tiny_Weights.FIRST
    with pytest.raises(ValueError, match="there is a model 'tiny'"):
        models._api.register_model("tiny")(tiny)


def test_quantised_models_are_refused():
    with pytest.raises(NotImplementedError, match=r"build models.resnet18 and quantize it"):
        models.quantization.resnet18(quantize=True)
    weights = models.quantization.ResNet50_QuantizedWeights.DEFAULT
    assert weights.meta["unquantized"] is models.ResNet50_Weights.IMAGENET1K_V2


def test_wrong_architectures_are_refused():
    for make, what in ((lambda: models.SqueezeNet("1_2"), "version"), (lambda: models.MNASNet(0), "alpha"),
                       (lambda: models.ConvNeXt([]), "block_setting"), (lambda: models.EfficientNet([], 0), "a stage"),
                       (lambda: models.ResNet(models.resnet.BasicBlock, [1] * 4, groups=2), "groups"),
                       (lambda: models.MaxVit((100, 100), 8, 7, [8], [1], 8, 0.1), "windows of 7")):
        with pytest.raises(ValueError, match=what):
            make()


# --- parts and inner results ------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("width", "rounded"), [(11.2, 16), (3, 8), (20, 24), (44.8, 48), (37.5, 40)])
def test_widths_are_multiples_of_8_and_lose_no_tenth(width, rounded):
    assert _make_divisible(width, 8) == rounded


def test_intermediate_layers():
    body = IntermediateLayerGetter(models.resnet18(), {"layer1": "low", "layer2": "high"})
    assert list(body) == ["conv1", "bn1", "relu", "maxpool", "layer1", "layer2"]
    found = body(flambeau.rand(1, 3, 64, 64))
    assert {k: list(v.shape) for k, v in found.items()} == {"low": [1, 64, 16, 16], "high": [1, 128, 8, 8]}
    with pytest.raises(ValueError, match="layer9"):
        IntermediateLayerGetter(models.resnet18(), {"layer9": "x"})


class Modes(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense, self.drop = nn.Linear(3, 3), nn.Dropout()

    def forward(self, x):
        y = self.dense(x)
        if self.training:
            y = self.drop(y) * 2
        return self.dense(y) + 1


def test_node_names_of_both_modes():
    model = Modes().eval()
    model.drop.train()
    with pytest.warns(UserWarning, match="training graph has nodes"):
        train, evaluation = feature_extraction.get_graph_node_names(model)
    assert train == ["x", "dense", "drop", "mul", "dense_1", "add"] and evaluation == ["x", "dense", "dense_1", "add"]
    assert not model.training and model.drop.training


def test_node_names_leave_out_the_numbers_of_modules():
    _, names = feature_extraction.get_graph_node_names(built("vit_b_32"))
    layer = "encoder.layers.encoder_layer_0."
    assert [n.removeprefix(layer) for n in names if n.startswith(layer)][4:] == [
        "ln", "self_attention", "getitem", "getitem_1", "dropout", "add", "ln_1", "mlp", "add_1"]


def test_feature_extractors_share_parameters_and_follow_the_mode():
    model = models.resnet18().eval()
    body = feature_extraction.create_feature_extractor(model, {"layer1": "low", "layer4.1.relu_1": "high"})
    image = flambeau.rand(1, 3, 64, 64)
    found = body(image)
    features = model.maxpool(model.relu(model.bn1(model.conv1(image))))
    assert flambeau.equal(found["low"], model.layer1(features)) and list(found) == ["low", "high"]
    assert body.layer1.get_submodule("0").conv1.weight is model.layer1[0].conv1.weight and not hasattr(body, "fc")
    two = feature_extraction.create_feature_extractor(Modes(), train_return_nodes=["mul"], eval_return_nodes=["dense"])
    assert list(two(flambeau.ones(1, 3))) == ["mul"] and list(two.eval()(flambeau.ones(1, 3))) == ["dense"]
    assert list(copy.deepcopy(two).train()(flambeau.ones(1, 3))) == ["mul"]


def test_wrong_choices_of_nodes_are_refused():
    model = Modes().eval()
    for choice in ({}, {"return_nodes": ["add"], "train_return_nodes": ["mul"]}, {"train_return_nodes": ["mul"]},
                   {"return_nodes": ["nowhere"], "suppress_diff_warning": True}):
        with pytest.raises(ValueError, match="create_feature_extractor"):
            feature_extraction.create_feature_extractor(model, **choice)


def test_positions_are_interpolated():
    state = built("vit_b_32").state_dict()
    wanted = models.vision_transformer.interpolate_embeddings(384, 32, dict(state), reset_heads=True)
    assert wanted["encoder.pos_embedding"].shape == (1, 145, 768) and "heads.head.weight" not in wanted
    assert models.vision_transformer.interpolate_embeddings(224, 32, state) is state
