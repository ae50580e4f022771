"""torch._dynamo.eval_frame: the class of compiled modules, which packages ask for before they unwrap a model."""


class OptimizedModule:
    """What `compile` makes of a module elsewhere; here modules stay what they are, so nothing is one."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("_dynamo.OptimizedModule: compile gives the module itself")
