"""monitor: windows of values, when they are logged, and who is told."""

import time
from datetime import datetime, timedelta

import pytest

import flambeau
from flambeau import monitor
from flambeau.monitor import Aggregation, Event, Stat, log_event

EVERY = list(Aggregation)


@pytest.fixture
def events():
    seen = []
    handle = monitor.register_event_handler(seen.append)
    yield seen
    monitor.unregister_event_handler(handle)


def test_a_full_window_is_logged_at_once_and_further_values_wait_for_the_next(events):
    s = Stat("loss", EVERY, timedelta(hours=1), 3)
    assert s.name == "loss" and set(s.get().values()) == {0.0}
    for value in (4, 2):
        s.add(value)
    assert s.count == 2 and not events
    s.add(3)
    s.add(100)
    assert s.count == 0 and s.get() == {
        Aggregation.VALUE: 3, Aggregation.MEAN: 3, Aggregation.COUNT: 3, Aggregation.SUM: 9, Aggregation.MAX: 4,
        Aggregation.MIN: 2}
    event, = events
    assert event.name == monitor.STAT_EVENT and event.data["loss.mean"] == 3.0 and len(event.data) == 6


def test_a_window_ends_with_the_first_value_after_it_or_with_the_stat(events):
    s = Stat("x", (Aggregation.SUM,), timedelta(milliseconds=30))
    s.add(1)
    time.sleep(0.05)
    assert not events
    s.add(5)
    assert [e.data for e in events] == [{"x.sum": 1.0}] and s.count == 1
    del s
    assert events[-1].data == {"x.sum": 5.0}


def test_handlers_are_told_in_order_until_they_are_taken_off(events):
    event = Event(name="epoch", timestamp=datetime(2020, 1, 2), data={"n": 1, "text": "a", "ok": True, "loss": 0.5})
    log_event(event)
    assert events == [event] and isinstance(events[0].data["n"], int)
    again = monitor.register_event_handler(lambda e: events.append("second"))
    log_event(event)
    monitor.unregister_event_handler(again)
    monitor.unregister_event_handler(again)
    log_event(event)
    assert events == [event, event, "second", event]


def test_scalars_of_stats_go_to_a_writer():
    written = []

    class Writer:
        def add_scalar(self, *args, **kwargs):
            written.append((args, kwargs))

    handler = monitor.TensorboardEventHandler(Writer())
    when = datetime(2020, 1, 2)
    handler(Event(monitor.STAT_EVENT, when, {"loss.sum": 1.0}))
    handler(Event("other", when, {"loss.sum": 1.0}))
    assert written == [(("loss.sum", 1.0), {"walltime": when.timestamp()})]


@pytest.mark.parametrize("call", [
    lambda: Event("a", 5, {}), lambda: Event("a", datetime.now(), {"a": [1]}), lambda: Stat("a", [Aggregation.SUM], 5),
    lambda: monitor.register_event_handler(3), lambda: monitor.unregister_event_handler(3),
    lambda: Stat("a", [], timedelta(1)).add([]),
])
def test_what_is_refused(call):
    with pytest.raises(TypeError):
        call()


def test_set_vital_warns_and_keeps_nothing():
    with pytest.warns(UserWarning, match="nothing is kept"):
        assert flambeau.set_vital("DataLoader", "enabled", "True") is None
