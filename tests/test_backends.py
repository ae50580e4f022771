"""backends: switches that can be frozen, so that only contexts change them."""

import pytest

from flambeau import backends


@pytest.fixture
def frozen():
    backends.disable_global_flags()
    yield
    backends._switches._frozen = False


@pytest.mark.parametrize("switch", ["cudnn.benchmark", "cudnn.deterministic", "cudnn.allow_tf32", "mkldnn.enabled",
                                    "fp32_precision"])
def test_frozen_switches_are_set_by_contexts_alone(frozen, switch):
    *path, name = switch.split(".")
    module = getattr(backends, path[0]) if path else backends
    before = getattr(module, name)
    assert backends.flags_frozen()
    with pytest.raises(RuntimeError, match=f"{switch}.*disable_global_flags"):
        setattr(module, name, before)
    with getattr(backends, "__allow_nonbracketed_mutation")():
        assert not backends.flags_frozen()
        setattr(module, name, before)
    assert backends.flags_frozen()


def test_contexts_change_frozen_switches_and_put_them_back(frozen):
    before = backends.cudnn.benchmark
    with backends.cudnn.flags(benchmark=not before):
        assert backends.cudnn.benchmark is not before
        with pytest.raises(RuntimeError):
            backends.cudnn.benchmark = before
    assert backends.cudnn.benchmark is before
    with backends.mkldnn.flags(enabled=False):
        assert not backends.mkldnn.enabled
    assert backends.mkldnn.enabled


def test_switches_are_free_otherwise():
    with getattr(backends, "__allow_nonbracketed_mutation")():
        backends.cudnn.deterministic = backends.cudnn.deterministic
    assert not backends.flags_frozen()
