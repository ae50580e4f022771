"""What a model asks for beside its QConfigMapping: modules of its own, modules left whole, quantized inputs."""

from ...._shown import shown
from ..quant_type import QuantType

_KINDS = {"static": QuantType.STATIC, "dynamic": QuantType.DYNAMIC, "weight_only": QuantType.WEIGHT_ONLY}
_KEYS = {kind: key for key, kind in _KINDS.items()}
_STANDALONE = ("standalone modules are not supported: prepare and convert such a module by itself, and name its class "
               "in set_non_traceable_module_classes() of the model around it")


def _classes_of(given):
    """{QuantType: {class: class}} of {"static": {class: class}}."""
    return {_KINDS[key]: dict(classes) for key, classes in given.items()}


class _Config:
    _FIELDS = {}  #: key in the form of a dict -> (field, how an empty one is made)

    def __init__(self):
        for field, make in self._FIELDS.values():
            setattr(self, field, make())

    def __repr__(self):
        return f"{type(self).__name__}({ {k: v for k, v in vars(self).items() if v} })"

    def to_dict(self):
        """What is said, as plain data."""
        found = {}
        for key, (field, _) in self._FIELDS.items():
            value = getattr(self, field)
            if value:
                found[key] = {_KEYS[k]: v for k, v in value.items()} if key in _BY_KIND else value
        return found

    @classmethod
    def from_dict(cls, config_dict):
        """The one that `to_dict` has written."""
        made = cls()
        for key, value in config_dict.items():
            if key not in cls._FIELDS:
                raise ValueError(f"{cls.__name__}.from_dict: unknown key {shown(key)}; known are "
                                 f"{', '.join(cls._FIELDS)}")
            setattr(made, cls._FIELDS[key][0], _classes_of(value) if key in _BY_KIND else value)
        return made


_BY_KIND = ("float_to_observed_custom_module_class", "observed_to_quantized_custom_module_class")


class PrepareCustomConfig(_Config):
    """For `prepare_fx`: observable classes for a model's own, modules left whole, inputs and outputs that are codes.

    >>> from flambeau.ao.quantization.fx.custom_config import PrepareCustomConfig
    >>> PrepareCustomConfig().set_input_quantized_indexes([0]).to_dict()
    {'input_quantized_idxs': [0]}
    """

    _FIELDS = {"float_to_observed_custom_module_class": ("float_to_observed_mapping", dict),
               "non_traceable_module_name": ("non_traceable_module_names", list),
               "non_traceable_module_class": ("non_traceable_module_classes", list),
               "input_quantized_idxs": ("input_quantized_indexes", list),
               "output_quantized_idxs": ("output_quantized_indexes", list),
               "preserved_attributes": ("preserved_attributes", list)}

    def set_standalone_module_name(self, module_name, qconfig_mapping, example_inputs, prepare_custom_config,
                                   backend_config):
        """Refused."""
        raise NotImplementedError(f"set_standalone_module_name({shown(module_name)}): {_STANDALONE}")

    def set_standalone_module_class(self, module_class, qconfig_mapping, example_inputs, prepare_custom_config,
                                    backend_config):
        """Refused."""
        raise NotImplementedError(f"set_standalone_module_class({module_class}): {_STANDALONE}")

    def set_float_to_observed_mapping(self, float_class, observed_class, quant_type=QuantType.STATIC):
        """`observed_class.from_float` makes what takes the place of a `float_class`."""
        self.float_to_observed_mapping.setdefault(quant_type, {})[float_class] = observed_class
        return self

    def set_non_traceable_module_names(self, module_names):
        """Modules that are one call each, by name."""
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(self, module_classes):
        """Modules that are one call each, by class."""
        self.non_traceable_module_classes = module_classes
        return self

    def set_input_quantized_indexes(self, indexes):
        """Arguments of the model that are codes already."""
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes):
        """Results of the model that stay codes: [0] is all of it."""
        self.output_quantized_indexes = indexes
        return self

    def set_preserved_attributes(self, attributes):
        """Attributes that the made modules keep."""
        self.preserved_attributes = attributes
        return self


class ConvertCustomConfig(_Config):
    """For `convert_fx`: quantized classes for observable ones, attributes to keep."""

    _FIELDS = {"observed_to_quantized_custom_module_class": ("observed_to_quantized_mapping", dict),
               "preserved_attributes": ("preserved_attributes", list)}

    def set_observed_to_quantized_mapping(self, observed_class, quantized_class, quant_type=QuantType.STATIC):
        """`quantized_class.from_observed` makes what takes the place of an `observed_class`."""
        self.observed_to_quantized_mapping.setdefault(quant_type, {})[observed_class] = quantized_class
        return self

    def set_preserved_attributes(self, attributes):
        """Attributes that the made module keeps."""
        self.preserved_attributes = attributes
        return self


class FuseCustomConfig(_Config):
    """For `fuse_fx`: attributes to keep."""

    _FIELDS = {"preserved_attributes": ("preserved_attributes", list)}

    def set_preserved_attributes(self, attributes):
        """Attributes that the made module keeps."""
        self.preserved_attributes = attributes
        return self
