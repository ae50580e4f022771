"""The copying twin of every view: `transpose_copy` is transpose, then a contiguous copy."""

from .kinds import FACTS, OPS, composite

_CONTIGUOUS = OPS["contiguous"]


def _fresh(x, taken_from):
    return x.clone() if x.is_contiguous() else _CONTIGUOUS(x)


def _copy_of(name, record, several=False):
    """The twin of a view record, with its arguments and samples."""
    view = OPS[record]

    def body(self, *args, **kwargs):
        made = view(self, *args, **kwargs)
        return tuple(_fresh(x, self) for x in made) if several else _fresh(made, self)

    return composite(f"{name}_copy({_arguments(record)}) -> Tensor" + "[]" * several, method=False, out=True,
                     samples=record, skip=FACTS[record][6],
                     doc=f"{name} as a fresh tensor instead of a view" + " of each part" * several + ".")(body)


def _arguments(record):
    schema = FACTS[record][1]
    return schema[schema.index("(") + 1:schema.rindex(") ->")]


#: view records whose copying twin takes the same arguments: name -> record
_SINGLE = {"alias": "alias", "as_strided": "as_strided", "diagonal": "diagonal", "expand": "expand",
           "permute": "permute", "select": "select", "slice": "slice", "t": "t", "transpose": "transpose",
           "unfold": "unfold", "unsqueeze": "unsqueeze", "squeeze": "squeeze", "view_as_real": "view_as_real",
           "view_as_complex": "view_as_complex"}
_SEVERAL = {"split": "split.size", "split_with_sizes": "split_with_sizes", "unbind": "unbind"}


for _name, _record in _SINGLE.items():
    globals()[f"{_name}_copy"] = _copy_of(_name, _record)


for _name, _record in _SEVERAL.items():
    globals()[f"{_name}_copy"] = _copy_of(_name, _record, several=True)


@composite("detach_copy(Tensor self) -> Tensor", method=False, out=True, skip={"gradcheck": "outside the graph"})
def detach_copy(self):
    """A contiguous copy outside the graph.

    >>> flambeau.detach_copy(flambeau.ones(1, requires_grad=True)).requires_grad
    False
    """
    return _fresh(self.detach(), self)


@composite("view_copy(Tensor self, any size=None, dtype? dtype=None) -> Tensor", method=False, out=True, samples="view")
def view_copy(self, size=None, dtype=None):
    """view (to a shape, or as another dtype) as a fresh tensor.

    >>> flambeau.view_copy(flambeau.arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    if size is not None and dtype is not None:
        raise TypeError("view_copy: give the new size or the new dtype, not both")
    return _fresh(self.view(dtype if size is None else size), self)


@composite("narrow_copy(Tensor self, int dim, int start, int length) -> Tensor", out=True)
def narrow_copy(self, dim, start, length):
    """A copy of narrow.

    >>> flambeau.narrow_copy(flambeau.tensor([1, 2, 3]), 0, 1, 2)
    tensor([2, 3])
    """
    return self.narrow(dim, start, length).clone()
