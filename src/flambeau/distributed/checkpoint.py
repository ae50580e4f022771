"""Names of checkpoints that several processes write, which are not here yet; each says so when used."""

from .._absent import refusal, refused_class

_REASON = "processes do not exchange tensors yet"
globals().update({name: refusal(f"distributed.checkpoint.{name}", _REASON) for name in """
    load save async_save load_state_dict save_state_dict
""".split()})
globals().update({name: refused_class(f"distributed.checkpoint.{name}", _REASON) for name in """
    FileSystemReader FileSystemWriter StorageReader StorageWriter LoadPlan LoadPlanner SavePlan SavePlanner
    DefaultLoadPlanner DefaultSavePlanner Metadata CheckpointException BytesStorageMetadata TensorStorageMetadata
    ChunkStorageMetadata ReadItem WriteItem FsspecReader FsspecWriter
""".split()})
