#include "row_folds.h"

#include "folds.h"

namespace flambeau {
namespace {

template <class F, DType dtype, Finish finish>
void row_fold(const char* row, int64_t n, char* to) {
  const Fold<F> fold{to, dtype, finish, n};
  const auto* x = reinterpret_cast<const typename F::T*>(row);
  auto acc = fold.init();
  for (int64_t k = 0; k < n; k += kRun) fold.block(acc, x + k, std::min(kRun, n - k), k);
  fold.store(0, acc);
}

template <class T, DType dtype>
RowFold of(std::string_view op) {
  if (op == "sum") return row_fold<Add<T, double, Same>, dtype, Finish::None>;
  if (op == "mean") return row_fold<Add<T, double, Same>, dtype, Finish::Divide>;
  if (op == "amax") return row_fold<Maximum<T>, dtype, Finish::None>;
  if (op == "amin") return row_fold<Minimum<T>, dtype, Finish::None>;
  return nullptr;
}

}  // namespace

RowFold find_row_fold(std::string_view op, DType dtype) {
  if (dtype == DType::Float32) return of<float, DType::Float32>(op);
  if (dtype == DType::Float64) return of<double, DType::Float64>(op);
  return nullptr;
}

}  // namespace flambeau
