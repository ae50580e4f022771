"""Which parts of a model are wrapped by themselves: policies for FullyShardedDataParallel and for checkpointing."""

import contextlib
import functools
from abc import ABC, abstractmethod

from ..._shown import shown
from ...nn import Module, ModuleDict, ModuleList, MultiheadAttention


class _Policy(ABC):
    """A policy as an object: it looks at the whole model at once."""

    @abstractmethod
    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        """{module: arguments of its wrapper} of all modules to be wrapped."""
        raise NotImplementedError(f"{type(self).__name__} must define _run_policy for a {type(root_module).__name__}, "
                                  f"{len(ignored_modules)} ignored modules and {sorted(root_kwargs)}")


class ModuleWrapPolicy(_Policy):
    """Wraps all modules of some classes.

    >>> from flambeau import nn
    >>> from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy
    >>> policy = ModuleWrapPolicy({nn.Linear})
    >>> policy(nn.Linear(1, 1), recurse=False), policy(nn.ReLU(), recurse=False)
    (True, False)
    """

    def __init__(self, module_classes):
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        kinds = tuple(self._module_classes)
        return {m: dict(root_kwargs) for m in root_module.modules()
                if m not in ignored_modules and isinstance(m, kinds)}

    def __call__(self, module, recurse, *args, **kwargs):
        """As a function among others in `_or_policy`."""
        return _module_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self):
        return f"ModuleWrapPolicy({self._module_classes_str})"


class CustomPolicy(_Policy):
    """Wraps the modules for which a function says True, or gives the arguments of the wrapper as a dict.

    >>> from flambeau import nn
    >>> from flambeau.distributed.fsdp.wrap import CustomPolicy
    >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
    >>> model = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    >>> apply_activation_checkpointing(model, auto_wrap_policy=CustomPolicy(lambda m: isinstance(m, nn.Linear)))
    >>> [type(m).__name__ for m in model]
    ['CheckpointWrapper', 'ReLU']
    """

    def __init__(self, lambda_fn):
        self._lambda_fn = lambda_fn

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        found = {}
        for module in root_module.modules():
            if module in ignored_modules:
                continue
            answer = self._lambda_fn(module)
            if not isinstance(answer, (bool, dict)):
                raise ValueError("CustomPolicy: the function must return a bool or a dict of arguments, got "
                                 f"{shown(answer)}")
            if answer:
                found[module] = {**root_kwargs, **answer} if isinstance(answer, dict) else dict(root_kwargs)
        return found


# --- policies as functions: policy(module=, recurse=, nonwrapped_numel=) ----------------------------------------------

def always_wrap_policy(*args, **kwargs):
    """Wraps every module."""
    return True


def _module_wrap_policy(module, recurse, nonwrapped_numel, module_classes):
    """Wraps modules of some classes; recurse: whether to look below."""
    return recurse or isinstance(module, tuple(module_classes))


def transformer_auto_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls):
    """Wraps the layers of a transformer, of the classes that are given."""
    return _module_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls)


def lambda_auto_wrap_policy(module, recurse, nonwrapped_numel, lambda_fn):
    """Wraps the modules for which the function says True."""
    return recurse or lambda_fn(module)


def _or_policy(module, recurse, nonwrapped_numel, policies):
    """Wraps what one of the policies wraps."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


def size_based_auto_wrap_policy(module, recurse, nonwrapped_numel, min_num_params=int(1e8), force_leaf_modules=None,
                                exclude_wrap_modules=None):
    """Wraps modules whose parameters, without those that are wrapped below, are at least so many."""
    leaves = size_based_auto_wrap_policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    left_out = size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else \
        exclude_wrap_modules
    large = nonwrapped_numel >= min_num_params
    if recurse:
        return large and not isinstance(module, tuple(leaves))
    return large and not isinstance(module, tuple(left_out))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}


# --- wrapping by hand -------------------------------------------------------------------------------------------------

_enabled = []


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls, **wrapper_kwargs):
    """Inside, `wrap(module)` wraps with this class and these arguments."""
    _enabled.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _enabled.pop()


def wrap(module, **wrap_overrides):
    """The module, wrapped as `enable_wrap` says; outside of it the module itself.

    >>> from flambeau import nn
    >>> from flambeau.distributed.fsdp.wrap import enable_wrap, wrap
    >>> with enable_wrap(wrapper_cls=nn.Sequential):
    ...     wrap(nn.ReLU())
    Sequential(
      (0): ReLU()
    )
    """
    if not _enabled:
        return module
    wrapper_cls, arguments = _enabled[-1]
    return wrapper_cls(module, **{**arguments, **wrap_overrides})


# --- wrapping by a policy ---------------------------------------------------------------------------------------------

def wrap_children(module, policy, make, ignored_modules=frozenset(), ignored_params=frozenset(), kwargs=None):
    """Replaces what a policy names below a module by make(part, **kwargs), innermost first."""
    kwargs = kwargs or {}
    if isinstance(policy, _Policy):
        chosen = policy._run_policy(module, ignored_modules, kwargs)
        chosen.pop(module, None)
        _replace(module, lambda part: make(part, **chosen[part]) if part in chosen else part)
    elif callable(policy):
        _by_size(module, policy, functools.partial(make, **kwargs), ignored_modules, set(map(id, ignored_params)), {})
    else:
        raise ValueError(f"auto_wrap_policy must be a function or an object of fsdp.wrap, got {shown(policy)}")


def _replace(module, change, done=None):
    """Puts change(part) in place of every part, those below first; the same for a part that stands in two places."""
    done = {} if done is None else done
    for name, child in list(module._modules.items()):
        if child is None or "_fsdp_state" in child.__dict__:  # wrapped already
            continue
        if child not in done:
            _replace(child, change, done)
            done[child] = change(child)
        if done[child] is not child:
            setattr(module, name, done[child])


def _by_size(module, policy, make, ignored_modules, ignored, done):
    """The same for a policy that asks how many parameters are left; returns how many below are wrapped."""
    total = sum(p.numel() for p in module.parameters() if id(p) not in ignored)
    if not policy(module=module, recurse=True, nonwrapped_numel=total):
        return 0
    taken = 0
    for name, child in list(module._modules.items()):
        if child is None or child in ignored_modules or "_fsdp_state" in child.__dict__:
            continue
        if child not in done:
            count = sum(p.numel() for p in child.parameters() if id(p) not in ignored)
            inside = _by_size(child, policy, make, ignored_modules, ignored, done)
            whole = policy(module=child, recurse=False, nonwrapped_numel=count - inside)
            done[child] = (make(child), count) if whole else (child, inside)
        made, count = done[child]
        taken += count
        if made is not child:
            setattr(module, name, made)
    return taken


def _recursive_wrap(module, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, only_wrap_children=False,
                    **kwargs):
    """(the module or its wrapper, how many parameters are wrapped), by a policy that is a function."""
    if not isinstance(module, Module):
        raise TypeError(f"_recursive_wrap: expected a module, got {shown(module)}")
    make, ignored = functools.partial(wrapper_cls, **kwargs), set(map(id, ignored_params))
    count = sum(p.numel() for p in module.parameters() if id(p) not in ignored)
    taken = _by_size(module, auto_wrap_policy, make, ignored_modules, ignored, {})
    if not only_wrap_children and auto_wrap_policy(module=module, recurse=False, nonwrapped_numel=count - taken):
        return make(module), count
    return module, taken
