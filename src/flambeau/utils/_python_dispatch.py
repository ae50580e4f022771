"""`TorchDispatchMode` where programs import it from; `flambeau.overrides` has it under a public name."""

from .._tensor.overriding import TorchDispatchMode as TorchDispatchMode
