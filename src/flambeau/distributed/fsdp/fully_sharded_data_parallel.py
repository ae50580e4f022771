"""FullyShardedDataParallel: a wrapper whose module's parameters are spread over data parallel ranks."""

import contextlib

import flambeau

from ..._shown import shown
from ...nn import Module, Parameter
from ...nn.utils import clip_grads_with_norm_, get_total_norm
from .. import _collectives as collectives
from .._values import BackwardPrefetch as BackwardPrefetch
from .._values import OptimStateKeyType as OptimStateKeyType
from .._values import ShardingStrategy as ShardingStrategy
from .._values import StateDictType as StateDictType
from ..device_mesh import DeviceMesh, init_device_mesh
from ..tensor import DTensor
from . import _optim_state as optim_states
from ._fully_shard import _default_mesh, _taken
from ._group import ParameterGroup
from ._policies import MixedPrecisionPolicy
from ._settings import CONFIGS, CPUOffload, MixedPrecision, StateDictSettings
from ._settings import FullOptimStateDictConfig as FullOptimStateDictConfig
from ._settings import FullStateDictConfig as FullStateDictConfig
from ._state import State, cast, state_of, states_below
from .wrap import CustomPolicy, wrap_children

_NAME = "_fsdp_wrapped_module"
_PREFIX = _NAME + "."
_KEPT = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


class FullyShardedDataParallel(Module):
    """Spreads a module's parameters, gradients and optimizer states; `forward` and `backward` gather what they need.

    auto_wrap_policy wraps parts first (see fsdp.wrap), each of which is gathered by itself. Parameters are DTensors
    with their own names and shapes, with and without use_orig_params; make the optimizer after wrapping.
    sharding_strategy: FULL_SHARD, SHARD_GRAD_OP (whole from forward to backward), NO_SHARD (copies, as
    DistributedDataParallel), HYBRID_SHARD (cut along the second dimension of device_mesh, copied along the first)
    (Zhao et al. 2023).

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.fsdp import FullyShardedDataParallel
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> model = FullyShardedDataParallel(flambeau.nn.Linear(2, 1))
    >>> optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
    >>> model(flambeau.ones(3, 2)).sum().backward()
    >>> optimizer.step()
    >>> list(model.state_dict())
    ['weight', 'bias']
    >>> dist.destroy_process_group()
    """

    def __init__(self, module, process_group=None, sharding_strategy=None, cpu_offload=None, auto_wrap_policy=None,
                 backward_prefetch=BackwardPrefetch.BACKWARD_PRE, mixed_precision=None, ignored_modules=None,
                 param_init_fn=None, device_id=None, sync_module_states=False, forward_prefetch=False,
                 limit_all_gathers=True, use_orig_params=False, ignored_states=None, device_mesh=None):
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        _check(device_id, cpu_offload, mixed_precision)
        mesh = _mesh(device_mesh, process_group, strategy)
        ignored, ignored_parts = _ignored(ignored_modules, ignored_states)
        options = {
            "process_group": process_group, "sharding_strategy": strategy, "cpu_offload": cpu_offload,
            "backward_prefetch": backward_prefetch, "mixed_precision": mixed_precision,
            "param_init_fn": param_init_fn, "sync_module_states": sync_module_states,
            "forward_prefetch": forward_prefetch, "limit_all_gathers": limit_all_gathers,
            "use_orig_params": use_orig_params, "device_mesh": mesh, "ignored_states": ignored or None}
        if mixed_precision is not None and mixed_precision.param_dtype is not None:
            _keep_precision(module, mixed_precision._module_classes_to_ignore, type(self), options)
        if auto_wrap_policy is not None:
            wrap_children(module, auto_wrap_policy, type(self), ignored_parts, ignored, options)
        _materialize(module, param_init_fn)
        if sync_module_states:
            _synchronize(module, mesh, set(map(id, ignored)))
        self._fsdp_wrapped_module = module
        mixed = mixed_precision or MixedPrecision()
        policy = MixedPrecisionPolicy(mixed.param_dtype, mixed.reduce_dtype, None, mixed.cast_forward_inputs)
        if mixed.buffer_dtype is not None:
            _cast_buffers(module, mixed.buffer_dtype)
        group = ParameterGroup(_taken([module], mesh, None, set(map(id, ignored))), mesh, policy)
        state = State([self], group, policy, False if strategy in _KEPT else None)
        state.cast_root = mixed.cast_root_forward_inputs
        state.forward_prefetch_next = forward_prefetch
        if backward_prefetch != BackwardPrefetch.BACKWARD_PRE:
            state.backward_prefetch = []
        state.prefetch_after = backward_prefetch == BackwardPrefetch.BACKWARD_POST
        self.__dict__["_fsdp_state"] = state
        self.sharding_strategy, self.process_group = strategy, group.shard_group
        self.mixed_precision, self._settings = mixed, StateDictSettings()
        self._register_state_dict_hook(_to_state)
        self.register_state_dict_pre_hook(lambda *_: state.group.reshard())
        self.register_load_state_dict_pre_hook(_from_state)

    # --- as the module inside -----------------------------------------------------------------------------------------

    @property
    def module(self):
        """The module inside."""
        return self._fsdp_wrapped_module

    def forward(self, *args, **kwargs):
        """As of the module inside, with whole parameters."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _NAME:
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key):
        return self._fsdp_wrapped_module[key]

    def apply(self, fn):
        """Calls fn(module) for every module below, with whole parameters, and keeps what it changes."""
        if _summoned:
            return super().apply(fn)
        with self.summon_full_params(self):
            return super().apply(fn)

    def check_is_root(self):
        """Whether it is the outermost; before the first forward this is not known, and it becomes a root."""
        state_of(self).begin()
        return state_of(self).is_root

    # --- training -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def no_sync(self):
        """A context in which backward adds up gradients without exchanging them."""
        groups = [state.group for state in states_below(self)]
        before = [group.sync for group in groups]
        for group in groups:
            group.sync = False
        try:
            yield
        finally:
            for group, sync in zip(groups, before):
                group.sync = sync

    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        """Scales all gradients, of spread and of other parameters, to a common norm of at most max_norm.

        Returns the norm before, the same plain tensor on all ranks.
        """
        params = [p for p in self.parameters() if p.grad is not None]
        meshes = {}
        for p in params:
            meshes.setdefault(p.device_mesh if isinstance(p, DTensor) else None, []).append(p.grad)
        norms = [get_total_norm(grads, norm_type) for grads in meshes.values()]
        norms = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
        total = get_total_norm(norms, norm_type) if norms else flambeau.tensor(0.0)
        for p in params:
            clip_grads_with_norm_([p], max_norm, total)
        return total

    def register_comm_hook(self, state, hook):
        """hook(state, gradients, part) reduces flat gradients of all ranks into this rank's part, instead of the mean.

        Without cutting (NO_SHARD) hook(state, gradients) changes them in place.
        """
        for each in states_below(self):
            each.group.comm_hook = hook, state

    # --- whole parameters ---------------------------------------------------------------------------------------------

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(module, recurse=True, writeback=True, rank0_only=False, offload_to_cpu=False,
                           with_grads=False):
        """A context in which parameters are whole, as plain parameters, and named without the wrapper.

        writeback: what is changed inside is kept. rank0_only: others keep their parts. All ranks enter it.
        """
        if rank0_only and writeback:
            raise NotImplementedError("summon_full_params: with rank0_only=True the ranks would have different values "
                                      "afterwards; pass writeback=False")
        if offload_to_cpu and not isinstance(module, Module):
            raise TypeError(f"summon_full_params: expected a module, got {shown(module)}")
        states = states_below(module) if recurse else [s for s in [state_of(module)] if s is not None]
        params = [p for state in states for p in state.group.params]
        for state in states:
            state.group.reshard()
        with flambeau.no_grad():
            whole = [_whole(p, with_grads) for p in params]
        if not rank0_only or flambeau.distributed.get_rank() == 0:
            for p, full in zip(params, whole):
                p.register(full)
        _summoned.append(True)
        try:
            yield
        finally:
            _summoned.pop()
            for p, full in zip(params, whole):
                p.register(p.sharded)
                if writeback:
                    _write_back(p, full, with_grads)

    def named_parameters(self, *args, **kwargs):
        """Names as they are; without the wrapper's inside summon_full_params."""
        for name, param in super().named_parameters(*args, **kwargs):
            yield (name.replace(_PREFIX, "") if _summoned else name), param

    def named_buffers(self, *args, **kwargs):
        """Names as they are; without the wrapper's inside summon_full_params."""
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield (name.replace(_PREFIX, "") if _summoned else name), buffer

    # --- state dicts --------------------------------------------------------------------------------------------------

    @staticmethod
    def fsdp_modules(module, root_only=False):
        """The wrappers in a module; root_only: those that are not inside another."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if not root_only:
            return found
        inside = {part for m in found for part in m.modules() if part is not m}
        return [m for m in found if m not in inside]

    @staticmethod
    def set_state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Which form state dicts of the wrappers have from now on; returns the settings before."""
        if state_dict_type not in CONFIGS:
            raise ValueError(f"set_state_dict_type: expected a StateDictType, got {shown(state_dict_type)}")
        kinds = CONFIGS[state_dict_type]
        configs = [given if given is not None else kind()
                   for given, kind in zip((state_dict_config, optim_state_dict_config), kinds)]
        for config, kind in zip(configs, kinds):
            if type(config) is not kind:
                raise RuntimeError(f"set_state_dict_type: {state_dict_type.name} has a {kind.__name__}, got a "
                                   f"{type(config).__name__}")
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for m in FullyShardedDataParallel.fsdp_modules(module):
            m._settings = StateDictSettings(state_dict_type, *configs)
        return before

    @staticmethod
    def get_state_dict_type(module):
        """The settings of the wrappers in a module."""
        found = [m._settings for m in FullyShardedDataParallel.fsdp_modules(module)]
        return found[0] if found else StateDictSettings()

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """A context in which state dicts have this form."""
        before = FullyShardedDataParallel.set_state_dict_type(module, state_dict_type, state_dict_config,
                                                              optim_state_dict_config)
        try:
            yield
        finally:
            for m in FullyShardedDataParallel.fsdp_modules(module):
                m._settings = before

    @staticmethod
    def optim_state_dict(model, optim, optim_state_dict=None, group=None):
        """The optimizer's state by names of parameters, in the form that state dicts of the model have."""
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        return optim_states.by_names(model, optim, optim_state_dict, settings.state_dict_type,
                                     getattr(settings.optim_state_dict_config, "rank0_only", False), group)

    @staticmethod
    def optim_state_dict_to_load(model, optim, optim_state_dict, is_named_optimizer=False, load_directly=False,
                                 group=None):
        """What `optim.load_state_dict` takes, of what optim_state_dict gave; load_directly: it is loaded, too."""
        if is_named_optimizer:
            raise NotImplementedError("optim_state_dict_to_load: is_named_optimizer=True is not available; leave it "
                                      "out")
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        if getattr(settings.optim_state_dict_config, "rank0_only", False):
            optim_state_dict = optim_states.from_first(optim_state_dict, group)
        found = optim_states.by_numbers(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(found)
        return found

    @staticmethod
    def full_optim_state_dict(model, optim, optim_input=None, rank0_only=True, group=None):
        """The older name of optim_state_dict with whole tensors."""
        _no_input(optim_input, "full_optim_state_dict")
        return optim_states.by_names(model, optim, None, StateDictType.FULL_STATE_DICT, rank0_only, group)

    @staticmethod
    def sharded_optim_state_dict(model, optim, group=None):
        """The older name of optim_state_dict with DTensors."""
        return optim_states.by_names(model, optim, None, StateDictType.SHARDED_STATE_DICT, False, group)

    @staticmethod
    def shard_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None):
        """What `load_state_dict` takes, of a state with whole tensors that every rank has."""
        _no_input(optim_input, "shard_full_optim_state_dict")
        return optim_states.by_numbers(model, optim, full_optim_state_dict)

    @staticmethod
    def scatter_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None, group=None):
        """The same of a state that the first rank alone has."""
        _no_input(optim_input, "scatter_full_optim_state_dict")
        return optim_states.by_numbers(model, optim, optim_states.from_first(full_optim_state_dict, group))

    @staticmethod
    def rekey_optim_state_dict(optim_state_dict, optim_state_key_type, model, optim_input=None, optim=None):
        """Names of parameters in place of numbers, or the other way: for programs without this wrapper."""
        _no_input(optim_input, "rekey_optim_state_dict")
        return optim_states.rekeyed(optim_state_dict, optim_state_key_type, model, optim)


_FSDPState = FullyShardedDataParallel  # the state of a module that is wrapped is the wrapper itself


_summoned = []


def _no_input(optim_input, name):
    if optim_input is not None:
        raise NotImplementedError(f"{name}: optim_input is not available; pass optim")


# --- making -----------------------------------------------------------------------------------------------------------

def _check(device_id, cpu_offload, mixed_precision):
    if device_id is not None and flambeau.device(device_id).type != "cpu":
        raise NotImplementedError(f"FullyShardedDataParallel: device_id={shown(device_id)} is not available in this "
                                  "build; leave it out")
    if cpu_offload is not None and not isinstance(cpu_offload, CPUOffload):
        raise TypeError(f"FullyShardedDataParallel: cpu_offload must be a CPUOffload, got {shown(cpu_offload)}")
    if mixed_precision is not None and mixed_precision.keep_low_precision_grads:
        raise NotImplementedError("FullyShardedDataParallel: keep_low_precision_grads=True is not available; gradients "
                                  "have the dtype of their parameters")


def _mesh(device_mesh, group, strategy):
    """The mesh of one dimension to cut along, or of two: to copy along, and to cut along."""
    if device_mesh is not None:
        if device_mesh.ndim != (2 if strategy in _HYBRID or (strategy is ShardingStrategy.NO_SHARD
                                                              and device_mesh.ndim == 2) else 1):
            raise ValueError(f"FullyShardedDataParallel: {strategy.name} and {shown(device_mesh)} do not fit: "
                             "HYBRID_SHARD needs a mesh of two dimensions, the others one of one")
        if strategy is not ShardingStrategy.NO_SHARD or device_mesh.ndim == 2:
            return device_mesh
        return DeviceMesh("cpu", device_mesh.mesh.unsqueeze(1))
    if strategy in _HYBRID:
        if isinstance(group, (tuple, list)):
            shard, replicate = group
            ranks = [None] * replicate.size()
            flambeau.distributed.all_gather_object(ranks, list(shard.ranks), group=replicate)
            return DeviceMesh.from_group([replicate, shard], "cpu", mesh=ranks)
        return init_device_mesh("cpu", (1, flambeau.distributed.get_world_size()))
    if strategy is ShardingStrategy.NO_SHARD:
        ranks = list(range(flambeau.distributed.get_world_size())) if group is None else list(group.ranks)
        return DeviceMesh("cpu", [[rank] for rank in ranks])
    return _default_mesh() if group is None else DeviceMesh.from_group(group, "cpu")


def _ignored(modules, states):
    """(parameters, modules) that stay as they are."""
    parts = {part for module in modules or () for part in module.modules()}
    params = {p for part in parts for p in part.parameters(recurse=False)}
    for each in states or ():
        if isinstance(each, Module):
            parts.update(each.modules())
            params.update(each.parameters())
        else:
            params.add(each)
    return params, parts


def _materialize(module, param_init_fn):
    """Modules on the meta device get memory and values, by the function or by their own reset_parameters."""
    for part in module.modules():
        own = [*part.parameters(recurse=False), *part.buffers(recurse=False)]
        if not any(t.device.type == "meta" for t in own):
            continue
        if param_init_fn is not None:
            param_init_fn(part)
        else:
            part.to_empty(device="cpu", recurse=False)
            part.reset_parameters()


def _keep_precision(module, classes, make, options):
    """Modules of these classes (batch norms) compute in their own dtype: each is wrapped by itself."""
    def enter(part, args):
        part.__dict__["_given_dtype"] = next((x.dtype for x in args if hasattr(x, "is_floating_point")), None)
        return cast(args, next(part.parameters()).dtype)

    def leave(part, _, outputs):
        return cast(outputs, part.__dict__.pop("_given_dtype"))

    def wrap_one(part, **kwargs):
        part.register_forward_pre_hook(enter)
        part.register_forward_hook(leave)
        return make(part, **{**kwargs, "mixed_precision": None})

    def chosen(part):
        inside = isinstance(part, FullyShardedDataParallel) or "_fsdp_state" in part.__dict__
        return isinstance(part, classes) and not inside and any(True for _ in part.parameters())

    wrap_children(module, CustomPolicy(chosen), wrap_one, kwargs=options)


def _synchronize(module, mesh, ignored):
    """All ranks take over the values of the first."""
    with flambeau.no_grad():
        for t in [*module.parameters(), *module.buffers()]:
            if isinstance(t, DTensor) or id(t) in ignored:
                continue
            for group in mesh.get_all_groups():
                collectives.broadcast(t.detach(), group=group, group_src=0)


def _cast_buffers(module, dtype):
    for part in module.modules():
        for name, buffer in part._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                part._buffers[name] = cast(buffer, dtype)


# --- whole parameters and state dicts ---------------------------------------------------------------------------------

def _whole(p, with_grads):
    full = Parameter(p.sharded.detach().full_tensor().clone(), requires_grad=p.sharded.requires_grad)
    if with_grads and p.sharded.grad is not None:
        full.grad = p.sharded.grad.full_tensor().clone()
    return full


def _write_back(p, full, with_grads):
    with flambeau.no_grad():
        p.sharded._local_tensor.copy_(p.sharded._own_spread(full)._local_tensor)
        if with_grads and full.grad is not None and p.sharded.grad is not None:
            p.sharded.grad._local_tensor.copy_(p.sharded._own_spread(full.grad)._local_tensor)


def _to_state(module, state_dict, prefix, *_):
    """Names lose the wrapper's part, and values get the form that was asked for."""
    own, settings = prefix + _PREFIX, module._settings
    for key in [key for key in state_dict if key.startswith(own)]:
        state_dict[prefix + key[len(own):]] = optim_states.shown_as(state_dict.pop(key), settings.state_dict_type)
    if getattr(settings.state_dict_config, "rank0_only", False) and flambeau.distributed.get_rank() != 0:
        for key in [key for key in state_dict if key.startswith(prefix)]:
            del state_dict[key]


def _from_state(module, state_dict, prefix, *_):
    """Names get the wrapper's part, and values are spread as the parameters are."""
    state_of(module).group.reshard()
    own = prefix + _PREFIX
    for key in [key for key in state_dict if key.startswith(prefix) and not key.startswith(own)]:
        state_dict[own + key[len(prefix):]] = state_dict.pop(key)
    for name, param in module._fsdp_wrapped_module.named_parameters():
        if isinstance(param, DTensor) and own + name in state_dict:
            state_dict[own + name] = optim_states.fitted(state_dict[own + name], param)
