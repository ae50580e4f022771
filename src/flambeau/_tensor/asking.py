"""Classes with a `__torch_function__` of their own are asked for methods and attributes that are no operators, too.

Operators ask in native code. What else a tensor has is plain code, which does not ask and so costs nothing; a class of
a program that wants to be asked gets members that do, when it is defined. This library's own classes answer such
members themselves.
"""

import functools

from .. import _C
from .._C import Tensor
from .overriding import _default_torch_function, handle_torch_function, overrides_are_off

#: special methods that are asked for
_SPECIAL = {"__array__", "__bool__", "__complex__", "__contains__", "__deepcopy__", "__float__", "__format__",
            "__index__", "__int__", "__len__", "__reduce_ex__", "__repr__"}
#: results of these have the class of the tensor also where a class asks for nothing
_OF_ONE_CLASS = {"new", "new_tensor"}
_OPERATOR = type(vars(Tensor)["add"])


def _answer(func, *args, **kwargs):
    return func(*args, **kwargs) if overrides_are_off() else handle_torch_function(func, args, kwargs)


@functools.cache
def _asking(name):
    member = vars(Tensor)[name]
    if hasattr(member, "__set__"):
        return property(lambda self: _answer(member.__get__, self),
                        lambda self, value: _answer(member.__set__, self, value),
                        lambda self: _answer(member.__delete__, self), member.__doc__)

    @functools.wraps(member)
    def method(self, *args, **kwargs):
        return _answer(member, self, *args, **kwargs)

    return method


def _asked_for(name, member):
    if isinstance(member, _OPERATOR) or name == "as_subclass":
        return False
    return name in _SPECIAL or not name.startswith("_")


def _when_subclassed(cls, **kwargs):
    super(Tensor, cls).__init_subclass__(**kwargs)
    asked = cls.__torch_function__
    if asked is _C._disabled_torch_function_impl or cls.__module__.partition(".")[0] == "flambeau":
        return
    every = getattr(asked, "__func__", asked) is not _default_torch_function
    names = [name for name, member in vars(Tensor).items() if _asked_for(name, member)] if every else _OF_ONE_CLASS
    for name in names:
        if next(kind for kind in cls.__mro__ if name in vars(kind)) is Tensor:
            setattr(cls, name, _asking(name))


Tensor.__init_subclass__ = classmethod(_when_subclassed)
