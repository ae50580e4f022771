"""GradScaler: multiplies the loss by a large number so that small gradients do not vanish in half precision."""

from collections import defaultdict
from enum import Enum
from inspect import signature
from warnings import warn

import flambeau

from ._updates import _amp_foreach_non_finite_check_and_unscale_, _amp_update_scale_
from .autocast_mode import is_autocast_available


class OptState(Enum):
    """How far an optimizer is within one step."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state():
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def _any(found):
    """Whether a device found something that is not finite."""
    return any(x.item() for x in found.values())


class GradScaler:
    """`scale(loss).backward()`, `step(optimizer)`, `update()`.

    A step whose gradients hold infinities or NaN is left out and the scale is multiplied by `backoff_factor`; after
    `growth_interval` good steps in a row it is multiplied by `growth_factor`.

    >>> import flambeau
    >>> w = flambeau.ones(1, requires_grad=True)
    >>> optimizer = flambeau.optim.SGD([w], lr=0.5)
    >>> scaler = flambeau.amp.GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale((w * 1).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w.item()
    0.5
    """

    _allow_fp16 = False  # whether gradients of float16 are unscaled

    def __init__(self, device="cuda", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
                 enabled=True):
        self._device = device
        if enabled and device != "cpu" and not is_autocast_available(device):
            warn(f"torch.{device}.amp.GradScaler is enabled, but {device.upper()} is not available.  Disabling.",
                 stacklevel=2)
            enabled = False
        self._enabled = enabled
        if enabled and growth_factor <= 1.0:
            raise AssertionError(f"GradScaler: growth_factor must be above 1, got {growth_factor}")
        if enabled and backoff_factor >= 1.0:
            raise AssertionError(f"GradScaler: backoff_factor must be below 1, got {backoff_factor}")
        self._init_scale, self._growth_factor, self._backoff_factor = init_scale, growth_factor, backoff_factor
        self._growth_interval, self._init_growth_tracker = growth_interval, 0
        self._scale = self._growth_tracker = None
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _begin(self):
        if self._scale is None:
            self._scale = flambeau.full((), self._init_scale, dtype=flambeau.float32)
            self._growth_tracker = flambeau.full((), self._init_growth_tracker, dtype=flambeau.int32)

    def _begun(self, name):
        if self._scale is None:
            raise AssertionError(f"GradScaler.{name}: there is no scale yet; call scaler.scale(loss).backward() before "
                                 "it")

    # --- the three calls of a step

    def scale(self, outputs):
        """The tensor, or every tensor of a list or tuple, times the scale."""
        if not self._enabled:
            return outputs
        self._begin()
        if isinstance(outputs, flambeau.Tensor):
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            scaled = [self.scale(x) for x in outputs]
            return type(outputs)(*scaled) if hasattr(outputs, "_fields") else type(outputs)(scaled)
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("GradScaler.scale: expected a tensor, or tensors in an iterable, got "
                         f"{type(outputs).__name__}")

    def unscale_(self, optimizer):
        """Divides the gradients of an optimizer's parameters by the scale, for instance before they are clipped."""
        if not self._enabled:
            return
        self._begun("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(f"GradScaler.unscale_: the gradients of this {type(optimizer).__name__} are unscaled "
                               "already; call it once per update()")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError(f"GradScaler.unscale_: this {type(optimizer).__name__} has made its step; unscale "
                               "before step(), or call update() first")
        inverse = self._scale.double().reciprocal().float()
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, flambeau.zeros(()), self._allow_fp16)
        state["stage"] = OptState.UNSCALED

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        """Multiplies the gradients by `inv_scale`. Returns {device: 1.0 where one of its gradients is not finite}, each
        begun as a copy of `found_inf`. Scalers with rules of their own for gradients replace it."""
        grads = defaultdict(list)
        for group in optimizer.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if grad.dtype is flambeau.float16 and not allow_fp16:
                    raise ValueError("GradScaler.unscale_: a gradient is float16, where unscaled numbers may vanish; "
                                     "keep the parameters in float32 and compute in float16 by autocast")
                if grad.layout is flambeau.sparse_coo:
                    grad = param.grad = grad.coalesce()
                grads[grad.device].append(grad)
        found = {device: found_inf.to(device, copy=True) for device in grads}
        for device, own in grads.items():
            _amp_foreach_non_finite_check_and_unscale_(own, found[device], inv_scale.to(device))
        return found

    def _check_inf_per_device(self, optimizer):
        """Looks for gradients that are not finite and leaves them as they are."""
        found = self._unscale_grads_(optimizer, flambeau.ones(()), flambeau.zeros(()), True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer):
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def step(self, optimizer, *args, **kwargs):
        """`optimizer.step(…)` with unscaled gradients, unless one of them is not finite. Returns what the step does.

        An optimizer with a true `_step_supports_amp_scaling` does both itself: its step is always called, and finds
        `self.grad_scale` (None where the gradients are unscaled already) and `self.found_inf`, or gets this scaler as
        its argument `grad_scaler` if it has one.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step: an optimizer that takes a closure cannot be used with an enabled "
                               "scaler")
        self._begun("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError(f"GradScaler.step: this {type(optimizer).__name__} has made its step; call update() "
                               "before the next one")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_of_scaled(optimizer, state, *args, **kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            if not state["found_inf_per_device"]:
                raise AssertionError(f"GradScaler.step: no parameter of this {type(optimizer).__name__} has a "
                                     "gradient; call scaler.scale(loss).backward() before it")
            result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _maybe_opt_step(self, optimizer, optimizer_state, *args, **kwargs):
        return None if _any(optimizer_state["found_inf_per_device"]) else optimizer.step(*args, **kwargs)

    def _step_of_scaled(self, optimizer, state, *args, **kwargs):
        """The step of an optimizer that divides by the scale itself."""
        if "grad_scaler" in signature(optimizer.step).parameters:
            warn("GradScaler: an optimizer whose step() takes `grad_scaler` is the older way; read self.grad_scale and "
                 "self.found_inf in step() instead", FutureWarning, stacklevel=3)
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        earlier = getattr(optimizer, "grad_scale", None)
        scale = self._scale if earlier is None else self._scale * earlier
        optimizer.grad_scale = None if state["stage"] is OptState.UNSCALED else scale
        optimizer.found_inf = flambeau.full((), float(_any(state["found_inf_per_device"])))
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale=None):
        """Ends the step: the scale shrinks, stays or grows; or becomes `new_scale`."""
        if not self._enabled:
            return
        self._begun("update")
        if new_scale is not None:
            if isinstance(new_scale, flambeau.Tensor) and (new_scale.numel() != 1 or new_scale.requires_grad):
                raise AssertionError("update: new_scale must be a number or a one-element tensor without requires_grad")
            self._scale.fill_(float(new_scale))
        else:
            found = [state["found_inf_per_device"] for state in self._per_optimizer_states.values()]
            if not any(found):
                raise AssertionError("GradScaler.update: no optimizer has been unscaled or stepped since the last "
                                     "update(); call scaler.step(optimizer) first")
            _amp_update_scale_(self._scale, self._growth_tracker, flambeau.full((), float(any(map(_any, found)))),
                               self._growth_factor, self._backoff_factor, self._growth_interval)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    # --- settings and state

    def is_enabled(self):
        """Whether it does anything."""
        return self._enabled

    def get_scale(self):
        """The scale, as a number."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self):
        """What the scale grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        """Sets it."""
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        """What the scale shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        """Sets it."""
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        """How many good steps in a row let the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        """Sets it."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def state_dict(self):
        """What a later run needs to go on; empty when it is off."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict):
        """Takes over a state_dict."""
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError("GradScaler.load_state_dict: the state is empty, as that of a scaler with "
                               "enabled=False is")
        self._init_scale = state_dict["scale"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]

    def __getstate__(self):
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError("GradScaler: the state of an iteration cannot be pickled; pickle the scaler "
                                     "after update(), before the next unscale_()")
            state |= {"_init_scale": self.get_scale(), "_init_growth_tracker": self._get_growth_tracker(),
                      "_scale": None, "_growth_tracker": None}
        return state
