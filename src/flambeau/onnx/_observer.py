"""What an export needs to know, from calls of the model: example arguments, and the sizes that differ between them."""

import contextlib
import inspect
from time import perf_counter

import flambeau

from .. import _C
from .._shown import shown
from ..export import Dim
from ..nn import Module
from ..utils._pytree import tree_leaves, tree_map
from . import _run
from ._export import export


def _copied(tree):
    """The tensors as they are now, since a program may write into them."""
    return tree_map(lambda x: x.detach().clone() if isinstance(x, _C.Tensor) else x, tree)


class InputObserver:
    """Looks on while a model is called, and gives what `export` needs: arguments and the sizes that stay open.

    value_if_missing    {name or place: value} of arguments that no call has

    >>> import flambeau
    >>> net, observer = flambeau.nn.Linear(2, 3), flambeau.onnx.InputObserver()
    >>> with observer(net):
    ...     _ = net(flambeau.ones(4, 2)), net(flambeau.ones(7, 2))
    >>> observer.num_obs(), observer.infer_dynamic_shapes()
    (2, ({0: DimHint(AUTO)},))
    >>> program = flambeau.onnx.export(net, observer.infer_arguments(),
    ...                                dynamic_shapes=observer.infer_dynamic_shapes())
    >>> [found["SUCCESS"] for found in observer.check_discrepancies(program)]
    [True, True]
    """

    def __init__(self, value_if_missing=None):
        self.value_if_missing, self._calls, self._signature = dict(value_if_missing or {}), [], None

    @contextlib.contextmanager
    def __call__(self, model, store_n_calls=3, method_name="forward"):
        """A context in which the first calls of a method are kept: their arguments and results."""
        method, own = getattr(model, method_name), method_name in vars(model)
        self._signature = inspect.signature(method)

        def watched(*args, **kwargs):
            kept = len(self._calls) < store_n_calls
            given = _copied((args, kwargs)) if kept else None
            begun = perf_counter()
            result = method(*args, **kwargs)
            if kept:
                self._calls.append((*given, _copied(result), perf_counter() - begun))
            return result

        setattr(model, method_name, watched)
        try:
            yield self
        finally:
            if own:
                setattr(model, method_name, method)
            else:
                delattr(model, method_name)

    def num_obs(self):
        """How many calls were kept."""
        return len(self._calls)

    def _rows(self):
        """The arguments of each call: dicts by name where a call gave some by name, else by place."""
        if not self._calls:
            raise RuntimeError("InputObserver: no call was observed; call the model inside `with observer(model):`")
        if not any(kwargs for _, kwargs, _, _ in self._calls):
            return [dict(enumerate(args)) for args, *_ in self._calls]
        return [dict(self._signature.bind(*args, **kwargs).arguments) for args, kwargs, *_ in self._calls]

    def _keys(self, rows):
        """All names or places, in the order of the signature."""
        keys = {key for row in rows for key in row} | self.value_if_missing.keys()
        if all(isinstance(key, int) for key in keys):
            return sorted(keys)
        order = list(self._signature.parameters)
        return sorted(keys, key=lambda key: order.index(key) if key in order else len(order))

    def _whole(self, row, rows):
        """A call's arguments, with those of other calls where it has none."""
        others = [*rows, self.value_if_missing]
        return {key: row[key] if row.get(key) is not None else next(
            (other[key] for other in others if other.get(key) is not None), None) for key in self._keys(rows)}

    def _chosen(self, which, rows):
        if which is None:
            return max(rows, key=lambda row: (len(_tensors(row)), sum(x.numel() for x in _tensors(row))))
        if isinstance(which, int):
            return rows[which]
        return dict(which) if isinstance(which, dict) else dict(enumerate(which))

    def infer_arguments(self, index_or_args_or_kwargs=None, flat=False, as_args_kwargs=False):
        """Example arguments: a tuple, or a dict where a call gave some by name.

        index_or_args_or_kwargs     which call, or arguments that are to be completed; the call with most tensors
        flat                        the tensors alone, in a list
        as_args_kwargs              (tuple, dict)
        """
        rows = self._rows()
        found = self._whole(self._chosen(index_or_args_or_kwargs, rows), rows)
        by_place = all(isinstance(key, int) for key in found)
        if flat:
            return _tensors(found)
        if as_args_kwargs:
            return (tuple(found.values()), {}) if by_place else ((), found)
        return tuple(found.values()) if by_place else found

    def infer_dynamic_shapes(self, set_batch_dimension_for=None):
        """The sizes that differ between the calls, as `dynamic_shapes` takes them.

        set_batch_dimension_for     names or places of arguments whose first dimension is open as well; True: of all
        """
        rows = self._rows()
        rows = [self._whole(row, rows) for row in rows]
        found = {}
        for key in rows[0]:
            batch = set_batch_dimension_for is True or key in (set_batch_dimension_for or ())

            def differs(x, *others, batch=batch):
                if not isinstance(x, _C.Tensor):
                    return None
                if any(y.dim() != x.dim() for y in others):
                    raise ValueError("InputObserver: a tensor has different numbers of dimensions in different calls")
                return {d: Dim.AUTO for d in range(x.dim())
                        if (batch and d == 0) or any(y.shape[d] != x.shape[d] for y in others)}

            found[key] = tree_map(differs, rows[0][key], *(row[key] for row in rows[1:]))
        return tuple(found.values()) if all(isinstance(key, int) for key in found) else found

    def check_discrepancies(self, onnx_program, atol=1e-4, rtol=0.1, progress_bar=False,
                            initializer=_run.default_session, skip_none=True):
        """Runs the program for each call that was kept, and gives for each: SUCCESS, the largest differences "abs" and
        "rel", "index", the times "duration_torch" and "ort_duration", and how many inputs there were.

        skip_none   results that are None are not compared
        """
        if progress_bar:
            raise NotImplementedError("InputObserver: progress_bar is not available; leave it out")
        onnx_program.initialize_inference_session(initializer)
        return [self._compared(onnx_program, k, atol, rtol, skip_none) for k in range(len(self._calls))]

    def _compared(self, program, index, atol, rtol, skip_none):
        args, kwargs = self.infer_arguments(index, as_args_kwargs=True)
        _, _, wanted, duration = self._calls[index]
        begun = perf_counter()
        found = program(*args, **kwargs)
        taken = perf_counter() - begun
        wanted = [x for x in tree_leaves(wanted) if x is not None or not skip_none]
        if len(wanted) != len(found):
            raise ValueError(f"InputObserver: the model gave {len(wanted)} results and the program {len(found)}")
        largest, relative, success = 0.0, 0.0, True
        for a, b in zip(found, wanted, strict=True):
            a, b = a.double(), flambeau.as_tensor(b).double()
            if b.numel():
                distance = (a - b).abs()
                largest = max(largest, distance.max().item())
                relative = max(relative, (distance / b.abs().clamp(min=1e-5)).max().item())
                success = success and flambeau.allclose(a, b, rtol=rtol, atol=atol)
        leaves = tree_leaves((args, kwargs))
        return {"SUCCESS": success, "abs": largest, "rel": relative, "index": index, "duration_torch": duration,
                "ort_duration": taken, "n_inputs": len(leaves), "n_none": sum(x is None for x in leaves),
                "n_empty": sum(isinstance(x, _C.Tensor) and x.numel() == 0 for x in leaves)}


def _tensors(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, _C.Tensor)]


class ExportableModule(Module):
    """A module that knows how it is exported: define `example_arguments`, and as far as wanted the others.

    >>> import flambeau
    >>> class Doubles(flambeau.onnx.ExportableModule):
    ...     def forward(self, x):
    ...         return x * 2
    ...     def example_arguments(self):
    ...         return (flambeau.ones(2, 3),), None
    ...     def dynamic_shapes(self):
    ...         return ({0: "batch"},)
    >>> Doubles().to_onnx()
    ONNXProgram(opset 20, 1 nodes: 1 Mul)
    """

    def __init__(self):
        if type(self).example_arguments is ExportableModule.example_arguments:
            raise TypeError(f"{type(self).__name__}: define example_arguments(self), which returns (args, kwargs)")
        super().__init__()

    def example_arguments(self):
        """(args, kwargs or None) of an example."""
        raise NotImplementedError("ExportableModule: example_arguments is the subclass's to define")

    def dynamic_shapes(self):
        """The sizes that stay open; None: none."""
        return None

    def input_names(self):
        """Names of the inputs; None: those of the arguments of forward."""
        return None

    def output_names(self):
        """Names of the results; None: those of their steps."""
        return None

    def to_onnx(self, **kwargs):
        """The ONNXProgram; further arguments are those of `export`."""
        given = self.example_arguments()
        if not isinstance(given, tuple) or len(given) != 2:
            raise TypeError(f"ExportableModule: example_arguments must return (args, kwargs), got {shown(given)}")
        args, named = given
        said = {"dynamic_shapes": self.dynamic_shapes(), "input_names": self.input_names(),
                "output_names": self.output_names()}
        return export(self, args, kwargs=named, **(said | kwargs))
