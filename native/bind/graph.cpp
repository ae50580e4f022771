// What Python sees of programs and plans: capture is switched on and off, programs are described, plans put together.
#include <algorithm>

#include "../runtime/blocks.h"
#include "../runtime/tracer.h"
#include "python.h"
#include "slot.h"
#include "upward.h"

namespace flambeau {
namespace {

PyObject* planner = nullptr;  // makes a plan of a program: flambeau._graph

struct Writing {
  Tracer tracer;
  Recorder* before = nullptr;
};

PyObject* new_list(int64_t n) { return checked(PyList_New(Py_ssize_t(n))).give(); }

PyObject* argument_object(const Value& v) {
  switch (v.tag) {
    case Tag::Tensor: return Py_BuildValue("(sL)", "use", (long long)v.i);
    case Tag::Bool: return PyBool_FromLong(v.b);
    case Tag::Int: return PyLong_FromLongLong(v.i);
    case Tag::Float: return PyFloat_FromDouble(v.f);
    case Tag::Complex: return PyComplex_FromDoubles(v.c.re, v.c.im);
    case Tag::Tensors:
    case Tag::Ints: {
      PyObject* list = new_list(v.ints.size);
      for (int64_t k = 0; k < v.ints.size; ++k) PyList_SET_ITEM(list, k, PyLong_FromLongLong(v.ints.data[k]));
      return v.tag == Tag::Ints ? list : Py_BuildValue("(sN)", "uses", list);
    }
    case Tag::Floats: {
      PyObject* list = new_list(v.floats.size);
      for (int64_t k = 0; k < v.floats.size; ++k) PyList_SET_ITEM(list, k, PyFloat_FromDouble(v.floats.data[k]));
      return list;
    }
    case Tag::Str: return PyUnicode_FromStringAndSize(v.str.data, v.str.size);
    case Tag::DType: return Py_NewRef(dtype_object(v.dtype));
    case Tag::Device: return device_object(v.device);
    default: Py_RETURN_NONE;
  }
}

PyObject* numbers_object(std::span<const int64_t> numbers) {
  PyObject* t = checked(PyTuple_New(Py_ssize_t(numbers.size()))).give();
  for (size_t k = 0; k < numbers.size(); ++k) PyTuple_SET_ITEM(t, Py_ssize_t(k), PyLong_FromLongLong(numbers[k]));
  return t;
}

// ([(operator, arguments, uses that are results)], [(slot, dtype, sizes, strides, offset, flags)], [entry that makes it
// or -1], [slots that are wanted])
PyObject* describe_program(const Program& p) {
  Held entries = checked(PyList_New(0)), uses = checked(PyList_New(0)), slots = checked(PyList_New(0)),
       wanted = checked(PyList_New(0));
  for (const Entry& e : p.entries) {
    Held args = checked(PyTuple_New(e.nargs));
    for (int k = 0; k < e.nargs; ++k) PyTuple_SET_ITEM(args.p, k, checked(argument_object(e.args[k])).give());
    std::vector<int64_t> results(e.results, e.results + e.nresults);
    Held entry = checked(Py_BuildValue("(sONi)", e.op->name.c_str(), args.p, numbers_object(results),
                                       e.op->elementwise != nullptr));
    checked(PyList_Append(entries.p, entry.p));
  }
  for (const Use& u : p.uses) {
    Held use = checked(Py_BuildValue("(iONNLi)", u.slot, dtype_object(u.dtype), numbers_object(u.sizes()),
                                     numbers_object(u.strides()), (long long)u.offset, int(u.flags)));
    checked(PyList_Append(uses.p, use.p));
  }
  for (size_t k = 0; k < p.slots.size(); ++k) {
    Held made = checked(PyLong_FromLong(p.slots[k].made_by)), number = checked(PyLong_FromSize_t(k));
    checked(PyList_Append(slots.p, made.p));
    if (p.slots[k].made_by >= 0 && p.slots[k].storage) checked(PyList_Append(wanted.p, number.p));
  }
  return checked(PyTuple_Pack(4, entries.p, uses.p, slots.p, wanted.p)).give();
}

// Slots that a group makes and others read, or somebody holds.
std::vector<int> wanted_of(const Program& p, const std::vector<int>& group) {
  std::vector<int> made;
  for (int e : group) made.push_back(p.uses[size_t(p.entries[size_t(e)].results[0])].slot);
  std::vector<char> seen(p.slots.size(), 0);
  for (size_t k = 0; k < p.slots.size(); ++k) seen[k] = p.slots[k].storage != nullptr;
  auto read = [&](int64_t use) { seen[size_t(p.uses[size_t(use)].slot)] = 1; };
  for (size_t k = 0; k < p.entries.size(); ++k) {
    if (std::find(group.begin(), group.end(), int(k)) != group.end()) continue;
    const Entry& e = p.entries[k];
    for (int a = 0; a < e.nargs; ++a) {
      if (e.args[a].tag == Tag::Tensor) read(e.args[a].i);
      for (int64_t j = 0; e.args[a].tag == Tag::Tensors && j < e.args[a].ints.size; ++j)
        if (e.args[a].ints.data[j] >= 0) read(e.args[a].ints.data[j]);
    }
  }
  std::erase_if(made, [&](int slot) { return !seen[size_t(slot)]; });
  return made;
}

std::vector<int> entries_of(PyObject* group, const Program& p) {
  std::vector<int> entries;
  Held items = checked(PySequence_Fast(group, "compile: a step is the number of a call or a sequence of them"));
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(items.p); ++k) {
    const int64_t e = integer_of(PySequence_Fast_GET_ITEM(items.p, k));
    if (e < 0 || size_t(e) >= p.entries.size())
      value_error("compile: there is no call ", e, " in a program of ", p.entries.size());
    entries.push_back(int(e));
  }
  return entries;
}

// The steps a planner has chosen.
std::unique_ptr<Plan> plan_of(const Program& p, PyObject* steps) {
  auto plan = std::make_unique<Plan>();
  plan->slots = int(p.slots.size());
  for (size_t k = 0; k < p.slots.size(); ++k)
    if (p.slots[k].made_by >= 0 && p.slots[k].storage) plan->wanted.push_back({int(k), int(k)});
  Held items = checked(PySequence_Fast(steps, "compile: a plan is a sequence of steps"));
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(items.p); ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.p, k);
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 2) type_error("compile: a step is a tuple (leader, calls)");
    const int64_t leader = integer_of(PyTuple_GET_ITEM(item, 0));
    std::vector<int> group = entries_of(PyTuple_GET_ITEM(item, 1), p);
    if (std::find(group.begin(), group.end(), int(leader)) == group.end())
      value_error("compile: a step's leader is one of its calls, got ", leader);
    std::unique_ptr<Step> step;
    if (group.size() > 1) step = block_step(p, *plan, group, int(leader), wanted_of(p, group));
    if (step) {
      plan->steps.push_back(std::move(step));
      continue;
    }
    for (int e : group) plan->steps.push_back(call_of(p, e, *plan));
  }
  plan->finish();
  return plan;
}

// --- functions -------------------------------------------------------------------------------------------------------

constexpr const char* kWriting = "flambeau.writing";
Writing& writing_of(PyObject* capsule) {
  auto* w = static_cast<Writing*>(PyCapsule_GetPointer(capsule, kWriting));
  if (!w) throw PythonError();
  return *w;
}
void drop_writing(PyObject* capsule) {
  auto* w = static_cast<Writing*>(PyCapsule_GetPointer(capsule, kWriting));
  if (tls.recorder == &w->tracer) exchange_recorder(nullptr);
  delete w;
}

PyObject* begin(PyObject*, PyObject*) {
  if (tls.recorder) Py_RETURN_NONE;
  auto* w = new Writing;
  PyObject* capsule = PyCapsule_New(w, kWriting, drop_writing);
  if (!capsule) {
    delete w;
    throw PythonError();
  }
  exchange_recorder(&w->tracer);
  return capsule;
}
PyObject* end(PyObject*, PyObject* capsule) {
  Writing& w = writing_of(capsule);
  if (tls.recorder == &w.tracer) exchange_recorder(nullptr);
  w.tracer.run();
  Py_RETURN_NONE;
}
// Ends the capture that a call began, with what is written down so far run, whatever became of the call.
struct Capture {
  Tracer tracer;
  explicit Capture(bool whole) {
    tracer.whole = whole;
    exchange_recorder(&tracer);
  }
  ~Capture() {
    if (tls.recorder == &tracer) exchange_recorder(nullptr);
  }
  void finish() {
    exchange_recorder(nullptr);
    tracer.run();
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

// graph_call(function, args, kwargs or None, whole=False): the call, captured; whole: nobody may look before it ends
PyObject* call(PyObject*, PyObject* all) {
  PyObject *f, *args, *kwargs;
  int whole = 0;
  if (!PyArg_ParseTuple(all, "OO!O|p", &f, &PyTuple_Type, &args, &kwargs, &whole)) throw PythonError();
  if (kwargs == Py_None) kwargs = nullptr;
  if (tls.recorder) return PyObject_Call(f, args, kwargs);
  Capture capture(whole);
  Held result{PyObject_Call(f, args, kwargs)};
  if (result) capture.finish();
  else capture.finish_after_failure();
  return result.give();
}

// graph_pause(function, args, kwargs or None): the call, not captured
PyObject* pause(PyObject*, PyObject* all) {
  PyObject *f, *args, *kwargs;
  if (!PyArg_ParseTuple(all, "OO!O", &f, &PyTuple_Type, &args, &kwargs)) throw PythonError();
  struct Paused {
    Recorder* before = exchange_recorder(nullptr);
    ~Paused() { exchange_recorder(before); }
  } paused;
  return PyObject_Call(f, args, kwargs == Py_None ? nullptr : kwargs);
}
PyObject* capturing(PyObject*, PyObject*) { return PyBool_FromLong(tls.recorder != nullptr); }

PyObject* set_planner(PyObject*, PyObject* f) {
  Py_XSETREF(planner, f == Py_None ? nullptr : Py_NewRef(f));
  forget_plans();
  Py_RETURN_NONE;
}
PyObject* counts(PyObject*, PyObject*) {
  PlanCounts c = plan_counts();
  return Py_BuildValue("{sLsLsLsL}", "programs", (long long)c.programs, "plans", (long long)c.plans, "made",
                       (long long)c.made, "calls", (long long)c.calls);
}
PyObject* forget(PyObject*, PyObject*) {
  forget_plans();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"graph_begin", slot<begin>, METH_NOARGS},
                           {"graph_end", slot<end>, METH_O},
                           {"graph_call", slot<call>, METH_VARARGS},
                           {"graph_pause", slot<pause>, METH_VARARGS},
                           {"graph_capturing", slot<capturing>, METH_NOARGS},
                           {"graph_set_planner", slot<set_planner>, METH_O},
                           {"graph_counts", slot<counts>, METH_NOARGS},
                           {"graph_forget", slot<forget>, METH_NOARGS},
                           {}};

}  // namespace

Plan* upward::plan_program(const Program& p) {
  if (!planner) return plain_plan(p).release();
  Held program{describe_program(p)};
  Held steps = checked(PyObject_CallOneArg(planner, program.p));
  return plan_of(p, steps.p).release();
}

void add_graph(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
