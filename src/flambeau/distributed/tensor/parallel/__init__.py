"""Layers whose parameters are spread over ranks: torch.distributed.tensor.parallel."""

from .._losses import loss_parallel as loss_parallel
from .api import parallelize_module as parallelize_module
from .style import ColwiseParallel as ColwiseParallel
from .style import ParallelStyle as ParallelStyle
from .style import PrepareModuleInput as PrepareModuleInput
from .style import PrepareModuleInputOutput as PrepareModuleInputOutput
from .style import PrepareModuleOutput as PrepareModuleOutput
from .style import RowwiseParallel as RowwiseParallel
from .style import SequenceParallel as SequenceParallel
