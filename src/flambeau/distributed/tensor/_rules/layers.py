"""Normalization, attention, embeddings, pooling: cut along batches, heads and other dimensions that do not mix."""

from ._rule import Rule, numbered, rule


@rule("layer_norm", "rms_norm")
def norms(call):
    """The dimensions that are normalized over stay whole."""
    labels = numbered(call.tensors[0].ndim - len(call.value("normalized_shape")))
    return Rule([labels] + [{}] * (len(call.tensors) - 1), [labels])


@rule("_layer_norm_backward")
def norms_backward(call):
    """Gradients of weight and bias are sums over what is cut."""
    labels = numbered(call.tensors[0].ndim - len(call.value("normalized_shape")))
    return Rule([labels, labels] + [{}] * (len(call.tensors) - 2), [labels, {}, {}], total="sum", linear=((0,),),
                deps=((0, 1), (0, 1), (0,)))


@rule("fused_attention", "fused_attention_backward")
def attention(call):
    """Batch and heads are cut; a mask's dimensions of size 1 stay whole."""
    lead = call.tensors[0].ndim - 2
    labels, mask = numbered(lead), call.value("mask", None)
    ins = []
    for t in call.tensors:
        own = t is mask
        shift = lead - (t.ndim - 2) if own else 0
        ins.append({d + shift: d for d in range(t.ndim - 2) if t.shape[d] != 1} if own else labels)
    if mask is not None and mask.ndim > 2:
        own = [d for d in range(mask.ndim - 2) if mask.shape[d] != 1]
        ins = [x if t is mask else labels for x, t in zip(ins, call.tensors)] if own else ins
    return Rule(ins, [labels] * call.results)


@rule("embedding_rows")
def embedding(call):
    """Along the indices or along the columns; rows of the table are cut in _vocabulary.py."""
    lead = numbered(call.tensors[1].ndim)
    return Rule([{"e": 1}, lead], [lead | {"e": len(lead)}], linear=((0,),))


@rule("embedding_dense_backward")
def embedding_backward(call):
    """A sum over the indices."""
    lead = numbered(call.tensors[1].ndim)
    if call.value("scale_grad_by_freq"):
        lead_labels = {}
    else:
        lead_labels = lead
    return Rule([lead_labels | {"e": len(lead)}, lead_labels], [{"e": 1}], total="sum", linear=((0,),))


@rule("max_pool", "max_pool_values", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool",
      "adaptive_max_pool", "interpolate")
def pooling(call):
    """Batch and channels, where both are there."""
    labels = numbered(2 if call.tensors[0].ndim > 2 else 0)
    return Rule([labels], [labels] * call.results, filled=True)


@rule("one_hot")
def one_hot(call):
    """Everywhere but along the classes."""
    labels = numbered(call.tensors[0].ndim)
    return Rule([labels], [labels]) if call.value("num_classes") > 0 else None


@rule("index_select")
def index_select(call):
    """Along other dimensions, or along the index."""
    x, dim = call.tensors[0], call.value("dim")
    dim = dim + x.ndim if dim < 0 else dim
    labels = numbered(x.ndim, dim)
    return Rule([labels, {"index": 0}], [labels | {"index": dim}], linear=((0,),))
