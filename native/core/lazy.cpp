#include "lazy.h"

#include <algorithm>

#include "op.h"
#include "recording.h"

namespace flambeau {
namespace {

OpHandle op_conj{"_conj_physical"}, op_neg{"neg"};

TensorRef run(OpHandle& op, Tensor& t) {
  Value arg(&t);
  Call c;
  c.op = &op.get();
  c.args = &arg;
  c.nargs = 1;
  execute(c);
  return std::move(c.out1);
}

// The tensor whose values are what t's memory holds.
TensorRef without_lazy(const Tensor& t) {
  TensorRef plain = alias(t);
  plain->flags &= uint16_t(~kLazy);
  return plain;
}

// The arguments of a call with copies in place of the lazy ones.
struct Resolved {
  struct Pair {
    Tensor* lazy;
    TensorRef values;
  };
  std::vector<Value> args;
  std::vector<std::vector<Tensor*>> lists;
  std::vector<Pair> pairs;

  explicit Resolved(const Call& c) : args(c.args, c.args + c.nargs) {
    for (Value& v : args) {
      if (v.tag == Tag::Tensor) v.tensor = of(v.tensor);
      if (v.tag != Tag::Tensors) continue;
      std::vector<Tensor*>& list = lists.emplace_back(v.tensors.data, v.tensors.data + v.tensors.size);
      for (Tensor*& t : list) t = of(t);
      v.tensors.data = list.data();
    }
  }
  Tensor* of(Tensor* t) {
    if (!t || !is_lazy(*t)) return t;
    for (const Pair& p : pairs)
      if (p.lazy == t) return p.values.get();
    return pairs.emplace_back(t, resolved(*t)).values.get();
  }
  void give_back(TensorRef& result) const {
    for (const Pair& p : pairs)
      if (result.get() == p.values.get()) result = TensorRef::borrow(p.lazy);
  }
  void written(const Tensor& t, const char* op) const {
    for (const Pair& p : pairs) {
      if (p.values.get() != &t) continue;
      if (!std::ranges::equal(t.shape(), p.lazy->shape())) resize_tensor(*p.lazy, t.shape(), op);
      write_lazy(*p.lazy, t);
    }
  }
};

}  // namespace

TensorRef resolved(const Tensor& t) {
  if (!is_lazy(t)) return TensorRef::borrow(const_cast<Tensor*>(&t));
  TensorRef values = without_lazy(t);
  if (t.flags & kConj) values = run(op_conj, *values);
  if (t.flags & kNeg) values = run(op_neg, *values);
  return values;
}

void write_lazy(Tensor& t, const Tensor& values) {
  TensorRef there = empty(t.shape(), t.dtype, t.device), plain = without_lazy(t);
  copy_into(*there, values);
  there->flags |= t.flags & kLazy;  // what t's memory is to hold: the conjugate of a conjugate is the value
  copy_into(*plain, *resolved(*there));
}

void run_resolved(Call& c) {
  Resolved with(c);
  const Value* args = std::exchange(c.args, with.args.data());
  Tensor* given = std::exchange(c.given, with.of(c.given));
  execute(c);
  if (c.given) with.written(*c.given, c.name());
  else each_written(c, [&](const Tensor& t) { with.written(t, c.name()); });
  with.give_back(c.out1);
  for (TensorRef& result : c.more) with.give_back(result);
  c.args = args;
  c.given = given;
}

}  // namespace flambeau
