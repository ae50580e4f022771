"""Timer, Measurement and Compare: what is run and how often, the numbers, the tables."""

import shutil
import statistics

import pytest

import flambeau
from flambeau.utils import benchmark
from flambeau.utils.benchmark import Compare, Measurement, TaskSpec, Timer


def measured(times, number=1, **names):
    return Measurement(number, list(times), TaskSpec(names.pop("stmt", "f()"), names.pop("setup", "pass"), **names))


def test_a_statement_runs_as_often_as_it_says():
    calls, blocks = [], []
    timer = Timer("f()", "calls.append('setup')", globals={"f": lambda: calls.append(1), "calls": calls})
    assert timer.timeit(1000).number_per_run == 1000
    assert calls.count(1) == 1010 and calls.count("setup") == 2
    found = timer.blocked_autorange(lambda number, seconds: blocks.append((number, seconds)), min_run_time=0.02)
    assert blocks == [(found.number_per_run, t) for t in found.raw_times]
    assert sum(found.raw_times[:-1]) < 0.02 <= sum(found.raw_times)


def test_blocks_until_the_spread_is_small():
    clock = iter(range(10**9))

    def fake():  # every run takes three ticks of a clock, exactly
        return next(clock) * 3.0

    found = Timer("pass", timer=fake).adaptive_autorange(min_run_time=1.0, max_run_time=1000.0)
    assert found.meets_confidence(0.0) and len(found.raw_times) == 4
    unsteady = Timer("pass", timer=lambda: next(clock) ** 2.0).adaptive_autorange(0.001, max_run_time=1e7)
    assert sum(unsteady.raw_times) >= 1e7


def test_threads_are_set_meanwhile():
    seen, before = [], flambeau.get_num_threads()
    Timer("seen.append(get())", globals={"seen": seen, "get": flambeau.get_num_threads}, num_threads=3).timeit(1)
    assert set(seen) == {3} and flambeau.get_num_threads() == before


def test_multiple_lines_are_dedented():
    assert Timer("""
        x = 1
        y = x
    """).timeit(1).stmt == "x = 1\ny = x"


@pytest.mark.skipif(shutil.which("c++") is None, reason="no compiler")
def test_statements_in_cpp():
    found = Timer("x += std::sqrt(double(flambeau_k));", "volatile double x = 0;", "#include <cmath>",
                  language="c++").timeit(10000)
    assert 0 < found.median < 1e-4
    with pytest.raises(ValueError, match="globals"):
        Timer("x", globals={"x": 1}, language="c++")


def test_what_a_timer_refuses():
    with pytest.raises(ValueError, match="texts"):
        Timer(lambda: 1)
    with pytest.raises(ValueError, match="'rust'"):
        Timer(language="rust")
    with pytest.raises(ValueError, match="global_setup"):
        Timer(global_setup="x = 1")
    for refused in (Timer().repeat, Timer().autorange, Timer().collect_callgrind):
        with pytest.raises(NotImplementedError):
            refused()


@pytest.mark.parametrize("times", [[1.0, 1.1, 1.2, 0.9, 5.0], [2.0, 3.0], [4.0], list(range(1, 30))])
def test_numbers_of_a_measurement(times):
    m = measured(times, number=10)
    each = [t / 10 for t in times]
    assert m.times == each and m.median == statistics.median(each) and m.mean == pytest.approx(sum(each) / len(each))
    low, high = (statistics.quantiles(each, n=4, method="inclusive")[::2] if len(times) > 1 else each * 2)
    assert m.iqr == pytest.approx(high - low) and m.has_warnings == (m.iqr > 0.1 * m.median)


def test_how_many_digits_count():
    assert measured([1.0]).significant_figures == 1
    assert measured([1.0, 2.0, 3.0]).significant_figures == 1
    assert measured([1.0 + 1e-4 * k for k in range(9)]).significant_figures >= 3
    with pytest.raises(ValueError, match="no times"):
        _ = measured([]).median


def test_a_measurement_prints_what_was_run():
    text = repr(measured([1e-3, 2e-3, 5e-3], stmt="g()", setup="x = 1", label="L", sub_label="s", description="d"))
    for part in ("L: s\nd\nsetup: x = 1\n", "Median: 2.00 ms", "(1.50 to 3.50)", "3 measurements", "WARNING"):
        assert part in text
    assert "1 measurement, 1 runs, 2 threads" in repr(measured([1.0], num_threads=2))
    with pytest.raises(AttributeError):
        _ = measured([1.0]).nothing


def test_merged_by_task():
    a, b, c = measured([1.0], label="a"), measured([2.0], label="b"), measured([3.0], label="a")
    assert [m.raw_times for m in Measurement.merge([a, b, c])] == [[1.0, 3.0], [2.0]]


def cells(table):
    return [[cell.strip() for cell in line.split("|")] for line in str(table).splitlines() if "|" in line]


def test_tables():
    results = [measured([times], label="sum", sub_label=row, description=column, num_threads=threads)
               for times, row, column, threads in ((2e-6, "small", "a", 2), (1e-6, "small", "b", 2),
                                                   (40e-6, "large", "a", 1), (30e-6, "large", "b", 1))]
    table = Compare(results[:2])
    table.extend_results(results[2:])
    assert cells(table) == [["", "a", "b"], ["large", "40.0", "30.0"], ["small", "2.0", "1.0"]]
    lines = str(table).splitlines()
    assert lines[0].strip("[-]") == " sum " and len(set(map(len, lines[:1] + lines[2:3]))) == 1
    assert lines[2].startswith("1 threads: --") and lines[4].startswith("2 threads: --")
    assert "microseconds (us)" in lines[-1]
    table.trim_significant_figures()
    assert cells(table)[1] == ["large", "40", "30"]
    with pytest.raises(ValueError, match="Measurement"):
        Compare([1])


def test_colours_and_warnings():
    table = Compare([measured([t, t, t + 1e-6], label="l", sub_label=row, description="d")
                     for row, t in (("fast", 1e-6), ("slow", 9e-6))])
    table.colorize()
    fast, slow = (line for line in str(table).splitlines() if "\033" in line)
    assert "\033[92m" in fast and "\033[91m" in slow
    table.colorize(rowwise=True)
    assert "\033" not in str(table)
    table.highlight_warnings()
    assert "(! 50%)" in str(table) and "(! 6%)" not in str(table)


def test_environments_are_rows_of_their_own():
    table = Compare([measured([1.0], label="l", sub_label="s", description="d", env=env) for env in ("old", "new")])
    assert [row[0] for row in cells(table)[1:]] == ["(old)  s", "(new)  s"]


def test_units():
    found = [benchmark.select_unit(t) for t in (5e-10, 1e-9, 999e-9, 1e-6, 2.5e-3, 1.0, 1e4)]
    assert [unit for unit, _ in found] == ["ns", "ns", "ns", "us", "ms", "s", "s"]
    assert [benchmark.trim_sigfig(x, 2) for x in (1234.567, 0.0012345, 9.99)] == [1200.0, 0.0012, 10.0]
