"""What every test starts from: seed 0, float32 as default dtype, gradients on."""

import gc
import os
import sys

import pytest

# Several workers share the processor: threads that wait for work must sleep, not spin (read when OpenMP starts).
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import flambeau

from . import skips


@pytest.fixture(autouse=True)
def fresh_state():
    flambeau.manual_seed(0)
    yield
    if not flambeau.is_grad_enabled():
        flambeau.set_grad_enabled(True)
        raise AssertionError("the test left gradients switched off")
    if flambeau.get_default_dtype() != flambeau.float32:
        flambeau.set_default_dtype(flambeau.float32)
        raise AssertionError("the test left another default dtype")


@pytest.fixture
def frequent_switches():
    """Threads take turns as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class OnDevice:
    """Tests of the op table on another device: tensors are made there, and what has no kernel yet is skipped.
    float32 is computed as such, so that the laws' tolerances hold."""

    @pytest.fixture(autouse=True)
    def default_device(self):
        from .ops import battery
        before, flambeau.backends.cudnn.allow_tf32 = flambeau.backends.cudnn.allow_tf32, False
        with flambeau.device(battery.DEVICE):
            yield
        flambeau.backends.cudnn.allow_tf32 = before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self):
        try:
            yield
        except NotImplementedError as refusal:
            if "CUDA kernel yet" not in str(refusal):
                raise
            pytest.skip(str(refusal))


class Sent:
    """A worker's reports go to the main process, which counts them. Kept here, too, they would make searches for
    garbage and forks slow for the tests that come late."""

    def __init__(self, config):
        self.plugins = config.pluginmanager

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self):
        self.plugins.getplugin("terminalreporter").stats.clear()


def pytest_addoption(parser):
    parser.addoption("--pin-skips", action="store_true", help="write tests/skips.txt anew for the tests that run")
    parser.addoption("--device", default="cpu", help="where the op table's samples are made: cpu, cuda, cuda:1")


def pytest_configure(config):
    if config.getoption("--pin-skips") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(skips.Pins(), "pins of skips")
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Sent(config), "reports that have been sent")
    if config.getoption("--device") != "cpu":
        from .ops import battery
        battery.DEVICE = config.getoption("--device")
        config.pluginmanager.register(OnDevice(), "the op table on a device")


def pytest_collection_finish():
    """The collected tests stay; a search for garbage, of which tests ask for many, need not look through them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if not item.config.getoption("--pin-skips") and item.config.getoption("--device") == "cpu":
        skips.judge(report)
    return report
