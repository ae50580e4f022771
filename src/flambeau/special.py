"""flambeau.special: functions of mathematical physics and statistics, under PyTorch's names.

>>> import flambeau
>>> flambeau.special.expit(flambeau.tensor([0.]))
tensor([0.5000])
"""

from .ops import public

globals().update({name: op for name, op in public("special").items() if not name.endswith("_")})
_plain = public("")
logsumexp, softmax, log_softmax = _plain["logsumexp"], _plain["softmax"], _plain["log_softmax"]
multigammaln = _plain["mvlgamma"]
