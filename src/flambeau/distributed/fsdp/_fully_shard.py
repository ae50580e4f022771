"""fully_shard: parameters, gradients and the optimizer's state of a module, each rank with its part."""

from weakref import WeakKeyDictionary

from ..._shown import listed, shown
from ...nn import Module, ModuleDict, ModuleList
from ...ops.dims import wrap_dim
from .. import _groups
from ..device_mesh import DeviceMesh, init_device_mesh
from ..tensor import DTensor, Shard
from ._group import ParameterGroup
from ._parameter import ShardedParameter
from ._policies import MixedPrecisionPolicy, OffloadPolicy
from ._state import State, state_of, states_below, states_of


class UnshardHandle:
    """A gather under way; `wait()` returns when the module has whole parameters."""

    def __init__(self, state):
        self._state = state

    def wait(self):
        """Waits for it."""
        self._state.group.wait()
        self._state.group.give(self._state)


class FSDPModule:
    """What `fully_shard` makes of a module: the same class with the methods below."""

    def __new__(cls, *args, **kwargs):
        """A new module of the class as it was: copies and new layers are not spread."""
        original = next(c for c in cls.__mro__ if not issubclass(c, FSDPModule))
        return original(*args, **kwargs)

    def __deepcopy__(self, *_):
        raise RuntimeError(f"{type(self).__name__}: a module that fully_shard was applied to cannot be copied; make "
                           "another and load this one's state_dict() into it")

    def _apply(self, *args, **kwargs):
        self.reshard()
        return super()._apply(*args, **kwargs)

    def _own_states(self, recurse):
        return states_below(self) if recurse else [state_of(self)]

    def unshard(self, async_op=False):
        """Makes this module's own parameters whole; with async_op=True a handle comes back at once."""
        state = state_of(self)
        state.begin()
        state.group.unshard()
        handle = UnshardHandle(state)
        return handle if async_op else handle.wait()

    def reshard(self):
        """Forgets this module's own whole parameters."""
        state_of(self).group.reshard()

    def set_is_last_backward(self, is_last_backward):
        """Whether the next backward is the last before a step: gradients arrive at its end."""
        for state in states_below(self):
            state.last_backward = is_last_backward
            if state.run is not None:
                state.run.last_backward = is_last_backward

    def set_requires_gradient_sync(self, requires_gradient_sync, *, recurse=True):
        """Whether backward reduces gradients; without, each rank adds up its own, whole, until it does again."""
        for state in self._own_states(recurse):
            state.group.sync = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce, *, recurse=True):
        """Of a mesh of two dimensions: whether gradients are also added up along the first."""
        for state in self._own_states(recurse):
            state.group.all_reduce = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward, recurse=True):
        """Whether whole parameters are forgotten after forward, and gathered again in backward. A bool: to keep them
        on a few ranks is for `fully_shard` to say.
        """
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"set_reshard_after_forward: expected True or False, got {shown(reshard_after_forward)}; "
                             "a number of ranks is an argument of fully_shard")
        for state in self._own_states(recurse):
            state.reshard_after_forward, state.group.few = reshard_after_forward, None

    def set_reshard_after_backward(self, reshard_after_backward, *, recurse=True):
        """Whether whole parameters are forgotten after backward: False helps where several backwards make a step."""
        for state in self._own_states(recurse):
            state.reshard_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules):
        """Modules whose parameters are gathered while this one computes forward."""
        state_of(self).forward_prefetch = states_of(modules, "set_modules_to_forward_prefetch")

    def set_modules_to_backward_prefetch(self, modules):
        """The same in backward, where the module that ran before this one is what happens without."""
        state_of(self).backward_prefetch = states_of(modules, "set_modules_to_backward_prefetch")

    def set_unshard_in_backward(self, unshard_in_backward):
        """False where backward does not need the parameters, as for an embedding."""
        state_of(self).backward_unshard = unshard_in_backward

    def set_reduce_scatter_divide_factor(self, factor):
        """`set_gradient_divide_factor` under its old name."""
        self.set_gradient_divide_factor(factor)

    def set_gradient_divide_factor(self, factor):
        """What sums of gradients are divided by, instead of the number of ranks."""
        state_of(self).group.divisor = factor

    def set_force_sum_reduction_for_comms(self, enable):
        """Whether means are made as sums that are divided afterwards."""
        for state in states_below(self):
            state.group.sum_only = enable

    def set_all_reduce_hook(self, hook, *, stream=None):
        """Calls hook(tensor) with this module's reduced gradients, flat, before they are given to the parameters."""
        if stream is not None:
            raise NotImplementedError("set_all_reduce_hook: there are no streams on the CPU; leave out stream")
        state_of(self).group.reduced_hook = hook


_made_classes = {}


def _with_methods(kind):
    if kind not in _made_classes:
        _made_classes[kind] = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__})
    return _made_classes[kind]


def fully_shard(module, *, mesh=None, reshard_after_forward=None, shard_placement_fn=None,
                mp_policy=MixedPrecisionPolicy(), offload_policy=OffloadPolicy(), ignored_params=None,
                dp_mesh_dims=None):
    """Spreads the parameters of a module over the ranks of a data parallel mesh, in place, and returns the module.

    Apply it to the parts first (each layer of a transformer), then to the whole: each call takes the parameters that
    inner calls have left, and gathers and forgets them together. Make the optimizer afterwards, of the DTensors.
    A mesh of two dimensions cuts along the second and copies along the first. reshard_after_forward=False keeps whole
    parameters until backward (as the outermost module does unless told otherwise); a number n, which must divide that
    of the ranks, keeps them cut between n neighbours, which gather them for backward among themselves.
    shard_placement_fn(parameter) may return Shard(dim) to cut along another dimension   (Zhao et al. 2023;
    Rajbhandari et al. 2020, stage 3).

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.fsdp import fully_shard
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> model = flambeau.nn.Sequential(flambeau.nn.Linear(2, 4), flambeau.nn.Linear(4, 1))
    >>> for layer in model:
    ...     _ = fully_shard(layer)
    >>> _ = fully_shard(model)
    >>> optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
    >>> model(flambeau.ones(3, 2)).sum().backward()
    >>> optimizer.step()
    >>> model[0].weight.placements
    (Shard(dim=0),)
    >>> dist.destroy_process_group()
    """
    if dp_mesh_dims is not None:
        raise NotImplementedError("fully_shard: dp_mesh_dims is not available; give the data parallel dimensions "
                                  "themselves, mesh=mesh[\"dp\"], of parameters that are spread along the others")
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    mesh = _mesh(mesh)
    _check(modules, offload_policy)
    reshard, ways = _resharding(reshard_after_forward, mesh.shape[-1])
    ignored = set(map(id, ignored_params or ()))
    group = ParameterGroup(_taken(modules, mesh, shard_placement_fn, ignored), mesh, mp_policy)
    group.few = None if ways is None else _neighbours(group.shard_group, ways)
    state = State(modules, group, mp_policy, reshard)
    for part in modules:
        part.__dict__["_fsdp_state"] = state
        part.__class__ = _with_methods(type(part))
        # a state dict is of the parts: whole parameters are forgotten before
        part.register_state_dict_pre_hook(lambda *_: state.group.reshard())
        part.register_load_state_dict_pre_hook(lambda *_: state.group.reshard())
    return module


def _mesh(mesh):
    if mesh is None:
        return _default_mesh()
    if not isinstance(mesh, DeviceMesh) or mesh.ndim > 2:
        raise ValueError(f"fully_shard: mesh must be a DeviceMesh of one or two dimensions, got {shown(mesh)}")
    if mesh.get_coordinate() is None:
        raise RuntimeError(f"fully_shard: this rank is not in the mesh {shown(mesh)}; call it on the ranks of the "
                           "mesh alone")
    return mesh


_defaults = {}


def _default_mesh():
    """One mesh of all ranks, for all calls without one."""
    world = _groups.world("fully_shard")
    if _defaults.get("group") is not world:
        _defaults.update(mesh=init_device_mesh("cpu", (world.size(),)), group=world)
    return _defaults["mesh"]


def _resharding(given, size):
    """(whether whole parameters are forgotten after forward, between how many ranks they are kept or None)"""
    if given is None or isinstance(given, bool):
        return given, None
    if type(given) is not int:
        raise TypeError(f"fully_shard: reshard_after_forward must be True, False or a number of ranks, got "
                        f"{shown(given)}")
    if given < 1 or size % given:
        raise ValueError(f"fully_shard: reshard_after_forward must divide the {size} ranks that parameters are spread "
                         f"over, got {given}")
    return given > 1, given if 1 < given < size else None


_few = WeakKeyDictionary()  # group -> {n: the n neighbours in it that this rank belongs to}


def _neighbours(group, count):
    made = _few.setdefault(group, {})
    if count not in made:
        first = group.rank() // count * count
        made[count] = _groups.new_group(group.ranks[first:first + count], use_local_synchronization=True)
    return made[count]


def _check(modules, offload_policy):
    if not isinstance(offload_policy, OffloadPolicy):
        raise TypeError(f"fully_shard: offload_policy must be an OffloadPolicy, got {shown(offload_policy)}")
    for part in modules:
        if not isinstance(part, Module) or isinstance(part, (ModuleList, ModuleDict)):
            raise ValueError(f"fully_shard: expected a module with a forward, got {shown(type(part).__name__)}; give a "
                             "list of the modules in it, or call it on each")
        if state_of(part) is not None:
            raise AssertionError("fully_shard: it was applied to this module before")


def _taken(modules, mesh, placement, ignored):
    """The parameters below the modules that no inner call has taken, each with all places where it is registered."""
    homes, params, names = {}, {}, {}
    for module in modules:
        for prefix, part in module.named_modules():
            inner = _inner(module, part)
            for name, p in part._parameters.items():
                if p is None or id(p) in ignored or inner or _is_taken(p):
                    continue
                homes.setdefault(id(p), []).append((part, name))
                params[id(p)] = p
                names.setdefault(id(p), f"{prefix}.{name}".lstrip("."))
    _check_shared(modules, params, names)
    made = []
    for key, p in params.items():
        if not p.ndim:
            raise ValueError(f"fully_shard: the parameter {names[key]} has no dimensions, and cannot be cut; make it "
                             "one of shape [1], or name it in ignored_params")
        shard = placement(p) if placement is not None else None
        if shard is not None and not isinstance(shard, Shard):
            raise ValueError(f"fully_shard: shard_placement_fn must return Shard(dim) or None, got {shown(shard)}")
        dim = wrap_dim(shard.dim, p.ndim, "fully_shard") if shard else 0
        made.append(ShardedParameter(p, homes[key], names[key], mesh, dim))
        made[-1].sharded._fsdp_taken = True
    return made


def _inner(module, part):
    """Whether an inner call has the part's parameters already."""
    return part is not module and state_of(part) is not None


def _is_taken(p):
    return isinstance(p, DTensor) and getattr(p, "_fsdp_taken", False)


def _check_shared(modules, params, names):
    """Refuses a parameter that an inner call has taken under another name: the two would be different from now on."""
    originals = {id(p.original()): p.name for module in modules for state in states_below(module)
                 for p in state.group.params if p.original() is not None}
    for key in params:
        if key in originals:
            raise ValueError(f"fully_shard: the parameter {names[key]} is also {originals[key]} of a part that was "
                             "spread before; leave that part to the call for the module that has both")


def register_fsdp_forward_method(module, method_name):
    """Makes a method of a spread module gather its parameters, as forward does: `generate`, for example."""
    state = state_of(module)
    if state is None:
        return
    method = getattr(module, method_name, None)
    if method is None:
        raise ValueError(f"register_fsdp_forward_method: {type(module).__name__} has no method {shown(method_name)}")

    def wrapped(*args, **kwargs):
        args, kwargs = state.before_forward(args, kwargs)
        return state.after_forward(module, method(*args, **kwargs))

    module.__dict__[method_name] = wrapped


def share_comm_ctx(modules):
    """Lets spread modules share what their exchanges need: there is one thread for each process group anyway."""
    states = states_of(modules, "share_comm_ctx")
    if not states:
        raise ValueError(f"share_comm_ctx: expected modules, got {listed(modules)}")
