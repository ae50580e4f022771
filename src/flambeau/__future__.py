"""Switches for behaviour that may become the default: what converting a module does to its parameters."""

from .nn.modules._switches import get_overwrite_module_params_on_conversion as get_overwrite_module_params_on_conversion
from .nn.modules._switches import get_swap_module_params_on_conversion as get_swap_module_params_on_conversion
from .nn.modules._switches import set_overwrite_module_params_on_conversion as set_overwrite_module_params_on_conversion
from .nn.modules._switches import set_swap_module_params_on_conversion as set_swap_module_params_on_conversion
