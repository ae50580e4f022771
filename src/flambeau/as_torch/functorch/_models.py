"""Models as functions of a tuple of parameters and one of buffers, in the order of `named_parameters()`."""

import copy

from ...func import functional_call, stack_module_state
from ...nn import Module, Parameter


class FunctionalModule(Module):
    """A model without tensors of its own: called with a tuple of parameters and then its inputs."""

    def __init__(self, model):
        super().__init__()
        self.param_names = tuple(name for name, _ in model.named_parameters())
        self.buffer_names = tuple(name for name, _ in model.named_buffers())
        self.stateless_model = _without_memory(model)

    def forward(self, params, *args, **kwargs):
        given = _named("parameters", self.param_names, params)
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModuleWithBuffers(FunctionalModule):
    """A model without tensors of its own: called with tuples of parameters and of buffers and then its inputs."""

    def forward(self, params, buffers, *args, **kwargs):
        given = _named("parameters", self.param_names, params), _named("buffers", self.buffer_names, buffers)
        return functional_call(self.stateless_model, given, args, kwargs)


def _without_memory(model):
    """A copy whose tensors have sizes only; those that the model has under several names stay one."""
    instead = {id(t): Parameter(t.detach().to("meta"), t.requires_grad) for t in model.parameters()}
    instead.update((id(t), t.detach().to("meta")) for t in model.buffers())
    return copy.deepcopy(model, instead)


def _named(what, names, values):
    if len(names) != len(values):
        raise RuntimeError(f"functorch: the model has {len(names)} {what} ({', '.join(names)}), got {len(values)}")
    return dict(zip(names, values))


def _copied(tensors, disable_autograd_tracking):
    """Leaves of their own, so that a gradient of theirs is none of the model's."""
    return tuple(t.detach().clone().requires_grad_(t.requires_grad and not disable_autograd_tracking) for t in tensors)


def make_functional(model, disable_autograd_tracking=False):
    """(function, parameters) of a model that has no buffers: function(parameters, *inputs) is what the model gives.

    >>> import flambeau
    >>> from flambeau.as_torch.functorch import make_functional
    >>> function, parameters = make_functional(flambeau.nn.Linear(2, 1))
    >>> function([flambeau.ones(1, 2), flambeau.zeros(1)], flambeau.tensor([3., 4.]))
    tensor([7.])
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(f"make_functional: {type(model).__name__} has buffers; use make_functional_with_buffers")
    return FunctionalModule(model), _copied(model.parameters(), disable_autograd_tracking)


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """(function, parameters, buffers) of a model: function(parameters, buffers, *inputs) is what the model gives.

    >>> import flambeau
    >>> from flambeau.as_torch.functorch import make_functional_with_buffers
    >>> function, parameters, buffers = make_functional_with_buffers(flambeau.nn.BatchNorm1d(2))
    >>> function(parameters, buffers, flambeau.ones(3, 2)).shape, len(buffers)
    (torch.Size([3, 2]), 3)
    """
    parameters = _copied(model.parameters(), disable_autograd_tracking)
    return FunctionalModuleWithBuffers(model), parameters, _copied(model.buffers(), disable_autograd_tracking)


def combine_state_for_ensemble(models):
    """(function, parameters, buffers) of several models of one class, stacked for `vmap` of the function.

    >>> import flambeau
    >>> from flambeau.as_torch.functorch import combine_state_for_ensemble
    >>> function, parameters, buffers = combine_state_for_ensemble([flambeau.nn.Linear(2, 1) for _ in range(3)])
    >>> flambeau.vmap(function, in_dims=(0, 0, None))(parameters, buffers, flambeau.ones(5, 2)).shape
    torch.Size([3, 5, 1])
    """
    parameters, buffers = (tuple(state.values()) for state in stack_module_state(models))
    return FunctionalModuleWithBuffers(models[0]), parameters, buffers
