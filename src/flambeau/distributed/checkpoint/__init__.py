"""Checkpoints that several processes write and read: `save`, `load`, `async_save`, whatever their number.

>>> import flambeau.distributed.checkpoint as dcp
>>> dcp.FileSystemWriter.validate_checkpoint_id("checkpoints/7")
True
"""

from ..._absent import refusals
from ._fsspec_filesystem import FsspecReader as FsspecReader
from ._fsspec_filesystem import FsspecWriter as FsspecWriter
from ._hf_writer import HuggingFaceStorageWriter as HuggingFaceStorageWriter
from .api import CheckpointException as CheckpointException
from .default_planner import DefaultLoadPlanner as DefaultLoadPlanner
from .default_planner import DefaultSavePlanner as DefaultSavePlanner
from .filesystem import FileSystemReader as FileSystemReader
from .filesystem import FileSystemWriter as FileSystemWriter
from .hf_storage import HuggingFaceStorageReader as HuggingFaceStorageReader
from .hf_storage import QuantizedHuggingFaceStorageReader as QuantizedHuggingFaceStorageReader
from .metadata import BytesStorageMetadata as BytesStorageMetadata
from .metadata import ChunkStorageMetadata as ChunkStorageMetadata
from .metadata import Metadata as Metadata
from .metadata import TensorStorageMetadata as TensorStorageMetadata
from .optimizer import load_sharded_optimizer_state_dict as load_sharded_optimizer_state_dict
from .planner import LoadPlan as LoadPlan
from .planner import LoadPlanner as LoadPlanner
from .planner import ReadItem as ReadItem
from .planner import SavePlan as SavePlan
from .planner import SavePlanner as SavePlanner
from .planner import WriteItem as WriteItem
from .state_dict_loader import load as load
from .state_dict_loader import load_state_dict as load_state_dict
from .state_dict_saver import async_save as async_save
from .state_dict_saver import save as save
from .state_dict_saver import save_state_dict as save_state_dict
from .storage import StorageReader as StorageReader
from .storage import StorageWriter as StorageWriter

_STATE = "it is not available yet; docs/distributed.md says what is"
globals().update(refusals("distributed.checkpoint", _STATE, """
    CheckpointableTensor
"""))
