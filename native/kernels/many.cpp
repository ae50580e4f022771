// Operators over lists of tensors: what they take. The CPU goes through the list in Python (src/flambeau/ops/many.py);
// native/cuda/many.cpp has the launches for many at once.
#include <cmath>

#include "../core/call.h"

namespace flambeau {
namespace {

bool is_wide_real(DType d) { return is_floating(d) && item_size(d) > 1; }

void check_real(const Call& c, const Tensor& t, size_t k) {
  if (!is_wide_real(t.dtype))
    runtime_error(c.name(), ": tensor ", k, " is ", dtype_name(t.dtype), "; expected real numbers of 16 bits or more");
}

void infer_norms(Call& c) {
  const auto tensors = c.tensors(0);
  if (tensors.empty()) value_error(c.name(), ": the list of tensors is empty");
  const Tensor& first = *tensors[0];
  const double ord = c.real(1);
  for (size_t k = 0; k < tensors.size(); ++k) {
    check_real(c, *tensors[k], k);
    if (tensors[k]->dtype != first.dtype)
      runtime_error(c.name(), ": tensor 0 is ", dtype_name(first.dtype), " and tensor ", k, " is ",
                    dtype_name(tensors[k]->dtype), "; give those of one dtype");
    if (tensors[k]->numel == 0 && (ord < 0 || std::isinf(ord)))
      runtime_error(c.name(), ": the ", ord, " norm of no elements is not defined, and tensor ", k, " is empty");
  }
  const int64_t n = int64_t(tensors.size());
  c.output(Dims(&n, 1), first.dtype, first.device);
}

void infer_scale(Call& c) {
  const auto tensors = c.tensors(0);
  const Tensor& factor = c.tensor(1);
  if (factor.ndim != 0 || !is_wide_real(factor.dtype))
    runtime_error(c.name(), ": the factor is ", dtype_name(factor.dtype), " of shape ", shape_text(factor.shape()),
                  "; expected one real number without dimensions");
  for (size_t k = 0; k < tensors.size(); ++k) {
    check_real(c, *tensors[k], k);
    if (!takes_writes(*tensors[k]))
      runtime_error(c.name(), ": tensor ", k,
                    " cannot be written to: its elements share memory (it is expanded) or its memory is read-only");
  }
}

const Primitives rows{{"_norms", infer_norms, python_kernel}, {"_scale_all", infer_scale, python_kernel}};

}  // namespace
}  // namespace flambeau
