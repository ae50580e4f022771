"""Collective calls on tensors, with PyTorch's names: all ranks of a group make the same ones in the same order.

Tensors may have any dtype and layout. With async_op=True a call returns a Work at once and goes on in a thread. What a
group is given to `call` begins an exchange and returns what is left to do when it is over, or None.
"""

from .. import _C
from . import _checks as checks
from . import _sparse_sums
from ._checks import Dense
from ._groups import member
from ._values import ReduceOp
from ._where import where


def _make_nccl_premul_sum(factor):
    """A ReduceOp that multiplies each rank's tensor by `factor` before they are added up."""
    return ReduceOp(ReduceOp.PREMUL_SUM, factor)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """The tensor of rank `src` goes into that of every other rank."""
    group = member(group, "broadcast")
    if group is None:
        return None
    engine = group.engine_of(checks.tensor(tensor, "broadcast"), "broadcast")
    root = checks.rank(group, src, group_src, "broadcast", "src")
    text, dense = where("broadcast", tensor, f" from {root}"), Dense(tensor, read=root == group.rank())

    def call(timeout):
        engine.broadcast(dense.memory, root, text, timeout)
        return dense.back if root != group.rank() else None

    return group.call(engine, call, [tensor], async_op)


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """The tensors of all ranks become their sum (or what `op` says), with the same bits everywhere.

    Of sparse COO tensors on the CPU there is the sum alone.
    """
    group = member(group, "all_reduce")
    if group is None:
        return None
    if isinstance(tensor, _C.Tensor) and tensor.layout is not _C.strided:
        return _sparse_sums.all_reduce(tensor, op, group, async_op)
    engine = group.engine_of(checks.tensor(tensor, "all_reduce"), "all_reduce")
    kind, factor = checks.reduction(op, "all_reduce")
    text = where("all_reduce", tensor, checks.named(kind))
    dense = Dense(tensor)
    wide = checks.reducible(tensor, kind, engine, "all_reduce")

    def call(timeout):
        memory = _multiplied(dense.memory, factor, wide)
        engine.all_reduce(memory, kind, text, timeout)
        return dense.back if memory is dense.memory else lambda: dense.back(memory)

    return group.call(engine, call, [tensor], async_op)


def _multiplied(memory, factor, dtype):
    """What enters a reduction: the memory itself where nothing is to be done."""
    if memory.dtype is not dtype:
        memory = memory.to(dtype)
    return memory if factor is None else memory * factor


def _all_back(targets):
    for each in targets:
        each.back()


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """The tensor of rank `dst` becomes the sum of all; the others' stay as they are."""
    group = member(group, "reduce")
    if group is None:
        return None
    engine = group.engine_of(checks.tensor(tensor, "reduce"), "reduce")
    root, (kind, factor) = checks.rank(group, dst, group_dst, "reduce", "dst"), checks.reduction(op, "reduce")
    text, dense = where("reduce", tensor, f" to {root}"), Dense(tensor)
    wide = checks.reducible(tensor, kind, engine, "reduce")

    def call(timeout):
        memory = _multiplied(dense.memory, factor, wide)
        engine.reduce(memory, kind, root, text, timeout)
        return (lambda: dense.back(memory)) if root == group.rank() else None

    return group.call(engine, call, [tensor], async_op)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Each `tensor_list[r]` becomes the tensor of rank r, on all ranks."""
    group = member(group, "all_gather")
    if group is None:
        return None
    engine = group.engine_of(checks.tensor(tensor, "all_gather"), "all_gather")
    outputs = checks.tensors(tensor_list, "all_gather", "tensor_list", group.size(), tensor)
    text, source = where("all_gather", tensor), Dense(tensor)
    targets = [Dense(each, read=False) for each in outputs]

    def call(timeout):
        engine.all_gather([each.memory for each in targets], source.memory, text, timeout)
        return lambda: _all_back(targets)

    return group.call(engine, call, outputs, async_op)


def _pieces(memory, count):
    """A dense tensor as `count` dense tensors of as many elements."""
    return list(memory.view(count, -1).unbind(0)) if memory.numel() else [memory.view(-1)] * count


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """The output, of as many times the elements, becomes the input tensors of all ranks, one after the other."""
    group = member(group, "all_gather_into_tensor")
    if group is None:
        return None
    name = "all_gather_into_tensor"
    engine = group.engine_of(checks.tensor(input_tensor, name, "input_tensor"), name)
    _checked_whole(checks.tensor(output_tensor, name, "output_tensor"), input_tensor, group.size(), name)
    text, source, target = where(name, input_tensor), Dense(input_tensor), Dense(output_tensor, read=False)

    def call(timeout):
        engine.all_gather(_pieces(target.memory, group.size()), source.memory, text, timeout)
        return target.back

    return group.call(engine, call, [output_tensor], async_op)


def _checked_whole(whole, part, count, name):
    if whole.dtype is not part.dtype or whole.numel() != part.numel() * count:
        raise ValueError(f"{name}: the larger tensor is {list(whole.shape)} {whole.dtype}; for {count} ranks and "
                         f"{list(part.shape)} {part.dtype} it needs {part.numel() * count} elements of the same dtype")


def all_gather_single(output_tensor, input_tensor, group=None, async_op=False):
    """`all_gather_into_tensor` under its other name."""
    return all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    """`all_gather` of several tensors: output_tensor_lists[r][k] becomes input k of rank r."""
    group = member(group, "all_gather_coalesced")
    if group is None:
        return None
    name = "all_gather_coalesced"
    inputs = checks.tensors(input_tensor_list, name, "input_tensor_list")
    if len(output_tensor_lists) != group.size():
        raise ValueError(f"{name}: output_tensor_lists must have a list for each of the {group.size()} ranks, got "
                         f"{len(output_tensor_lists)}")
    columns = [checks.tensors([row[k] for row in output_tensor_lists], name, f"output {k}", group.size(), each)
               for k, each in enumerate(inputs)]
    steps = [([Dense(each, read=False) for each in column], Dense(source), where(name, source))
             for column, source in zip(columns, inputs)]
    engine = group.engine_of(inputs[0], name) if inputs else group.engine

    def call(timeout):
        with engine.grouped():
            for targets, source, text in steps:
                engine.all_gather([each.memory for each in targets], source.memory, text, timeout)
        return lambda: _all_back([each for targets, _, _ in steps for each in targets])

    return group.call(engine, call, output_tensor_lists, async_op)


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """`all_reduce` of several tensors."""
    return all_reduce_list(tensors, op, group, async_op, "all_reduce_coalesced")


def all_reduce_list(tensors, op, group, async_op, name):
    """`all_reduce` of several tensors, under a name."""
    group = member(group, name)
    if group is None:
        return None
    tensors = checks.tensors([tensors] if isinstance(tensors, _C.Tensor) else tensors, name, "tensors")
    kind, factor = checks.reduction(op, name)
    engine = group.engine_of(tensors[0], name) if tensors else group.engine
    steps = [(Dense(each), checks.reducible(each, kind, engine, name)) for each in tensors]
    more = f" and {len(tensors) - 1} more" if len(tensors) > 1 else ""
    text = where(name, tensors[0], checks.named(kind) + more) if tensors else name

    def call(timeout):
        memories, kinds = [_multiplied(dense.memory, factor, wide) for dense, wide in steps], {}
        for memory in memories:
            kinds.setdefault(memory.dtype, []).append(memory)
        for each in kinds.values():
            engine.all_reduce_coalesced(each, kind, text, timeout)
        return lambda: [dense.back(memory) for memory, (dense, _) in zip(memories, steps)]

    return group.call(engine, call, tensors, async_op)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """On rank `dst` (0), `gather_list[r]` becomes the tensor of rank r; other ranks give no list."""
    group = member(group, "gather")
    if group is None:
        return None
    engine = group.engine_of(checks.tensor(tensor, "gather"), "gather")
    root = _root(group, dst, group_dst, "gather", "dst")
    outputs = _list_of_root(group, gather_list, root, tensor, "gather", "gather_list")
    text, source = where("gather", tensor, f" to {root}"), Dense(tensor)
    targets = [Dense(each, read=False) for each in outputs]

    def call(timeout):
        engine.gather([each.memory for each in targets], source.memory, root, text, timeout)
        return lambda: _all_back(targets)

    return group.call(engine, call, outputs, async_op)


def _root(group, number, place, name, what):
    """Rank 0 of the group of all where nothing is said."""
    return checks.rank(group, 0 if number is None and place is None else number, place, name, what)


def _list_of_root(group, values, root, like, name, what):
    if group.rank() == root:
        return checks.tensors(values, name, what, group.size(), like)
    if values:
        raise ValueError(f"{name}: {what} is for rank {group.ranks[root]} alone; leave it out on the others")
    return []


def gather_single(tensor, gather_tensor=None, dst=None, group=None, async_op=False, group_dst=None):
    """`gather` into one tensor of as many times the elements."""
    return _gathered_into(tensor, gather_tensor, dst, group, async_op, group_dst, "gather_single")


def gather_into_tensor(tensor, gather_tensor=None, dst=None, group=None, async_op=False, group_dst=None):
    """`gather` into one tensor of as many times the elements."""
    return _gathered_into(tensor, gather_tensor, dst, group, async_op, group_dst, "gather_into_tensor")


def _gathered_into(tensor, whole, dst, group, async_op, group_dst, name):
    group = member(group, name)
    if group is None:
        return None
    engine = group.engine_of(checks.tensor(tensor, name), name)
    root = _root(group, dst, group_dst, name, "dst")
    target = None
    if group.rank() == root:
        _checked_whole(checks.tensor(whole, name, "gather_tensor"), tensor, group.size(), name)
        target = Dense(whole, read=False)
    text, source = where(name, tensor, f" to {root}"), Dense(tensor)

    def call(timeout):
        pieces = _pieces(target.memory, group.size()) if target else []
        engine.gather(pieces, source.memory, root, text, timeout)
        return target.back if target else None

    return group.call(engine, call, [] if whole is None else [whole], async_op)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """The tensor of rank r becomes `scatter_list[r]` of rank `src` (0); other ranks give no list."""
    group = member(group, "scatter")
    if group is None:
        return None
    engine = group.engine_of(checks.tensor(tensor, "scatter"), "scatter")
    root = _root(group, src, group_src, "scatter", "src")
    inputs = [Dense(each) for each in _list_of_root(group, scatter_list, root, tensor, "scatter", "scatter_list")]
    text, target = where("scatter", tensor, f" from {root}"), Dense(tensor, read=False)

    def call(timeout):
        engine.scatter(target.memory, [each.memory for each in inputs], root, text, timeout)
        return target.back

    return group.call(engine, call, [tensor], async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """The output of rank r becomes the sum of all ranks' `input_list[r]`."""
    group = member(group, "reduce_scatter")
    if group is None:
        return None
    checks.tensor(output, "reduce_scatter", "output")
    inputs = checks.tensors(input_list, "reduce_scatter", "input_list", group.size(), output)
    sources = [Dense(each) for each in inputs]
    return _reduce_scatter(group, output, lambda: [each.memory for each in sources], op, async_op, "reduce_scatter")


def _reduce_scatter(group, output, sources, op, async_op, name):
    (kind, factor), engine = checks.reduction(op, name), group.engine_of(output, name)
    text, target = where(name, output, checks.named(kind)), Dense(output, read=False)
    wide = checks.reducible(output, kind, engine, name)

    def call(timeout):
        inputs = [_multiplied(each, factor, wide) for each in sources()]
        result = target.memory if target.memory.dtype is wide else target.memory.to(wide)
        engine.reduce_scatter(result, inputs, kind, text, timeout)
        return lambda: target.back(result)

    return group.call(engine, call, [output], async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """`reduce_scatter` of one tensor of as many times the elements."""
    group = member(group, "reduce_scatter_tensor")
    if group is None:
        return None
    name = "reduce_scatter_tensor"
    checks.tensor(output, name, "output")
    _checked_whole(checks.tensor(input, name, "input"), output, group.size(), name)
    source = Dense(input)
    return _reduce_scatter(group, output, lambda: _pieces(source.memory, group.size()), op, async_op, name)


def reduce_scatter_single(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """`reduce_scatter_tensor` under its other name."""
    return reduce_scatter_tensor(output, input, op, group, async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """`output_tensor_list[r]` becomes `input_tensor_list[this rank]` of rank r; sizes may differ."""
    group = member(group, "all_to_all")
    if group is None:
        return None
    name = "all_to_all"
    outputs = checks.tensors(output_tensor_list, name, "output_tensor_list", group.size())
    inputs = checks.tensors(input_tensor_list, name, "input_tensor_list", group.size())
    targets, sources = [Dense(each, read=False) for each in outputs], [Dense(each) for each in inputs]
    _checked_dtypes([*outputs, *inputs], name)
    text, engine = where(name, inputs[group.rank()]), group.engine_of(inputs[0], name)

    def call(timeout):
        engine.all_to_all([each.memory for each in targets], [each.memory for each in sources], text, timeout)
        return lambda: _all_back(targets)

    return group.call(engine, call, outputs, async_op)


def _checked_dtypes(tensors, name):
    kinds = {each.dtype for each in tensors}
    if len(kinds) > 1:
        raise ValueError(f"{name}: all tensors must have one dtype, got {', '.join(sorted(map(str, kinds)))}")


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Part r of the input goes to rank r, whose output takes what comes, in the order of the ranks.

    Parts are rows: as many as the split sizes say, or equally many.
    """
    group = member(group, "all_to_all_single")
    if group is None:
        return None
    name = "all_to_all_single"
    _checked_dtypes([checks.tensor(output, name, "output"), checks.tensor(input, name, "input")], name)
    engine = group.engine_of(input, name)
    target, source = Dense(output, read=False), Dense(input)
    outputs = _rows(target.memory, output_split_sizes, group.size(), name, "output")
    inputs = _rows(source.memory, input_split_sizes, group.size(), name, "input")
    text = where(name, input)

    def call(timeout):
        engine.all_to_all(outputs, inputs, text, timeout)
        return target.back

    return group.call(engine, call, [output], async_op)


def _rows(memory, sizes, count, name, what):
    """A dense tensor cut along its first dimension."""
    length = memory.shape[0] if memory.ndim else 1
    if not sizes:
        if length % count:
            raise ValueError(f"{name}: {what} has {length} rows, which {count} ranks cannot share equally; give "
                             f"{what}_split_sizes")
        sizes = [length // count] * count
    if len(sizes) != count or sum(sizes) != length:
        raise ValueError(f"{name}: {what}_split_sizes {list(sizes)} must be {count} numbers that add up to the "
                         f"{length} rows of {what}")
    return list(memory.split(list(sizes)))


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Waits until all ranks of the group are here."""
    group = member(group, "barrier")
    if group is None:
        return None
    text, engine = where("barrier"), group.engine
    if device_ids is not None and not engine.launches:
        raise RuntimeError("barrier: device_ids are for groups of GPUs, and this group's tensors are on the CPU; leave "
                           "them out")
    return group.call(engine, lambda seconds: engine.barrier(text, seconds), None, async_op,
                      None if timeout is None else timeout.total_seconds())
