// What Python sees of programs and plans: capture is switched on and off, programs are described, plans put together.
#include <algorithm>

#include "../runtime/blocks.h"
#include "../runtime/tracer.h"
#include "python.h"
#include "slot.h"
#include "upward.h"

namespace flambeau {
namespace {

PyObject* new_list(int64_t n) { return checked(PyList_New(Py_ssize_t(n))).give(); }

PyObject* argument_object(const Value& v, Type type) {
  if (v.tag == Tag::Int && (type == Type::MemoryFormat || type == Type::Layout))
    return Py_NewRef(format_object(int(v.i)));
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

// ([(operator, arguments, uses that are results, whether it is pointwise)], [(slot, dtype, sizes, strides, offset,
// flags)], [entry that makes it or -1], [slots that are wanted])
PyObject* describe_program(const Program& p) {
  Held entries = checked(PyList_New(0)), uses = checked(PyList_New(0)), slots = checked(PyList_New(0));
  for (const Entry& e : p.entries) {
    Held args = checked(PyTuple_New(e.nargs));
    for (int k = 0; k < e.nargs; ++k) {
      Held arg = checked(argument_object(e.args[k], e.op->schema.args[size_t(k)].type));
      PyTuple_SET_ITEM(args.p, k, arg.give());
    }
    std::vector<int64_t> results(e.results, e.results + e.nresults);
    Held entry = checked(Py_BuildValue("(OONi)", static_cast<PyObject*>(e.op->py_op), args.p, numbers_object(results),
                                       e.op->elementwise != nullptr));
    checked(PyList_Append(entries.p, entry.p));
  }
  for (const Use& u : p.uses) {
    Held use = checked(Py_BuildValue("(iONNLi)", u.slot, dtype_object(u.dtype), numbers_object(u.sizes()),
                                     numbers_object(u.strides()), (long long)u.offset, int(u.flags)));
    checked(PyList_Append(uses.p, use.p));
  }
  for (const ProgramSlot& s : p.slots) {
    Held made = checked(PyLong_FromLong(s.made_by));
    checked(PyList_Append(slots.p, made.p));
  }
  const std::vector<int> held = p.wanted();
  Held wanted{numbers_object(std::vector<int64_t>(held.begin(), held.end()))};
  return checked(PyTuple_Pack(4, entries.p, uses.p, slots.p, wanted.p)).give();
}

// Tensors over what comes from outside, by use; None for results.
PyObject* inputs_of(const Program& p) {
  Held list = checked(PyList_New(0));
  for (const Use& u : p.uses) {
    const ProgramSlot& s = p.slots[size_t(u.slot)];
    if (s.made_by >= 0) {
      checked(PyList_Append(list.p, Py_None));
      continue;
    }
    TensorRef t = bare_tensor(u.dtype, u.device, u.sizes(), u.strides(), 0);
    retain(t->storage = s.storage);
    t->data = static_cast<char*>(s.storage->data) + u.offset * t->itemsize();
    checked(PyList_Append(list.p, py(t.get())));
  }
  return list.give();
}

// A plan that is one call of a Python function: of tensors, which gives a sequence of them, laid out as the program's
// results are.
struct PythonStep final : Step {
  Held function;
  std::vector<PlanUse> results;
  void run(PlanRun& r) override;
  std::string text(const Plan&) const override { return "a backend's function"; }
};
void PythonStep::run(PlanRun& r) {
  Held args = checked(PyTuple_New(Py_ssize_t(uses.size())));
  for (size_t k = 0; k < uses.size(); ++k) {
    Tensor& t = r.bind(uses[k]);
    PyTuple_SET_ITEM(args.p, Py_ssize_t(k), Py_NewRef(py(&t)));
  }
  Held made = checked(PyObject_CallObject(function.p, args.p));
  Held items = checked(PySequence_Fast(made.p, "compile: a backend's function must return a sequence of tensors"));
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.p);
  if (n != Py_ssize_t(results.size()))
    runtime_error("compile: a backend's function has returned ", n, " values instead of the graph's ", results.size());
  for (size_t k = 0; k < results.size(); ++k) {
    PyObject* o = PySequence_Fast_GET_ITEM(items.p, Py_ssize_t(k));
    const PlanUse& u = results[k];
    if (!is_tensor(o) || !std::ranges::equal(as_tensor(o)->shape(), u.sizes))
      runtime_error("compile: result ", k, " of a backend's function is not a tensor of shape ", shape_text(u.sizes));
    TensorRef t = empty_strided(u.sizes, u.strides, u.dtype, u.device);
    copy_into(*t, *as_tensor(o));
    retain(t->storage);
    r.put(makes[k], t->storage);
  }
}

// (function, uses it is given, slots it makes)
std::unique_ptr<Plan> python_plan(const Program& p, PyObject* described) {
  PyObject *function, *uses, *slots;
  if (!PyArg_ParseTuple(described, "OO!O!", &function, &PyTuple_Type, &uses, &PyTuple_Type, &slots))
    throw PythonError();
  auto plan = std::make_unique<Plan>(p);
  auto step = std::make_unique<PythonStep>();
  step->function = Held::borrow(function);
  for (int64_t u : integers_of(uses)) step->uses.push_back(plan->use(p.uses.at(size_t(u))));
  for (int64_t slot : integers_of(slots)) {
    step->results.push_back(plan_use(p.made_as(int(slot))));
    step->makes.push_back(int(slot));
  }
  plan->steps.push_back(std::move(step));
  plan->finish();
  return plan;
}

// Which entries read each slot.
std::vector<std::vector<int>> readers_of(const Program& p) {
  std::vector<std::vector<int>> readers(p.slots.size());
  for (size_t k = 0; k < p.entries.size(); ++k) {
    auto read = [&](int64_t use) { readers[size_t(p.uses[size_t(use)].slot)].push_back(int(k)); };
    for (const Value& v : std::span(p.entries[k].args, size_t(p.entries[k].nargs))) {
      if (v.tag == Tag::Tensor) read(v.i);
      for (int64_t j = 0; v.tag == Tag::Tensors && j < v.ints.size; ++j)
        if (v.ints.data[j] >= 0) read(v.ints.data[j]);
    }
  }
  return readers;
}

// Slots that a group makes and others read, or somebody holds.
std::vector<int> wanted_of(const Program& p, const std::vector<int>& group,
                           const std::vector<std::vector<int>>& readers) {
  std::vector<int> made;
  auto outside = [&](int e) { return std::find(group.begin(), group.end(), e) == group.end(); };
  for (int e : group) {
    const int slot = p.uses[size_t(p.entries[size_t(e)].results[0])].slot;
    if (p.slots[size_t(slot)].storage || std::ranges::any_of(readers[size_t(slot)], outside)) made.push_back(slot);
  }
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
  auto plan = std::make_unique<Plan>(p);
  const std::vector<std::vector<int>> readers = readers_of(p);
  Held items = checked(PySequence_Fast(steps, "compile: a plan is a sequence of steps"));
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(items.p); ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(items.p, k);
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 2) type_error("compile: a step is a tuple (leader, calls)");
    const int64_t leader = integer_of(PyTuple_GET_ITEM(item, 0));
    std::vector<int> group = entries_of(PyTuple_GET_ITEM(item, 1), p);
    if (std::find(group.begin(), group.end(), int(leader)) == group.end())
      value_error("compile: a step's leader is one of its calls, got ", leader);
    std::unique_ptr<Step> step;
    if (group.size() > 1) step = block_step(p, *plan, group, int(leader), wanted_of(p, group, readers));
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

// Ends the capture that a call began, with what is written down so far run, whatever became of the call.
struct Capture {
  Tracer tracer;
  Capture(bool whole, PyObject* planner) {
    tracer.whole = whole;
    tracer.planner = reinterpret_cast<Object*>(planner);
    exchange_recorder(&tracer);
  }
  ~Capture() { stop(); }
  void stop() {
    if (tls.recorder == &tracer) exchange_recorder(nullptr);
  }
  void finish() {
    stop();
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

// graph_begin() … graph_end(what it gave): what lies between, captured; None inside another capture
constexpr const char* kCapture = "flambeau.capture";
Capture* capture_of(PyObject* capsule) { return static_cast<Capture*>(PyCapsule_GetPointer(capsule, kCapture)); }
PyObject* begin(PyObject*, PyObject*) {
  if (tls.recorder) Py_RETURN_NONE;
  auto made = std::make_unique<Capture>(false, nullptr);
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
  int whole = 0;
  PyObject* planner = Py_None;
  explicit HandedOn(PyObject* all) {
    if (!PyArg_ParseTuple(all, "OO!O|pO", &function, &PyTuple_Type, &args, &kwargs, &whole, &planner))
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

// graph_call(function, args, kwargs or None, whole=False, planner=None): the call, captured; whole: nobody may look
// before it ends; planner: makes the plans, of (program, inputs)
PyObject* call(PyObject*, PyObject* all) {
  HandedOn to(all);
  if (tls.recorder) return to.run();
  Capture capture(to.whole, to.planner == Py_None ? nullptr : to.planner);
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
// graph_times(function, args, kwargs or None): [(step, seconds)] of the plans that run during the call
PyObject* times(PyObject*, PyObject* all) {
  HandedOn to(all);
  StepTimes heard;
  checked(to.run());
  Held list = checked(PyList_New(0));
  for (const auto& [text, seconds] : heard.steps) {
    Held step = checked(Py_BuildValue("(sd)", text.c_str(), seconds));
    checked(PyList_Append(list.p, step.p));
  }
  return list.give();
}
PyObject* capturing(PyObject*, PyObject*) { return PyBool_FromLong(tls.recorder != nullptr); }

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
                           {"graph_times", slot<times>, METH_VARARGS},
                           {"graph_capturing", slot<capturing>, METH_NOARGS},
                           {"graph_counts", slot<counts>, METH_NOARGS},
                           {"graph_forget", slot<forget>, METH_NOARGS},
                           {}};

}  // namespace

Plan* upward::plan_program(const Program& p) {
  if (p.planner) {
    Held program{describe_program(p)}, inputs{inputs_of(p)};
    auto* planner = reinterpret_cast<PyObject*>(p.planner);
    Held plan = checked(PyObject_CallFunctionObjArgs(planner, program.p, inputs.p, nullptr));
    return python_plan(p, plan.p).release();
  }
  Held program{describe_program(p)}, graph = checked(PyImport_ImportModule("flambeau._graph"));
  Held steps = checked(PyObject_CallMethod(graph.p, "plan", "(O)", program.p));
  return plan_of(p, steps.p).release();
}

void add_graph(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
