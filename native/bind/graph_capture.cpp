#include "graph_capture.h"

#include <algorithm>

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

namespace {

// Writing a call down and looking its program up costs as much as computing some thousand numbers, so a function whose
// calls have been small a few times computes at once, as long as its tensors are no larger than they were then; now and
// then it is written down again. All this decides is how long calls take: a function may have the place of another.
struct Small {
  PyObject* function = nullptr;
  int64_t numbers = 0;  // in its tensors, at most
  int times = 0;        // it was small, or computed at once
};
constexpr int64_t kSmall = 2048;   // numbers for each of its calls
constexpr int kSmallTimes = 8, kRepeats = 64;
Small smalls[256];

int64_t numbers_among(PyObject* args) {
  int64_t n = 0;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args); ++k)
    if (PyObject* o = PyTuple_GET_ITEM(args, k); is_tensor(o)) n += as_tensor(o)->numel;
  return n;
}

// What is known of the function; null where it must be written down.
Small* small_call(const HandedOn& to) {
  if (to.whole || to.exact || to.fast || to.record || to.planner != Py_None || Listener::of_thread()) return nullptr;
  Small& s = smalls[(reinterpret_cast<uintptr_t>(to.function) >> 4) % std::size(smalls)];
  if (s.function != to.function) s = {to.function};
  return &s;
}

}  // namespace

void forget_small_functions() { std::ranges::fill(smalls, Small()); }

thread_local bool AtOnce::here = false;

PyObject* graph_call(const HandedOn& to) {
  if (tls.recorder) return to.run();
  Small* small = small_call(to);
  const int64_t numbers = small ? numbers_among(to.args) : 0;
  if (small && small->times >= kSmallTimes && numbers <= small->numbers) {
    if (++small->times > kRepeats) small->times = kSmallTimes - 1;
    AtOnce at_once(true);
    return to.run();
  }
  Capture capture(to);
  Held result{to.run()};
  if (result) capture.finish();
  else capture.finish_after_failure();
  if (small && small->function == to.function) {
    const bool again = capture.tracer.numbers <= kSmall * capture.tracer.calls;
    small->times = again ? small->times + 1 : 0;
    small->numbers = std::max(again ? small->numbers : 0, numbers);
  }
  return result.give();
}

}  // namespace flambeau
