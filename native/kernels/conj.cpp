// Lazy conjugates and negatives: views whose memory holds the other value (core/lazy.h).
#include "../core/call.h"

namespace flambeau {
namespace {

void toggled(Call& c, uint16_t flag) {
  TensorRef r = alias(c.tensor(0));
  r->flags ^= flag;
  c.view(std::move(r));
}
void infer_conj(Call& c) {
  if (is_complex(c.tensor(0).dtype)) toggled(c, kConj);
  else c.push(TensorRef::borrow(&c.tensor(0)));
}
void infer_neg_view(Call& c) {
  const Tensor& t = c.tensor(0);
  if (t.dtype == DType::Bool) runtime_error(c.name(), ": a bool has no negative; use logical_not() or ~");
  if (is_float8(t.dtype))
    not_implemented(c.name(), ": not implemented for ", dtype_name(t.dtype),
                    ", which is only stored; convert it first");
  toggled(c, kNeg);
}

const Primitives rows{{"conj", infer_conj, nullptr}, {"_neg_view", infer_neg_view, nullptr}};

}  // namespace
}  // namespace flambeau
