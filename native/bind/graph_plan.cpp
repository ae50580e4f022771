// Plans as Python makes them: programs are described, what planners choose is put together.
#include <algorithm>
#include <cstring>

#include "../runtime/plan_reader.h"
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

thread_local PyObject* noted_plans = nullptr;

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
  for (int64_t u : integers_of(uses)) call.args.push_back(from_outside(p, u, *plan));
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
  char* bytes;
  Py_ssize_t n;
  checked(PyBytes_AsStringAndSize(described.p, &bytes, &n));
  if (noted_plans) {
    Held key{PyBytes_FromStringAndSize(reinterpret_cast<const char*>(p.key.data()), Py_ssize_t(p.key.size() * 8))};
    Held sizes{numbers_object(p.sizes_at)};
    Held note = checked(PyTuple_Pack(3, checked(key.give()).p, sizes.p, described.p));
    checked(PyList_Append(noted_plans, note.p));
  }
  std::vector<int64_t> words(size_t(n) / sizeof(int64_t));
  std::memcpy(words.data(), bytes, words.size() * sizeof(int64_t));
  return read_plan(p, Words(words, "compile: a plan")).release();
}

}  // namespace flambeau
