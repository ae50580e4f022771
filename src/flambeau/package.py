"""Archives of models with their code: nothing reads or writes them here, since reading one runs the code inside.

docs/utilities.md says what to use instead.
"""

_INSTEAD = ("archives that carry code are not available, since reading one runs that code; save weights or models with "
            "flambeau.save, and share code as a Python package (docs/utilities.md)")


class PackageExporter:
    """Not available."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(f"package.PackageExporter: {_INSTEAD}")


class PackageImporter:
    """Not available."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(f"package.PackageImporter: {_INSTEAD}")


class PackagingError(Exception):
    """What PackageExporter would raise; for programs that catch it."""


def is_from_package(obj):
    """Whether an object's class comes from such an archive: never.

    >>> import flambeau
    >>> flambeau.package.is_from_package(flambeau.nn.Linear(1, 1))
    False
    """
    return False
