"""BackendConfig: which patterns of operators a backend computes on codes, their dtypes, and how they are observed."""

import dataclasses
from enum import Enum

import flambeau


class ObservationType(Enum):
    """How the result of a pattern is observed: by an observer of its own, by that of its input, or not at all."""

    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


@dataclasses.dataclass
class DTypeWithConstraints:
    """A dtype, the range that its codes may have, and bounds or exact values of scale and zero point."""

    dtype: flambeau.dtype | None = None
    quant_min_lower_bound: int | float | None = None
    quant_max_upper_bound: int | float | None = None
    scale_min_lower_bound: int | float | None = None
    scale_max_upper_bound: int | float | None = None
    scale_exact_match: float | None = None
    zero_point_exact_match: int | None = None


def _constrained(dtype):
    return dtype if isinstance(dtype, DTypeWithConstraints) else DTypeWithConstraints(dtype=dtype)


class DTypeConfig:
    """The dtypes of input, output, weight and bias with which a backend computes a pattern; None: any.

    >>> import flambeau
    >>> from flambeau.ao.quantization.backend_config import DTypeConfig
    >>> DTypeConfig(input_dtype=flambeau.quint8, weight_dtype=flambeau.qint8).weight_dtype
    torch.qint8
    """

    def __init__(self, input_dtype=None, output_dtype=None, weight_dtype=None, bias_dtype=None, is_dynamic=None):
        self.input_dtype_with_constraints = _constrained(input_dtype)
        self.output_dtype_with_constraints = _constrained(output_dtype)
        self.weight_dtype_with_constraints = _constrained(weight_dtype)
        self.bias_dtype, self.is_dynamic = bias_dtype, is_dynamic

    @property
    def input_dtype(self):
        """The dtype of inputs."""
        return self.input_dtype_with_constraints.dtype

    @property
    def output_dtype(self):
        """The dtype of the result."""
        return self.output_dtype_with_constraints.dtype

    @property
    def weight_dtype(self):
        """The dtype of the weight."""
        return self.weight_dtype_with_constraints.dtype

    def __eq__(self, other):
        return isinstance(other, DTypeConfig) and vars(self) == vars(other)

    __hash__ = None

    @classmethod
    def from_dict(cls, dtype_config_dict):
        """The one that `to_dict` has written."""
        return cls(*(dtype_config_dict.get(name) for name in
                     ("input_dtype", "output_dtype", "weight_dtype", "bias_dtype", "is_dynamic")))

    def to_dict(self):
        """What is said, as plain data."""
        found = {name: getattr(self, name + "_with_constraints")
                 for name in ("input_dtype", "output_dtype", "weight_dtype") if getattr(self, name) is not None}
        found |= {} if self.bias_dtype is None else {"bias_dtype": self.bias_dtype}
        return found | ({} if self.is_dynamic is None else {"is_dynamic": self.is_dynamic})


class BackendPatternConfig:
    """How a backend treats one pattern: a class of modules, a function, the name of a method, or a tuple of these in
    the order in which they are computed."""

    def __init__(self, pattern=None):
        self.pattern, self._pattern_complex_format = pattern, None
        self.observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs = []
        self.root_module = self.qat_module = self.reference_quantized_module = None
        self.fused_module = self.fuser_method = None
        self._root_node_getter = self._extra_inputs_getter = None
        self._num_tensor_args_to_observation_type, self._input_type_to_index = {}, {}

    def __repr__(self):
        return f"BackendPatternConfig({ {k: v for k, v in vars(self).items() if v not in (None, [], {})} })"

    def _with(self, **fields):
        for name, value in fields.items():
            setattr(self, name, value)
        return self

    def set_pattern(self, pattern):
        """The pattern, first operator first."""
        if self._pattern_complex_format is not None:
            raise ValueError("BackendPatternConfig: the pattern was set as a nested one already")
        return self._with(pattern=pattern)

    def _set_pattern_complex_format(self, pattern):
        if self.pattern is not None:
            raise ValueError("BackendPatternConfig: the pattern was set already")
        return self._with(_pattern_complex_format=pattern)

    def set_observation_type(self, observation_type):
        """How the result is observed."""
        return self._with(observation_type=observation_type)

    def add_dtype_config(self, dtype_config):
        """One more combination of dtypes."""
        self.dtype_configs.append(dtype_config)
        return self

    def set_dtype_configs(self, dtype_configs):
        """All combinations of dtypes."""
        return self._with(dtype_configs=dtype_configs)

    def set_root_module(self, root_module):
        """The class of the layer whose weight counts."""
        return self._with(root_module=root_module)

    def set_qat_module(self, qat_module):
        """The class for training."""
        return self._with(qat_module=qat_module)

    def set_reference_quantized_module(self, reference_quantized_module):
        """The class of reference."""
        return self._with(reference_quantized_module=reference_quantized_module)

    def set_fused_module(self, fused_module):
        """The class of the fused layer."""
        return self._with(fused_module=fused_module)

    def set_fuser_method(self, fuser_method):
        """The function that fuses: fuser(is_qat, *layers)."""
        return self._with(fuser_method=fuser_method)

    def _set_root_node_getter(self, root_node_getter):
        return self._with(_root_node_getter=root_node_getter)

    def _set_extra_inputs_getter(self, extra_inputs_getter):
        return self._with(_extra_inputs_getter=extra_inputs_getter)

    def _set_num_tensor_args_to_observation_type(self, num_tensor_args_to_observation_type):
        return self._with(_num_tensor_args_to_observation_type=num_tensor_args_to_observation_type)

    def _set_input_type_to_index(self, input_type_to_index):
        return self._with(_input_type_to_index=input_type_to_index)

    @classmethod
    def from_dict(cls, backend_pattern_config_dict):
        """The one that `to_dict` has written."""
        made = cls()
        for name, value in backend_pattern_config_dict.items():
            name = _FIELD_OF_KEY.get(name, name)
            if name == "dtype_configs":
                value = [DTypeConfig.from_dict(d) if isinstance(d, dict) else d for d in value]
            setattr(made, name, value)
        return made

    def to_dict(self):
        """What is said, as plain data."""
        keys = {field: key for key, field in _FIELD_OF_KEY.items()}
        found = {"observation_type": self.observation_type,
                 "dtype_configs": [d.to_dict() for d in self.dtype_configs]}
        return found | {keys.get(name, name): value for name, value in vars(self).items()
                        if name not in found and value not in (None, {})}


_FIELD_OF_KEY = {"pattern_complex_format": "_pattern_complex_format", "root_node_getter": "_root_node_getter",
                 "extra_inputs_getter": "_extra_inputs_getter", "input_type_to_index": "_input_type_to_index",
                 "num_tensor_args_to_observation_type": "_num_tensor_args_to_observation_type"}


def nested(config):
    """The pattern last operator first, in nested pairs: (relu, (bn, conv)), as graphs are matched."""
    pattern = config._pattern_complex_format if config.pattern is None else config.pattern
    if config.pattern is None or not isinstance(pattern, tuple):
        return pattern
    found = pattern[0]
    for part in pattern[1:]:
        found = (part, found)
    return found


class BackendConfig:
    """What a backend computes on codes: a name, and a BackendPatternConfig for each pattern.

    >>> from flambeau.ao.quantization.backend_config import get_native_backend_config
    >>> len(get_native_backend_config().configs) > 150
    True
    """

    def __init__(self, name=""):
        self.name, self._pattern_complex_format_to_config = name, {}

    def __repr__(self):
        return f"BackendConfig({vars(self)})"

    def set_name(self, name):
        """The backend's name."""
        self.name = name
        return self

    def set_backend_pattern_config(self, config):
        """One more pattern; a pattern that is known gets the new configuration."""
        self._pattern_complex_format_to_config[nested(config)] = config
        return self

    def set_backend_pattern_configs(self, configs):
        """Several more patterns."""
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self):
        """All configurations."""
        return list(self._pattern_complex_format_to_config.values())

    @classmethod
    def from_dict(cls, backend_config_dict):
        """The one that `to_dict` has written."""
        made = cls(backend_config_dict.get("name", ""))
        return made.set_backend_pattern_configs(
            [BackendPatternConfig.from_dict(d) if isinstance(d, dict) else d
             for d in backend_config_dict.get("configs", [])])

    def to_dict(self):
        """The same as plain data."""
        return {"name": self.name, "configs": [config.to_dict() for config in self.configs]}
