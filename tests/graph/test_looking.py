"""What a user of `compile` can look at: reports, pictures, logs, the lines of failures, explanations, counts."""

import inspect
import logging
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

import flambeau
from flambeau import nn
from flambeau.compiler import _machine, explain, picture, report, set_logs
from flambeau.utils.flop_counter import FlopCounterMode


def line_of(fn, text):
    """The number of the line of a function that has this text."""
    lines, first = inspect.getsourcelines(fn)
    return first + next(k for k, line in enumerate(lines) if text in line)


@pytest.fixture(autouse=True)
def quick_rates(monkeypatch):
    """The machine is not measured."""
    monkeypatch.setattr("flambeau.compiler._report.rates", lambda: _machine.Rates(1e10, 1e11))


# --- reports -----------------------------------------------------------------------------------------------------

def test_a_report_tells_every_step():
    f = flambeau.compile(lambda x: ((x * 2).exp() + 1) @ x)
    told = f.report(flambeau.ones(4, 4))
    group, product = told.steps
    assert (group.names, product.names) == (["mul", "exp", "add"], ["matmul"])
    assert (group.bytes, product.bytes) == (2 * 64, 3 * 64)
    assert (group.flops, product.flops) == (0, 2 * 4 ** 3)
    assert [(v.shape, v.dtype) for v in group.makes] == [((4, 4), flambeau.float32)]
    assert group.block > 0 and all(step.seconds > 0 for step in told.steps)
    text = str(told)
    assert "mul exp add" in text and "matmul" in text and "in 2 steps" in text and "f32[4, 4]" in text
    assert max(map(len, text.splitlines())) <= 120


def test_a_report_counts_operations_as_the_counter_does():
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(180, 7))
    target = flambeau.randint(7, (2,))

    def step(x):
        net.zero_grad()
        nn.functional.cross_entropy(net(x), target).backward()
    x = flambeau.randn(2, 3, 8, 8)
    with FlopCounterMode(display=False) as counter:
        step(x)
    told = flambeau.compile(step).report(x)
    assert sum(s.flops for s in told.steps) == counter.get_total_flops() > 0


def test_a_convolution_with_its_tail_counts():
    net = nn.Sequential(nn.Conv2d(8, 32, 3, padding=1), nn.ReLU()).eval()
    x = flambeau.randn(1, 8, 32, 32)
    with flambeau.no_grad():
        told = flambeau.compile(net).report(x)
    assert sum(s.flops for s in told.steps) == 2 * 32 * 8 * 9 * 32 * 32


def test_bytes_of_what_is_expanded_count_once():
    f = flambeau.compile(lambda x, row: x * row.expand(8, 16) + row)
    step, = f.report(flambeau.ones(8, 16), flambeau.ones(16)).steps
    assert step.bytes == 4 * (128 + 16 + 128)


def test_the_floor_is_the_larger_of_the_two():
    rates = _machine.Rates(100.0, 1000.0)
    assert rates.least_seconds(200, 100) == 2 and rates.least_seconds(10, 5000) == 5


def test_the_machine_is_measured_once(monkeypatch):
    monkeypatch.setattr(_machine, "_COPIED", 1 << 10)
    monkeypatch.setattr(_machine, "_SIDE", 16)
    monkeypatch.setattr(_machine, "_MEASURED", {})
    assert _machine.rates() is _machine.rates() and _machine.rates().bytes > 0 < _machine.rates().flops


def test_reasons_say_what_was_not_fused():
    def f(x, out):
        y = (x * 2 + 1).sum()
        if y > 0:
            y = y + flambeau.empty(2).uniform_().sum()
        out.copy_(y)
        known.add_(y)
        return flambeau.nonzero(x) + 0
    known = flambeau.zeros(3)
    known.numpy()
    told = flambeau.compile(f).report(flambeau.ones(3), flambeau.zeros(3))
    reasons = "\n".join(told.reasons())
    assert "a reduction ends the group" in reasons or "sum" in told.steps[0].names
    name = "test_looking.py"
    for text in (f"copy_: writes to memory from outside ({name}:{line_of(f, 'copy_')}, ",
                 f"add_: writes to memory that another library knows, or that it also reads elsewhere "
                 f"({name}:{line_of(f, 'known.add_')}, ",
                 f"nonzero_rows: its result's shape depends on values ({name}:{line_of(f, 'nonzero')}, ",
                 f"program 1 ended: a value was asked for ({name}:{line_of(f, 'if y')}, "):
        assert text in reasons, text


def test_reports_of_modules():
    x = flambeau.ones(2, 3)
    model = flambeau.compile(nn.Sequential(nn.Linear(3, 4), nn.Sigmoid()))
    assert [n for s in model.report(x).steps for n in s.names] == ["_linear_tail"]
    assert "_linear_tail, then sigmoid" in str(model.report(x))
    inside = nn.Linear(3, 4)
    inside.compile()
    assert report(inside, x).steps[0].names == ["linear"]

    class Reporter(nn.Module):
        def report(self):
            return "mine"
    assert flambeau.compile(Reporter()).report() == "mine"
    with pytest.raises(AttributeError, match="missing"):
        getattr(model, "missing")  # noqa: B009


def test_what_captures_nothing_is_no_report():
    with pytest.raises(RuntimeError, match="report: the call has captured nothing"):
        report(lambda x: x + 1, flambeau.ones(2))


def test_first_runs_say_so():
    f = flambeau.compile(lambda x: x.sin() + 0.25)
    flambeau.compiler.reset()
    assert "1 plan made in this call" in str(f.report(flambeau.ones(2)))
    assert "made in this call" not in str(f.report(flambeau.ones(2)))


# --- pictures ----------------------------------------------------------------------------------------------------

def test_a_picture_shows_steps_and_values():
    @flambeau.compile
    def mixed(x, w):
        return ((x @ w).exp() + 1).softmax(-1)
    text = mixed.picture(flambeau.ones(2, 3), flambeau.ones(3, 4))
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not re.search(r'(href|src|url)\s*=', text)  # nothing from elsewhere
    said = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"matmul", "softmax", "2 inputs", "result", "f32[2, 3]", "f32[2, 4]"} <= set(said)
    shares = [int(t[:-1]) for t in said if re.fullmatch(r"\d+%", t)]
    assert len(shares) == 3 and 98 <= sum(shares) <= 102
    assert said[0].startswith("mixed: ") and picture(mixed, flambeau.ones(2, 3), flambeau.ones(3, 4))[:4] == "<svg"


def test_inputs_of_the_same_readers_share_a_box():
    f = flambeau.compile(lambda *xs: sum(xs))
    text = f.picture(*[flambeau.ones(k, 3) if k == 1 else flambeau.ones(3) for k in range(1, 9)])
    assert "8 inputs" in text and "and 4 more" in text


# --- logs --------------------------------------------------------------------------------------------------------

@pytest.fixture
def logs():
    yield set_logs
    set_logs(graph=False, passes=False, plan=False)


def test_logs_show_what_becomes_of_a_program(logs, capsys):
    logs(graph=True, passes=True, plan=True)
    flambeau.compiler.reset()
    f = flambeau.compile(lambda x: [x.cos(), (x * 3 + 1) @ x][1])
    f(flambeau.ones(2, 2))
    text = capsys.readouterr().err
    graph, passes, plan = (text.index(f"[{kind}]") for kind in ("graph", "passes", "plan"))
    assert graph < passes < plan
    assert "flambeau.cos" in text[graph:passes]
    assert re.search(r"^-.*flambeau.cos", text[passes:plan], re.M) and "without_dead_code" in text[passes:plan]
    assert "cos" not in text[plan:] and "mul(use" in text[plan:] and "matmul(%" in text[plan:]
    f(flambeau.ones(2, 2))
    assert capsys.readouterr().err == ""  # known
    logs(graph=False, passes=False)
    flambeau.compiler.reset()
    f(flambeau.ones(2, 2))
    text = capsys.readouterr().err
    assert "[plan]" in text and "[graph]" not in text and "[passes]" not in text


def test_the_environment_switches_logs_on():
    program = "import flambeau; flambeau.compile(lambda x: x.sin())(flambeau.ones(2))"

    def run(value):
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              env={**flambeau_environment(), "FLAMBEAU_LOGS": value})
    told = run("plan").stderr
    assert "[plan]" in told and "[graph]" not in told
    assert run("").stderr == ""
    assert "FLAMBEAU_LOGS: 'plans' is not known; known are graph, passes, plan" in run("plans").stderr


def flambeau_environment():
    import os
    return {**os.environ, "PYTHONPATH": str(flambeau.__path__[0]).removesuffix("/flambeau")}


def test_pytorchs_names_of_logs(logs, capsys):
    from flambeau.as_torch.tree._logging import set_logs as theirs
    f = flambeau.compile(lambda x: x.tan() * 2)
    for kinds, expected in ({"output_code": True}, {"plan"}), ({"graph_code": True}, {"graph"}), \
            ({"dynamo": logging.DEBUG}, {"graph", "plan"}), ({"dynamo": logging.INFO}, set()), ({}, set()):
        theirs(**kinds)
        flambeau.compiler.reset()
        f(flambeau.ones(2))
        assert set(re.findall(r"^\[(\w+)\]", capsys.readouterr().err, re.M)) == expected, kinds
    with pytest.raises(NotImplementedError, match="nothing to print for guards="):
        theirs(guards=True)


# --- lines -------------------------------------------------------------------------------------------------------

def test_a_failure_names_the_line_that_was_recorded():
    def f(x, zero):
        y = x + 1
        z = flambeau.cat([y, y])
        return (z[:1] // zero).tolist()
    with pytest.raises(RuntimeError) as caught:
        flambeau.compile(f)(flambeau.tensor([1]), flambeau.tensor([0]))
    assert f'File "{__file__}", line {line_of(f, "// zero")}, in ' in str(caught.value)


def test_a_failure_of_a_library_function_names_the_users_line():
    def f(scores, labels):
        with flambeau.no_grad():
            return nn.functional.cross_entropy(scores * 2, labels)
    call = flambeau.compile(f)
    with pytest.raises(Exception, match="line ") as caught:
        call(flambeau.ones(2, 3), flambeau.tensor([0, 7]))
    assert f'line {line_of(f, "cross_entropy")}, in ' in str(caught.value)


def test_a_failure_after_a_pass_keeps_its_line():
    def f(x, labels):
        y = x.exp()
        unused = y.sin()
        del unused
        return nn.functional.nll_loss(y, labels)
    with pytest.raises(Exception, match=f"line {line_of(f, 'nll_loss')}, in "):
        flambeau.compile(f)(flambeau.ones(2, 3), flambeau.tensor([0, 9]))


def test_fullgraph_names_the_line_that_asks():
    def f(x):
        y = x * 2
        return y if y.sum() > 0 else x
    with pytest.raises(RuntimeError, match="fullgraph=True") as caught:
        flambeau.compile(f, fullgraph=True)(flambeau.ones(2))
    assert f'asked for in File "{__file__}", line {line_of(f, "if y.sum()")}, in ' in str(caught.value)


# --- explanations ------------------------------------------------------------------------------------------------

def test_explain_tells_graphs_and_breaks():
    def f(x):
        y = x * 2 + 1
        if y.sum() > 0:
            y = y.sin()
        x.add_(1)
        return y.cos()
    for form in (f, flambeau.compile(f)):
        x = flambeau.ones(3)
        told = explain(form)(x)
        assert x.tolist() == [2, 2, 2]
        assert told.graph_break_count == len(told.break_reasons) == told.graph_count - 1 >= 1
        ops = [op.name for ops in told.ops_per_graph for op in ops]
        assert told.op_count == len(ops) - ops.count("copy_") and len(told.graphs) == told.graph_count
        assert ops.count("copy_") == 1  # add_ is an addition and a copy
        first = told.break_reasons[0]
        assert "value was asked for" in first.reason and first.user_stack[0].lineno == line_of(f, "if y.sum()")
        assert str(told).startswith(f"graphs: {told.graph_count}") and "graph 1: mul add sum gt" in str(told)
    assert explain(lambda x: x + 1)(flambeau.ones(2)).graph_break_count == 0
    assert explain(flambeau.compile(nn.Linear(2, 2)))(flambeau.ones(1, 2)).op_count == 1


def test_counters_count_from_where_they_were_cleared():
    from flambeau.as_torch.tree._dynamo.utils import counters
    f = flambeau.compile(lambda x: x.exp() if (x + 1).sum() > 0 else x)
    flambeau.compiler.reset()
    counters.clear()
    assert not counters and counters["stats"]["unique_graphs"] == 0
    f(flambeau.ones(2))
    assert counters["stats"] == {"calls_captured": 4, "unique_graphs": 2}
    assert counters["frames"]["total"] == 2 and sum(counters["graph_break"].values()) == 1
    assert counters["inductor"] == {} and set(counters) == {"stats", "frames", "graph_break"}


def test_settings_that_are_real_and_those_that_are_not():
    from flambeau.as_torch.tree._dynamo import config
    with config.patch(disable=True, verbose=True, mine=3):
        assert config.verbose and config.mine == 3 and config.disable
        assert flambeau.compile(flambeau.compiler.is_compiling)() is False
    assert not config.verbose and not hasattr(config, "mine") and not config.disable
    assert flambeau.compile(flambeau.compiler.is_compiling)() is True

    @config.patch("disable", True)
    def inside():
        return flambeau.compile(flambeau.compiler.is_compiling)()
    assert inside() is False


def test_reset_forgets_packed_weights():
    net = nn.Sequential(nn.Conv2d(16, 64, 3), nn.ReLU()).eval()
    x = flambeau.randn(1, 16, 24, 24)
    f = flambeau.compile(net)
    flambeau.compiler.reset()
    with flambeau.no_grad():
        expected = f(x)
        assert flambeau._C.graph_counts()["packed"] == (1 if flambeau.backends.mkldnn.is_available() else 0)
        flambeau.compiler.reset()
        assert flambeau._C.graph_counts()["packed"] == flambeau._C.graph_counts()["plans"] == 0
        assert flambeau.equal(f(x), expected)
