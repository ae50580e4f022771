"""What stands on collectives: hooks for gradients, and ranks with unequal numbers of batches."""

from . import ddp_comm_hooks as ddp_comm_hooks
from . import join as join
