"""Converting a module's parameters and buffers: dtype, device, memory format."""

from ... import Tensor, bfloat16, device, dtype, float16, float32, float64, no_grad
from ..._shown import shown
from ..._tensor.overriding import takes_dispatch
from ..parameter import Parameter, is_lazy
from ._switches import get_overwrite_module_params_on_conversion, get_swap_module_params_on_conversion


class ConvertMethods:
    """The part of Module that converts its tensors; every method returns the module."""

    __slots__ = ()

    def _apply(self, fn, recurse=True):
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            with no_grad():
                changed = fn(param)
                changed_grad = None if param.grad is None else fn(param.grad)
            swap = get_swap_module_params_on_conversion()
            overwrite = (get_overwrite_module_params_on_conversion() or changed.device.type != param.device.type
                         or (hasattr(param, "_own_part") and changed.dtype is not param.dtype)  # of DTensors
                         or takes_dispatch(type(changed)))  # what it wraps is not in its memory
            if swap or not overwrite or is_lazy(param):
                param.data = changed  # the same object: optimizers keep their hold on it, and a lazy one waits on
            else:
                param = self._parameters[name] = Parameter(changed, param.requires_grad)
            if changed_grad is not None:
                param.grad = changed_grad.requires_grad_(False)
        for name, buffer in self._buffers.items():
            if is_lazy(buffer):
                buffer.data = fn(buffer.data)  # stays one that waits for its shape
            elif buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """Move or convert parameters and buffers: to(device), to(dtype), to(device, dtype), to(tensor); returns self.

        `dtype` must be floating point or complex and changes only such tensors; `memory_format` (keyword) applies to
        tensors with 4 or 5 dimensions.
        """
        to_device, to_dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if to_dtype is not None and not (to_dtype.is_floating_point or to_dtype.is_complex):
            raise TypeError(
                f"Module.to: parameters can only become floating point or complex, got dtype={to_dtype}"
            )

        def convert(t):
            wanted = to_dtype if t.is_floating_point() or t.is_complex() else None
            options = {"dtype": wanted, "device": to_device}
            if memory_format is not None and t.dim() in (4, 5):
                options["memory_format"] = memory_format
            options = {key: value for key, value in options.items() if value is not None}
            return t.to(non_blocking=non_blocking, **options) if options else t

        return self._apply(convert)

    def to_empty(self, *, device, recurse=True):
        """Move parameters and buffers to `device` without their values (from `meta`, say); returns self."""
        return self._apply(lambda t: t.new_empty(t.shape, device=device), recurse=recurse)

    def type(self, dst_type):
        """Convert all parameters and buffers to `dst_type`; returns self."""
        return self._apply(lambda t: t.type(dst_type))

    def _own_to_floating(self, dst_type):
        return self._apply(lambda t: t.to(dst_type) if t.is_floating_point() else t)

    def float(self):
        """Convert floating-point parameters and buffers to float32; returns self."""
        return self._own_to_floating(float32)

    def double(self):
        """Convert floating-point parameters and buffers to float64; returns self."""
        return self._own_to_floating(float64)

    def half(self):
        """Convert floating-point parameters and buffers to float16; returns self."""
        return self._own_to_floating(float16)

    def bfloat16(self):
        """Convert floating-point parameters and buffers to bfloat16; returns self."""
        return self._own_to_floating(bfloat16)

    def cpu(self):
        """Move parameters and buffers to the CPU; returns self."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device=None):
        """Move parameters and buffers to a GPU; returns self."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self, device=None):
        """Move parameters and buffers to an XPU, which Flambeau does not use."""
        return self.to("xpu" if device is None else device)

    def ipu(self, device=None):
        """Move parameters and buffers to an IPU, which Flambeau does not use."""
        return self.to("ipu" if device is None else device)

    def mtia(self, device=None):
        """Move parameters and buffers to an MTIA device, which Flambeau does not use."""
        return self.to("mtia" if device is None else device)

    def share_memory(self):
        """Move parameters and buffers to memory shared between processes; returns self."""
        return self._apply(lambda t: t.share_memory_())


def type_name(value):
    """How an error names the type of `value`."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def refuse_to(args):
    raise TypeError(
        "Module.to: expected (device, dtype, non_blocking), (dtype, non_blocking) or (tensor, non_blocking), got "
        f"({', '.join(type_name(a) for a in args)})"
    )


def _parse_to(*args, **kwargs):
    """(device, dtype, non_blocking, memory_format) of any form of `to`."""
    unknown = set(kwargs) - {"device", "dtype", "non_blocking", "copy", "memory_format", "tensor", "other"}
    if unknown:
        raise TypeError(f"to() received an invalid keyword argument {shown(sorted(unknown)[0])}")
    if kwargs.get("copy"):
        raise RuntimeError("Module.to: copy=True is an argument of Tensor.to; a module changes in place, so use "
                           "copy.deepcopy(module).to(...) where the old one must stay")
    values = {"device": kwargs.get("device"), "dtype": kwargs.get("dtype")}
    rest = list(args)
    like = kwargs.get("tensor", kwargs.get("other"))
    if rest and isinstance(rest[0], Tensor):
        like = rest.pop(0)
    if like is not None:
        values = {"device": like.device, "dtype": like.dtype}
    elif rest and isinstance(rest[0], dtype):
        values["dtype"] = rest.pop(0)
    elif rest and (rest[0] is None or isinstance(rest[0], (str, int, device))) and not isinstance(rest[0], bool):
        values["device"] = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], dtype)):
            values["dtype"] = rest.pop(0)
        elif rest:  # non_blocking comes third
            refuse_to(args)
    if len(rest) > 2 or len(rest) == len(args) > 0 or any(not isinstance(flag, bool) for flag in rest):
        refuse_to(args)
    where = values["device"]
    if where is not None and not isinstance(where, device):
        where = device(where)
    non_blocking = kwargs.get("non_blocking", rest[0] if rest else False)
    return where, values["dtype"], non_blocking, kwargs.get("memory_format")
