"""When gradients are exchanged: as soon as all of a bucket are there, while backward goes on with the others."""

import sys

import flambeau

from ... import _C
from ..._shown import listed

_MEGABYTE = 1 << 20


def assigned(parameters, caps, alone=()):
    """Lists of parameters, last ones first: of one dtype, and of about as many bytes as `caps` says, the last again.
    Those whose ids are in `alone` have lists of their own."""
    buckets, size = [], 0
    for p in reversed(parameters):
        cap = caps[min(len(buckets) - 1, len(caps) - 1)] if buckets else 0
        apart = buckets and (id(p) in alone or id(buckets[-1][0]) in alone or buckets[-1][0].dtype is not p.dtype)
        if not buckets or size >= cap or apart:
            buckets.append([])
            size = 0
        buckets[-1].append(p)
        size += p.numel() * p.itemsize
    return buckets


class Reducer:
    """Takes the gradients of parameters as backward finishes them, and leaves their mean over all ranks.

    static: the first backward tells which parameters get none. views: `grad` is a part of the bucket's memory.
    dtype: what gradients are exchanged in (None: as they are). sparse: ids of parameters whose gradients are sparse.
    skip_unused: parameters without a gradient are the same on all ranks, and nothing is exchanged for them.
    """

    def __init__(self, named, group, caps, *, static, find_unused, views, dtype=None, sparse=(), skip_unused=False):
        self.names = {id(p): name for name, p in named}
        self.parameters, self.group, self.dtype = [p for _, p in named], group, dtype
        self.static, self.find_unused, self.skip_unused = static, find_unused, skip_unused
        self.views = views and dtype is None
        lists = assigned(self.parameters, caps, sparse)
        self.buckets = [flambeau.distributed.GradBucket(k, part, dtype, id(part[0]) in sparse)
                        for k, part in enumerate(lists)]
        self.buckets[-1]._last = True
        self.after = []  # functions that are called when the gradients of a backward are there
        self._home = {id(p): (bucket, k) for bucket in self.buckets for k, p in enumerate(bucket.parameters())}
        self.hook = self.hook_state = None
        self.divisor = None  # None: the number of ranks
        self._handles = [p.register_post_accumulate_grad_hook(self._ready) for p in self.parameters]
        self._active, self._left, self._next, self._unused = False, {}, 0, set()
        self._times = None  # static: how often each gradient is finished in one backward
        self._learning = {}

    # --- a step -------------------------------------------------------------------------------------------------------

    def prepare(self, outputs):
        """A forward is over, and the gradients of the next backward are to be exchanged."""
        if self._active and self._left_out():
            raise RuntimeError(self._unfinished())
        self._active, self._next = True, 0
        self._left = dict(self._times or dict.fromkeys(map(id, self.parameters), 1))
        self._learning = {} if self.static and self._times is None else None
        for bucket in self.buckets:
            bucket.waiting, bucket.result = len(bucket.parameters()), None
        self._unused = set()
        if self.find_unused and not self.static:
            self._unused = set(map(id, self.parameters)) - reached(outputs)
        elif self._times is not None:
            self._unused = {key for key, times in self._times.items() if times == 0}
        self._reduce_unused()

    def _reduce_unused(self):
        for p in self.parameters:
            if id(p) in self._unused:
                self._left[id(p)] = 0
                self._take(p)
        if len(self._unused) == len(self.parameters):  # no backward will come here; other ranks may have one
            self.finish()

    def _left_out(self):
        """Parameters without a gradient though others have one."""
        left = [p for p in self.parameters if self._left[id(p)]]
        return left if len(left) < len(self.parameters) - len(self._unused) else []

    def _unfinished(self):
        names = listed([self.names[id(p)] for p in self._left_out()])
        return (f"DistributedDataParallel: the last backward gave no gradient to {names}, so the ranks wait for them; "
                "use find_unused_parameters=True where some parameters have no part in the loss, or make sure that "
                "all outputs of forward() do")

    def _ready(self, p):
        """Backward has finished a gradient."""
        if not self._active:
            return
        sparse = p.grad.layout is not _C.strided
        if sparse is not self._home[id(p)][0].sparse:
            raise NotImplementedError(f"DistributedDataParallel: the gradient of {self.names[id(p)]} is "
                                      f"{'sparse' if sparse else 'dense'}; sparse ones are exchanged for the weights "
                                      "of nn.Embedding and nn.EmbeddingBag with sparse=True, and no others")
        if self._learning is not None:
            if not self._learning:
                _C.queue_callback(self._learnt)
            self._learning[id(p)] = self._learning.get(id(p), 0) + 1
            return
        self._left[id(p)] -= 1
        if self._left[id(p)] == 0:
            self._take(p)
        elif self._left[id(p)] < 0:
            raise RuntimeError(f"DistributedDataParallel: backward has finished the gradient of {self.names[id(p)]} "
                               "twice; call forward() before each backward(), and with parameters in several "
                               "checkpointed parts use static_graph=True")

    def _learnt(self):
        """The first backward of a static graph is over."""
        self._times = {id(p): self._learning.get(id(p), 0) for p in self.parameters}
        self._unused = {key for key, times in self._times.items() if times == 0}
        self._learning = None
        self._left = dict.fromkeys(self._left, 0)
        for p in self.parameters:
            self._take(p, finishing=True)
        self.finish()

    def _take(self, p, finishing=False):
        """Puts a gradient into its bucket; begins to exchange the buckets that are full, in their order."""
        bucket, k = self._home[id(p)]
        with flambeau.no_grad():
            if bucket.sparse:
                bucket.parts[k] = p.grad if p.grad is not None else _nothing(p)
            elif self._in_place:
                bucket.parts[k] = self._part(p)
            else:
                self._copy(p, bucket.gradients()[k])
        bucket.waiting -= 1
        while self._next < len(self.buckets) and self.buckets[self._next].waiting == 0:
            self._exchange(self.buckets[self._next])
            self._next += 1
        if self._next == len(self.buckets) and not finishing and len(self._unused) < len(self.parameters):
            _C.queue_callback(self.finish)

    @property
    def _in_place(self):
        """Whether gradients are exchanged where they are: nobody wants to see them one after the other."""
        plain = self.hook is None and not self.views and self.dtype is None
        return plain and self.group.engine_of(self.parameters[0], "DDP").joins

    def _part(self, p):
        """What is exchanged for a parameter: its gradient itself, where no other value is to be kept."""
        grad = p.grad
        if grad is None:
            return flambeau.zeros(p.shape, dtype=p.dtype, device=p.device)
        if id(p) in self._unused or grad.requires_grad or grad.dtype is not p.dtype or not grad.is_contiguous():
            return flambeau.empty(p.shape, dtype=p.dtype, device=p.device).copy_(grad)
        return grad

    def _copy(self, p, view):
        """Puts a gradient into its part of the bucket."""
        if p.grad is None:
            view.zero_()
        elif p.grad.data_ptr() != view.data_ptr() or p.grad.dtype is not view.dtype:
            view.copy_(p.grad)
            if self.views:
                p.grad = view

    def _exchange(self, bucket):
        if self.skip_unused and all(id(p) in self._unused for p in bucket.parameters()):
            bucket.result = None
            return
        if bucket.sparse:
            bucket.result = flambeau.distributed.all_reduce(bucket.parts[0], group=self.group, async_op=True)
            return
        if self.hook is not None:
            bucket.result = self.hook(self.hook_state, bucket)
            return
        parts, dist = bucket.parts if self._in_place else [bucket.buffer()], flambeau.distributed
        mean = self.divisor is None
        if not mean:
            flambeau._foreach_div_(parts, self.divisor)
        op = dist.ReduceOp.AVG if mean else dist.ReduceOp.SUM
        bucket.result = dist._collectives.all_reduce_list(parts, op, self.group, True, "all_reduce")

    def finish(self):
        """Backward is over: waits for what is under way and gives the parameters their gradients."""
        self._active = False
        used = self._used_anywhere()
        with flambeau.no_grad():
            for bucket in self.buckets:
                result = bucket.result.wait() if bucket.result is not None else None
                bucket.result = None
                if self.hook is not None and not bucket.sparse and result is not None:
                    bucket.set_buffer(result[0] if isinstance(result, (list, tuple)) else result)
                self._give(bucket, used)
        for function in self.after:
            function()

    def _give(self, bucket, used):
        """Parts of the bucket become `grad`, where nobody else has the tensor that it was; else they are copied there.
        """
        homes, parts, in_place = [], [], self._in_place
        if bucket.sparse:
            self._give_sparse(bucket, used)
            return
        for p, part in zip(bucket.parameters(), bucket.parts if in_place else bucket.gradients()):
            if id(p) not in used:
                continue
            if p.grad is None or (not in_place and not self.views and _only_known_to(p)):
                p.grad = part.to(p.dtype)
            elif p.grad.data_ptr() != part.data_ptr():
                homes.append(p.grad)
                parts.append(part)
        if homes:
            flambeau._foreach_copy_(homes, parts)
        bucket.parts = [None] * len(bucket.parts)
        if not self.views:
            bucket.leave_memory()

    def _give_sparse(self, bucket, used):
        p, part = bucket.parameters()[0], bucket.parts[0]
        if id(p) in used:
            p.grad = part / (self.group.size() if self.divisor is None else self.divisor)
        bucket.parts = [None]

    def _used_anywhere(self):
        """Parameters that had a gradient on some rank: the others keep what they have."""
        every = set(map(id, self.parameters))
        if not self.find_unused or self.static or self.skip_unused:
            return every - self._unused if self.static or self.skip_unused else every
        flags = flambeau.tensor([id(p) not in self._unused for p in self.parameters],
                                device=self.parameters[0].device)
        flambeau.distributed.all_reduce(flags, flambeau.distributed.ReduceOp.MAX, self.group)
        return {id(p) for p, flag in zip(self.parameters, flags.tolist()) if flag}

    def mimic(self):
        """The collectives of one backward, with zeros: for a rank that has no more batches."""
        self._unused = set(map(id, self.parameters))
        for bucket in self.buckets:
            if bucket.sparse:
                bucket.parts = [_nothing(bucket.parameters()[0])]
            elif self._in_place:
                bucket.parts = [flambeau.zeros(p.shape, dtype=p.dtype, device=p.device) for p in bucket.parameters()]
            else:
                bucket.buffer().zero_()
            self._exchange(bucket)
        used = self._used_anywhere()
        with flambeau.no_grad():
            for bucket in self.buckets:
                bucket.result.wait()
                self._give(bucket, used)  # an optimizer that is shared out needs them


def _nothing(p):
    """A sparse gradient of no rows."""
    return flambeau.sparse_coo_tensor(flambeau.empty((1, 0), dtype=flambeau.int64), p.new_empty((0, *p.shape[1:])),
                                      p.shape)


def _only_known_to(p):
    """Whether `p.grad` is a tensor of its own that nothing else refers to, laid out as the parts of a bucket are."""
    grad = p.grad
    here = 3  # the parameter, this variable, and the argument of getrefcount
    return grad._base is None and sys.getrefcount(grad) <= here and grad.is_contiguous() and not grad.requires_grad


def reached(outputs):
    """ids of the tensors whose gradients a backward from these outputs would fill."""
    found, seen, left = set(), set(), []
    for x in tensors_in(outputs):
        if x.grad_fn is not None:
            left.append(x.grad_fn)
        elif x.requires_grad:
            found.add(id(x))
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.add(id(variable))
        left.extend(each for each, _ in node.next_functions if each is not None)
    return found


def tensors_in(value):
    """The tensors in lists, tuples, dicts and objects with attributes, as forward() returns them."""
    if isinstance(value, _C.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)
    elif isinstance(value, (list, tuple, set)):
        for each in value:
            yield from tensors_in(each)
    elif hasattr(value, "__dataclass_fields__"):
        yield from tensors_in(list(vars(value).values()))
