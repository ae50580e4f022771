"""The step of an optimizer as one operator, which a captured program can hold; `flambeau.optim` calls it natively."""

from .kinds import primitive

_optim_step = primitive(
    "_optim_step(int kind, Tensor(a!)?[] written, Tensor[] grads, int flags, int[] fresh, float lr, float weight_decay,"
    " float eps, float beta1, float beta2) -> ()",
    namespace=None, skip="the kernel of the optimizers, reached through them",
    doc="Updates n parameters: `written` has all parameters, three tensors of state for each, and the step counts, n "
        "of each kind, None where an optimizer keeps no such state. `fresh` are those whose state has no values yet.")
