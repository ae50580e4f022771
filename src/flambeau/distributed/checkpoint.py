"""Names of checkpoints that several processes write, which are not here yet; each says so when used."""

from .._absent import refusals

_REASON = "processes do not exchange tensors yet"
globals().update(refusals("distributed.checkpoint", _REASON, """
    load save async_save load_state_dict save_state_dict
    FileSystemReader FileSystemWriter StorageReader StorageWriter LoadPlan LoadPlanner SavePlan SavePlanner
    DefaultLoadPlanner DefaultSavePlanner Metadata CheckpointException BytesStorageMetadata TensorStorageMetadata
    ChunkStorageMetadata ReadItem WriteItem FsspecReader FsspecWriter
"""))
