// What happens to captured calls, as Python may look at it: when programs run and why, and what each step reads, makes
// and takes.
#include "../core/recording.h"
#include "../runtime/blocks.h"
#include "../runtime/constants.h"
#include "graph_parts.h"
#include "op_type.h"

namespace flambeau {
namespace {

PyObject* layout(const char* kind, int64_t number, DType dtype, Dims sizes, Dims strides) {
  return checked(Py_BuildValue("(sLONN)", kind, (long long)number, dtype_object(dtype), numbers_object(sizes),
                               numbers_object(strides)))
      .give();
}

PyObject* object_of(const PlanArg& a, const Arg* declared, PlanRun& r) {
  using Kind = PlanArg::Kind;
  if (a.kind == Kind::List) {
    Held list = checked(PyList_New(0));
    for (const PlanArg& item : a.list) checked(PyList_Append(list.p, Held(object_of(item, nullptr, r)).p));
    return list.give();
  }
  if (a.kind <= Kind::Given) return declared ? argument_object(r.given(a), *declared) : Py_NewRef(Py_None);
  if (a.kind == Kind::Made) {
    const Tensor* t = r.values[size_t(a.at)].get();
    return t ? layout("value", a.at, t->dtype, t->shape(), t->stride())
             : checked(Py_BuildValue("(sLOOO)", "value", (long long)a.at, Py_None, Py_None, Py_None)).give();
  }
  const Use& u = r.program.uses[size_t(a.of)];
  const bool outside = a.kind == Kind::Outside;
  return layout(outside ? "input" : "value", outside ? u.slot : a.at, u.dtype, u.sizes(), u.strides());
}

PyObject* call_object(const PlanCall& call, PlanRun& r) {
  Held args = checked(PyTuple_New(Py_ssize_t(call.args.size()))), makes = checked(PyList_New(0));
  for (size_t k = 0; k < call.args.size(); ++k)
    PyTuple_SET_ITEM(args.p, Py_ssize_t(k),
                     object_of(call.args[k], call.op ? &call.op->schema.args[k] : nullptr, r));
  for (int value : call.makes) {
    PlanArg made;
    made.kind = PlanArg::Kind::Made;
    made.at = value;
    checked(PyList_Append(makes.p, value < 0 ? Py_None : Held(object_of(made, nullptr, r)).p));
  }
  PyObject* op = call.op ? static_cast<PyObject*>(call.op->py_op) : Py_None;
  return checked(Py_BuildValue("(OOOs)", op, args.p, makes.p, r.program.line_of(call.entry).c_str())).give();
}

// Why a call could not be put off.
const char* reason(const Call& c) {
  if (c.given || c.inplace || c.op->writes_self) return "writes";
  if (c.op->random) return "random";
  if (reads_values(c)) return "values";
  return "other";
}

// ("at once", operator, reason, line), ("runs", why, known, number of calls, line), ("recording", what became of it),
// ("step", calls, seconds, block or 0, whether its values are those of an earlier run), where a call is (operator or
// None, arguments, results, line), and a tensor ("input", slot, dtype, sizes, strides) or ("value", number, dtype,
// sizes, strides), with None for what a group keeps to itself.
struct Events final : Listener {
  Held list = checked(PyList_New(0));
  void add(PyObject* event) { checked(PyList_Append(list.p, Held(checked(event)).p)); }

  void at_once(const Call& c, const Places* places) override {
    const std::string line = places ? places->text(places->here()) : "";
    const std::string name = c.op->name + (c.inplace && !c.op->writes_self ? "_" : "");
    add(Py_BuildValue("(ssss)", "at once", name.c_str(), reason(c), line.c_str()));
  }
  void runs(const Program& p, bool known) override {
    static constexpr const char* kWhy[] = {"end", "value", "write", "long"};
    const std::string line = p.places && p.why != Why::End ? p.places->text(p.places->here()) : "";
    add(Py_BuildValue("(ssNns)", "runs", kWhy[size_t(p.why)], PyBool_FromLong(known), Py_ssize_t(p.entries.size()),
                      line.c_str()));
  }
  void recording(const std::string& text) override { add(Py_BuildValue("(ss)", "recording", text.c_str())); }
  void done(const Step& step, PlanRun& r, double seconds) override {
    Held calls = checked(PyList_New(0));
    for (const PlanCall& call : step.calls) checked(PyList_Append(calls.p, Held(call_object(call, r)).p));
    auto* group = dynamic_cast<const BlockStep*>(&step);
    const int64_t block = group && group->code && group->code->possible ? group->code->block : 0;
    auto* constants = dynamic_cast<const KeptStep*>(&step);
    const bool kept = constants && constants->taken;
    add(Py_BuildValue("(sOdLO)", "step", calls.p, seconds, (long long)block, kept ? Py_True : Py_False));
  }
};

}  // namespace

PyObject* listened(const std::function<void()>& run) {
  Events events;
  run();
  return events.list.give();
}

}  // namespace flambeau
