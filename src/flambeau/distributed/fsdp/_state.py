"""When parameters are gathered and forgotten: hooks around a module's forward and backward."""

import flambeau

from ... import _C
from ..._shown import shown


class Run:
    """What the modules below one root share: which of them ran, in which order, and the backward under way."""

    def __init__(self, states):
        self.states, self.order, self.backward = states, [], False
        self.begun, self.before = [], []  # states in the order of their forwards: of this time, and of the last
        self.last_backward = True

    def enter_backward(self):
        """The first hook of a backward asks to be called at its end."""
        if not self.backward:
            self.backward = True
            _C.queue_callback(self.end)

    def abandon(self):
        """A backward has failed before its end: what it has left is forgotten."""
        self.backward = False
        self.order.clear()
        for state in self.states:
            state.gathered_in_backward = False
            state.group.abandon()

    def end(self):
        """After backward: what has not been reduced is, and all gradients are there when it returns."""
        with flambeau.no_grad():
            for state in self.states:
                state.after_backward_of_all(self.last_backward)
        self.order.clear()
        self.backward = False


class State:
    """The hooks of one fully_shard call, on one module or on several that run one after the other."""

    def __init__(self, modules, group, policy, reshard_after_forward):
        self.modules, self.group, self.policy = modules, group, policy
        self.reshard_after_forward = reshard_after_forward
        self.reshard_after_backward = True
        self.run, self.is_root, self.gathered_in_backward = None, False, False
        self.forward_prefetch, self.backward_prefetch, self.backward_unshard = [], None, True
        self.forward_prefetch_next = self.prefetch_after = self.cast_root = False
        self._ran = set()
        for module in modules:
            module.register_forward_pre_hook(lambda _, args, kwargs: self.before_forward(args, kwargs), prepend=True,
                                             with_kwargs=True)
            module.register_forward_hook(lambda module, _, outputs: self.after_forward(module, outputs))

    # --- forward ------------------------------------------------------------------------------------------------------

    def begin(self):
        """At the first forward: the module that it goes to is the root of those below."""
        if self.run is not None:
            return
        states = list(states_below(self.modules[0]))
        others = [s for s in states if s.run is not None]
        if others:
            raise RuntimeError("fully_shard: a part of this module ran before the module itself, and became a root of "
                               "its own; run the whole module first")
        run = Run(states)
        for state in states:
            state.run = run
            if state.reshard_after_forward is None:
                state.reshard_after_forward = state is not self
        self.is_root = True

    def before_forward(self, args, kwargs):
        """Parameters become whole; inputs get the dtype of the computation."""
        self.begin()
        if self.run.backward and not _C.current_pass():
            self.run.abandon()
        if self.policy.param_dtype is not None and (
                self.policy.cast_forward_inputs or (self.is_root and self.cast_root)):
            args, kwargs = cast((args, kwargs), self.policy.param_dtype)
        if self.run.backward or not self._ran:  # in backward it is the forward of checkpointing
            self.group.unshard(anew=not self.run.backward)
            self.group.wait()
            self.group.give(self)
            for state in self._next_in_forward():
                state.group.unshard()
        return args, kwargs

    def _next_in_forward(self):
        """Those that are named, or with forward_prefetch the one that came next the last time."""
        if self.run.backward or not self.forward_prefetch_next:
            return self.forward_prefetch
        if self.is_root:
            self.run.before, self.run.begun = self.run.begun, []
        self.run.begun.append(self)
        at = len(self.run.begun)
        return self.run.before[at:at + 1]

    def after_forward(self, module, outputs):
        """Forgets the parameters; outputs tell when backward comes."""
        self._ran.add(module)
        recomputing = self.run.backward
        if len(self._ran) == len(self.modules):
            self._ran.clear()
            if not recomputing:
                self._end_forward()
        if not recomputing and flambeau.is_grad_enabled():
            for x in tensors_in(outputs):
                if x.requires_grad:
                    x.register_hook(lambda _: self.before_backward())
        if self.policy.output_dtype is not None:
            outputs = cast(outputs, self.policy.output_dtype)
        return outputs

    def _end_forward(self):
        if not flambeau.is_grad_enabled():
            self.group.reshard()
        elif self.reshard_after_forward:
            self.group.reshard_to_few()
        if flambeau.is_grad_enabled():
            self.run.order.append(self)

    # --- backward -----------------------------------------------------------------------------------------------------

    def before_backward(self):
        """Parameters become whole again; those of the module before it are on their way."""
        self.run.enter_backward()
        if self.gathered_in_backward or not self.backward_unshard:
            return
        self.gathered_in_backward = True
        with flambeau.no_grad():
            self.group.unshard(anew=False)
            self.group.wait()
            for p in self.group.params:
                p.give_again()
            for state in self._next_in_backward():
                state.group.unshard(anew=False)

    def _next_in_backward(self):
        if self.backward_prefetch is not None:
            return self.backward_prefetch
        order = self.run.order
        at = len(order) - 1 - order[::-1].index(self) if self in order else 0
        return order[at - 1:at]

    def gradients(self, found):
        """All gradients by the parameters of one forward are there: they are reduced while backward goes on."""
        self.run.enter_backward()
        self.gathered_in_backward = False
        with flambeau.no_grad():
            self.group.keep(found)
            if self.group.sync:
                self.group.reduce()
            if self.reshard_after_backward:
                self.group.reshard()
            if self.prefetch_after:
                at = self.run.order.index(self) if self in self.run.order else 0
                for state in self.run.order[max(at - 1, 0):at]:
                    state.group.unshard(anew=False)

    def after_backward_of_all(self, last):
        """At the end: gradients arrive, and nothing is left under way."""
        self.gathered_in_backward = False
        if self.reshard_after_backward and (self.group.whole or self.group.gathering):
            self.group.reshard()
        if last:
            self.group.finish()


# --- nests of values --------------------------------------------------------------------------------------------------

def tensors_in(value):
    """The tensors in tuples, lists, dicts and dataclasses, in order."""
    found = []
    replaced(value, found.append)
    return found


def replaced(value, change):
    """The same nest with each tensor replaced by change(tensor)."""
    if isinstance(value, _C.Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replaced(each, change) for each in value))
    if isinstance(value, (tuple, list)):
        return type(value)(replaced(each, change) for each in value)
    if isinstance(value, dict):
        changed = {key: replaced(each, change) for key, each in value.items()}
        return changed if type(value) is dict else _like(value, changed)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        for name in value.__dataclass_fields__:
            each = getattr(value, name, None)
            changed = replaced(each, change)
            if changed is not each:
                object.__setattr__(value, name, changed)
    return value


def _like(value, changed):
    made = value.copy() if hasattr(value, "copy") else value
    for key, each in changed.items():
        made[key] = each
    return made


def cast(value, dtype):
    """Floating-point tensors of a nest in another dtype."""
    return replaced(value, lambda x: x.to(dtype) if x.is_floating_point() and x.dtype is not dtype else x)


def state_of(module):
    """The state that fully_shard has given a module; None without."""
    return module.__dict__.get("_fsdp_state")


_get_module_state = state_of  # as programs call it


def states_below(module):
    """The states of a module and of those below it, each once."""
    found = dict.fromkeys(state_of(part) for part in module.modules())
    return [state for state in found if state is not None]


def states_of(modules, name):
    """The states of a list of modules, which must have one each."""
    found = [state_of(module) for module in modules]
    if None in found:
        raise ValueError(f"{name}: expected modules that fully_shard was applied to, got a "
                         f"{shown(type(modules[found.index(None)]).__name__)}")
    return found
