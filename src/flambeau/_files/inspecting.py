"""Looks at a file without its values: the object it describes, with tensors that have no memory and unknown classes."""

import flambeau

from .extent import Unknown
from .loader import Loader
from .pickle_reader import Allowed


class Inspector(Loader):
    """A loader whose tensors are on the meta device, and which takes every name: what it cannot make is an Unknown.

    `places` says of each tensor which storage it lies in and where; `kinds` the dtype and bytes of each storage.
    """

    def __init__(self, archive):
        super().__init__(archive, None, None)
        self.unknown = {}  # names that load would refuse, in their order
        self.latest = None  # of the places
        self.places = {}   # id of a tensor -> (number of its storage, offset)
        self.kinds = {}    # number of a storage -> bytes of its elements
        self.table["builtins.getattr"] = self.table["__builtin__.getattr"] = Allowed(
            call=lambda owner, name: Unknown(f"{owner.name if isinstance(owner, Unknown) else '?'}.{name}"[:300]))

    def find(self, module, name):
        full = f"{module}.{name}"
        if self.table.get(full) is None and not (module.startswith("numpy") and self.is_known(module, name)):
            if full not in self.objects.trusted:
                self.unknown[full] = True
            return self.classes.setdefault(full, Allowed(
                call=lambda *args: Unknown(full, args), new=lambda *args: Unknown(full, args), value=Unknown(full)))
        return super().find(module, name)

    def is_known(self, module, name):
        try:
            super().find(module, name)
        except RuntimeError:
            return False
        return True

    def restore(self, target, state):
        if isinstance(target, Unknown):
            target.state = state
        else:
            super().restore(target, state)

    def attributes(self, value):
        return value.parts() if isinstance(value, Unknown) else super().attributes(value)

    def hashable(self, *_):
        return True

    # --- tensors without memory

    def fetch(self, number, claimed):
        size = self.archive.size("data/" + number) if self.archive.complete else claimed
        return flambeau.empty(size, dtype=flambeau.uint8, device="meta")

    def place(self, memory, *_):
        return memory

    def storage(self, key):
        found = super().storage(key)
        self.kinds.setdefault(key[2], found.dtype.itemsize)
        return found

    def view(self, storage, dtype, offset, *rest):
        result = super().view(storage, dtype, offset, *rest)
        return self.at(result, (storage._entry[0], offset))

    def parameter(self, data, requires_grad, hooks):
        return self.at(super().parameter(data, requires_grad, hooks), self.places.get(id(data)))

    def of_type(self, *args):
        result = super().of_type(*args)  # a buffer is another object than the tensor it is made of
        return result if id(result) in self.places else self.at(result, self.latest)

    def at(self, result, place):
        self.latest = place
        self.places[id(result)] = place
        self.kept.append(result)
        return result
