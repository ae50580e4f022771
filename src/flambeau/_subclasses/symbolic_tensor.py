"""SymbolicTensor: a fake tensor some of whose sizes are open; `shape` gives SymInts where they are."""

from .. import _C
from .._symbolic.expressions import constant, expression
from .._symbolic.numbers import SymInt
from ..ops import OPS
from .fake import FakeTensor


class SymbolicTensor(FakeTensor):
    """A tensor without values whose sizes, strides and offset are expressions.

    Its native sizes are numbers that the conditions of the trace allow, far from those of the example, so that native
    code decides nothing by accident; Python sees SymInts.
    """

    __torch_function__ = _C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, meta, device, mode, sizes, strides, offset):
        env = mode.shape_env
        try:
            made, at = _wrapper(cls, env, meta, device, sizes, strides, offset)
        except RuntimeError:
            if not env.smaller():
                raise
            made, at = _wrapper(cls, env, meta, device, sizes, strides, offset)
        made.meta, made.fake_mode = meta, mode
        made.symbolic_sizes, made.symbolic_strides, made.symbolic_offset = sizes, strides, offset
        for expr, number in zip((*sizes, *strides), (*at[0], *at[1]), strict=True):
            if not expr.is_number:
                env.sizes.setdefault(number, expr)
        return made

    def _again(self, meta):
        return SymbolicTensor(meta, self.device, self.fake_mode, self.symbolic_sizes, self.symbolic_strides,
                              self.symbolic_offset)

    def _on(self, device):
        return SymbolicTensor(self.meta, device, self.fake_mode, self.symbolic_sizes, self.symbolic_strides,
                              self.symbolic_offset)

    @property
    def shape(self):
        """The sizes: ints, and SymInts for those that are open."""
        return _C.Size(tuple(_read(self, "size", d) for d in range(self.dim())))

    def size(self, dim=None):
        """The sizes, or one of them."""
        return self.shape if dim is None else _read(self, "size", _C.wrap_dim(dim, self.dim(), "size"))

    def stride(self, dim=None):
        """The strides, or one of them."""
        if dim is None:
            return tuple(_read(self, "stride", d) for d in range(self.dim()))
        return _read(self, "stride", _C.wrap_dim(dim, self.dim(), "stride"))

    def numel(self):
        """How many elements there are."""
        return _read(self, "numel", None)

    nelement = numel

    def storage_offset(self):
        """Where the first element lies in the memory."""
        return _read(self, "storage_offset", None)

    @property
    def nbytes(self):
        """The bytes of its elements."""
        return self.numel() * self.element_size()

    def __len__(self):
        if not self.dim():
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape[0])

    def __iter__(self):
        return iter(OPS["unbind"](self, 0))


def _wrapper(cls, env, meta, device, sizes, strides, offset):
    """The native tensor, in the sizes that tensors of the trace have; and these, with the strides."""
    values = env.trials()[0]
    at = [[env.at(e, values) for e in row] for row in (sizes, strides)]
    made = _C.Tensor._make_wrapper_subclass(cls, at[0], strides=at[1], dtype=meta.dtype, device=device,
                                            storage_offset=max(env.at(offset, values), 0))
    return made, at


def _read(tensor, what, dim):
    """One number of a tensor's form, which knows where it was read."""
    env = tensor.fake_mode.shape_env
    if what == "numel":
        expr = constant(1)
        for size in tensor.symbolic_sizes:
            expr = expr * size
    else:
        expr = tensor.symbolic_offset if what == "storage_offset" else \
            (tensor.symbolic_sizes if what == "size" else tensor.symbolic_strides)[dim]
    found = env.create_symintnode(env.replace(expr))
    if isinstance(found, SymInt):
        found.node.made = what, (tensor, dim)
    return found


def sizes_of(tensor, env, source, choose):
    """(sizes, strides, offset) of an example as expressions: choose(dim, size) is True for a size that may be open, or
    a Symbol's expression."""
    sizes = []
    for dim, size in enumerate(tensor.shape):
        chosen = choose(dim, size)
        if chosen is True:
            chosen = env.create_symbol(size, f"{source}.size()[{dim}]")
        sizes.append(expression(chosen or size))
    return tuple(sizes), _strides_of(tensor, sizes), constant(tensor.storage_offset())


def _strides_of(tensor, sizes):
    """Strides as products of sizes where those of the example are such products, else as they are."""
    steps = tensor.stride()
    products = {1: constant(1)}
    found = [None] * len(sizes)
    for d in sorted(range(len(sizes)), key=lambda d: (steps[d], tensor.shape[d] != 1, -d)):
        found[d] = products.get(steps[d], constant(steps[d]))
        products.setdefault(steps[d] * tensor.shape[d], found[d] * sizes[d])
    return tuple(found)
