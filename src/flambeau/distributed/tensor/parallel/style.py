"""Parallel styles: how the parameters of one layer are spread over a mesh, and what goes in and comes out."""

from abc import ABC, abstractmethod

import flambeau

from ...._shown import listed, shown
from ....nn import Embedding, Linear
from ....ops.dims import wrap_dim
from .._api import DTensor, distribute_module, distribute_tensor
from ..placement_types import Placement, Replicate, Shard


class ParallelStyle(ABC):
    """Base of the styles; `_apply(module, device_mesh)` changes a module in place and returns it."""

    src_data_rank = 0

    @abstractmethod
    def _apply(self, module, device_mesh):
        """Spreads the module's parameters, and sets hooks for its inputs and outputs."""
        raise NotImplementedError(f"{type(self).__name__} must define _apply, for a {type(module).__name__} on "
                                  f"{shown(device_mesh)}")


def _spread(tensor, mesh, layout):
    """A plain tensor as the DTensor of which it is this rank's part; a DTensor as it is."""
    return tensor if isinstance(tensor, DTensor) else DTensor.from_local(tensor, mesh, layout)


def _moved(tensor, layout):
    return tensor if tensor.placements == tuple(layout) else tensor.redistribute(placements=layout)


def _out(tensor, layout, local):
    tensor = _moved(tensor, layout)
    return tensor.to_local() if local else tensor


def _replace(module, mesh, layouts, source):
    """Makes parameters DTensors: layouts is {name: placement}."""
    for name, p in list(module._parameters.items()):
        if p is None or isinstance(p, DTensor):
            continue
        made = distribute_tensor(p.detach(), mesh, [layouts.get(name, Replicate())], src_data_rank=source)
        module.register_parameter(name, flambeau.nn.Parameter(made, requires_grad=p.requires_grad))


class _Layered(ParallelStyle):
    """What ColwiseParallel and RowwiseParallel share: of a layer with one input and one output."""

    _layouts = {}  #: kind of layer -> {parameter: placement}
    _desired = {}  #: kind of layer -> how it wants its input

    def __init__(self, input_layout, output_layout, use_local_output):
        self.input_layouts, self.output_layouts = (input_layout,), (output_layout,)
        self.use_local_output = use_local_output

    def _apply(self, module, device_mesh):
        kind = next((kind for kind in self._layouts if isinstance(module, kind)), None)
        if kind is None:
            raise NotImplementedError(f"{type(self).__name__}: only nn.Linear and nn.Embedding are available, got a "
                                      f"{type(module).__name__}; name the layers below it in the plan")
        desired, layouts = (self._desired[kind],), self._layouts[kind]

        def enter(_, inputs, mesh):
            x = _moved(_spread(inputs[0], mesh, self.input_layouts), _from_front(desired, inputs[0].ndim))
            return (x, *inputs[1:])

        def leave(_, output, mesh):
            layout = _from_front(self.output_layouts, output.ndim)
            return _out(_spread(output, mesh, layout), layout, self.use_local_output)

        def cut(_, part, mesh):
            _replace(part, mesh, layouts, self.src_data_rank)

        return distribute_module(module, device_mesh, cut, enter, leave)

    def __repr__(self):
        return (f"{type(self).__name__}(input_layouts={self.input_layouts}, output_layouts={self.output_layouts}, "
                f"use_local_output={self.use_local_output})")


def _from_front(layouts, ndim):
    return tuple(Shard(wrap_dim(p.dim, ndim, "Shard")) if isinstance(p, Shard) else p for p in layouts)


class ColwiseParallel(_Layered):
    """Each rank computes a part of a layer's outputs: of nn.Linear some rows of the weight, of nn.Embedding columns.

    The input is replicated (or comes as `input_layouts` says), the output is cut along its last dimension (or leaves as
    `output_layouts` says), as a plain tensor unless use_local_output=False.

    >>> from flambeau.distributed.tensor.parallel import ColwiseParallel
    >>> ColwiseParallel().output_layouts
    (Shard(dim=-1),)
    """

    _layouts = {Linear: {"weight": Shard(0), "bias": Shard(0)}, Embedding: {"weight": Shard(1)}}
    _desired = {Linear: Replicate(), Embedding: Replicate()}

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)


class RowwiseParallel(_Layered):
    """Each rank computes from a part of a layer's inputs: nn.Linear has columns of the weight, nn.Embedding rows.

    The input is cut along its last dimension (of nn.Embedding replicated), the output is the sum over the ranks,
    replicated or as `output_layouts` says: Shard(1) leaves each rank a part of the sequence.

    >>> from flambeau.distributed.tensor.parallel import RowwiseParallel
    >>> RowwiseParallel().input_layouts
    (Shard(dim=-1),)
    """

    _layouts = {Linear: {"weight": Shard(1), "bias": Replicate()}, Embedding: {"weight": Shard(0)}}
    _desired = {Linear: Shard(-1), Embedding: Replicate()}

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)


class SequenceParallel(ParallelStyle):
    """A layer of replicated parameters (nn.LayerNorm, nn.RMSNorm, nn.Dropout) on a sequence that is cut over ranks.

    >>> from flambeau.distributed.tensor.parallel import SequenceParallel
    >>> SequenceParallel(sequence_dim=1).sequence_sharding
    (Shard(dim=1),)
    """

    def __init__(self, *, sequence_dim=1, use_local_output=False):
        self.sequence_sharding, self.use_local_output = (Shard(sequence_dim),), use_local_output

    def _apply(self, module, device_mesh):
        def replicate(_, part, mesh):
            for name, p in list(part._parameters.items()):
                if p is not None and not isinstance(p, DTensor):
                    made = DTensor.from_local(p.detach(), mesh, [Replicate()])
                    part.register_parameter(name, flambeau.nn.Parameter(made, requires_grad=p.requires_grad))

        def enter(_, inputs, mesh):
            if not isinstance(inputs[0], flambeau.Tensor):
                raise ValueError("SequenceParallel: expected a tensor as the layer's first input, got "
                                 f"{shown(inputs[0])}")
            return (_moved(_spread(inputs[0], mesh, self.sequence_sharding), self.sequence_sharding), *inputs[1:])

        def leave(_, output, mesh):
            return _out(_spread(output, mesh, self.sequence_sharding), self.sequence_sharding, self.use_local_output)

        return distribute_module(module, device_mesh, replicate, enter, leave)

    def __repr__(self):
        return (f"SequenceParallel(sequence_dim={self.sequence_sharding[0].dim}, "
                f"use_local_output={self.use_local_output})")


def _tuple(layouts):
    return (layouts,) if layouts is None or isinstance(layouts, Placement) else tuple(layouts)


class _Prepared:
    """Layouts of several values, None for what is left alone, and those that they are to have."""

    def __init__(self, layouts, desired, local, name):
        self.layouts, self.desired, self.local, self.name = _tuple(layouts), _tuple(desired), local, name
        if len(self.layouts) != len(self.desired):
            raise ValueError(f"{name}: there are {len(self.layouts)} layouts {listed(self.layouts)} and "
                             f"{len(self.desired)} desired ones {listed(self.desired)}; give as many")

    def one(self, value, layout, desired, mesh):
        """A value in its desired layout."""
        if layout is None:
            return value
        if not isinstance(value, flambeau.Tensor):
            raise ValueError(f"{self.name}: a layout {layout} is for a tensor, got {shown(value)}; give None for it")
        return _out(_spread(value, mesh, (layout,)), (desired or layout,), self.local)

    def all(self, values, mesh):
        """A tuple of values."""
        if len(values) != len(self.layouts):
            raise ValueError(f"{self.name}: the module has {len(values)} positional values, and there are layouts for "
                             f"{len(self.layouts)}; give None for what is to be left alone")
        return tuple(self.one(v, p, q, mesh) for v, p, q in zip(values, self.layouts, self.desired))


class PrepareModuleInput(ParallelStyle):
    """Spreads the inputs of a module: a plain tensor counts as a part as `input_layouts` says, and is redistributed.

    One layout for each positional input, None for those to be left alone; keywords have their own.

    >>> from flambeau.distributed.tensor import Replicate, Shard
    >>> from flambeau.distributed.tensor.parallel import PrepareModuleInput
    >>> PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()).desired_input_layouts
    (Replicate(),)
    """

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None,
                 desired_input_kwarg_layouts=None, use_local_output=False):
        self._inputs = _Prepared(input_layouts, desired_input_layouts, use_local_output, "PrepareModuleInput")
        self.input_layouts, self.desired_input_layouts = self._inputs.layouts, self._inputs.desired
        self.input_kwarg_layouts = dict(input_kwarg_layouts or {})
        self.desired_input_kwarg_layouts = dict(desired_input_kwarg_layouts or {})
        if self.input_kwarg_layouts.keys() != self.desired_input_kwarg_layouts.keys():
            raise ValueError("PrepareModuleInput: input_kwarg_layouts and desired_input_kwarg_layouts must name the "
                             f"same arguments, got {listed(self.input_kwarg_layouts)} and "
                             f"{listed(self.desired_input_kwarg_layouts)}")

    def _apply(self, module, device_mesh):
        def enter(_, inputs, named):
            if any(self.input_layouts):
                inputs = self._inputs.all(inputs, device_mesh)
            for name, layout in self.input_kwarg_layouts.items():
                if name in named:
                    desired = self.desired_input_kwarg_layouts[name]
                    named = {**named, name: self._inputs.one(named[name], layout, desired, device_mesh)}
            return inputs, named

        module.register_forward_pre_hook(enter, with_kwargs=True)
        return module

    def __repr__(self):
        return (f"PrepareModuleInput(input_layouts={self.input_layouts}, "
                f"desired_input_layouts={self.desired_input_layouts})")


class PrepareModuleOutput(ParallelStyle):
    """Spreads the outputs of a module; as PrepareModuleInput.

    >>> from flambeau.distributed.tensor import Replicate, Shard
    >>> from flambeau.distributed.tensor.parallel import PrepareModuleOutput
    >>> PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0)).output_layouts
    (Replicate(),)
    """

    def __init__(self, *, output_layouts, desired_output_layouts, use_local_output=True):
        self._outputs = _Prepared(output_layouts, desired_output_layouts, use_local_output, "PrepareModuleOutput")
        self.output_layouts, self.desired_output_layouts = self._outputs.layouts, self._outputs.desired

    def _apply(self, module, device_mesh):
        def leave(*call):
            outputs = call[2]
            if isinstance(outputs, tuple):
                return self._outputs.all(outputs, device_mesh)
            return self._outputs.all((outputs,), device_mesh)[0]

        module.register_forward_hook(leave)
        return module

    def __repr__(self):
        return (f"PrepareModuleOutput(output_layouts={self.output_layouts}, "
                f"desired_output_layouts={self.desired_output_layouts})")


class PrepareModuleInputOutput(ParallelStyle):
    """PrepareModuleInput and PrepareModuleOutput of one module.

    >>> from flambeau.distributed.tensor import Replicate, Shard
    >>> from flambeau.distributed.tensor.parallel import PrepareModuleInputOutput
    >>> PrepareModuleInputOutput(input_layouts=Shard(0), desired_input_layouts=Replicate(),
    ...                          output_layouts=Replicate(), desired_output_layouts=Shard(0)).prepare_module_input
    PrepareModuleInput(input_layouts=(Shard(dim=0),), desired_input_layouts=(Replicate(),))
    """

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None,
                 desired_input_kwarg_layouts=None, use_local_input=False, output_layouts, desired_output_layouts,
                 use_local_output=True):
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts, desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input)
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output)

    def _apply(self, module, device_mesh):
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)

    def __repr__(self):
        return f"PrepareModuleInputOutput({self.prepare_module_input}, {self.prepare_module_output})"
