"""Small tools for authors of layers, under the names that code written for PyTorch imports."""

from itertools import repeat

from ._sizes import repeated


def _ntuple(n, name="parse"):
    def parse(x):
        return repeated(x, n)

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = map(_ntuple, (1, 2, 3, 4), ("_single", "_pair", "_triple", "_quadruple"))


def _reverse_repeat_tuple(t, n):
    return tuple(x for value in reversed(t) for x in repeat(value, n))


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Take `prefix` off the keys of a state dict that have it, in place: "module." of a DataParallel model, say.

    >>> from flambeau.nn.modules.utils import consume_prefix_in_state_dict_if_present
    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'bias': 2, 'weight': 1}
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in [key for key in metadata if key]:
            if key == prefix.removesuffix("."):
                metadata[""] = metadata.pop(key)
            elif key.startswith(prefix):
                metadata[key[len(prefix) :]] = metadata.pop(key)
