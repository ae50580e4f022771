"""Objects that give and take their own state."""

from typing import Any, Protocol, TypeVar, runtime_checkable


@runtime_checkable
class Stateful(Protocol):
    """Anything with `state_dict()` and `load_state_dict(state_dict)`: models, optimizers, a program's own."""

    def state_dict(self) -> dict[str, Any]:
        """What to store."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what was stored."""


StatefulT = TypeVar("StatefulT", bound=Stateful)
