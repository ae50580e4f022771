"""Python's queues: what is put into them carries tensors in shared memory."""

from multiprocessing.queues import Queue as Queue
from multiprocessing.queues import SimpleQueue as SimpleQueue
