"""AdamW under the module that PyTorch has it in."""

from .adam import AdamW as AdamW
from .adam import adamw as adamw
