"""no_grad, enable_grad, set_grad_enabled and inference_mode: as blocks, as decorators, around generators."""

import pytest

import flambeau
from flambeau import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled


def test_blocks_nest_and_restore():
    with no_grad():
        assert not is_grad_enabled()
        with enable_grad():
            assert is_grad_enabled()
            with set_grad_enabled(False):
                assert not is_grad_enabled()
            assert is_grad_enabled()
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_restored_after_an_exception():
    with pytest.raises(KeyError), no_grad():
        raise KeyError
    assert is_grad_enabled()


@pytest.mark.parametrize("decorator", [lambda f: no_grad(f), lambda f: no_grad()(f),
                                       lambda f: set_grad_enabled(False)(f)], ids=["bare", "called", "set"])
def test_decorators(decorator):
    @decorator
    def f(n):
        """Its docstring."""
        assert not is_grad_enabled()
        return f(n - 1) + 1 if n else 0
    assert is_grad_enabled()
    assert f(3) == 3 and is_grad_enabled()
    assert f.__doc__ == "Its docstring." and f.__name__ == "f"


def test_set_grad_enabled_as_a_function():
    set_grad_enabled(False)
    assert not is_grad_enabled()
    set_grad_enabled(True)
    assert is_grad_enabled()


def test_generator_runs_inside_and_caller_outside():
    @no_grad()
    def steps():
        seen = []
        for _ in range(3):
            seen.append((is_grad_enabled(), (yield is_grad_enabled())))
        return seen
    g = steps()
    assert next(g) is False and is_grad_enabled()
    assert g.send("a") is False and is_grad_enabled()
    assert g.send("b") is False
    with pytest.raises(StopIteration) as end:
        g.send("c")
    assert end.value.value == [(False, "a"), (False, "b"), (False, "c")]
    assert is_grad_enabled()


def test_generator_gets_thrown_exceptions_and_close():
    closed = []

    @no_grad
    def steps():
        try:
            while True:
                try:
                    yield is_grad_enabled()
                except KeyError:
                    yield "caught"
        finally:
            closed.append(is_grad_enabled())
    g = steps()
    next(g)
    assert g.throw(KeyError()) == "caught"
    g.close()
    assert closed == [False] and is_grad_enabled()


def test_no_grad_results():
    x = flambeau.ones(2, requires_grad=True)
    with no_grad():
        y = x * 2
        z = flambeau.ones(2, requires_grad=True)
    assert not y.requires_grad and y.grad_fn is None and y.is_leaf
    assert z.requires_grad


def test_leaf_is_changed_in_place_under_no_grad():
    x = flambeau.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"leaf"):
        x.add_(1)
    with no_grad():
        x.add_(1)
    assert x.requires_grad and x.is_leaf and x.tolist() == [2.0, 2.0]


def test_inference_mode():
    x = flambeau.ones(2, requires_grad=True)
    with inference_mode():
        y = x * 2
        assert flambeau.is_inference_mode_enabled() and not is_grad_enabled()
        with inference_mode(False):
            assert (x * 2).requires_grad
    assert not flambeau.is_inference_mode_enabled()
    assert y.is_inference() and not y.requires_grad
    with pytest.raises(RuntimeError, match=r"[Ii]nference"):
        x * y + y * x  # saving y for backward
    with pytest.raises(RuntimeError, match=r"[Ii]nference"):
        y.requires_grad_()
        y.add_(1)
    assert (y.clone() * x).requires_grad


def test_inference_mode_decorates():
    @inference_mode
    def f():
        return flambeau.is_inference_mode_enabled()

    @inference_mode()
    def g():
        return flambeau.is_inference_mode_enabled()
    assert f() and g() and not flambeau.is_inference_mode_enabled()


def test_mode_belongs_to_the_thread():
    import threading
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_a_decorated_class_is_a_function_and_warns():
    with pytest.warns(FutureWarning, match="decorate __init__"):
        @flambeau.no_grad()
        class Made:
            def __init__(self):
                self.recorded = flambeau.is_grad_enabled()
    assert Made().recorded is False
