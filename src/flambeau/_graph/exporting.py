"""Whether this thread exports a program: what a model may ask to do without what no program can hold."""

from .inside import Inside

#: inside, a program is exported
exporting = Inside("exporting")


def is_exporting():
    """Whether a program is being exported here, by `flambeau.export.export` or `draft_export`.

    >>> import flambeau
    >>> class Asks(flambeau.nn.Module):
    ...     def forward(self, x):
    ...         return x * (2 if flambeau.compiler.is_exporting() else 1)
    >>> program = flambeau.export.export(Asks(), (flambeau.ones(2),))
    >>> program.module()(flambeau.ones(2)), Asks()(flambeau.ones(2))
    (tensor([2., 2.]), tensor([1., 1.]))
    """
    return bool(exporting)
