// What becomes of a leaf's gradient when it is complete: `.grad` takes it, a copy of it, or the sum with what it holds.
#include "../core/memory_format.h"
#include "node.h"

namespace flambeau {

static OpHandle op_add{"add"}, op_clone{"clone"};

// `.grad` is `now` from now on. Assigning comes last: releasing the old one may run Python.
static void replace_grad(Tensor& leaf, TensorRef now) {
  if (Tensor* old = std::exchange(leaf.grad, now.detach())) release(old);
}

// Whether nobody else holds memory that still waits for its values.
static bool alone_waits(const Tensor& t) {
  return t.flags & kPending && !(t.flags & kDispatch) && t.refcount == 1 && t.storage->refcount == 1 && !t.weakrefs &&
         !may_overlap(t);
}

// The first gradient: the very tensor where nobody else holds it.
static void set_grad(Tensor& leaf, TensorRef grad, bool create_graph) {
  const bool ours = unshared(*grad) || alone_waits(*grad);
  if (!create_graph) {
    GradMode off(false);
    grad = laid_out_like(leaf, std::move(grad), ours, tls.free_layout);
  } else if (!ours) {
    grad = invoke(op_clone, {Value(grad.get())});
  }
  hooks.track_object(&leaf);
  leaf.grad = grad.detach();
}

static void add_in_place(Tensor& to, Tensor& grad) {
  if (may_overlap(to))
    runtime_error("backward: .grad of shape ", shape_text(to.shape()),
                  " has elements that share memory (it was expanded), so nothing can be added to it; "
                  "assign a clone() of it");
  GradMode off(false);
  Value args[3] = {Value(&to), Value(&grad), Value(int64_t(1))};
  Call c;
  c.op = &op_add.get();
  c.args = args;
  c.nargs = int(c.op->schema.args.size());
  c.given = &to;
  c.inplace = true;
  execute(c);
  bump_version(to);
}

void accumulate_grad(Tensor& leaf, TensorRef grad, bool create_graph) {
  KeepLock keep;  // two threads may add to one leaf
  if (__builtin_expect((leaf.flags | grad->flags | (leaf.grad ? leaf.grad->flags : 0)) & kDispatch, 0)) {
    hooks.track_object(&leaf);
    TensorRef before = TensorRef::borrow(leaf.grad);  // adding may run Python, which may assign another
    return replace_grad(leaf, before ? invoke(op_add, {Value(before.get()), Value(grad.get())}) : std::move(grad));
  }
  if (!leaf.grad) return set_grad(leaf, std::move(grad), create_graph);
  TensorRef before = TensorRef::borrow(leaf.grad);
  if (create_graph) return replace_grad(leaf, invoke(op_add, {Value(before.get()), Value(grad.get())}));
  add_in_place(*before, *grad);
}

}  // namespace flambeau
