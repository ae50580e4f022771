"""Saving and loading a module's state: state_dict, load_state_dict and what they ask of each module."""

from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from warnings import warn

from ... import Tensor, no_grad
from ..._shown import class_name, clipped, listed
from ..parameter import Parameter, is_lazy
from ._hooks import kept
from ._switches import get_swap_module_params_on_conversion

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        return super().__repr__() if self.missing_keys or self.unexpected_keys else "<All keys matched successfully>"

    __str__ = __repr__


class StateMethods:
    """The part of Module that gives and takes state dicts."""

    __slots__ = ()

    _version = 1

    def get_extra_state(self):
        """Override it to add an object (best a tensor or plain data) to the state dict, under `_extra_state`."""
        raise RuntimeError("get_extra_state: override it (and set_extra_state) to have extra state in the state dict")

    def set_extra_state(self, state):
        """Override it to take back what get_extra_state gave."""
        raise RuntimeError("set_extra_state: override it (and get_extra_state) to take extra state back")

    def _own_has_extra_state(self, method):
        return getattr(type(self), method) is not getattr(StateMethods, method)

    def _own_persistent(self):
        """(name, tensor) of everything the state dict holds of this module alone."""
        found = [pair for pair in self._parameters.items() if pair[1] is not None]
        if self._buffers:
            skip = kept(self, "_non_persistent_buffers_set")
            found += [pair for pair in self._buffers.items() if pair[1] is not None and pair[0] not in skip]
        return found

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, tensor in self._own_persistent():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if self._own_has_extra_state("get_extra_state"):
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """All parameters and persistent buffers by their dotted names, as an OrderedDict of detached tensors.

        The tensors share memory with the module; `keep_vars=True` gives the parameters themselves.

        >>> import flambeau
        >>> list(flambeau.nn.Linear(2, 3).state_dict())
        ['weight', 'bias']
        """
        if args:  # the old positional form
            warn("state_dict: give destination, prefix and keep_vars by name; by position they will not be taken for "
                 "ever", FutureWarning, stacklevel=2)
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination", destination)
            prefix, keep_vars = given.get("prefix", prefix), given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in kept(self, "_state_dict_pre_hooks").values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in kept(self, "_state_dict_hooks").values():
            result = hook(self, destination, prefix, local_metadata)
            if result is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook: change the dict in place and return None")
            destination = result
        return destination

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copy the tensors of `state_dict` into this module's parameters and buffers.

        With `strict` a missing or an unexpected key is an error; without, both are only reported in the result, a named
        tuple (missing_keys, unexpected_keys). `assign=True` puts the given tensors in place instead of copying.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: expected a mapping of names to tensors, got "
                            f"{class_name(type(state_dict))}")
        missing, unexpected, errors = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata  # hooks may want to read it
        _load(self, state_dict, "", metadata, assign, missing, unexpected, errors)
        if strict:
            for word, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    errors.insert(0, f"{word} key(s) in state_dict: {listed([_quoted(key) for key in keys])}. ")
        if errors:
            lines = listed(errors, "\n\t", 2800, 1800)
            raise RuntimeError(f"load_state_dict: {type(self).__name__} does not take this state:\n\t{lines}")
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Load this module's own entries; a subclass overrides it to read older versions of its state."""
        for hook in kept(self, "_load_state_dict_pre_hooks").values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = dict(self._own_persistent())
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, target in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            problem = self._own_load_tensor(name, key, target, state_dict[key], assign)
            if problem:
                error_msgs.append(problem)
        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if self._own_has_extra_state("set_extra_state"):
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if not key.startswith(prefix) or key == extra_key:
                    continue
                name, dot, _ = key[len(prefix) :].partition(".")
                if name not in (self._modules if dot else own):
                    unexpected_keys.append(key)

    def _own_load_tensor(self, name, key, target, given, assign):
        """Put `given` into `target`; the error text when it does not fit."""
        if not isinstance(given, Tensor):
            return (
                f"{key}: the state holds a {class_name(type(given))} where a Tensor was expected"
            )
        if is_lazy(target) and not is_lazy(given):
            with no_grad():
                target.materialize(given.shape)
        lazy = is_lazy(target) or is_lazy(given)
        if not lazy and target.ndim == 0 and given.ndim == 1 and given.numel() == 1:
            given = given[0]  # scalars were once saved with one dimension
        if not lazy and given.shape != target.shape:
            return (
                f"{key}: the state has shape {list(given.shape)}, the model {list(target.shape)}"
            )
        if lazy:
            return None if is_lazy(target) else f"{key}: the state dict holds no values (its module was never called)"
        try:
            with no_grad():
                if assign and isinstance(target, Parameter) and get_swap_module_params_on_conversion():
                    target.data = given
                elif assign:
                    if isinstance(target, Parameter) and not isinstance(given, Parameter):
                        given = Parameter(given, requires_grad=target.requires_grad)
                    elif isinstance(target, Parameter):
                        given.requires_grad_(target.requires_grad)
                    setattr(self, name, given)
                else:
                    if target.is_meta and not given.is_meta:
                        warn(f"load_state_dict: {key} is on the meta device, which holds no values, so nothing is "
                             "copied into it; pass assign=True, or call to_empty(device=...) before", UserWarning,
                             stacklevel=2)
                    target.copy_(given)
        except Exception as error:
            return (
                f"{key}: copying {list(given.shape)} into {list(target.shape)} failed with "
                f"{type(error).__name__}: {error}"
            )
        return None


def _load(module, local, prefix, metadata, assign, missing, unexpected, errors):
    """The entries of `local` into the module and those below it. A closure would be a cycle that keeps the tensors."""
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = assign
    # children report what is unexpected in their part: strict=True here whatever the caller wants
    module._load_from_state_dict(local, prefix, local_metadata, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            inner = prefix + name + "."
            below = {k: v for k, v in local.items() if k.startswith(inner)}
            _load(child, below, inner, metadata, assign, missing, unexpected, errors)
    keys = _IncompatibleKeys(missing, unexpected)
    for hook in kept(module, "_load_state_dict_post_hooks").values():
        if hook(module, keys) is not None:
            raise RuntimeError("load_state_dict post-hook: change the lists of keys in place and return None")


def _quoted(key):
    return f'"{clipped(key)}"'
