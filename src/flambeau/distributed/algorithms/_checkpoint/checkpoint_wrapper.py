"""Modules whose intermediate results are computed again in backward, or wait elsewhere."""

from functools import partial

from ....autograd.graph import save_on_cpu
from ....nn import Module
from ....utils.checkpoint import checkpoint
from ..._values import CheckpointImpl as CheckpointImpl
from ...fsdp.wrap import _Policy, _recursive_wrap, lambda_auto_wrap_policy, wrap_children

_NAME = "_checkpoint_wrapped_module"
_PREFIX = _NAME + "."


class ActivationWrapper(Module):
    """Base of the wrappers: attributes, names of parameters and state dicts are those of the module inside."""

    def __init__(self, mod):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def forward(self, *args, **kwargs):
        """As of the module inside."""
        raise NotImplementedError(f"{type(self).__name__}: forward is not defined for {len(args)} arguments and "
                                  f"{sorted(kwargs)}; use checkpoint_wrapper or offload_wrapper")

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _NAME:
                raise
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key):
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args, **kwargs):
        """As of the module inside."""
        for name, param in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), param


def _without_prefix(module, state_dict, prefix, *_):
    own = prefix + _PREFIX
    for key in [key for key in state_dict if key.startswith(own)]:
        state_dict[prefix + key[len(own):]] = state_dict.pop(key)


def _with_prefix(module, state_dict, prefix, *_):
    own = prefix + _PREFIX
    for key in [key for key in state_dict if key.startswith(prefix) and not key.startswith(own)]:
        state_dict[own + key[len(prefix):]] = state_dict.pop(key)


class CheckpointWrapper(ActivationWrapper):
    """A module that keeps its inputs alone and computes the rest again in backward.

    checkpoint_fn replaces utils.checkpoint.checkpoint; the other arguments are given to it.
    """

    def __init__(self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            reentrant = checkpoint_impl == CheckpointImpl.REENTRANT
            self.checkpoint_fn = partial(checkpoint, use_reentrant=reentrant, **checkpoint_fn_kwargs)
        else:
            self.checkpoint_fn = partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args, **kwargs):
        """As of the module inside."""
        inside = self._checkpoint_wrapped_module
        if self.checkpoint_impl == CheckpointImpl.REENTRANT and kwargs:  # which takes positional arguments only
            names = list(kwargs)

            def positional(*values):
                count = len(values) - len(names)
                return inside(*values[:count], **dict(zip(names, values[count:])))

            return self.checkpoint_fn(positional, *args, *kwargs.values())
        return self.checkpoint_fn(inside, *args, **kwargs)


class OffloadWrapper(ActivationWrapper):
    """A module whose saved tensors wait in the memory of the CPU, where they are in this build anyway."""

    def forward(self, *args, **kwargs):
        """As of the module inside."""
        with save_on_cpu(pin_memory=False):
            return self._checkpoint_wrapped_module(*args, **kwargs)


def offload_wrapper(module):
    """The module, with tensors that it saves for backward on the CPU."""
    return OffloadWrapper(module)


def checkpoint_wrapper(module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None,
                       **checkpoint_fn_kwargs):
    """The module, with its intermediate results computed again in backward.

    >>> import flambeau
    >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    >>> layer = checkpoint_wrapper(flambeau.nn.Linear(2, 2))
    >>> list(layer.state_dict())
    ['weight', 'bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda _: True,
                                   auto_wrap_policy=None):
    """Wraps the parts of a model that check_fn, or a policy of fsdp.wrap, names; in place.

    >>> from flambeau import nn
    >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, nn.Linear))
    >>> [type(m).__name__ for m in model]
    ['CheckpointWrapper', 'ReLU']
    """
    if isinstance(auto_wrap_policy, _Policy):
        wrap_children(model, auto_wrap_policy, checkpoint_wrapper_fn)
        return
    policy = auto_wrap_policy or partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    _recursive_wrap(model, policy, checkpoint_wrapper_fn, set(), set(), only_wrap_children=True)
