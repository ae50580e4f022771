"""torch._functorch.partitioners: how a graph of forward and backward is cut in two."""

from ....compiler._partition import default_partition as default_partition
from ....compiler._partition import min_cut_rematerialization_partition as min_cut_rematerialization_partition
