"""safetensors files under the names of `safetensors.torch`: tensors under names, no objects, nothing that could run."""

from ._files.safetensors_format import load as load
from ._files.safetensors_format import load_file as load_file
from ._files.safetensors_format import load_model as load_model
from ._files.safetensors_format import safe_open as safe_open
from ._files.safetensors_format import save as save
from ._files.safetensors_format import save_file as save_file
from ._files.safetensors_format import save_model as save_model
from ._files.safetensors_format import save_sharded as save_sharded
