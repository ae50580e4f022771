// Connectionist temporal classification: the forward recursion over alignments and its gradient (Graves et al. 2006).
#include <cmath>
#include <limits>
#include <vector>

#include "../core/call.h"
#include "steady.h"

namespace flambeau {
namespace {

// The labels of one sequence with blanks between them: blank, l1, blank, l2, … blank.
struct Labels {
  const int64_t* labels;
  int64_t count, blank;
  int64_t width() const { return 2 * count + 1; }
  int64_t operator[](int64_t s) const { return s & 1 ? labels[s / 2] : blank; }
  // A label may directly follow the label before it, unless both are the same.
  bool jumps(int64_t s) const { return (s & 1) && s > 1 && labels[s / 2] != labels[s / 2 - 1]; }
};

template <class T>
constexpr T kNever = -std::numeric_limits<T>::infinity();

template <class T>
T log_sum(T a, T b, T c = kNever<T>) {
  T top = std::max(a, std::max(b, c));
  if (top == kNever<T>) return top;
  return std::log(std::exp(a - top) + std::exp(b - top) + std::exp(c - top)) + top;
}

struct Problem {
  int64_t steps, batch, classes, width;  // width: of the widest row of alpha
  Dims starts, inputs, targets;
  int64_t blank;
  const int64_t* labels = nullptr;  // of the snapshot that the kernel takes
  Labels of(int64_t n) const { return {labels + starts[n], targets[n], blank}; }
};

// Arguments from position `at` on: targets, starts, input_lengths, target_lengths, blank.
Problem problem_of(const Call& c, const Tensor& x, int at, const Tensor& labels) {
  Problem p{x.size(0),      x.size(1),      x.size(2),         1,      c.ints(at + 1),
            c.ints(at + 2), c.ints(at + 3), c.integer(at + 4)};
  const int64_t n = p.batch;
  if (int64_t(p.starts.size()) != n || int64_t(p.inputs.size()) != n || int64_t(p.targets.size()) != n)
    runtime_error(c.name(), ": expected ", n, " starts and lengths");
  for (int64_t k = 0; k < n; ++k) {
    p.width = std::max(p.width, 2 * p.targets[k] + 1);
    if (p.targets[k] < 0 || p.starts[k] < 0 || p.starts[k] + p.targets[k] > labels.numel || p.inputs[k] < 0 ||
        p.inputs[k] > p.steps)
      runtime_error(c.name(), ": a length lies outside the tensors given");
  }
  return p;
}

void check(const Call& c, const Tensor& x, const Tensor& labels) {
  if (x.ndim != 3 || (x.dtype != DType::Float32 && x.dtype != DType::Float64) || labels.dtype != DType::Int64)
    runtime_error(c.name(), ": expected float32 or float64 log_probs [T, N, C] and int64 targets, got ",
                  dtype_name(x.dtype), " ", shape_text(x.shape()), " and ", dtype_name(labels.dtype));
}

template <class T>
T run_forward(const Problem& p, const T* x, int64_t n, T* alpha) {
  const Labels l = p.of(n);
  const int64_t width = l.width(), row = p.batch * p.classes, length = p.inputs[n];
  x += n * p.classes;
  std::fill_n(alpha, p.steps * p.width, kNever<T>);
  if (length == 0) return l.count == 0 ? T(0) : -kNever<T>;
  alpha[0] = x[p.blank];
  if (width > 1) alpha[1] = x[l[1]];
  for (int64_t t = 1; t < length; ++t) {
    const T *before = alpha + (t - 1) * p.width, *emitted = x + t * row;
    T* now = alpha + t * p.width;
    for (int64_t s = 0; s < width; ++s)
      now[s] =
          emitted[l[s]] + log_sum(before[s], s ? before[s - 1] : kNever<T>, l.jumps(s) ? before[s - 2] : kNever<T>);
  }
  const T* last = alpha + (length - 1) * p.width;
  return -log_sum(last[width - 1], width > 1 ? last[width - 2] : kNever<T>);
}

// --- _ctc_loss(log_probs, targets, starts, input_lengths, target_lengths, blank, zero_infinity) -> (loss, log_alpha)

void infer_ctc(Call& c) {
  Tensor &x = c.tensor(0), &labels = c.tensor(1);
  check(c, x, labels);
  const Problem& p = c.hand_over(problem_of(c, x, 1, labels));
  int64_t losses[] = {p.batch}, rows[] = {p.batch, p.steps, p.width};
  c.output(losses, x.dtype, x.device);
  c.output(rows, x.dtype, x.device);
}

template <class T>
void forward(Call& c) {
  TensorRef x = contiguous(c.tensor(0)), labels = snapshot(c.tensor(1), DType::Int64);
  Problem& p = c.handed<Problem>();
  p.labels = labels->ptr<int64_t>();
  T *loss = c.out(0).ptr<T>(), *alpha = c.out(1).ptr<T>();
  const int64_t each = p.steps * p.width;
  LockRelease lock(p.batch * each * 30);
  parallel_for(p.batch, std::max<int64_t>(1, 1024 / std::max<int64_t>(1, each)), [&](int64_t n, int64_t end) {
    for (; n < end; ++n) loss[n] = run_forward(p, x->ptr<T>(), n, alpha + n * each);
  });
}
void cpu_ctc(Call& c) { c.tensor(0).dtype == DType::Float64 ? forward<double>(c) : forward<float>(c); }

// --- _ctc_loss_backward(grad, log_probs, targets, starts, input_lengths, target_lengths, blank, loss, log_alpha,
// zero_infinity)
//
// With respect to logits whose log-softmax log_probs is, as PyTorch's: the softmax less the share of alignments that
// emit the class there. The log-softmax below passes it on unchanged, because it sums to zero over the classes.

void infer_ctc_backward(Call& c) {
  check(c, c.tensor(1), c.tensor(2));
  c.hand_over(problem_of(c, c.tensor(1), 2, c.tensor(2)));
  c.output(c.tensor(1).shape(), c.tensor(1).dtype, c.tensor(1).device);
}

template <class T>
void one_backward(const Problem& p, const T* x, int64_t n, T g, T loss, const T* alpha, bool zero_infinity, T* to) {
  const Labels l = p.of(n);
  const int64_t width = l.width(), row = p.batch * p.classes, length = p.inputs[n];
  x += n * p.classes;
  to += n * p.classes;
  for (int64_t t = 0; t < p.steps; ++t) std::fill_n(to + t * row, p.classes, T(0));
  if (zero_infinity && loss == std::numeric_limits<T>::infinity()) return;
  std::vector<T> beta(size_t(width), kNever<T>), next(size_t(width), kNever<T>), share(size_t(p.classes));
  for (int64_t t = length - 1; t >= 0; --t) {
    interruption_point();
    const T *emitted = x + t * row, *a = alpha + t * p.width;
    for (int64_t s = 0; s < width; ++s) {
      const bool end = t == length - 1;
      const T one = s + 1 < width ? next[s + 1] : kNever<T>;
      const T two = s + 2 < width && l.jumps(s + 2) ? next[s + 2] : kNever<T>;
      beta[s] = end ? (s >= width - 2 ? emitted[l[s]] : kNever<T>) : emitted[l[s]] + log_sum(next[s], one, two);
    }
    std::fill(share.begin(), share.end(), kNever<T>);
    for (int64_t s = 0; s < width; ++s) share[l[s]] = log_sum(share[l[s]], a[s] + beta[s]);
    for (int64_t k = 0; k < p.classes; ++k)
      to[t * row + k] = (std::exp(emitted[k]) - std::exp(share[k] + loss - emitted[k])) * g;
    std::swap(beta, next);
  }
}

template <class T>
void backward(Call& c) {
  TensorRef g = contiguous(c.tensor(0)), x = contiguous(c.tensor(1)), labels = snapshot(c.tensor(2), DType::Int64),
            loss = contiguous(c.tensor(7)), alpha = contiguous(c.tensor(8));
  Problem& p = c.handed<Problem>();
  p.labels = labels->ptr<int64_t>();
  const int64_t each = p.steps * p.width;
  LockRelease lock(p.batch * each * 60);
  parallel_for(p.batch, std::max<int64_t>(1, 1024 / std::max<int64_t>(1, each)), [&](int64_t n, int64_t end) {
    for (; n < end; ++n)
      one_backward(p, x->ptr<T>(), n, g->ptr<T>()[n], loss->ptr<T>()[n], alpha->ptr<T>() + n * each, c.boolean(9),
                   c.out().ptr<T>());
  });
}
void cpu_ctc_backward(Call& c) { c.tensor(1).dtype == DType::Float64 ? backward<double>(c) : backward<float>(c); }

const Primitives rows{
    {"_ctc_loss", infer_ctc, cpu_ctc},
    {"_ctc_loss_backward", infer_ctc_backward, cpu_ctc_backward},
};

}  // namespace
}  // namespace flambeau
