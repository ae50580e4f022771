// Calls of functions that are said to be pure: where the arguments look like those of an earlier call, its program runs
// again over the new tensors, and Python is not asked.
#include <algorithm>
#include <bit>

#include "graph_capture.h"
#include "../core/stamp.h"
#include "slot.h"

namespace flambeau {
namespace {

constexpr size_t kMost = 64;  // calls that a function keeps

// What a result is made of: a tensor of the program, a constant, or a tuple, list or dict of such.
struct Tree {
  enum class Kind : uint8_t { Tensor, Constant, Tuple, List, Dict } kind = Kind::Constant;
  int tensor = -1;
  Held constant;            // of a dict: the tuple of its keys
  std::vector<Tree> parts;
};

// A tensor that is returned: a layout of a slot.
struct Returned {
  int slot;
  DType dtype;
  std::vector<int64_t> sizes, strides;
  int64_t offset;
  bool operator==(const Returned&) const = default;
};

// Arguments as words that say all that decides what is done with them, apart from the values of tensors.
struct Flat {
  std::vector<uint64_t> words;
  std::vector<Tensor*> tensors;
  std::vector<PyObject*> others;  // what is compared as it is
  bool good = true;

  void add_tensor(Tensor& t) {
    settle(t);
    const bool known = t.device.type == DeviceType::CPU || t.device.type == DeviceType::CUDA;
    if (t.flags & (kDispatch | kPending) || t.level || !t.storage || !known) good = false;
    if (!good) return;
    Storage* memory = owner_of(t.storage);
    size_t alike = 0;
    while (alike < tensors.size() && owner_of(tensors[alike]->storage) != memory) ++alike;
    words.push_back(uint64_t(t.dtype) << 48 | uint64_t(t.ndim) << 40 | uint64_t(t.flags) << 8 |
                    uint64_t(t.requires_grad()) << 1 | uint64_t(memory->resizable));
    words.push_back(alike << 32 | uint64_t(t.device.type) << 16 | uint64_t(uint8_t(t.device.index)) << 8 |
                    uint64_t(t.storage->readonly || memory->readonly));
    words.push_back(uint64_t(t.offset()));
    words.insert(words.end(), t.sizes, t.sizes + t.ndim);
    words.insert(words.end(), t.strides, t.strides + t.ndim);
    tensors.push_back(&t);
  }
  void add(PyObject* o) {
    words.push_back(reinterpret_cast<uint64_t>(Py_TYPE(o)));
    if (is_tensor(o)) return add_tensor(*as_tensor(o));
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
      const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
      words.push_back(uint64_t(n));
      for (Py_ssize_t k = 0; good && k < n; ++k) add(PySequence_Fast_GET_ITEM(o, k));
    } else if (PyDict_CheckExact(o)) {
      words.push_back(uint64_t(PyDict_GET_SIZE(o)));
      PyObject *key, *value;
      for (Py_ssize_t at = 0; good && PyDict_Next(o, &at, &key, &value);) add(key), add(value);
    } else if (PyFloat_CheckExact(o)) {
      words.push_back(std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(o)));
    } else if (o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyUnicode_CheckExact(o)) {
      const Py_hash_t hash = PyObject_Hash(o);
      if (hash == -1 && PyErr_Occurred()) throw PythonError();
      words.push_back(uint64_t(hash));
      others.push_back(o);
    } else {
      words.push_back(reinterpret_cast<uint64_t>(o));
      others.push_back(o);
    }
  }
};

// One call that is kept: its program, and where arguments and results stand in it.
struct KeptProgram {
  std::vector<uint64_t> words;
  std::vector<Held> others;
  Program* program = nullptr;
  std::vector<std::pair<int, int>> bound;  // (slot, argument) that have the same memory
  std::vector<std::pair<int, Storage*>> outside;  // until the program has run for the first time: its memory; counted
  std::vector<int> made;                   // slots that are returned
  std::vector<Returned> returned;
  Tree result;
  bool busy = false;

  ~KeptProgram() {
    for (auto [slot, storage] : outside) release(storage);
    if (program) release(program);
  }
  bool serves(const Flat& flat) const {
    if (busy || flat.words != words || flat.others.size() != others.size()) return false;
    for (size_t k = 0; k < others.size(); ++k) {
      if (others[k].p == flat.others[k]) continue;
      const int same = PyObject_RichCompareBool(others[k].p, flat.others[k], Py_EQ);
      if (same < 0) throw PythonError();
      if (!same) return false;
    }
    for (const Tensor* t : flat.tensors) {  // memory that the program knows as another's
      const int slot = program->find(owner_of(t->storage));
      if (slot >= 0 && program->slots[size_t(slot)].storage) return false;
    }
    return true;
  }
  PyObject* run(const Flat& flat);
  PyObject* object(const Tree& tree, const std::vector<TensorRef>& tensors) const;
};

PyObject* KeptProgram::object(const Tree& tree, const std::vector<TensorRef>& tensors) const {
  const Py_ssize_t n = Py_ssize_t(tree.parts.size());
  if (tree.kind == Tree::Kind::Tensor) return take_object(TensorRef::borrow(tensors[size_t(tree.tensor)].get()));
  if (tree.kind == Tree::Kind::Constant) return Py_NewRef(tree.constant.p);
  if (tree.kind == Tree::Kind::Dict) {
    Held made = checked(PyDict_New());
    for (Py_ssize_t k = 0; k < n; ++k)
      if (PyDict_SetItem(made.p, PyTuple_GET_ITEM(tree.constant.p, k), Held(object(tree.parts[size_t(k)], tensors)).p))
        throw PythonError();
    return made.give();
  }
  const bool tuple = tree.kind == Tree::Kind::Tuple;
  Held made = checked(tuple ? PyTuple_New(n) : PyList_New(n));
  for (Py_ssize_t k = 0; k < n; ++k) {
    PyObject* part = object(tree.parts[size_t(k)], tensors);
    if (tuple) PyTuple_SET_ITEM(made.p, k, part);
    else PyList_SET_ITEM(made.p, k, part);
  }
  return made.give();
}

// The program with other memory, while it runs.
struct Binding {
  KeptProgram& kept;
  Binding(KeptProgram& kept, const Flat& flat) : kept(kept) {
    kept.busy = true;
    for (auto [slot, argument] : kept.bound) bind(slot, owner_of(flat.tensors[size_t(argument)]->storage));
  }
  void bind(int slot, Storage* s) {
    ProgramSlot& to = kept.program->slots[size_t(slot)];
    retain(to.storage = s);
    if (to.written) lose_writes(*s);  // they are counted when all is done
  }
  ~Binding() {
    auto free = [&](int slot) {
      if (Storage* s = std::exchange(kept.program->slots[size_t(slot)].storage, nullptr)) release(s);
    };
    for (auto [slot, argument] : kept.bound) free(slot);
    for (int slot : kept.made) free(slot);
    kept.busy = false;
  }
};

PyObject* KeptProgram::run(const Flat& flat) {
  std::vector<TensorRef> wholes, tensors;
  {
    Binding binding(*this, flat);
    for (int slot : made) {
      const Use& u = program->made_as(slot);
      wholes.push_back(pending_tensor(u.sizes(), u.strides(), u.dtype, u.device, nullptr));
      binding.bind(slot, wholes.back()->storage);
    }
    run_again(*program);
    for (const Entry& e : program->entries)
      for (int slot : e.writes) count_write(*program->slots[size_t(slot)].storage);
  }
  for (const Returned& r : returned) {
    TensorRef& whole = wholes[size_t(std::ranges::find(made, r.slot) - made.begin())];
    settle(*whole);
    if (r.dtype == whole->dtype && !r.offset && laid_out(*whole, r.sizes, r.strides)) {
      tensors.push_back(whole);
      continue;
    }
    tensors.push_back(view_of(*whole, r.sizes, r.strides, whole->data + r.offset * item_size(r.dtype)));
    tensors.back()->dtype = r.dtype;
  }
  return object(result, tensors);
}

// The calls of one function that are kept.
struct PureCalls {
  std::vector<std::shared_ptr<KeptProgram>> kept;  // another thread may let one go that runs
  std::shared_ptr<KeptProgram> find(const Flat& flat) {
    for (auto& k : kept)
      if (k->serves(flat)) return k;
    return nullptr;
  }
};

// What a call has returned, if all of it can be returned again.
struct Reading {
  Program& program;
  KeptProgram& to;
  bool good = true;
  Tree read(PyObject* o) {
    Tree tree;
    if (is_tensor(o)) {
      tree.kind = Tree::Kind::Tensor;
      tree.tensor = tensor(*as_tensor(o));
    } else if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
      tree.kind = PyTuple_CheckExact(o) ? Tree::Kind::Tuple : Tree::Kind::List;
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k)
        tree.parts.push_back(read(PySequence_Fast_GET_ITEM(o, k)));
    } else if (PyDict_CheckExact(o)) {
      tree.kind = Tree::Kind::Dict;
      tree.constant = checked(PySequence_Tuple(o));
      PyObject *key, *value;
      for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);) tree.parts.push_back(read(value));
    } else {
      good &= o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
              PyUnicode_CheckExact(o);
      tree.constant = Held::borrow(o);
    }
    return tree;
  }
  int tensor(const Tensor& t) {
    Awaited* a = t.flags & kPending ? awaited(*t.storage) : nullptr;
    good &= a && a->program == &program && !t.requires_grad() && !(t.flags & kDispatch) && !t.dict;
    if (!good) return -1;
    to.returned.push_back({a->slot, t.dtype, {t.sizes, t.sizes + t.ndim}, {t.strides, t.strides + t.ndim}, t.offset()});
    if (!std::ranges::count(to.made, a->slot)) to.made.push_back(a->slot);
    return int(to.returned.size()) - 1;
  }
};

// The program of a call that has ended, before it runs, if it is all that the call did and can be done again.
std::shared_ptr<KeptProgram> read_call(Tracer& tracer, const Flat& flat, PyObject* result, int64_t programs) {
  Program* p = tracer.program;
  if (!flat.good || !p || p->empty() || tracer.at_once || plan_counts().programs != programs) return nullptr;
  auto kept = std::make_shared<KeptProgram>();
  Reading reading{*p, *kept};
  kept->result = reading.read(result);
  if (!reading.good || p->wanted().size() != kept->made.size()) return nullptr;
  for (const ProgramSlot& s : p->slots)
    if (s.written && s.storage->refcount == 1) return nullptr;  // it was made in the call, with values
  kept->words = flat.words;
  for (PyObject* o : flat.others) kept->others.push_back(Held::borrow(o));
  retain(kept->program = p);
  for (size_t k = 0; k < p->slots.size(); ++k)
    if (p->slots[k].made_by < 0) retain(kept->outside.emplace_back(int(k), p->slots[k].storage).second);
  return kept;
}

// The program has run, and let all memory go: it takes that again which is no argument's.
void settle_memory(KeptProgram& kept, const Flat& flat) {
  for (auto [slot, storage] : std::exchange(kept.outside, {})) {
    auto owns = [storage](const Tensor* t) { return owner_of(t->storage) == storage; };
    const auto argument = std::ranges::find_if(flat.tensors, owns);
    if (argument == flat.tensors.end()) {
      kept.program->slots[size_t(slot)].storage = storage;
      continue;
    }
    kept.bound.emplace_back(slot, int(argument - flat.tensors.begin()));
    release(storage);
  }
}

bool same_numbers(const Program& a, const Program& b) {
  for (size_t k = 0; k < a.entries.size(); ++k)
    for (int j = 0; j < a.entries[k].nargs; ++j) {
      const Value &x = a.entries[k].args[j], &y = b.entries[k].args[j];
      if (!x.is_number()) continue;
      if (x.tag != y.tag) return false;
      const bool same = x.tag == Tag::Int    ? x.i == y.i
                        : x.tag == Tag::Bool ? x.b == y.b
                        : x.tag == Tag::Float ? std::bit_cast<int64_t>(x.f) == std::bit_cast<int64_t>(y.f)
                                              : x.c.re == y.c.re && x.c.im == y.c.im;
      if (!same) return false;
    }
  return true;
}

// Refuses a call that did something else than the earlier one that would stand for it.
void check(const KeptProgram& before, const KeptProgram* now) {
  if (now && now->program->key == before.program->key && now->returned == before.returned &&
      same_numbers(*before.program, *now->program))
    return;
  runtime_error("compile: options={\"pure\": \"check\"}: the function did not do what it did in an earlier call with "
                "such arguments, so it is not pure: it depends on something else than its arguments, or changes it");
}

constexpr const char* kStore = "flambeau.pure_calls";
PureCalls& calls_of(PyObject* capsule) {
  auto* calls = static_cast<PureCalls*>(PyCapsule_GetPointer(capsule, kStore));
  if (!calls) throw PythonError();
  return *calls;
}

// pure_calls(): a place for the calls of one function
PyObject* pure_calls(PyObject*, PyObject*) {
  return guarded([&] {
    auto made = std::make_unique<PureCalls>();
    PyObject* capsule = checked(PyCapsule_New(made.get(), kStore, [](PyObject* o) {
                          delete static_cast<PureCalls*>(PyCapsule_GetPointer(o, kStore));
                        })).give();
    made.release();
    return capsule;
  });
}

// What else decides what a call does.
uint64_t state_word() {
  return uint64_t(tls.grad_enabled) | uint64_t(tls.inference_enabled) << 1 | uint64_t(tls.autocast_enabled) << 2 |
         uint64_t(tls.autocast_dtype) << 8 | uint64_t(default_dtype()) << 16;
}

// pure_call(calls, checks, function, args, kwargs or None, whole, planner, exact, fast, record): graph_call for a
// function whose calls are kept; checks: it is called nevertheless, and compared
PyObject* pure_call(PyObject*, PyObject* all) {
  return guarded([&]() -> PyObject* {
    if (PyTuple_GET_SIZE(all) < 5) type_error("pure_call: expected (calls, checks, function, args, kwargs, …)");
    PureCalls& calls = calls_of(PyTuple_GET_ITEM(all, 0));
    const bool checks = PyTuple_GET_ITEM(all, 1) == Py_True;
    Held rest = checked(PyTuple_GetSlice(all, 2, PyTuple_GET_SIZE(all)));
    HandedOn to(rest.p);
    const bool plain = !tls.dispatch_modes && !tls.function_modes && !tls.active_levels && !tls.packing &&
                       !tls.watch_writes && !Listener::of_thread();
    if (!plain) return graph_call(to);
    Flat flat;
    flat.words.push_back(state_word());
    flat.add(to.args);
    if (to.kwargs) flat.add(to.kwargs);
    const std::shared_ptr<KeptProgram> known = flat.good ? calls.find(flat) : nullptr;
    if (known && !checks) return known->run(flat);
    Capture capture(to);
    const int64_t programs = plan_counts().programs;
    Held result{to.run()};
    if (!result) return capture.finish_after_failure(), nullptr;
    std::shared_ptr<KeptProgram> kept = read_call(capture.tracer, flat, result.p, programs);
    capture.finish();
    if (kept) settle_memory(*kept, flat);
    if (known) check(*known, kept.get());
    else if (kept && kept->program->stage == Stage::Done) {
      if (calls.kept.size() >= kMost) calls.kept.clear();
      calls.kept.push_back(std::move(kept));
    }
    return result.give();
  });
}

PyMethodDef functions[] = {{"pure_calls", slot<pure_calls>, METH_NOARGS},
                           {"pure_call", slot<pure_call>, METH_VARARGS},
                           {}};

}  // namespace

void add_pure_calls(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace flambeau
