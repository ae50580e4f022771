"""Found as `torch` by a Python with this folder on its path; puts Flambeau there and is gone."""

from flambeau.as_torch import install

install()
