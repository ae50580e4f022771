"""Layers whose parameters are spread over ranks: torch.distributed.tensor.parallel."""

from .._losses import loss_parallel as loss_parallel
