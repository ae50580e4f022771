"""How many floating point operations a program does: two per multiply-add of products, convolutions and attention."""

from math import prod
from warnings import warn

from .. import Tensor, ops
from .._shown import shown
from .._tensor.overriding import TorchDispatchMode
from .module_tracker import ModuleTracker

_aten = ops.aten


def _shape(x):
    """Tensors as their shapes, also inside lists and tuples."""
    if isinstance(x, Tensor):
        return tuple(x.shape)
    return type(x)(_shape(v) for v in x) if type(x) in (list, tuple) else x


def _product(a, b, batch=1):
    """Of batches of matrices [n, k] and [k, m]."""
    return 2 * batch * a[-2] * a[-1] * b[-1]


def mm_flop(a_shape, b_shape, *args, out_shape=None, **kwargs):
    """Of one product of matrices.

    >>> from flambeau.utils.flop_counter import mm_flop
    >>> mm_flop((5, 3), (3, 4))
    120
    """
    return _product(a_shape, b_shape)


def addmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    """Of a product that is added to something (the addition is not counted).

    >>> from flambeau.utils.flop_counter import addmm_flop
    >>> addmm_flop((4,), (5, 3), (3, 4))
    120
    """
    return _product(a_shape, b_shape)


def bmm_flop(a_shape, b_shape, out_shape=None, **kwargs):
    """Of a batch of products.

    >>> from flambeau.utils.flop_counter import bmm_flop
    >>> bmm_flop((2, 5, 3), (2, 3, 4))
    240
    """
    return _product(a_shape, b_shape, a_shape[0])


def baddbmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    """Of a batch of products that are added to something.

    >>> from flambeau.utils.flop_counter import baddbmm_flop
    >>> baddbmm_flop((2, 5, 4), (2, 5, 3), (2, 3, 4))
    240
    """
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape, w_shape, out_shape, transposed=False):
    """Of one convolution: each weight meets each position of the output (of the input, if it is transposed).

    >>> from flambeau.utils.flop_counter import conv_flop_count
    >>> conv_flop_count((1, 4, 8, 8), (6, 4, 3, 3), (1, 6, 6, 6))
    15552
    """
    places = (x_shape if transposed else out_shape)[2:]
    return 2 * x_shape[0] * prod(places) * prod(w_shape)


def conv_flop(x_shape, w_shape, _bias, _stride, _padding, _dilation, transposed, *args, out_shape=None, **kwargs):
    """Of `convolution`."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


def conv_backward_flop(grad_out_shape, x_shape, w_shape, *args, out_shape=None, **kwargs):
    """Of `convolution_backward`: as much as forward for the input's gradient, and again for the weight's."""
    transposed, output_mask = args[4], args[-1]
    return conv_flop_count(x_shape, w_shape, grad_out_shape, transposed) * (output_mask[0] + output_mask[1])


def sdpa_flop_count(query_shape, key_shape, value_shape):
    """Of attention: the products with the keys and with the values.

    >>> from flambeau.utils.flop_counter import sdpa_flop_count
    >>> sdpa_flop_count((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4))
    2880
    """
    batch, queries = prod(query_shape[:-2]), query_shape[-2]
    return 2 * batch * queries * key_shape[-2] * (query_shape[-1] + value_shape[-1])


def sdpa_flop(query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs):
    """Of `scaled_dot_product_attention`."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape):
    """Of attention's backward: the scores once more, then the gradients of scores, values, queries and keys.

    >>> from flambeau.utils.flop_counter import sdpa_backward_flop_count
    >>> sdpa_backward_flop_count((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4))
    7200
    """
    batch, queries, keys = prod(query_shape[:-2]), query_shape[-2], key_shape[-2]
    return 2 * batch * queries * keys * (3 * query_shape[-1] + 2 * value_shape[-1])


def sdpa_backward_flop(grad_out_shape, query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs):
    """Of attention's backward."""
    return sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape)


#: formulas by the operators' names in PyTorch, which the counts go by
flop_registry = {
    _aten.mm: mm_flop, _aten.addmm: addmm_flop, _aten.bmm: bmm_flop, _aten.baddbmm: baddbmm_flop,
    _aten.convolution: conv_flop, _aten.convolution_backward: conv_backward_flop,
    _aten.scaled_dot_product_attention: sdpa_flop, _aten._scaled_mm: mm_flop,
}


def _of_matmul(args, out):
    """As the products of matrices that it is; those with vectors are not counted, as in PyTorch."""
    a, b = _shape(args[0]), _shape(args[1])
    if len(a) < 2 or len(b) < 2:
        return []
    if len(b) == 2 or len(a) == 2:
        return [(_aten.mm, 2 * prod(_shape(out)) * a[-1])]
    return [(_aten.bmm, 2 * prod(_shape(out)) * a[-1])]


def _of_linear(args, out):
    biased = len(args) > 2 and args[2] is not None
    return [(_aten.addmm if biased else _aten.mm, 2 * prod(_shape(out)) * args[1].shape[-1])]


def _of_linear_backward(args, out):
    _, x, weight, mask = args
    return [(_aten.mm, 2 * x.numel() * weight.shape[0] * (bool(mask & 1) + bool(mask & 2)))]


def _of_attention(args, out):
    return [(_aten.scaled_dot_product_attention, sdpa_flop_count(*map(_shape, args[:3])))]


def _of_attention_backward(args, out):
    return [(_aten.scaled_dot_product_attention, sdpa_backward_flop_count(*map(_shape, args[:4])))]


def _of_recurrent(args, out):
    """Both products of every row: with the input and with the state."""
    return [(_aten.mm, 2 * args[0].shape[0] * (args[3].numel() + args[4].numel()))]


def _of_recurrent_backward(args, out):
    rows = args[0].shape[0]
    return [(_aten.mm, 4 * rows * (args[6].numel() + args[7].numel()))]


def _of_linears(args, out):
    return [count for weight, made in zip(args[1], out, strict=True) for count in _of_linear([args[0], weight], made)]


def _of_linear_tail(args, out):
    return _of_linear([args[0], args[1].T if args[5] else args[1]], out)


def _of_convolution_tail(args, out):
    return [(_aten.convolution, conv_flop_count(_shape(args[0]), _shape(args[1]), _shape(out), args[12]))]


#: operators that stand for several of PyTorch's: (args, out) -> [(name, count)]
_SEVERAL = {"matmul": _of_matmul, "linear": _of_linear, "linear_backward": _of_linear_backward,
            "fused_attention": _of_attention, "fused_attention_backward": _of_attention_backward,
            "recurrent_layer": _of_recurrent, "recurrent_layer_backward": _of_recurrent_backward,
            "_convolution_tail": _of_convolution_tail, "_linears": _of_linears, "_linear_tail": _of_linear_tail}


def _packet(target):
    """How an operator is named in counts: `ops.aten.mm` for `flambeau.mm`, `ops.aten.mm.default` and itself."""
    if hasattr(target, "default"):
        return target
    if hasattr(target, "overloadpacket"):
        return target.overloadpacket
    name = target.name() if callable(getattr(target, "name", None)) else getattr(target, "name", None)
    if not isinstance(name, str):
        raise ValueError(f"register_flop_formula: expected an operator (ops.aten.mm, ops.my.op), got {shown(target)}")
    space, _, inner = name.rpartition("::")
    return getattr(getattr(ops, space or "aten"), inner.partition(".")[0], None)


def counts_of(op, args, kwargs, out, formulas=flop_registry, own=()):
    """[(the operator's name in counts, operations)] of one call; empty where nothing is known of the operator.

    `formulas` are those of a counter, and `own` the names that it has a formula of its own for.
    """
    several = _SEVERAL.get(op.name) if isinstance(op.name, str) else None
    if several is not None and getattr(_aten, op.name, None) not in own:
        return several(args, out)
    packet = _packet(op)
    formula = formulas.get(packet)
    if formula is None:
        return []
    formula = formula if getattr(formula, "_get_raw", False) else _of_shapes(formula)
    return [(packet, formula(*args, out_val=out, **kwargs))]


def _of_shapes(formula):
    """A formula of shapes as one of the call's own arguments."""
    def counted(*args, out_val=None, **kwargs):
        return formula(*_shape(args), out_shape=_shape(out_val), **{k: _shape(v) for k, v in kwargs.items()})
    counted._get_raw = True
    return counted


def register_flop_formula(targets, get_raw=False):
    """A decorator: formula(*shapes, out_shape=…) counts some operators; `get_raw`: of tensors, out_val=….

    >>> import flambeau
    >>> from flambeau.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula
    >>> @register_flop_formula(flambeau.ops.aten.sin)
    ... def sin_flop(shape, out_shape=None):
    ...     return 20 * shape[0]
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = flambeau.ones(3).sin()
    >>> counter.get_total_flops()
    60
    >>> del flop_registry[flambeau.ops.aten.sin]
    """
    chosen = [_packet(t) for t in (targets if isinstance(targets, (list, tuple)) else [targets])]

    def register(formula):
        for packet in chosen:
            if packet in flop_registry:
                raise RuntimeError(f"register_flop_formula: {packet} has a formula already")
            if get_raw:
                formula._get_raw = True
            flop_registry[packet] = formula
        return formula
    return register


class FlopCounterMode(TorchDispatchMode):
    """Counts the operations of everything inside `with`, forward and backward, by module and by operator.

    A table is printed at the end, unless `display=False`; `depth` says how deep. `custom_mapping` {operator: formula}
    is added to the formulas, or replaces some. Counted are products of matrices, convolutions, attention and recurrent
    layers: two operations per multiply-add, as PyTorch counts them.

    >>> import flambeau
    >>> from flambeau.utils.flop_counter import FlopCounterMode
    >>> layer = flambeau.nn.Linear(3, 4)
    >>> with FlopCounterMode(display=False) as counter:
    ...     layer(flambeau.ones(5, 3)).sum().backward()
    >>> counter.get_total_flops()
    240
    >>> print(counter.get_table())
    Module          FLOP    % Total
    ------------  ------  ---------
    Linear           240    100.00%
    - aten.addmm     120     50.00%
    - aten.mm        120     50.00%
    """

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        if mods is not None:
            warn("FlopCounterMode: mods is not needed any more: modules are found by themselves", stacklevel=2)
        self.depth, self.display, self.flop_counts = depth, display, {}
        given = {_packet(op): formula if getattr(formula, "_get_raw", False) else _of_shapes(formula)
                 for op, formula in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **given}
        self._own, self.mod_tracker = set(given), ModuleTracker()

    def __enter__(self):
        self.flop_counts.clear()
        self.flop_counts["Global"] = {}
        self.mod_tracker.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.mod_tracker.__exit__(*error)
        if self.display:
            print(self.get_table(self.depth))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        for packet, count in counts_of(func, args, kwargs, out, self.flop_registry, self._own):
            for name in self.mod_tracker.parents:
                counts = self.flop_counts.setdefault(name, {})
                counts[packet] = counts.get(packet, 0) + count
        return out

    def get_total_flops(self):
        """All operations so far."""
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self):
        """{module: {operator: operations}}; "Global" has them all."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth=None):
        """A table of modules down to a depth, and of the operators in each."""
        depth, total = self.depth if depth is None else depth, self.get_total_flops()
        inner = sorted(name for name in self.flop_counts if name != "Global" and name.count(".") < depth)
        whole = any(sum(self.flop_counts[name].values()) >= total for name in inner)
        rows = []
        for name in inner if whole else ["Global", *inner]:
            counts = self.flop_counts[name]
            rows.append((name, sum(counts.values())))
            rows += [(f"- {op}", count) for op, count in counts.items()]
        return _table([(name, _number(count, total), f"{count / max(total, 1):.2%}") for name, count in rows])


def _number(count, total):
    """In the unit of the total: M, B or T, three decimals."""
    power = min(5, max(0, (len(str(total)) - 1) // 3))
    if power == 0:
        return str(count)
    return f"{count / 1000 ** power:.3f}{' KMBTP'[power]}"


def _table(rows):
    """Columns as wide as their longest text; numbers to the right."""
    rows = [("Module", "FLOP", "% Total"), *rows]
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    widths[1:] = [max(w, len(title) + 2) for w, title in zip(widths[1:], ("FLOP", "% Total"))]
    lines = [f"{name:<{widths[0]}}  {count:>{widths[1]}}  {share:>{widths[2]}}" for name, count, share in rows]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
