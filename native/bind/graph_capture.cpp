#include "graph_capture.h"

#include "origin.h"

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

}  // namespace

HandedOn::HandedOn(PyObject* all) {
  if (!PyArg_ParseTuple(all, "OO!O|pOppp", &function, &PyTuple_Type, &args, &kwargs, &whole, &planner, &exact, &fast,
                        &record))
    throw PythonError();
  if (kwargs == Py_None) kwargs = nullptr;
  else if (!PyDict_Check(kwargs)) type_error("compile: keywords are a dict with str as keys");
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (kwargs && PyDict_Next(kwargs, &at, &key, &value))
    if (!PyUnicode_Check(key)) type_error("compile: keywords are a dict with str as keys");
  if (planner != Py_None && !PyCallable_Check(planner)) type_error("compile: a planner is a function");
}

Capture::Capture() {
  tracer.places = &lines;
  exchange_recorder(&tracer);
}
Capture::Capture(const HandedOn& to) : Capture() {
  tracer.whole = to.whole;
  tracer.exact = to.exact;
  tracer.fast = to.fast;
  tracer.record = to.record;
  tracer.planner = to.planner == Py_None ? nullptr : reinterpret_cast<Object*>(to.planner);
}
void Capture::finish_after_failure() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  try {
    finish();
  } catch (const Error&) {
    PyErr_Clear();
  }
  PyErr_Restore(type, value, trace);
}

PyObject* graph_call(const HandedOn& to) {
  if (tls.recorder) return to.run();
  Capture capture(to);
  Held result{to.run()};
  if (result) capture.finish();
  else capture.finish_after_failure();
  return result.give();
}

}  // namespace flambeau
