// Plans as Python makes them: programs are described, what planners choose is put together.
#include <algorithm>
#include <cstring>

#include "../runtime/blocks.h"
#include "../runtime/constants.h"
#include "../runtime/together.h"
#include "graph_parts.h"
#include "op_type.h"
#include "upward.h"

namespace flambeau {

// --- a program, described --------------------------------------------------------------------------------------------

static PyObject* new_list(int64_t n) { return checked(PyList_New(Py_ssize_t(n))).give(); }

PyObject* argument_object(const Value& v, const Arg& arg) {
  const Type type = arg.type;
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
    case Tag::Bools: {
      PyObject* list = new_list(v.ints.size);
      for (int64_t k = 0; k < v.ints.size; ++k) PyList_SET_ITEM(list, k, PyBool_FromLong(v.ints.data[k]));
      return list;
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

namespace {

// What a plan takes from the program that runs: values that the key does not tell, and what is no plain literal.
bool stands_in_the_program(const Value& v, const Arg& arg) {
  if (is_number(v, arg) || arg.type == Type::MemoryFormat || arg.type == Type::Layout) return true;
  return (v.tag == Tag::Ints && is_sizes(arg)) || v.tag == Tag::DType || v.tag == Tag::Device || v.tag == Tag::Floats;
}

PyObject* op_of(const Entry& e) {
  auto* op = static_cast<PyObject*>(e.op->py_op);
  return e.form == Form::Inplace ? reinterpret_cast<PyObject*>(as_op(op)->inplace_form) : op;
}

// ([(operator, arguments, uses that are results, slots that it writes to, whether the result goes where the first
// argument lies)], [(slot, dtype, sizes, strides, offset, flags, device)], [entry that makes it or -1], [slots that are
// wanted], fast, whether all of it is on the CPU). Arguments that a plan takes from the program are ("given", position,
// value).
PyObject* describe_program(const Program& p) {
  Held entries = checked(PyList_New(0)), uses = checked(PyList_New(0)), slots = checked(PyList_New(0));
  for (const Entry& e : p.entries) {
    Held args = checked(PyTuple_New(e.nargs));
    for (int k = 0; k < e.nargs; ++k) {
      const Arg& declared = e.op->schema.args[size_t(k)];
      Held arg = checked(argument_object(e.args[k], declared));
      if (!p.planner && stands_in_the_program(e.args[k], declared))
        arg = checked(Py_BuildValue("(siN)", "given", k, arg.give()));
      PyTuple_SET_ITEM(args.p, k, arg.give());
    }
    std::vector<int64_t> results(e.results, e.results + e.nresults);
    const std::vector<int64_t> writes(e.writes.begin(), e.writes.end());
    Held entry = checked(Py_BuildValue("(OONNO)", op_of(e), args.p, numbers_object(results), numbers_object(writes),
                                       e.form == Form::Stored ? Py_True : Py_False));
    checked(PyList_Append(entries.p, entry.p));
  }
  for (const Use& u : p.uses) {
    Held use = checked(Py_BuildValue("(iONNLiN)", u.slot, dtype_object(u.dtype), numbers_object(u.sizes()),
                                     numbers_object(u.strides()), (long long)u.offset, int(u.flags),
                                     device_object(u.device)));
    checked(PyList_Append(uses.p, use.p));
  }
  for (const ProgramSlot& s : p.slots) {
    Held made = checked(PyLong_FromLong(s.made_by));
    checked(PyList_Append(slots.p, made.p));
  }
  const std::vector<int> held = p.wanted();
  Held wanted{numbers_object(std::vector<int64_t>(held.begin(), held.end()))};
  auto on_cpu = [](const Use& u) { return u.device.type == DeviceType::CPU; };
  PyObject* cpu = std::ranges::all_of(p.uses, on_cpu) ? Py_True : Py_False;
  return checked(PyTuple_Pack(6, entries.p, uses.p, slots.p, wanted.p, p.fast ? Py_True : Py_False, cpu)).give();
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
  std::vector<int> slots;
  void run(PlanRun& r) override;
  std::string text() const override { return "a backend's function"; }
};
// What is written was counted when it was captured.
struct Counted {
  std::vector<std::pair<Storage*, uint64_t>> versions;
  explicit Counted(const Program& p) {
    for (const ProgramSlot& s : p.slots)
      if (s.written) versions.emplace_back(s.storage, s.storage->version);
  }
  ~Counted() {
    for (auto [storage, version] : versions) storage->version = version;
  }
};
void PythonStep::run(PlanRun& r) {
  Counted counted(r.program);
  const PlanCall& call = calls[0];
  Held args = checked(PyTuple_New(Py_ssize_t(call.args.size())));
  for (size_t k = 0; k < call.args.size(); ++k)
    PyTuple_SET_ITEM(args.p, Py_ssize_t(k), Py_NewRef(py(r.tensor(call.args[k]))));
  Held made = checked(PyObject_CallObject(function.p, args.p));
  Held items = checked(PySequence_Fast(made.p, "compile: a backend's function must return a sequence of tensors"));
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.p);
  if (n != Py_ssize_t(slots.size()))
    runtime_error("compile: a backend's function has returned ", n, " values instead of the graph's ", slots.size());
  for (size_t k = 0; k < slots.size(); ++k) {
    PyObject* o = PySequence_Fast_GET_ITEM(items.p, Py_ssize_t(k));
    const Use& u = r.program.made_as(slots[k]);
    if (!is_tensor(o) || !std::ranges::equal(as_tensor(o)->shape(), u.sizes()))
      runtime_error("compile: result ", k, " of a backend's function is not a tensor of shape ",
                    shape_text(u.sizes()));
    TensorRef t = empty_strided(u.sizes(), u.strides(), u.dtype, u.device);
    copy_into(*t, *as_tensor(o));
    r.values[size_t(call.makes[k])] = std::move(t);
  }
}

PlanArg outside(int64_t use, const Program& p, Plan& plan) {
  if (p.slots[size_t(p.uses.at(size_t(use)).slot)].made_by >= 0)
    value_error("compile: use ", use, " of the program is a result, not a tensor from outside");
  PlanArg a;
  a.kind = PlanArg::Kind::Outside;
  a.of = int(use);
  a.kept = plan.kept++;
  return a;
}

// (function, uses it is given, slots it makes)
std::unique_ptr<Plan> python_plan(const Program& p, PyObject* described) {
  PyObject *function, *uses, *slots;
  if (!PyArg_ParseTuple(described, "OO!O!", &function, &PyTuple_Type, &uses, &PyTuple_Type, &slots))
    throw PythonError();
  auto plan = std::make_unique<Plan>();
  plan->planner = Ref<Object>::borrow(p.planner);
  auto step = std::make_unique<PythonStep>();
  PlanCall& call = step->calls.emplace_back();
  step->function = Held::borrow(function);
  for (int64_t u : integers_of(uses)) call.args.push_back(outside(u, p, *plan));
  for (int64_t slot : integers_of(slots)) {
    p.made_as(int(slot));  // throws where nothing makes it
    step->slots.push_back(int(slot));
    plan->results.push_back({int(slot), plan->values});
    call.makes.push_back(plan->values++);
  }
  plan->steps.push_back(std::move(step));
  plan->finish();
  return plan;
}

// --- what a planner has chosen ---------------------------------------------------------------------------------------

// Reads a plan that Python describes: ([(leader, calls)], [(slot, value)], how many of the first steps make values that
// are kept), where several calls are a group over the shape of the leader's result, and a call is (operator, arguments,
// the values it makes or -1, its entry in the program or -1). Tensors among the arguments are ("outside", use),
// ("made", value), ("view", value, use) and ("list", them); ("given", entry, argument) is what stands in the program;
// anything else stands for itself.
struct PlanReader {
  const Program& p;
  Plan& plan;

  static void fail(const char* what) { value_error("compile: a plan's ", what); }
  static PyObject* tuple_of(PyObject* o, Py_ssize_t n, const char* what) {
    if (!PyTuple_Check(o) || (n >= 0 && PyTuple_GET_SIZE(o) != n)) fail(what);
    return o;
  }
  static int number(PyObject* tuple, Py_ssize_t k, size_t below, const char* what) {
    const int64_t v = integer_of(PyTuple_GET_ITEM(tuple, k));
    if (v < 0 || size_t(v) >= below) fail(what);
    return int(v);
  }
  int value(PyObject* tuple, Py_ssize_t k) {
    const int v = number(tuple, k, 1 << 24, "value is a small number");
    plan.values = std::max(plan.values, v + 1);
    return v;
  }

  PlanArg argument(PyObject* o) {
    if (!PyTuple_Check(o) || !PyTuple_GET_SIZE(o) || !PyUnicode_Check(PyTuple_GET_ITEM(o, 0))) return literal(o);
    PlanArg a;
    auto is = [&](const char* name, Py_ssize_t n) {
      return PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(o, 0), name) == 0 &&
             tuple_of(o, n, "argument has a part too many or too few");
    };
    if (is("list", 2)) {
      a.kind = PlanArg::Kind::List;
      PyObject* items = tuple_of(PyTuple_GET_ITEM(o, 1), -1, "list of tensors is a tuple");
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(items); ++k) a.list.push_back(argument(PyTuple_GET_ITEM(items, k)));
    } else if (is("given", 3)) {
      a.kind = PlanArg::Kind::Given;
      a.at = number(o, 1, p.entries.size(), "argument names no entry of the program");
      a.of = number(o, 2, size_t(p.entries[size_t(a.at)].nargs), "argument names no argument of the entry");
      const Tag tag = p.entries[size_t(a.at)].args[a.of].tag;
      if (tag == Tag::Tensor || tag == Tag::Tensors) fail("given argument is a tensor");
    } else if (is("outside", 2)) {
      return outside(number(o, 1, p.uses.size(), "argument names no use of the program"), p, plan);
    } else if (is("made", 2)) {
      a.kind = PlanArg::Kind::Made;
      a.at = value(o, 1);
    } else if (is("view", 3)) {
      a.kind = PlanArg::Kind::View;
      a.at = value(o, 1);
      a.of = number(o, 2, p.uses.size(), "argument names no use of the program");
      if (p.slots[size_t(p.uses[size_t(a.of)].slot)].made_by < 0) fail("view is one of a result");
      a.kept = plan.kept++;
    } else {
      fail("argument is of no known kind");
    }
    return a;
  }

  PlanArg literal(PyObject* o) {
    PlanArg a;
    Value& v = a.literal;
    if (PyBool_Check(o)) v = Value(o == Py_True);
    else if (PyLong_Check(o)) v = Value(integer_of(o));
    else if (PyFloat_Check(o)) v = Value(PyFloat_AS_DOUBLE(o));
    else if (PyTuple_Check(o) || PyList_Check(o)) {
      Held items = checked(PySequence_Fast(o, ""));
      const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.p);
      int64_t* list = plan.memory.take<int64_t>(size_t(n));
      for (Py_ssize_t k = 0; k < n; ++k) list[k] = integer_of(PySequence_Fast_GET_ITEM(items.p, k));
      v.tag = Tag::Ints;
      v.ints = {list, n};
    } else if (PyUnicode_Check(o)) {
      Py_ssize_t n;
      const char* text = PyUnicode_AsUTF8AndSize(o, &n);
      if (!text) throw PythonError();
      char* kept = plan.memory.take<char>(size_t(n) + 1);
      std::memcpy(kept, text, size_t(n) + 1);
      v.tag = Tag::Str;
      v.str = {kept, n};
    } else if (o != Py_None) {
      fail("literal is None, a bool, an int, a float, a str or ints");
    }
    return a;
  }

  PlanCall call(PyObject* o) {
    tuple_of(o, 4, "call is (operator, arguments, values, entry)");
    if (!PyObject_TypeCheck(PyTuple_GET_ITEM(o, 0), OpType)) fail("call is of an operator");
    PlanCall c;
    const OpObject& op = *as_op(PyTuple_GET_ITEM(o, 0));
    c.op = op.def;
    c.inplace = op.inplace && !op.def->writes_self;
    c.list_result = c.op->schema.list_result;
    const int64_t entry = integer_of(PyTuple_GET_ITEM(o, 3));
    if (entry >= int64_t(p.entries.size())) fail("call stands for no entry of the program");
    c.entry = int(std::max<int64_t>(entry, -1));
    if (c.op->kind == Kind::Composite) fail("call is of a primitive operator");
    PyObject* args = tuple_of(PyTuple_GET_ITEM(o, 1), Py_ssize_t(c.op->schema.args.size()), "call has other arguments");
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args); ++k) c.args.push_back(argument(PyTuple_GET_ITEM(args, k)));
    PyObject* makes = tuple_of(PyTuple_GET_ITEM(o, 2), -1, "call makes a tuple of values");
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(makes); ++k)
      c.makes.push_back(integer_of(PyTuple_GET_ITEM(makes, k)) < 0 ? -1 : value(makes, k));
    return c;
  }

  CallGroup group(PyObject* o) {
    tuple_of(o, 2, "step is (leader, calls)");
    PyObject* items = tuple_of(PyTuple_GET_ITEM(o, 1), -1, "step has a tuple of calls");
    std::vector<PlanCall> calls;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(items); ++k) calls.push_back(call(PyTuple_GET_ITEM(items, k)));
    const int leader = number(o, 0, calls.size(), "leader is one of the step's calls");
    for (const PlanCall& c : calls) {
      if (is_store(c) && c.args[0].kind == PlanArg::Kind::Outside && c.args[1].kind == PlanArg::Kind::Made) continue;
      if (calls.size() > 1 && (c.makes.size() != 1 || c.makes[0] < 0 ||
                               !(c.op->elementwise || find_row_fold(c.op->name, DType::Float32))))
        fail("group is of pointwise calls, reductions of rows, and writes of what they make");
    }
    return {leader, std::move(calls)};
  }
};

std::unique_ptr<Plan> plan_of(const Program& p, PyObject* described) {
  auto plan = std::make_unique<Plan>();
  PlanReader reader{p, *plan};
  PyObject *steps, *results;
  Py_ssize_t kept;
  if (!PyArg_ParseTuple(described, "O!O!n", &PyTuple_Type, &steps, &PyTuple_Type, &results, &kept)) throw PythonError();
  if (kept < 0 || kept > PyTuple_GET_SIZE(steps)) reader.fail("kept steps are some of its first");
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(results); ++k) {
    PyObject* o = reader.tuple_of(PyTuple_GET_ITEM(results, k), 2, "result is (slot, value)");
    const int slot = reader.number(o, 0, p.slots.size(), "result is a slot of the program");
    p.made_as(slot);
    plan->results.push_back({slot, reader.value(o, 1)});
  }
  std::vector<CallGroup> groups;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(steps); ++k) groups.push_back(reader.group(PyTuple_GET_ITEM(steps, k)));
  add_steps(*plan, std::move(groups));
  if (kept) {
    const auto end = plan->steps.begin() + kept;
    std::vector<std::unique_ptr<Step>> constant(std::make_move_iterator(plan->steps.begin()),
                                                std::make_move_iterator(end));
    plan->steps.erase(plan->steps.begin() + 1, end);
    plan->steps[0] = std::make_unique<KeptStep>(std::move(constant));
  }
  plan->finish();
  return plan;
}

}  // namespace

Plan* upward::plan_program(const Program& p) {
  if (p.planner) {
    Held program{describe_program(p)}, inputs{inputs_of(p)};
    auto* planner = reinterpret_cast<PyObject*>(p.planner);
    Held plan = checked(PyObject_CallFunctionObjArgs(planner, program.p, inputs.p, nullptr));
    return python_plan(p, plan.p).release();
  }
  Held program{describe_program(p)}, planner = checked(PyImport_ImportModule("flambeau.compiler._plan"));
  Held described = checked(PyObject_CallMethod(planner.p, "plan", "(O)", program.p));
  return plan_of(p, described.p).release();
}

}  // namespace flambeau
