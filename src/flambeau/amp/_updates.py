"""The two updates a scaler of gradients consists of, under the names that trainers with a scaler of their own call."""

import flambeau


def _amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale):
    """Multiplies every tensor of a list by `inv_scale`, and writes 1 into `found_inf` if an element is not finite.

    >>> import flambeau
    >>> grads, found = [flambeau.tensor([2.0, 4.0]), flambeau.tensor([float("inf")])], flambeau.zeros(1)
    >>> flambeau._amp_foreach_non_finite_check_and_unscale_(grads, found, flambeau.tensor(0.5))
    >>> grads[0], found
    (tensor([1., 2.]), tensor([1.]))
    """
    for name, tensor in (("found_inf", found_inf), ("inv_scale", inv_scale)):
        if tensor.numel() != 1 or not tensor.is_floating_point():
            raise RuntimeError(f"_amp_foreach_non_finite_check_and_unscale_: {name} must hold one number of floating "
                               f"point, got shape {list(tensor.shape)} of {tensor.dtype}")
    with flambeau.no_grad():
        factor = inv_scale.reshape(())
        for grad in self:
            values = grad if grad.layout is flambeau.strided else grad.values()
            finite = values.isfinite().all()
            found_inf.masked_fill_(finite.logical_not().to(found_inf.device), 1.0)
            grad.mul_(factor)


def _amp_update_scale_(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
    """The scale `self` after a step: smaller if `found_inf` is not zero, larger after `growth_interval` good steps.

    A scale that would become infinite stays. `growth_tracker` counts the good steps in a row. Returns `self`.

    >>> import flambeau
    >>> scale, tracker = flambeau.tensor(8.0), flambeau.tensor(0, dtype=flambeau.int32)
    >>> flambeau._amp_update_scale_(scale, tracker, flambeau.tensor(1.0), 2.0, 0.25, 1)
    tensor(2.)
    """
    with flambeau.no_grad():
        if found_inf.item():
            growth_tracker.fill_(0)
            return self.mul_(scale_backoff_factor)
        good = growth_tracker.item() + 1
        if good == growth_interval:
            grown = self * scale_growth_factor
            if grown.isfinite().item():
                self.copy_(grown)
            good = 0
        growth_tracker.fill_(good)
        return self
