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
  Held entries = checked(PyList_New(0)), uses = checked(PyList_New(0)), slots = checked(PyList_New(0)),
       wanted = checked(PyList_New(0));
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
  for (size_t k = 0; k < p.slots.size(); ++k) {
    Held made = checked(PyLong_FromLong(p.slots[k].made_by)), number = checked(PyLong_FromSize_t(k));
    checked(PyList_Append(slots.p, made.p));
    if (p.slots[k].made_by >= 0 && p.slots[k].storage) checked(PyList_Append(wanted.p, number.p));
  }
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
    TensorRef t = TensorRef::steal(allocate_tensor());
    t->dtype = u.dtype;
    t->device = u.device;
    set_dims(*t, u.sizes(), u.strides());
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
  auto plan = std::make_unique<Plan>();
  plan->slots = int(p.slots.size());
  plan->planner = Ref<Object>::borrow(p.planner);
  auto step = std::make_unique<PythonStep>();
  step->function = Held::borrow(function);
  for (int64_t u : integers_of(uses)) step->uses.push_back(plan->use(p.uses.at(size_t(u)), p.uses[size_t(u)].slot));
  for (int64_t slot : integers_of(slots)) {
    const Entry& e = p.entries.at(size_t(p.slots.at(size_t(slot)).made_by));
    for (int k = 0; k < e.nresults; ++k)
      if (const Use& u = p.uses[size_t(e.results[k])]; u.slot == slot) {
        step->results.push_back({u.slot, u.dtype, u.device, 0, 0, {u.dims, u.dims + u.ndim},
                                 {u.dims + u.ndim, u.dims + 2 * u.ndim}});
        break;
      }
    step->makes.push_back(int(slot));
    plan->wanted.push_back({int(slot), int(slot)});
  }
  plan->steps.push_back(std::move(step));
  plan->finish();
  return plan;
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
  Capture(bool whole, PyObject* planner) {
    tracer.whole = whole;
    tracer.planner = reinterpret_cast<Object*>(planner);
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

PyObject* set_planner(PyObject*, PyObject* f) {
  if (f != Py_None && !PyCallable_Check(f)) type_error("graph_set_planner: expected a function or None");
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
                           {"graph_times", slot<times>, METH_VARARGS},
                           {"graph_capturing", slot<capturing>, METH_NOARGS},
                           {"graph_set_planner", slot<set_planner>, METH_O},
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
  if (!planner) return plain_plan(p).release();
  Held program{describe_program(p)};
  Held steps = checked(PyObject_CallOneArg(planner, program.p));
  return plan_of(p, steps.p).release();
}

void add_graph(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
