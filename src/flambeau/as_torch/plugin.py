"""`pytest -p flambeau.as_torch.plugin`: tests written for PyTorch run on this library."""

from ._install import install
from ._version import __version__


def pytest_load_initial_conftests(early_config, parser, args):
    """Before anything of the tests is imported."""
    install()


def pytest_report_header(config):
    """What torch is, above the first test."""
    return f"torch: {__version__}, served by Flambeau"
