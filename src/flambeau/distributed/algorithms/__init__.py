"""What stands on collectives: hooks for gradients, averaging of models, ranks with unequal numbers of batches."""

from . import ddp_comm_hooks as ddp_comm_hooks
from . import join as join
from . import model_averaging as model_averaging
