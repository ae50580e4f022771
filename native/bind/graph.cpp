// What Python sees of captured programs: capture is switched on and off, plans are counted and timed.
#include "../kernels/conv_tail.h"
#include "graph_capture.h"
#include "graph_parts.h"
#include "slot.h"

namespace flambeau {
namespace {

// --- functions -------------------------------------------------------------------------------------------------------

// graph_begin() … graph_end(what it gave): what lies between, captured; None inside another capture
constexpr const char* kCapture = "flambeau.capture";
Capture* capture_of(PyObject* capsule) { return static_cast<Capture*>(PyCapsule_GetPointer(capsule, kCapture)); }
PyObject* begin(PyObject*, PyObject*) {
  if (tls.recorder) Py_RETURN_NONE;
  auto made = std::make_unique<Capture>();
  Held capsule = checked(PyCapsule_New(made.get(), kCapture, [](PyObject* o) { delete capture_of(o); }));
  made.release();
  return capsule.give();
}
PyObject* end(PyObject*, PyObject* capsule) {
  Capture* capture = capture_of(capsule);
  if (!capture) throw PythonError();
  capture->finish();
  Py_RETURN_NONE;
}

// graph_call(function, args, kwargs or None, whole=False, planner=None, exact=False, fast=False, record=False): the
// call, captured. whole: nobody may look before it ends; planner: makes the plans, of (program, inputs); exact: each
// plan serves one set of sizes; fast: and of numbers, and may round differently; record: devices repeat its runs as a
// whole
PyObject* call(PyObject*, PyObject* all) { return graph_call(HandedOn(all)); }

// graph_pause(function, args, kwargs or None): the call, not captured
PyObject* pause(PyObject*, PyObject* all) {
  HandedOn to(all);
  struct Paused {
    Recorder* before = exchange_recorder(nullptr);
    ~Paused() { exchange_recorder(before); }
  } paused;
  AtOnce outside(false);
  return to.run();
}
// graph_look(function, args, kwargs or None): the call, in which values may be looked at even where nobody may
PyObject* look(PyObject*, PyObject* all) {
  HandedOn to(all);
  auto* tracer = dynamic_cast<Tracer*>(tls.recorder);
  if (!tracer) return to.run();
  struct Looking {
    Tracer* tracer;
    bool before = std::exchange(tracer->whole, false);
    ~Looking() { tracer->whole = before; }
  } looking{tracer};
  return to.run();
}
// graph_break(): what is written so far runs now
PyObject* break_here(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (auto* tracer = dynamic_cast<Tracer*>(tls.recorder)) tracer->run(Why::Value);
    Py_RETURN_NONE;
  });
}
// graph_listen(function, args, kwargs or None): what happens to the calls that are captured during the call, in order
// (graph_look.cpp says in which form)
PyObject* listen(PyObject*, PyObject* all) {
  HandedOn to(all);
  return listened([&] { checked(to.run()); });
}
PyObject* capturing(PyObject*, PyObject*) { return PyBool_FromLong(tls.recorder != nullptr || AtOnce::here); }

PyObject* counts(PyObject*, PyObject*) {
  PlanCounts c = plan_counts();
  return Py_BuildValue("{sLsLsLsLsLsL}", "programs", (long long)c.programs, "plans", (long long)c.plans, "made",
                       (long long)c.made, "calls", (long long)c.calls, "breaks", (long long)c.breaks,
                       "packed", (long long)kept_packed_weights());
}
PyObject* forget(PyObject*, PyObject*) {
  forget_plans();
  forget_small_functions();
  forget_packed_weights();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"graph_begin", slot<begin>, METH_NOARGS},
                           {"graph_end", slot<end>, METH_O},
                           {"graph_call", slot<call>, METH_VARARGS},
                           {"graph_pause", slot<pause>, METH_VARARGS},
                           {"graph_look", slot<look>, METH_VARARGS},
                           {"graph_break", slot<break_here>, METH_NOARGS},
                           {"graph_listen", slot<listen>, METH_VARARGS},
                           {"graph_capturing", slot<capturing>, METH_NOARGS},
                           {"graph_counts", slot<counts>, METH_NOARGS},
                           {"graph_forget", slot<forget>, METH_NOARGS},
                           {}};

}  // namespace

void add_graph(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
