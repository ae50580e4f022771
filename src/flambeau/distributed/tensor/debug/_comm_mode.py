"""CommDebugMode: counts the collectives of a program, module by module, forward and backward apart."""

import json
import os
from collections import defaultdict
from dataclasses import dataclass, field

from ...._shown import shown
from ...._tensor.overriding import TorchDispatchMode
from ....nn.modules._hooks import register_module_forward_pre_hook
from ....utils.module_tracker import ModuleTracker
from ... import _where
from .._api import DTensor
from ._names import of_call

_ROOT = "Global"
_MOST = 3  # the largest noise level
_TRIVIAL = {"detach", "t", "view", "alias", "_to_copy", "clone", "expand", "transpose"}


@dataclass
class _Seen:
    """What was seen of one module, in forward and in backward."""

    kind: str = ""
    counts: dict = field(default_factory=lambda: (defaultdict(int), defaultdict(int)))
    operators: dict = field(default_factory=lambda: ([], []))


class _Tracker(ModuleTracker):
    """A module counts as running until its own hooks are through: they exchange what it returns."""

    def __enter__(self):
        self._watched, self._handles = set(), [register_module_forward_pre_hook(self._before)]
        return self

    def _before(self, module, inputs):
        if module not in self._watched:
            self._watched.add(module)
            self._handles.append(module.register_forward_hook(self._after, always_call=True))
        super()._before(module, inputs)


def _checked(noise_level):
    if noise_level not in range(_MOST + 1):
        raise ValueError(f"CommDebugMode: noise_level must be from 0 to {_MOST}, got {shown(noise_level)}")
    return noise_level


class CommDebugMode(TorchDispatchMode):
    """Inside `with mode:`, every collective that this rank calls is counted, of DTensors or of the program itself.

    `get_comm_counts()` is {operator: count}, with PyTorch's names for the operators: `ops.c10d_functional.all_reduce`
    for what DTensors exchange, `ops.c10d.allreduce_` for `distributed.all_reduce`. Messages and barriers are left out.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor.debug import CommDebugMode
    >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    >>> with CommDebugMode() as mode:
    ...     dist.all_reduce(flambeau.ones(2))
    >>> mode.get_total_counts(), dict(mode.get_comm_counts())
    (1, {c10d.allreduce_: 1})
    >>> dist.destroy_process_group()
    """

    def __init__(self):
        super().__init__()
        self._forget()

    def _forget(self):
        self.comm_counts, self._modules, self._parameters = defaultdict(int), {_ROOT: _Seen()}, {}
        self._tracker = _Tracker()

    def __enter__(self):
        self._forget()
        self._tracker.__enter__()
        self._handle = register_module_forward_pre_hook(self._begins)  # after the tracker's: it knows the name
        _where.watchers.append(self._calls)
        return super().__enter__()

    def __exit__(self, *error):
        result = super().__exit__(*error)
        _where.watchers.remove(self._calls)
        self._handle.remove()
        self._tracker.__exit__(*error)
        return result

    # --- watching -----------------------------------------------------------------------------------------------------

    def _begins(self, module, _):
        name = self._tracker._name(module)
        self._modules.setdefault(name, _Seen()).kind = f"{type(module).__module__}.{type(module).__qualname__}"
        own = dict(module.named_parameters(recurse=False))
        if own:
            self._parameters[name] = own

    def _places(self):
        """The modules at work."""
        return [self._modules.setdefault(name, _Seen()) for name in self._tracker.parents]

    def _calls(self, name):
        found = of_call(name)
        if found is None:
            return
        self.comm_counts[found] += 1
        for seen in self._places():
            seen.counts[self._tracker.is_bw][found] += 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        spread = [x for x in args if isinstance(x, DTensor)]
        entry = {"name": func.name, "placements": [str(tuple(x.placements)) for x in spread],
                 "shapes": [list(x.shape) for x in spread]}
        deepest = max(self._tracker.parents, key=lambda name: (name != _ROOT, name.count("."), name))
        self._modules.setdefault(deepest, _Seen()).operators[self._tracker.is_bw].append(entry)
        return func(*args, **(kwargs or {}))

    # --- answers ------------------------------------------------------------------------------------------------------

    def get_comm_counts(self):
        """{operator: how often it was called}"""
        return self.comm_counts

    def get_total_counts(self):
        """How many collectives were called."""
        return sum(self.comm_counts.values())

    def get_parameter_info(self):
        """{module: {name: parameter}} of the modules that ran."""
        return self._parameters

    def get_sharding_info(self):
        """{"module.name": placements} of the parameters that are DTensors."""
        return {f"{module}.{name}": p.placements for module, own in self._parameters.items()
                for name, p in own.items() if isinstance(p, DTensor)}

    def _shown_operators(self, entries, noise_level):
        """1: of DTensors, but for those that change the form alone; 2: all of DTensors; 3: all."""
        return [] if noise_level == 0 else [
            entry for entry in entries
            if noise_level == _MOST or (entry["placements"] and (noise_level == 2 or entry["name"] not in _TRIVIAL))]

    def generate_comm_debug_tracing_table(self, noise_level=3):
        """A text: for each module the collectives of its forward and backward; from level 1 on also its type, its
        parameters' placements and the operators on DTensors, at level 2 with those that change the form alone, at 3
        with those on plain tensors.
        """
        lines = []
        for name, seen in self._modules.items():
            indent = "  " * (0 if name == _ROOT else 1 + name.count("."))
            lines.append(indent + name)
            if _checked(noise_level) and seen.kind:
                lines.append(f"{indent}  type: {seen.kind}")
                lines += [f"{indent}  {key}: {getattr(p, 'placements', 'not spread')}"
                          for key, p in self._parameters.get(name, {}).items()]
            for title, counts, operators in zip(("forward", "backward"), seen.counts, seen.operators):
                told = self._shown_operators(operators, noise_level)
                if counts or told:
                    lines.append(f"{indent}  {title}")
                lines += [f"{indent}    {key}: {count}" for key, count in counts.items()]
                lines += [f"{indent}    aten.{each['name']}" + "".join(
                    f" {shape} {placement}" for shape, placement in zip(each["shapes"], each["placements"]))
                    for each in told]
        return "\n".join(lines) + "\n"

    def log_comm_debug_tracing_table_to_file(self, file_name="comm_mode_log.txt", noise_level=3):
        """Writes the table to a file."""
        with open(os.fspath(file_name), "w", encoding="utf-8") as file:
            file.write(self.generate_comm_debug_tracing_table(noise_level))

    def generate_json_dump(self, file_name="comm_mode_log.json", noise_level=3):
        """Writes the same to a file as JSON: {module: {"type", "parameters", "forward", "backward"}}."""
        _checked(noise_level)
        found = {}
        for name, seen in self._modules.items():
            found[name] = {"type": seen.kind, "parameters": {
                key: str(p.placements) if isinstance(p, DTensor) else None
                for key, p in self._parameters.get(name, {}).items()}} if noise_level else {}
            for title, counts, operators in zip(("forward", "backward"), seen.counts, seen.operators):
                found[name][title] = {"collectives": {str(key): count for key, count in counts.items()},
                                      "operators": self._shown_operators(operators, noise_level)}
        with open(os.fspath(file_name), "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
