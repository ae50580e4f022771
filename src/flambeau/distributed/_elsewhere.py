"""Names of modules below torch.distributed that packages import, and that are not here yet; each says so when used."""

from .._absent import refusals

_REASON = "it is not available yet; docs/distributed.md says what is"
globals().update(refusals("distributed", _REASON, """
    Reducer Logger FakeProcessGroup
"""))
