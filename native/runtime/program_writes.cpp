// How a program writes down calls that write: to memory from outside, or over values of its own, which then are others.
#include <algorithm>

#include "../core/recording.h"
#include "../kernels/cast.h"
#include "program.h"

namespace flambeau {
namespace {

bool fresh(const Tensor& t) { return t.storage && is_pending(*t.storage) && !pending_of(*t.storage); }

// Whether it is memory of this library, with values in it, that nobody else has the address of.
bool is_own_memory(const Tensor& t) {
  return !(t.flags & kPending) && t.storage && owner_of(t.storage)->resizable && !t.storage->readonly;
}
bool writes_own_memory(const Call& c) {
  bool good = true;
  each_written(c, [&](const Tensor& t) { good &= is_own_memory(t); });
  return good;
}

// It is no such call after all.
bool drop_results(Call& c) {
  c.out1 = TensorRef();
  c.more.clear();
  return false;
}

// Whether an argument shows memory of self otherwise than self does.
bool reads_self_elsewhere(const Call& c, const Tensor& self) {
  const Storage* memory = owner_of(self.storage);
  auto elsewhere = [&](const Tensor& t) {
    return t.storage && owner_of(t.storage) == memory &&
           !(t.data == self.data && t.dtype == self.dtype && laid_out(t, self.shape(), self.stride()));
  };
  for (int k = 0; k < c.nargs; ++k) {
    const Value& v = c.args[k];
    if (v.tag == Tag::Tensor && elsewhere(*v.tensor)) return true;
    for (int64_t j = 0; v.tag == Tag::Tensors && j < v.tensors.size; ++j)
      if (v.tensors.data[j] && elsewhere(*v.tensors.data[j])) return true;
  }
  return false;
}

}  // namespace

bool Program::add(Call& c) {
  if (c.given && !c.op->writes_self) return c.inplace && takes_all(c) && add_inplace(c);
  if (!can_describe(c) || !takes_all(c)) return false;
  if (c.op->writes_self && c.tensor(0).flags & kPending) return fill_part(c);
  if (!writes_own_memory(c)) return false;
  describe(c);
  bool any = c.op->writes_self || (c.nout() == 0 && c.op->writes_more);
  for (int k = 0; k < c.nout(); ++k) any |= fresh(c.out(k));
  if (!any) return true;  // views and the arguments themselves: nothing is left to do
  Entry e = begin(c, Form::Plain);
  note_writes(c, e);
  if (!c.op->writes_self) write_results(c, e);
  end(e);
  return true;
}

// An in-place form. It is written down as the operator, which makes something new, and what becomes of that; or, where
// the operator would have to copy all of self for it, as it is.
bool Program::add_inplace(Call& c) {
  Tensor& self = *c.given;
  const bool outside = !(self.flags & kPending);
  if (may_overlap(self) || !(outside ? is_own_memory(self) : ours(self)) || reads_self_elsewhere(c, self)) return false;
  struct Again {
    Call& c;
    Tensor* given;
    ~Again() { c.given = given, c.inplace = true; }
  } again{c, &self};
  const bool as_it_is = outside && !c.op->elementwise;
  if (!as_it_is) c.given = nullptr, c.inplace = false;
  if (!can_describe(c) || !writes_own_memory(c)) return false;
  describe(c);
  if (c.nout() != 1) return drop_results(c);
  if (c.out1.get() == &self) {
    if (c.op->inplace_argument >= 0) return drop_results(c);  // it has no form of that name
    Entry e = begin(c, Form::Inplace);
    note_writes(c, e);
    end(e);
    return true;
  }
  const Tensor& made = c.out();
  if (!fresh(made) || made.dtype != self.dtype || !std::ranges::equal(made.shape(), self.shape()))
    return drop_results(c);
  if (outside) write_outside(c);
  else if (laid_out(made, self.shape(), self.stride()) && self.offset() == 0 &&
           made.storage->nbytes == self.storage->nbytes)
    write_over(c, self);
  else if (!write_part(c, self)) return drop_results(c);
  c.out1 = TensorRef::borrow(&self);
  return true;
}

// A call whose result is written to memory from outside, where its first argument lies.
void Program::write_outside(Call& c) {
  Entry e = begin(c, Form::Stored);
  note_writes(c, e);
  slots.push_back({nullptr, int(entries.size())});
  e.nresults = 1;
  e.results = arena.take<int>(1);
  e.results[0] = note_use(c.out(), int(slots.size()) - 1);
  end(e);
}

// From this entry on the memory of self, pending, has another value; `whole` is laid out as that.
void Program::replace_value(Entry& e, Tensor& whole) {
  Awaited* a = awaited(*whole.storage);
  slots[size_t(a->slot)].storage = nullptr;
  a->slot = int(slots.size());
  slots.push_back({whole.storage, int(entries.size())});
  e.nresults = 1;
  e.results = arena.take<int>(1);
  e.results[0] = use_of(whole);
}

// A call whose result is all of self, a value of this program.
void Program::write_over(Call& c, Tensor& self) {
  Entry e = begin(c, Form::Plain);
  note_writes(c, e);
  replace_value(e, self);
  end(e);
}

// The value whose memory `part` shows, as it was made; null: that is not all of the memory.
TensorRef Program::whole_of(const Tensor& part) {
  const Use& made = made_as(awaited(*part.storage)->slot);
  if (made.offset || made.dtype != part.dtype || made.device != part.device ||
      count(made.sizes()) * item_size(made.dtype) != int64_t(part.storage->nbytes))
    return {};
  TensorRef whole = bare_tensor(made.dtype, made.device, made.sizes(), made.strides(), kPending);
  if (may_overlap(*whole)) return {};
  retain(whole->storage = part.storage);
  return whole;
}

// A call whose result goes to a part of a value of this program.
bool Program::write_part(Call& c, Tensor& part) {
  if (!whole_of(part)) return false;
  Entry e = begin(c, Form::Plain);
  note_writes(c, e);
  write_results(c, e);
  end(e);
  return put_part(part, Value(c.out1.get()));
}

// copy_, fill_ and zero_ on a value of this program, or a part of it.
bool Program::fill_part(Call& c) {
  Tensor& part = c.tensor(0);
  const std::string& name = c.op->name;
  const bool copies = name == "copy_", fills = name == "fill_scalar_";
  if (!ours(part) || may_overlap(part) || !(copies || fills || name == "zero_")) return false;
  if (fills) check_fits(c.scalar(1), part.dtype);
  describe(c);
  if (put_part(part, copies || fills ? c.args[1] : Value(0))) return true;
  return drop_results(c);
}

// `value`, a tensor or a number, is written to a part.
bool Program::put_part(Tensor& part, const Value& value) {
  static OpHandle op_part{"_with_part"}, op_number{"_with_number"};
  TensorRef whole = whole_of(part);
  if (!whole) return false;
  const Value args[] = {Value(whole.get()), Value(&part), value};
  Call c;
  c.op = &(value.tag == Tag::Tensor ? op_part : op_number).get();
  c.args = args;
  c.nargs = 3;
  Entry e = begin(c, Form::Plain);
  replace_value(e, *whole);
  end(e);
  return true;
}

}  // namespace flambeau
