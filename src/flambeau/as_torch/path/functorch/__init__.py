"""Found as `functorch` by a Python with this folder on its path; puts Flambeau's there and is gone."""

import sys
from importlib import import_module

from flambeau.as_torch import install

install()
del sys.modules["functorch"]
import_module("functorch")
