"""Contexts that use a part of a device: not available, and what to do instead."""

from .._absent import refusal

SUPPORTED = False
_WHY = "not available in flambeau; a stream of cuda.Stream uses the whole device"
GreenContext = refusal("cuda.GreenContext()", _WHY)
GreenContext.create = staticmethod(refusal(
    "cuda.GreenContext.create(*, num_sms=None, sm_partition=None, workqueue_scope=None, "
    "workqueue_concurrency_limit=None, device_id=None)", _WHY))
GreenContext.max_workqueue_concurrency = staticmethod(refusal(
    "cuda.GreenContext.max_workqueue_concurrency(device_id=None)", _WHY))
