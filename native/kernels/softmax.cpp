// softmax and log_softmax along one dimension, and their fused backward kernels.
#include "../core/machine.h"
#include "elementwise.h"
#include "fibres.h"
#include "reduce.h"
#include "row_loops.h"
#include "rows.h"
#include "scratch.h"

namespace flambeau {
namespace {

RowLoops loops_of_level[2];  // zero before any static constructor runs

// Without `dim`, functional softmax takes dimension 0 of 0-, 1- and 3-dimensional input, else 1.
int64_t softmax_dim(const Call& c, int k, const Tensor& x) {
  if (!c.has(k)) return x.ndim == 0 || x.ndim == 1 || x.ndim == 3 ? 0 : 1;
  return c.dim(k, x.ndim);
}

// Columns of a tile that is worth keeping in the second-level cache, at most `most`.
int64_t tile_width(const Fibres& f, int64_t most) {
  return std::clamp<int64_t>(65536 / std::max<int64_t>(f.n, 1) / 16 * 16, 16,
                             std::min<int64_t>(512, std::max<int64_t>(most, 16)));
}

template <class T, bool log>
void softmax_row(const T* x, T* y, int64_t n) {
  if constexpr (std::is_same_v<T, float>) return row_loops().softmax(x, y, 1, n, log);
  const T top = row_max(x, n);
  const double sum = exp_sum(x, log ? nullptr : y, top, n);
  if constexpr (log) {
    const T shift = T(std::log(sum));
    each<T>(n, [&](int64_t i, int k) { give<T>(y + i, take(x + i, k) - top - shift, k); });
  } else {
    const T scale = T(1 / sum);
    each<T>(n, [&](int64_t i, int k) { give<T>(y + i, take(y + i, k) * scale, k); });
  }
}

// A tile: n rows of w columns, contiguous, in place; each column is one softmax.
template <class T, bool log>
void softmax_tile(T* x, int64_t n, int64_t w, T* top, T* sum) {
  std::copy(x, x + w, top);
  for (int64_t r = 1; r < n; ++r) {
    const T* row = x + r * w;
    each<T>(w, [&](int64_t j, int k) {
      Vector<T> v = take(row + j, k), m = take(top + j, k);
      give<T>(top + j, (v > m) | (v != v) ? v : m, k);
    });
  }
  std::fill(sum, sum + w, T(0));
  for (int64_t r = 0; r < n; ++r) {
    T* row = x + r * w;
    columns_exp(row, top, sum, row, w, log);
  }
  if constexpr (log) logarithms(sum, w);
  else
    for (int64_t j = 0; j < w; ++j) sum[j] = T(1) / sum[j];
  for (int64_t r = 0; r < n; ++r) {
    T* row = x + r * w;
    each<T>(w, [&](int64_t j, int k) {
      Vector<T> v = take(row + j, k), s = take(sum + j, k);
      give<T>(row + j, log ? v - s : v * s, k);
    });
  }
}

// Few rows side by side are laid one after the other for their loops.
constexpr int64_t kFewInner = 16, kFewGradients = 8;
// f(first element of a piece, elements of each row in it): so many at once that a buffer holds them.
constexpr int64_t kPiece = 1024;
template <class F>
void each_piece(const Fibres& f, F&& piece) {
  const int64_t together = kPiece / f.inner;
  for (int64_t r = 0; r < f.n; r += together) piece(r, std::min(together, f.n - r));
}
template <class T>
void lay_rows(const RowReader<T>& in, const Fibres& f, int64_t first, T* rows) {
  T buffer[kPiece];
  each_piece(f, [&](int64_t r, int64_t m) {
    const T* from = in.at(first + r * f.inner, m * f.inner, buffer);
    for (int64_t j = 0; j < f.inner; ++j)
      for (int64_t i = 0; i < m; ++i) rows[j * f.n + r + i] = from[i * f.inner + j];
  });
}
template <class T>
void put_rows(const T* rows, const Fibres& f, int64_t first, const RowWriter<T>& out) {
  T buffer[kPiece];
  each_piece(f, [&](int64_t r, int64_t m) {
    T* to = out.at(first + r * f.inner, buffer);
    for (int64_t j = 0; j < f.inner; ++j)
      for (int64_t i = 0; i < m; ++i) to[i * f.inner + j] = rows[j * f.n + r + i];
    out.done(first + r * f.inner, m * f.inner, to);
  });
}
template <class T, bool log>
void softmax_turned(const RowReader<T>& in, const RowWriter<T>& out, const Fibres& f) {
  const int64_t n = f.n * f.inner;
  parallel_for(f.outer, std::max<int64_t>(1, kGrain / 4 / n), [&](int64_t u, int64_t end) {
    T* rows = scratch<T>(kScratchA, n);
    for (; u < end; ++u) {
      lay_rows(in, f, u * n, rows);
      for (int64_t j = 0; j < n; j += f.n) softmax_row<T, log>(rows + j, rows + j, f.n);
      put_rows(rows, f, u * n, out);
    }
    trim_scratch();
  });
}
// The columns of `together` blocks side by side in one tile.
template <class T, bool log>
void softmax_blocks(const RowReader<T>& in, const RowWriter<T>& out, const Fibres& f, int64_t together) {
  const int64_t tiles = (f.outer + together - 1) / together, inner = f.inner, block = f.n * inner;
  constexpr int64_t item = sizeof(T);
  parallel_for(tiles, std::max<int64_t>(1, kGrain / 4 / (block * together)), [&](int64_t u, int64_t end) {
    std::vector<T> tile(size_t(block * together)), top(size_t(2 * together * inner));
    for (; u < end; ++u) {
      const int64_t blocks = std::min(together, f.outer - u * together), w = blocks * inner;
      for (int64_t r = 0; r < f.n; ++r) {
        T* to = tile.data() + r * w;
        const char* from = in.data + (u * together * block + r * inner) * in.item;
        if (in.direct)
          move_rows<Moved<T>>(reinterpret_cast<char*>(to), item, inner * item, from, item, block * item, inner, blocks);
        else
          for (int64_t b = 0; b < blocks; ++b) in.load(to + b * inner, from + b * block * in.item, in.item, inner);
      }
      softmax_tile<T, log>(tile.data(), f.n, w, top.data(), top.data() + w);
      for (int64_t r = 0; r < f.n; ++r) {
        const T* from = tile.data() + r * w;
        char* to = out.data + (u * together * block + r * inner) * out.item;
        if (out.direct)
          move_rows<Moved<T>>(to, item, block * item, reinterpret_cast<const char*>(from), item, inner * item, inner,
                              blocks);
        else
          for (int64_t b = 0; b < blocks; ++b) store_row(to + b * block * out.item, out.dtype, from + b * inner, inner);
      }
    }
  });
}

template <class T, bool log>
void softmax(const Tensor& x, Tensor& y, const Fibres& f) {
  RowReader<T> in(x);
  RowWriter<T> out(y);
  constexpr int64_t kShort = 32;  // rows that are not worth a call each
  if (const int64_t together = std::min(f.outer, tile_width(f, 512) / f.inner);
      f.inner > 1 && together > 1 && (f.inner >= kFewInner || f.n < kShort))
    return softmax_blocks<T, log>(in, out, f, together);
  if (f.inner > 1 && f.inner < kFewInner) return softmax_turned<T, log>(in, out, f);
  if (f.inner == 1) {
    parallel_for(f.outer, std::max<int64_t>(1, kGrain / 4 / f.n), [&](int64_t begin, int64_t end) {
      if constexpr (std::is_same_v<T, float>)
        if (in.direct && out.direct) {
          const float* from = in.at(begin * f.n, f.n, nullptr);
          return row_loops().softmax(from, out.at(begin * f.n, nullptr), end - begin, f.n, log);
        }
      std::vector<T> a(in.direct ? 0 : size_t(f.n)), b(out.direct ? 0 : size_t(f.n));
      for (int64_t r = begin; r < end; ++r) {
        T* to = out.at(r * f.n, b.data());
        softmax_row<T, log>(in.at(r * f.n, f.n, a.data()), to, f.n);
        out.done(r * f.n, f.n, to);
      }
    });
    return;
  }
  const int64_t width = tile_width(f, f.inner), tiles = (f.inner + width - 1) / width;
  parallel_for(f.outer * tiles, std::max<int64_t>(1, kGrain / 4 / (f.n * width)), [&](int64_t begin, int64_t end) {
    std::vector<T> tile(size_t(f.n * width)), top(size_t(2 * width));
    for (int64_t u = begin; u < end; ++u) {
      int64_t first = u / tiles * f.n * f.inner + u % tiles * width, w = std::min(width, f.inner - u % tiles * width);
      for (int64_t r = 0; r < f.n; ++r)
        in.load(tile.data() + r * w, in.data + (first + r * f.inner) * in.item, in.item, w);
      softmax_tile<T, log>(tile.data(), f.n, w, top.data(), top.data() + width);
      for (int64_t r = 0; r < f.n; ++r)
        store_row(out.data + (first + r * f.inner) * out.item, out.dtype, tile.data() + r * w, w);
    }
  });
}

// softmax(self, dim, dtype)
void infer_softmax(Call& c) {
  Tensor& x = c.tensor(0);
  softmax_dim(c, 1, x);
  DType t = c.dtype_or(2, x.dtype);
  if (!is_floating(t)) runtime_error(c.name(), ": expected a floating point tensor (or dtype=), got ", dtype_name(t));
  c.output(x.shape(), t, x.device);
}
template <bool log>
void cpu_softmax(Call& c) {
  Tensor& out = c.out();
  Tensor& given = c.tensor(0);
  if (!out.numel) return;
  Fibres f(given, softmax_dim(c, 1, given));
  visit_rows(c.name(), out.dtype, [&]<class T>() {
    TensorRef x = contiguous(loader_of<T>(given.dtype) ? given : *to_dtype(given, out.dtype));
    Tensor &y = out;
    {
      LockRelease lock(out.numel * 4);
      softmax<T, log>(*x, y, f);
    }
  });
}

template <class T, bool log>
void backward_row(const T* g, const T* y, T* dx, int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    row_loops().softmax_backward[0](g, y, dx, 1, n, log);
  } else if constexpr (log) {
    const T sum = T(row_sum(g, n));
    row_loops().log_slope_of_row(g, y, &sum, dx, n);
  } else {
    const T dot = T(row_dot(g, y, n));
    each<T>(n, [&](int64_t i, int k) { give<T>(dx + i, take(y + i, k) * (take(g + i, k) - dot), k); });
  }
}

template <class T>
bool of_one_dtype(const RowReader<T>& grad, const RowReader<T>& result, const RowWriter<T>& out) {
  return grad.load == result.load && result.load == loader_of<T>(out.dtype);
}
template <class T, bool log>
void backward_rows(const RowReader<T>& grad, const RowReader<T>& result, const RowWriter<T>& out, const Fibres& f) {
  const bool in_place = of_one_dtype(grad, result, out);
  parallel_for(f.outer, std::max<int64_t>(1, kGrain / 4 / f.n), [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<T, float>)
      if (in_place) {
        const int64_t first = begin * f.n * out.item;
        return row_loops().softmax_backward[row_dtype(out.dtype)](grad.data + first, result.data + first,
                                                                  out.data + first, end - begin, f.n, log);
      }
    std::vector<T> a(grad.direct ? 0 : size_t(f.n)), b(result.direct ? 0 : size_t(f.n)),
        d(out.direct ? 0 : size_t(f.n));
    for (int64_t r = begin; r < end; ++r) {
      T* to = out.at(r * f.n, d.data());
      backward_row<T, log>(grad.at(r * f.n, f.n, a.data()), result.at(r * f.n, f.n, b.data()), to, f.n);
      out.done(r * f.n, f.n, to);
    }
  });
}
// Of elements side by side, each with the sum of its own row.
template <class T, bool log>
void slopes(const T* g, const T* y, const T* sum, T* dx, int64_t n) {
  if constexpr (log && std::is_same_v<T, double>) return row_loops().log_slope_of_columns(g, y, sum, dx, n);
  each<T>(n, [&](int64_t j, int k) {
    Vector<T> v = take(g + j, k), e = take(y + j, k), s = take(sum + j, k);
    give<T>(dx + j, log ? v - exp_vector<T>(e) * s : e * (v - s), k);
  });
}
// Rows whose elements lie apart are taken many at a time, element by element of all of them.
template <class T, bool log>
void backward_tiles(const RowReader<T>& grad, const RowReader<T>& result, const RowWriter<T>& out, const Fibres& f) {
  const bool in_place = of_one_dtype(grad, result, out);
  const int64_t width = tile_width(f, f.inner), tiles = (f.inner + width - 1) / width;
  parallel_for(f.outer * tiles, std::max<int64_t>(1, kGrain / 4 / (f.n * width)), [&](int64_t begin, int64_t end) {
    std::vector<T> a(grad.direct ? 0 : size_t(width)), b(result.direct ? 0 : size_t(width)),
        d(out.direct ? 0 : size_t(width));
    std::vector<T> sum(size_t(width), T(0));
    for (int64_t u = begin; u < end; ++u) {
      int64_t first = u / tiles * f.n * f.inner + u % tiles * width, w = std::min(width, f.inner - u % tiles * width);
      if constexpr (std::is_same_v<T, float>)
        if (in_place) {
          const int64_t at = first * out.item;
          row_loops().softmax_backward_columns[row_dtype(out.dtype)](grad.data + at, result.data + at, out.data + at,
                                                                     f.n, f.inner, w, log);
          continue;
        }
      std::fill(sum.begin(), sum.end(), T(0));
      for (int64_t r = 0; r < f.n; ++r) {
        const T *p = grad.at(first + r * f.inner, w, a.data()),
                *q = log ? p : result.at(first + r * f.inner, w, b.data());
        each<T>(w, [&](int64_t j, int k) {
          Vector<T> v = take(p + j, k);
          give<T>(&sum[size_t(j)], take(&sum[size_t(j)], k) + (log ? v : v * take(q + j, k)), k);
        });
      }
      for (int64_t r = 0; r < f.n; ++r) {
        const T *p = grad.at(first + r * f.inner, w, a.data()), *q = result.at(first + r * f.inner, w, b.data());
        T* to = out.at(first + r * f.inner, d.data());
        slopes<T, log>(p, q, sum.data(), to, w);
        out.done(first + r * f.inner, w, to);
      }
    }
  });
}
template <class T, bool log>
void backward_turned(const RowReader<T>& grad, const RowReader<T>& result, const RowWriter<T>& out, const Fibres& f) {
  const int64_t n = f.n * f.inner;
  parallel_for(f.outer, std::max<int64_t>(1, kGrain / 4 / n), [&](int64_t u, int64_t end) {
    T *g = scratch<T>(kScratchA, n), *y = scratch<T>(kScratchB, n), *d = scratch<T>(kScratchC, n);
    for (; u < end; ++u) {
      lay_rows(grad, f, u * n, g);
      lay_rows(result, f, u * n, y);
      for (int64_t j = 0; j < n; j += f.n) backward_row<T, log>(g + j, y + j, d + j, f.n);
      put_rows(d, f, u * n, out);
    }
    trim_scratch();
  });
}
template <class T, bool log>
void backward(const Tensor& g, const Tensor& y, Tensor& dx, const Fibres& f) {
  RowReader<T> grad(g), result(y);
  RowWriter<T> out(dx);
  if (f.inner > 1 && f.inner < kFewGradients) return backward_turned<T, log>(grad, result, out, f);
  if (f.inner == 1) backward_rows<T, log>(grad, result, out, f);
  else backward_tiles<T, log>(grad, result, out, f);
}

// _softmax_backward_data(grad_output, output, dim, input_dtype)
void infer_backward(Call& c) {
  Tensor& y = c.tensor(1);
  if (c.tensor(0).shape().size() != y.shape().size() || !std::equal(y.sizes, y.sizes + y.ndim, c.tensor(0).sizes))
    runtime_error(c.name(), ": gradient has shape ", shape_text(c.tensor(0).shape()), " but the result ",
                  shape_text(y.shape()));
  if (!is_floating(y.dtype)) runtime_error(c.name(), ": expected floating point tensors, got ", dtype_name(y.dtype));
  c.dim(2, y.ndim);
  c.output(y.shape(), c.dtype_or(3, y.dtype), y.device);
}
template <bool log>
void cpu_backward(Call& c) {
  Tensor& out = c.out();
  if (!out.numel) return;
  Fibres f(c.tensor(1), c.dim(2, c.tensor(1).ndim));
  visit_rows(c.name(), c.tensor(1).dtype, [&]<class T>() {
    TensorRef g = contiguous(loader_of<T>(c.tensor(0).dtype) ? c.tensor(0) : *to_dtype(c.tensor(0), c.tensor(1).dtype));
    TensorRef y = contiguous(c.tensor(1));
    Tensor &dx = out;
    {
      LockRelease lock(out.numel * 4);
      backward<T, log>(*g, *y, dx, f);
    }
  });
}

const Primitives rows{
    {"softmax", infer_softmax, cpu_softmax<false>, Images::Along},
    {"log_softmax", infer_softmax, cpu_softmax<true>, Images::Along},
    {"_softmax_backward_data", infer_backward, cpu_backward<false>, Images::Along},
    {"_log_softmax_backward_data", infer_backward, cpu_backward<true>, Images::Along},
};

}  // namespace

RowLoopsOfLevel::RowLoopsOfLevel(int level, const RowLoops& loops) { loops_of_level[level] = loops; }
const RowLoops& row_loops() {
  static const RowLoops& best = loops_of_level[cpu_level() > 0 && loops_of_level[1].softmax ? 1 : 0];
  return best;
}

}  // namespace flambeau
