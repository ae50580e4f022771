"""`load_sharded_optimizer_state_dict`: an optimizer's state, spread over the ranks as the model's parameters are."""

import flambeau

from .default_planner import _EmptyStateDictLoadPlanner
from .state_dict_loader import _load_state_dict
from .state_dict_saver import alone


class _LikeModel(_EmptyStateDictLoadPlanner):
    """Makes tensors that are spread as the parameter is whose state they are, where they have its size."""

    def __init__(self, model_state_dict, keys):
        super().__init__(keys)
        self.model = model_state_dict

    def make(self, path, stored):
        """A tensor of the checkpoint, without values."""
        like = next((self.model[part] for part in path if isinstance(self.model.get(part), flambeau.Tensor)), None)
        if like is None or like.shape != stored.size:
            return super().make(path, stored)
        return flambeau.zeros_like(like, dtype=stored.properties.dtype, requires_grad=False)


def load_sharded_optimizer_state_dict(model_state_dict, optimizer_key, storage_reader, planner=None):
    """{optimizer_key: the optimizer's state} of a checkpoint, as `FSDP.optim_state_dict` gave it; all ranks call it.

    model_state_dict: that of the model whose optimizer it is. planner: of another way to read the values.

    >>> import flambeau, tempfile
    >>> import flambeau.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = dcp.save({"optimizer": {"state": {"w": {"step": flambeau.ones(2)}}}}, checkpoint_id=place)
    ...     reader = dcp.FileSystemReader(place)
    ...     dcp.load_sharded_optimizer_state_dict({"w": flambeau.ones(2)}, "optimizer", reader)
    {'optimizer': {'state': {'w': {'step': tensor([1., 1.])}}}}
    """
    found, own = {}, _LikeModel(model_state_dict, {optimizer_key})
    storage_reader.reset()
    if planner is None:
        _load_state_dict(found, storage_reader, no_dist=alone(False), planner=own)
        return found
    own.set_up_planner(found, storage_reader.read_metadata())
    _load_state_dict(found, storage_reader, no_dist=alone(False), planner=planner)
    return found
