// layer_norm and rms_norm, forward and fused backward: each row by its own mean and deviation. The backward kernel
// computes them again from the input, which is in cache anyway, so nothing has to be saved.
#include "norm.h"
#include "norm_loops.h"
#include "row_loops.h"
#include "scratch.h"

namespace flambeau {

static NormLoops loops_of_level[2][3];
NormLoopsOfLevel::NormLoopsOfLevel(int level, const NormLoops& floats, const NormLoops& float16,
                                   const NormLoops& bfloat16) {
  loops_of_level[level][0] = floats;
  loops_of_level[level][1] = float16;
  loops_of_level[level][2] = bfloat16;
}
const NormLoops& norm_loops(DType dtype) {
  static const NormLoops* best = loops_of_level[cpu_level() > 0 && loops_of_level[1][0].forward ? 1 : 0];
  return best[row_dtype(dtype)];
}

}  // namespace flambeau

namespace flambeau::norm {
namespace {

void check_normalized_shape(const Call& c, const Tensor& x, Dims shape) {
  check_floating(c, x);
  if (shape.empty()) runtime_error(c.name(), ": normalized_shape is empty; name at least the last dimension");
  if (x.ndim < int(shape.size()) || !std::equal(shape.begin(), shape.end(), x.sizes + x.ndim - shape.size()))
    runtime_error(c.name(), ": the input's last dimensions must be normalized_shape=", shape_text(shape),
                  ", got input ", shape_text(x.shape()));
}
double epsilon(const Call& c, int k, DType t) {
  if (c.has(k)) return c.real(k);
  return t == DType::Float64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;  // of the type computed in
}
void infer_as(Call& c, DType dtype) {
  Tensor& x = c.tensor(0);
  check_normalized_shape(c, x, c.ints(1));
  check_parameter(c, 2, "weight", c.ints(1));
  if (c.nargs > 4) check_parameter(c, 3, "bias", c.ints(1));
  c.output(x.shape(), dtype, x.device);
}
void infer_layer_norm(Call& c) { infer_as(c, c.tensor(0).dtype); }
void infer_layer_norm_to(Call& c) { infer_as(c, c.args[5].dtype); }
template <class T, bool centred>
void norm_row(const T* x, const T* w, const T* b, int64_t n, double eps, T* y) {
  Statistics s = statistics<T, centred>(x, n, eps);
  const T mean = T(s.mean), rstd = T(s.rstd);
  each<T>(n, [&](int64_t i, int k) {
    const Vector<T> v = (take(x + i, k) - mean) * rstd * take(w + i, k);
    give<T>(y + i, b ? v + take(b + i, k) : v, k);
  });
}
template <bool centred>
void cpu_layer_norm(Call& c) {
  Tensor& given = c.tensor(0);
  if (!given.numel) return;
  const int64_t n = count(c.ints(1)), m = given.numel / n;
  const double eps = epsilon(c, centred ? 4 : 3, given.dtype);
  visit_rows(c.name(), given.dtype, [&]<class T>() {
    TensorRef x = contiguous(given);
    const Tensor* bias = centred ? c.optional_tensor(3) : nullptr;
    std::vector<T> weight = parameter<T>(c.optional_tensor(2), n, T(1)), shift = parameter<T>(bias, bias ? n : 0, T(0));
    Tensor &result = c.out();
    RowReader<T> in(*x);
    RowWriter<T> out(result);
    {
      LockRelease lock(given.numel * 2);
      parallel_for(m, std::max<int64_t>(1, kGrain / 2 / n), [&](int64_t begin, int64_t end) {
        if constexpr (std::is_same_v<T, float>)
          if (n <= kLongestNormRow && result.dtype == given.dtype) {
            for (int64_t r = begin; r < end; ++r)
              norm_loops(given.dtype).forward(in.data + r * n * in.item, weight.data(), bias ? shift.data() : nullptr,
                                              n, eps, centred, out.data + r * n * out.item);
            return;
          }
        std::vector<T> a(in.direct ? 0 : size_t(n)), b(out.direct ? 0 : size_t(n));
        for (int64_t r = begin; r < end; ++r) {
          const T* p = in.at(r * n, n, a.data());
          T* y = out.at(r * n, b.data());
          norm_row<T, centred>(p, weight.data(), bias ? shift.data() : nullptr, n, eps, y);
          out.done(r * n, n, y);
        }
      });
    }
  });
}

// _layer_norm_backward(grad, input, normalized_shape, weight, eps, centred, sums) -> (input's, weight's, bias's
// gradient); the last two are zero without `sums`
void infer_layer_norm_backward(Call& c) {
  Tensor& x = c.tensor(1);
  check_normalized_shape(c, x, c.ints(2));
  check_same_shape(c, c.tensor(0), x);
  check_parameter(c, 3, "weight", c.ints(2));
  c.output_like(x);
  DType t = c.optional_tensor(3) ? c.tensor(3).dtype : x.dtype;
  c.output(c.ints(2), t, x.device);
  c.output(c.ints(2), t, x.device);
}
template <class T, bool centred>
void norm_row_backward(const T* g, const T* x, const T* w, int64_t n, double eps, T* dx, T* dw, T* db) {
  Statistics s = statistics<T, centred>(x, n, eps);
  const T mean = T(s.mean), rstd = T(s.rstd);
  const T along = T(sum_over<T>(n, [&](int64_t i, int k) {
    return take(g + i, k) * take(w + i, k) * (take(x + i, k) - mean);
  }) * s.rstd / double(n));
  const T level = centred ? T(row_dot(g, w, n) / double(n)) : T(0);
  each<T>(n, [&](int64_t i, int k) {
    Vector<T> gi = take(g + i, k), hat = (take(x + i, k) - mean) * rstd;
    if (dw) {
      give<T>(dw + i, take(dw + i, k) + gi * hat, k);
      give<T>(db + i, take(db + i, k) + gi, k);
    }
    give<T>(dx + i, rstd * (gi * take(w + i, k) - level - hat * along), k);
  });
}

// Gradients and inputs as rows, and where their gradients go.
template <class T, bool centred>
struct BackwardRows {
  RowReader<T> gs, xs;
  RowWriter<T> out;
  const T* w;
  int64_t n;
  double eps;
  DType dtype;
  bool in_place;         // whether loops read and write the memory itself
  int64_t together = 1;  // rows: both stay in the first-level cache
  BackwardRows(const Tensor& grad, const Tensor& input, const T* w, int64_t n, double eps, Tensor& to)
      : gs(grad), xs(input), out(to), w(w), n(n), eps(eps), dtype(input.dtype),
        in_place(std::is_same_v<T, float> && n <= kLongestNormRow && grad.dtype == input.dtype) {
    if (in_place && n <= 1024) together = 2;
  }
  // Buffers for rows of another type than T: gradient, input, result.
  std::vector<T> room() const { return std::vector<T>(in_place ? 0 : size_t(3 * n)); }
  // Of row r, or of it and the next one.
  void run(int64_t r, int64_t rows, T* room, T* dw, T* db) const {
    if constexpr (std::is_same_v<T, float>)
      if (in_place)
        return norm_loops(dtype).backward(gs.data + r * n * gs.item, xs.data + r * n * xs.item, w, rows, n, eps,
                                          centred, out.data + r * n * out.item, dw, db);
    T* dx = out.at(r * n, room + 2 * n);
    norm_row_backward<T, centred>(gs.at(r * n, n, room), xs.at(r * n, n, room + n), w, n, eps, dx, dw, db);
    out.done(r * n, n, dx);
  }
};

// The sums that the pieces made, for weight and bias behind each other, as the gradients of weight and bias.
void add_pieces(double* total, int64_t pieces, int64_t n, char* grad_weight, char* grad_bias,
                DType dtype) {
  parallel_for(n, std::max<int64_t>(64, kGrain / 2 / pieces), [&](int64_t begin, int64_t end) {
    for (int64_t first : {int64_t(0), n}) {
      double* sum = total + first;
      for (int64_t piece = 1; piece < pieces; ++piece)
        for (int64_t i = begin; i < end; ++i) sum[i] += sum[2 * n * piece + i];
      char* to = first ? grad_bias : grad_weight;
      for (int64_t i = begin; i < end; ++i) put<double>(to, dtype, i, sum[i]);
    }
  });
}

template <class T, bool centred>
void layer_norm_backward(const BackwardRows<T, centred>& of, int64_t m, char* grad_weight, char* grad_bias,
                         DType dtype) {
  const int64_t n = of.n;
  // each piece of the rows sums its share of the parameters' gradients
  const int64_t pieces = std::clamp<int64_t>(m * n / kGrain, 1, std::clamp<int64_t>(m / 32, 1, 16));
  const int64_t apart = (n + 15) / 16 * 16 + 48;  // of the two sums: not at one place of two pages
  double* total = scratch<double>(kScratchA, 2 * n * pieces);
  std::fill_n(total, 2 * n * pieces, 0.0);
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> room = of.room(), part(size_t(2 * apart), T(0));
    T *const dw = part.data(), *const db = dw + apart;
    for (int64_t piece = begin; piece < end; ++piece) {
      double* sum = total + 2 * n * piece;
      const int64_t first = m * piece / pieces, last = m * (piece + 1) / pieces;
      for (int64_t r = first; r < last; r += of.together) {
        const int64_t rows = std::min(of.together, last - r);
        of.run(r, rows, room.data(), dw, db);
        if ((r + rows - first) % 64 == 0 || r + rows == last) {
          for (int64_t i = 0; i < n; ++i) sum[i] += double(dw[i]), sum[n + i] += double(db[i]);
          std::ranges::fill(part, T(0));
        }
      }
    }
  });
  add_pieces(total, pieces, n, grad_weight, grad_bias, dtype);
}
// The input's gradient alone.
template <class T, bool centred>
void input_backward(const BackwardRows<T, centred>& of, int64_t m) {
  parallel_for(m, std::max<int64_t>(1, kGrain / 4 / of.n), [&](int64_t r, int64_t end) {
    std::vector<T> room = of.room();
    for (; r < end; r += of.together)
      of.run(r, std::min(of.together, end - r), room.data(), nullptr, nullptr);
  });
}
template <class T, bool centred>
void backward_rows(Call& c, const Tensor& grad, const Tensor& input) {
  const int64_t n = count(c.ints(2));
  std::vector<T> weight = parameter<T>(c.optional_tensor(3), n, T(1));
  const BackwardRows<T, centred> of(grad, input, weight.data(), n, epsilon(c, 4, input.dtype), c.out(0));
  LockRelease lock(input.numel * 2);
  if (c.boolean(6)) layer_norm_backward(of, input.numel / n, c.out(1).data, c.out(2).data, c.out(1).dtype);
  else input_backward(of, input.numel / n);
}
void cpu_layer_norm_backward(Call& c) {
  Tensor& given = c.tensor(1);
  if (!given.numel || !c.boolean(6)) {
    fill(c.out(1), Scalar(0));
    fill(c.out(2), Scalar(0));
  }
  if (!given.numel) return;
  visit_rows(c.name(), given.dtype, [&]<class T>() {
    TensorRef x = contiguous(given), g = rows_of<T>(c.tensor(0), given.dtype);
    (c.boolean(5) ? backward_rows<T, true> : backward_rows<T, false>)(c, *g, *x);
  });
}

const Primitives rows{
    {"layer_norm", infer_layer_norm, cpu_layer_norm<true>, Images::Read},
    {"rms_norm", infer_layer_norm, cpu_layer_norm<false>, Images::Read},
    {"_layer_norm_to", infer_layer_norm_to, cpu_layer_norm<true>, Images::Read},
    {"_layer_norm_backward", infer_layer_norm_backward, cpu_layer_norm_backward, Images::Read},
};

}  // namespace
}  // namespace flambeau::norm
