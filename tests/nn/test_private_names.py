"""Subclasses of users name their own attributes as they like: what a base class keeps to itself stays out of the way.

PyTorch's private names are taken in PyTorch too; all others of this library begin with `_own_`.
"""

import pytest

import flambeau
from flambeau import nn, optim

#: private names that PyTorch's classes have themselves
THEIRS = set("""
_apply _backward_hooks _backward_pre_hooks _buffers _call_impl _forward_hooks _forward_hooks_always_called
_forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs _get_name _is_full_backward_hook
_load_from_state_dict _load_state_dict_post_hooks _load_state_dict_pre_hooks _modules _named_members
_non_persistent_buffers_set _parameters _register_load_state_dict_pre_hook _register_state_dict_hook
_replicate_for_data_parallel _save_to_state_dict _state_dict_hooks _state_dict_pre_hooks _version
_get_lr_called_within_step _initial_step _is_initial _last_lr _step_count _update_lr
_optimizer_step_pre_hooks _optimizer_step_post_hooks _optimizer_state_dict_pre_hooks _optimizer_state_dict_post_hooks
_optimizer_load_state_dict_pre_hooks _optimizer_load_state_dict_post_hooks _group_tensors_by_device_and_dtype
_get_abs_string_index _patch_step_function
""".split())


@pytest.mark.parametrize("kind", [nn.Module, nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Linear, nn.Embedding,
                                  nn.CrossEntropyLoss, optim.Optimizer, optim.lr_scheduler.LRScheduler],
                         ids=lambda kind: kind.__name__)
def test_private_names_of_base_classes(kind):
    found = {name for name in dir(kind) if name[0] == "_" and name[1] != "_" and not name.startswith("_own_")}
    assert found <= THEIRS


def test_a_module_with_private_names_of_its_own():
    """torchmetrics keeps a dict in `_persistent`."""
    class Metric(nn.Module):
        def __init__(self):
            super().__init__()
            self._persistent, self._assign, self._locate, self._load_tensor = {"a": True}, 1, 2, 3
            self._check_name = self._to_floating = self._call_hooked = None
            self.total = nn.Parameter(flambeau.ones(1))

    metric = Metric()
    metric.register_forward_hook(print)
    metric.double().load_state_dict(metric.state_dict())
    assert list(metric.state_dict()) == ["total"] and metric._persistent == {"a": True}
