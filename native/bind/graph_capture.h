// Calls of Python functions that are captured.
#pragma once
#include "../runtime/tracer.h"
#include "python.h"

namespace flambeau {

// A call that is handed on: (function, args, kwargs or None, whole, planner, exact, fast, record), as graph_call takes
// them.
struct HandedOn {
  PyObject *function, *args, *kwargs;
  int whole = 0, exact = 0, fast = 0, record = 0;
  PyObject* planner = Py_None;
  explicit HandedOn(PyObject* all);
  PyObject* run() const { return PyObject_Call(function, args, kwargs); }
};

// Captures what this thread calls until it is stopped, or its end; what is written down by then is run by finish().
struct Capture {
  Tracer tracer;
  Capture();
  explicit Capture(const HandedOn& to);
  ~Capture() { stop(); }
  void stop() {
    if (tls.recorder == &tracer) exchange_recorder(nullptr);
  }
  void finish() {
    stop();
    tracer.run(Why::End);
  }
  void finish_after_failure();  // Python's error stays
};

// Whether this thread is inside a function that would be captured, but computes at once.
struct AtOnce {
  static thread_local bool here;
  bool before;
  explicit AtOnce(bool now) : before(std::exchange(here, now)) {}
  ~AtOnce() { here = before; }
};

// The call, captured; as it is inside another capture.
PyObject* graph_call(const HandedOn& to);
void forget_small_functions();  // what decides when that is not worth it

}  // namespace flambeau
