// What Python sees of captured programs: capture is switched on and off, plans are counted and timed.
#include "../kernels/conv_tail.h"
#include "../runtime/tracer.h"
#include "graph_parts.h"
#include "origin.h"
#include "python.h"
#include "slot.h"

namespace flambeau {
namespace {

// Lines of Python.
struct Lines final : Places {
  Place here() const override {
    const Origin origin = origin_now();
    return {reinterpret_cast<Object*>(origin.code), origin.instruction};
  }
  std::string text(const Place& place) const override {
    if (!place.code) return "";
    auto* code = reinterpret_cast<PyCodeObject*>(place.code);
    Held text{PyUnicode_FromFormat("File \"%U\", line %d, in %U", code->co_filename,
                                   PyCode_Addr2Line(code, place.instruction), code->co_qualname)};
    const char* utf8 = text ? PyUnicode_AsUTF8(text.p) : nullptr;
    if (!utf8) PyErr_Clear();
    return utf8 ? utf8 : "";
  }
};
constexpr Lines lines;

// --- functions -------------------------------------------------------------------------------------------------------

// Ends the capture that a call began, with what is written down so far run, whatever became of the call.
struct Capture {
  Tracer tracer;
  Capture(bool whole, PyObject* planner, bool exact) {
    tracer.whole = whole;
    tracer.exact = exact;
    tracer.places = &lines;
    tracer.planner = reinterpret_cast<Object*>(planner);
    exchange_recorder(&tracer);
  }
  ~Capture() { stop(); }
  void stop() {
    if (tls.recorder == &tracer) exchange_recorder(nullptr);
  }
  void finish() {
    stop();
    tracer.run(Why::End);
  }
  void finish_after_failure() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    try {
      finish();
    } catch (const Error&) {
      PyErr_Clear();
    }
    PyErr_Restore(type, value, trace);
  }
};

// graph_begin() … graph_end(what it gave): what lies between, captured; None inside another capture
constexpr const char* kCapture = "flambeau.capture";
Capture* capture_of(PyObject* capsule) { return static_cast<Capture*>(PyCapsule_GetPointer(capsule, kCapture)); }
PyObject* begin(PyObject*, PyObject*) {
  if (tls.recorder) Py_RETURN_NONE;
  auto made = std::make_unique<Capture>(false, nullptr, false);
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

// A call that is handed on: (function, args, kwargs or None, …).
struct HandedOn {
  PyObject *function, *args, *kwargs;
  int whole = 0, exact = 0;
  PyObject* planner = Py_None;
  explicit HandedOn(PyObject* all) {
    if (!PyArg_ParseTuple(all, "OO!O|pOp", &function, &PyTuple_Type, &args, &kwargs, &whole, &planner,
                          &exact))
      throw PythonError();
    if (kwargs == Py_None) kwargs = nullptr;
    else if (!PyDict_Check(kwargs)) type_error("compile: keywords are a dict with str as keys");
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (kwargs && PyDict_Next(kwargs, &at, &key, &value))
      if (!PyUnicode_Check(key)) type_error("compile: keywords are a dict with str as keys");
    if (planner != Py_None && !PyCallable_Check(planner)) type_error("compile: a planner is a function");
  }
  PyObject* run() const { return PyObject_Call(function, args, kwargs); }
};

// graph_call(function, args, kwargs or None, whole=False, planner=None, exact=False): the call, captured; whole: nobody
// may look before it ends; planner: makes the plans, of (program, inputs); exact: each plan serves one set of sizes
PyObject* call(PyObject*, PyObject* all) {
  HandedOn to(all);
  if (tls.recorder) return to.run();
  Capture capture(to.whole, to.planner == Py_None ? nullptr : to.planner, to.exact);
  Held result{to.run()};
  if (result) capture.finish();
  else capture.finish_after_failure();
  return result.give();
}

// graph_pause(function, args, kwargs or None): the call, not captured
PyObject* pause(PyObject*, PyObject* all) {
  HandedOn to(all);
  struct Paused {
    Recorder* before = exchange_recorder(nullptr);
    ~Paused() { exchange_recorder(before); }
  } paused;
  return to.run();
}
// graph_listen(function, args, kwargs or None): what happens to the calls that are captured during the call, in order
// (graph_look.cpp says in which form)
PyObject* listen(PyObject*, PyObject* all) {
  HandedOn to(all);
  return listened([&] { checked(to.run()); });
}
PyObject* capturing(PyObject*, PyObject*) { return PyBool_FromLong(tls.recorder != nullptr); }

PyObject* counts(PyObject*, PyObject*) {
  PlanCounts c = plan_counts();
  return Py_BuildValue("{sLsLsLsLsLsL}", "programs", (long long)c.programs, "plans", (long long)c.plans, "made",
                       (long long)c.made, "calls", (long long)c.calls, "breaks", (long long)c.breaks,
                       "packed", (long long)kept_packed_weights());
}
PyObject* forget(PyObject*, PyObject*) {
  forget_plans();
  forget_packed_weights();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"graph_begin", slot<begin>, METH_NOARGS},
                           {"graph_end", slot<end>, METH_O},
                           {"graph_call", slot<call>, METH_VARARGS},
                           {"graph_pause", slot<pause>, METH_VARARGS},
                           {"graph_listen", slot<listen>, METH_VARARGS},
                           {"graph_capturing", slot<capturing>, METH_NOARGS},
                           {"graph_counts", slot<counts>, METH_NOARGS},
                           {"graph_forget", slot<forget>, METH_NOARGS},
                           {}};

}  // namespace

void add_graph(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
