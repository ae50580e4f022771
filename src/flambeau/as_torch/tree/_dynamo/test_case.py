"""torch._dynamo.test_case: the base of tests of compiled functions."""

from ....compiler import reset
from ....testing._internal.common_utils import TestCase as _TestCase
from ....testing._internal.common_utils import run_tests as run_tests
from . import config, utils


class TestCase(_TestCase):
    """A TestCase before and after which all plans and counters are forgotten; settings are what they were."""

    def setUp(self):
        """Forgets plans and counters."""
        super().setUp()
        before = {name: value for name, value in vars(config).items() if not name.startswith("_")}
        self.addCleanup(lambda: vars(config).update(before))
        reset()
        utils.counters.clear()

    def tearDown(self):
        """Forgets them again."""
        reset()
        utils.counters.clear()
        super().tearDown()
