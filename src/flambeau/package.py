"""Archives of models with their code: nothing reads or writes them here, since reading one runs the code inside.

docs/utilities.md says what to use instead.
"""

_INSTEAD = ("archives that carry code are not available, since reading one runs that code; save weights or models with "
            "flambeau.save, and share code as a Python package (docs/utilities.md)")


class PackageExporter:
    """Not available."""

    _refused = _INSTEAD

    def __init__(self, f, importer=None, debug=False):
        raise NotImplementedError(f"package.PackageExporter: {_INSTEAD}")


class PackageImporter:
    """Not available."""

    _refused = _INSTEAD

    def __init__(self, file_or_buffer, module_allowed=None):
        raise NotImplementedError(f"package.PackageImporter: {_INSTEAD}")


class Importer:
    """Not available."""

    _refused = _INSTEAD

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(f"package.{type(self).__name__}: {_INSTEAD}")


class OrderedImporter(Importer):
    """Not available."""


class Directory:
    """Not available."""

    _refused = _INSTEAD

    def __init__(self, name, is_dir):
        raise NotImplementedError(f"package.Directory: {_INSTEAD}")


class GlobGroup:
    """Not available."""

    _refused = _INSTEAD

    def __init__(self, include, *, exclude=(), separator="."):
        raise NotImplementedError(f"package.GlobGroup: {_INSTEAD}")


class PackagingError(Exception):
    """What PackageExporter would raise; for programs that catch it."""

    def __init__(self, dependency_graph, debug=False):
        super().__init__(dependency_graph, debug)


class EmptyMatchError(Exception):
    """A pattern of modules fits none; for programs that catch it."""


class ObjNotFoundError(Exception):
    """An importer does not find a name; for programs that catch it."""


class ObjMismatchError(Exception):
    """An importer finds another object under a name; for programs that catch it."""


def is_from_package(obj):
    """Whether an object's class comes from such an archive: never.

    >>> import flambeau
    >>> flambeau.package.is_from_package(flambeau.nn.Linear(1, 1))
    False
    """
    return False
