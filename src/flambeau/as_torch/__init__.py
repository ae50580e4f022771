"""Programs written for PyTorch run unchanged: in a process of theirs, `torch` and `torch.x.y` are this library.

    python -m flambeau.as_torch SCRIPT ARGUMENTS      (or -m MODULE, -c CODE; nothing for a prompt)
    flambeau run SCRIPT ARGUMENTS                     the same
    PYTHONPATH=$(python -m flambeau.as_torch --path)  for programs that start Python themselves
    pytest -p flambeau.as_torch.plugin
    import flambeau.as_torch; flambeau.as_torch.install()  (at the beginning of a notebook)
    flambeau doctor SCRIPT                            what it uses of PyTorch, and what becomes of it here

Whatever Python these processes start is served too. A real PyTorch, where one is installed, is not seen there.
"""

from ._doctor import STATES as STATES
from ._doctor import examined as examined
from ._doctor import sources as sources
from ._install import PATH as PATH
from ._install import environment as environment
from ._install import install as install
from ._install import installed as installed
from ._run import run as run
from ._uses import uses as uses
from ._version import TorchVersion as TorchVersion
from ._version import __version__ as __version__
