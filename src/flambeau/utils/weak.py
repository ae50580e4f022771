"""Dictionaries whose keys are told apart by identity and do not keep them alive: `==` of tensors is no comparison."""

import builtins
import copy
import weakref
from collections.abc import MutableMapping

from .. import Tensor
from .._shown import shown


class WeakIdRef(weakref.ref):
    """A weak reference that equals only references to the very same object.

    >>> import flambeau
    >>> from flambeau.utils.weak import WeakIdRef
    >>> x = flambeau.ones(2)
    >>> WeakIdRef(x) == WeakIdRef(x), WeakIdRef(x) == WeakIdRef(flambeau.ones(2))
    (True, False)
    """

    __slots__ = ("_id",)

    def __init__(self, key, callback=None):
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        if not isinstance(other, WeakIdRef):
            return NotImplemented
        a, b = self(), other()
        return self is other if a is None or b is None else a is b


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary by identity of the keys; an entry vanishes with its key.

    >>> import flambeau
    >>> from flambeau.utils.weak import WeakIdKeyDictionary
    >>> x, known = flambeau.ones(2), WeakIdKeyDictionary()
    >>> known[x] = "x"
    >>> known[x], flambeau.ones(2) in known, len(known)
    ('x', False, 1)
    >>> del x
    >>> len(known)
    0
    """

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.ref_type, self.data = ref_type, {}
        data = weakref.ref(self)

        def forget(ref):
            owner = data()
            if owner is not None:
                owner.data.pop(ref, None)

        self._forget = forget
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # ints and strings, for example, cannot be referred to
            return False

    def __len__(self):
        return len(self.data)

    def __iter__(self):
        for ref in list(self.data):
            key = ref()
            if key is not None:
                yield key

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x} with {len(self)} entries>"

    def keyrefs(self):
        """The references to the keys."""
        return list(self.data)

    def copy(self):
        """A dictionary with the same entries."""
        return type(self)(self, self.ref_type)

    __copy__ = copy

    def __deepcopy__(self, memo):
        """The same keys, since a copied key would be found by nobody; the values copied."""
        found = type(self)(None, self.ref_type)
        for key, value in self.items():
            found[key] = copy.deepcopy(value, memo)
        return found

    def items(self):
        """A list of (key, value) pairs, which keep their keys alive."""
        return [(key, value) for ref, value in list(self.data.items()) if (key := ref()) is not None]

    def update(self, dict=(), /, **named):
        """Takes over the entries of a mapping, or of pairs: all of them are read before the first is taken."""
        pairs = dict.items() if hasattr(dict, "items") else builtins.dict(dict).items()
        for key, value in [*pairs, *named.items()]:
            self[key] = value

    def __or__(self, other):
        if not hasattr(other, "items"):
            return NotImplemented
        found = self.copy()
        found.update(other)
        return found

    def __ror__(self, other):
        if not hasattr(other, "items"):
            return NotImplemented
        found = type(self)(other, self.ref_type)
        found.update(self)
        return found

    def __ior__(self, other):
        self.update(other)
        return self


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor: called, it gives the tensor, or None when that is gone.

    >>> import flambeau
    >>> from flambeau.utils.weak import TensorWeakRef
    >>> x = flambeau.ones(1)
    >>> ref = TensorWeakRef(x)
    >>> ref() is x
    True
    >>> del x
    >>> ref() is None
    True
    """

    def __init__(self, tensor):
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"TensorWeakRef: expected a tensor, got {shown(tensor)}")
        self.ref = weakref.ref(tensor)

    def __call__(self):
        return self.ref()
