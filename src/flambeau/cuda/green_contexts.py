"""Contexts that use a part of a device: not available, and what to do instead."""

from .._absent import refusal

GreenContext = refusal("cuda.GreenContext(num_sms, sm_partition, workqueue_scope, workqueue_concurrency_limit, "
                       "device_id)", "not available in flambeau; a stream of cuda.Stream uses the whole device")
