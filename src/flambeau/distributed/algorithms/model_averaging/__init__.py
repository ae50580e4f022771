"""Models that are averaged now and then, in place of their gradients in every step."""

from . import averagers as averagers
from . import hierarchical_model_averager as hierarchical_model_averager
from . import utils as utils
