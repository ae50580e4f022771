"""Makes one batch of a list of samples: tensors are stacked, containers are transposed."""

import re
import sys
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy
from operator import itemgetter

import flambeau

from ...._shown import shown

#: the code of NumPy dtypes that no tensor has: texts, bytes and objects
np_str_obj_array_pattern = re.compile("[SaUO]")
_REFUSED = "default_collate: a sample is a tensor, NumPy array, number, string, or a list or dict of them; got {}"


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Tensors, stacked along a new first dimension."""
    if any(x.is_nested for x in batch):
        raise RuntimeError("default_collate: nested tensors are batches already and are not joined; give the loader a "
                           "collate_fn that does, as nested.as_nested_tensor([t for x in batch for t in x.unbind()]), "
                           "or one that makes the batch of single samples: nested.as_nested_tensor(batch)")
    if any(x.layout is not flambeau.strided for x in batch):
        raise RuntimeError("default_collate: sparse tensors are not joined into a batch; give the loader a collate_fn "
                           "that does (flambeau.stack joins COO tensors), or use to_dense()")
    return flambeau.stack(batch, 0)


def collate_float_fn(batch, *, collate_fn_map=None):
    """Numbers as a tensor of float64."""
    return flambeau.tensor(batch, dtype=flambeau.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    """Whole numbers as a tensor of int64."""
    return flambeau.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    """Texts: the list that they are."""
    return batch


#: type -> function(batch, *, collate_fn_map); the first entry that fits is taken. Packages add theirs.
default_collate_fn_map = {flambeau.Tensor: collate_tensor_fn, float: collate_float_fn, int: collate_int_fn,
                          str: collate_str_fn, bytes: collate_str_fn}


def _is_numpy(value):
    """Whether it is a NumPy array or number, or one of a subclass; NumPy is not imported for this."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """NumPy arrays, stacked as tensors are."""
    if np_str_obj_array_pattern.match(batch[0].dtype.kind):
        raise TypeError(_REFUSED.format(f"dtype {batch[0].dtype.type.__name__}"))
    return flambeau.stack([flambeau.as_tensor(value) for value in batch], 0)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    """NumPy numbers as a tensor of one dimension."""
    return flambeau.as_tensor(batch)


def _rebuilt(container, items):
    """`items` in a container of the same kind as `container`, or in the plain one where that cannot be."""
    if type(container) is type(items):
        return items
    mapping = isinstance(container, Mapping)
    try:
        if mapping and isinstance(container, MutableMapping):
            clone = copy(container)
            clone.update(items)
            return clone
        if not mapping and isinstance(container, MutableSequence):
            clone = copy(container)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(container)(items)
    except TypeError:
        return items


def collate(batch, *, collate_fn_map=None):
    """`batch` by the rules of `collate_fn_map`, containers by recursion."""
    first = batch[0]
    table = default_collate_fn_map if collate_fn_map is None else collate_fn_map
    function = table.get(type(first))
    if function is None:
        function = next((table[kind] for kind in table if isinstance(first, kind)), None)
    if function is not None and not (function is collate_float_fn and _is_numpy(first)):
        return function(batch, collate_fn_map=table)
    if _is_numpy(first):
        return (collate_numpy_array_fn if hasattr(first, "__len__") else collate_numpy_scalar_fn)(batch)
    if isinstance(first, Mapping):
        return _rebuilt(first, {key: collate([*map(itemgetter(key), batch)], collate_fn_map=table) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(collate(column, collate_fn_map=table) for column in zip(*batch)))
    if isinstance(first, Sequence):
        lengths = set(map(len, batch))
        if len(lengths) > 1:
            raise RuntimeError("default_collate: the lists of a batch must have one length, got "
                               f"{shown(sorted(lengths))}")
        columns = [collate(column, collate_fn_map=table) for column in zip(*batch)]
        return columns if isinstance(first, tuple) else _rebuilt(first, columns)
    raise TypeError(_REFUSED.format(shown(first)))


def default_collate(batch):
    """One batch from a list of samples: tensors stacked along a new first dimension, containers item by item.

    >>> import flambeau
    >>> from flambeau.utils.data import default_collate
    >>> default_collate([(1, {"x": flambeau.ones(2)}), (2, {"x": flambeau.zeros(2)})])
    [tensor([1, 2]), {'x': tensor([[1., 1.],
            [0., 0.]])}]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def default_convert(data):
    """NumPy arrays and numbers inside `data` as tensors, all else as it is.

    >>> from flambeau.utils.data import default_convert
    >>> default_convert({"x": 3})
    {'x': 3}
    """
    if isinstance(data, (flambeau.Tensor, str, bytes)):
        return data
    if _is_numpy(data):
        is_text = data.dtype.kind in "OSU"
        return data if is_text else flambeau.as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuilt(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, Sequence):
        items = [default_convert(value) for value in data]
        return items if isinstance(data, tuple) else _rebuilt(data, items)
    return data
