// Gradients of products along one dimension. Each element's factor is the product of the others, those in front of it
// times those behind it; nothing is divided, so that zeros are numbers like all others.
#include "fibres.h"
#include "reduce.h"
#include "rows.h"
#include "times.h"

namespace flambeau {
namespace {

// --- _prod_backward(grad, self, dim) ---------------------------------------------------------------------------------
constexpr int64_t kLanesOfRow = 16;  // a row is taken as a matrix of so many columns,
constexpr int64_t kDepth = 64;       // a matrix by so many rows at a time,
constexpr int64_t kTile = 64;        // and by so many columns
constexpr int64_t kPart = kLanesOfRow * kDepth;
constexpr int64_t kShort = 32;       // rows of fewer elements are columns of a matrix that lies turned

// The products of w columns; and, row by row, those of what stands before, with `pitch` from row to row of x.
template <class A>
void multiply_columns(const A* x, int64_t rows, int64_t w, A* product) {
  std::fill(product, product + w, A(1));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < w; ++j) product[j] = times(product[j], x[r * w + j]);
}
template <class A>
void multiply_before(const A* x, int64_t pitch, int64_t rows, int64_t w, A* before, A* product) {
  std::fill(product, product + w, A(1));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < w; ++j) {
      before[r * w + j] = product[j];
      product[j] = times(product[j], x[r * pitch + j]);
    }
}
// From the last row on, factors become the products of the others: of those before, those behind, and a number for each
// column that `product` begins with.
template <class A>
void multiply_others(A* x, int64_t pitch, int64_t rows, int64_t w, const A* before, A* product) {
  for (int64_t r = rows; r-- > 0;)
    for (int64_t j = 0; j < w; ++j) {
      const A factor = x[r * pitch + j];
      x[r * pitch + j] = times(before[r * w + j], product[j]);
      product[j] = times(product[j], factor);
    }
}
// From the products of a row's lanes: that of all in each of them, and in `rest` that of the others.
template <class A>
void join_lanes(A* product, A* rest) {
  for (int step = 1; step < kLanesOfRow; step *= 2) {
    A other[kLanesOfRow];
    for (int k = 0; k < kLanesOfRow; ++k) other[k] = product[k ^ step];
    for (int k = 0; k < kLanesOfRow; ++k) {
      rest[k] = times(rest[k], other[k]);
      product[k] = times(product[k], other[k]);
    }
  }
}

template <class T>
class ProdGradient {
 public:
  using A = typename Widened<T>::type;
  ProdGradient(const Tensor& g, const Tensor& x, Tensor& out, Fibres given)
      : grad(g), self(x), out(out), f(given), turned(f.inner == 1 && f.n < kShort) {
    if (turned) std::swap(f.outer, f.inner);
    lanes = f.inner == 1 && f.n >= kShort;
    depth = lanes ? kPart : kDepth;
    parts = (f.n + depth - 1) / depth;
    tiles = (f.inner + kTile - 1) / kTile;
    tile = std::min(f.inner, kTile);
  }

  void run() {
    if (parts > 1) multiply_parts();
    const int64_t work = std::min(f.n, depth) * tile;
    parallel_for(f.outer * parts * tiles, std::max<int64_t>(1, kGrain / 4 / work), [&](int64_t u, int64_t end) {
      for (; u < end; ++u) finish(at(u));
    });
  }

 private:
  // One part of `rows` elements of `w` neighbouring rows: where it begins, and where its numbers stand among the
  // gradients and in `rest`. A row of its own is a matrix of `lines` lines of lanes.
  struct Place {
    int64_t first, rows, w, row, rest, lines;
  };
  Place at(int64_t u) const {
    const int64_t column = u % tiles * kTile, part = u / tiles % parts, o = u / tiles / parts;
    const int64_t rows = std::min(depth, f.n - part * depth);
    const int64_t w = lanes ? kLanesOfRow : std::min(tile, f.inner - column);
    return {turned ? column * f.n : (o * f.n + part * depth) * f.inner + column, rows, w, o * f.inner + column,
            (o * parts + part) * f.inner + column, lanes ? (rows + w - 1) / w : rows};
  }
  // f(first, n, at, step): n elements that lie side by side belong into a part's matrix, from `at` on.
  template <class F>
  void each_run(const Place& p, F&& f) const {
    if (lanes) return f(p.first, p.rows, 0, 1);
    if (turned)
      for (int64_t j = 0; j < p.w; ++j) f(p.first + j * p.rows, p.rows, j, p.w);
    else
      for (int64_t r = 0; r < p.rows; ++r) f(p.first + r * this->f.inner, p.w, r * p.w, 1);
  }
  // The factors; a row of its own is filled up with ones.
  void read(const Place& p, A* x) const {
    each_run(p, [&](int64_t first, int64_t n, int64_t at, int64_t step) {
      T row[kPart];
      const T* from = self.at(first, n, row);
      for (int64_t i = 0; i < n; ++i) x[at + i * step] = conjugate(A(from[i]));
    });
    if (lanes) std::fill(x + p.rows, x + p.lines * p.w, A(1));
  }
  void write(const Place& p, const A* x) {
    T g[kTile], row[kPart];
    const T* grads = grad.at(p.row, lanes ? 1 : p.w, g);
    each_run(p, [&](int64_t first, int64_t n, int64_t at, int64_t step) {
      T* to = out.at(first, row);
      if (lanes || turned)
        for (int64_t i = 0; i < n; ++i) to[i] = T(times(A(grads[at]), x[at + i * step]));
      else
        for (int64_t i = 0; i < n; ++i) to[i] = T(times(A(grads[i]), x[at + i]));
      out.done(first, n, to);
    });
  }

  // rest: of each part, the products of all other parts of its rows.
  void multiply_parts() {
    rest.resize(size_t(f.outer * parts * f.inner));
    parallel_for(f.outer * parts * tiles, std::max<int64_t>(1, kGrain / (depth * tile)), [&](int64_t u, int64_t end) {
      for (; u < end; ++u) {
        const Place p = at(u);
        A x[kDepth * kTile], product[kTile], none[kLanesOfRow];
        read(p, x);
        multiply_columns(x, p.lines, p.w, product);
        if (lanes) join_lanes(product, none);
        std::copy_n(product, lanes ? 1 : p.w, rest.data() + p.rest);
      }
    });
    parallel_for(f.outer * tiles, std::max<int64_t>(1, kGrain / 4 / (parts * tile)), [&](int64_t u, int64_t end) {
      std::vector<A> before(size_t(parts * tile));
      for (; u < end; ++u) {
        const Place p = at(u / tiles * parts * tiles + u % tiles);
        const int64_t w = lanes ? 1 : p.w;
        A product[kTile];
        multiply_before(rest.data() + p.rest, f.inner, parts, w, before.data(), product);
        std::fill_n(product, w, A(1));
        multiply_others(rest.data() + p.rest, f.inner, parts, w, before.data(), product);
      }
    });
  }
  void finish(const Place& p) {
    A x[kDepth * kTile], before[kDepth * kTile], product[kTile], outside[kTile];
    read(p, x);
    multiply_before(x, p.w, p.lines, p.w, before, product);
    for (int64_t j = 0; j < p.w; ++j) outside[j] = rest.empty() ? A(1) : rest[size_t(p.rest + (lanes ? 0 : j))];
    if (lanes) join_lanes(product, outside);
    multiply_others(x, p.w, p.lines, p.w, before, outside);
    write(p, x);
  }

  RowReader<T> grad, self;
  RowWriter<T> out;
  Fibres f;
  bool turned, lanes;
  int64_t depth, parts, tiles, tile;
  std::vector<A> rest;
};

// --- _cumprod_backward(grad, self, result, dim) ----------------------------------------------------------------------
constexpr int64_t kWidth = 128;  // rows that run side by side
constexpr int64_t kStrip = 256;  // elements of a row between two visits of its neighbours

template <class T>
class CumprodGradient {
 public:
  using A = typename Widened<T>::type;
  CumprodGradient(const Tensor& g, const Tensor& x, const Tensor& result, Tensor& out, const Fibres& f)
      : grad(g), self(x), result(result), out(out), f(f) {}

  void run() {
    if (f.inner == 1)
      return parallel_for(f.outer, std::max<int64_t>(1, kGrain / 8 / f.n), [&](int64_t r, int64_t end) {
        for (; r + 4 <= end; r += 4) rows<4>(r);
        for (; r < end; ++r) rows<1>(r);
      });
    const int64_t tiles = (f.inner + kWidth - 1) / kWidth, w = std::min(kWidth, f.inner);
    parallel_for(f.outer * tiles, std::max<int64_t>(1, kGrain / 8 / (f.n * w)), [&](int64_t u, int64_t end) {
      for (; u < end; ++u)
        columns(u / tiles * f.n * f.inner + u % tiles * kWidth, std::min(kWidth, f.inner - u % tiles * kWidth));
    });
  }

 private:
  // From the last element of a row to the first: `share` is what this element's prefix is multiplied by, the sum over
  // all prefixes from here on of their gradient times the factors between.
  struct State {
    A share = A(0), factor = A(0);
    A step(T g, T x) {
      share = A(g) + times(factor, share);
      factor = conjugate(A(x));
      return share;
    }
  };
  template <int count>
  void rows(int64_t r) {
    State state[count];
    for (int64_t end = f.n; end > 0; end -= std::min(end, kStrip)) {
      interruption_point();
      strips<count>(r * f.n + std::max<int64_t>(0, end - kStrip), std::min(end, kStrip), end <= kStrip, state);
    }
  }
  template <int count>
  void strips(int64_t first, int64_t n, bool begins, State* state) {
    T a[count][kStrip], b[count][kStrip], c[count][kStrip], d[count][kStrip];
    const T *g[count], *x[count], *before[count];
    T* to[count];
    for (int r = 0; r < count; ++r) {
      const int64_t at = first + r * f.n;
      g[r] = grad.at(at, n, a[r]);
      x[r] = self.at(at, n, b[r]);
      before[r] = begins ? result.at(at, n - 1, c[r] + 1) - 1 : result.at(at - 1, n, c[r]);
      to[r] = out.at(at, d[r]);
    }
    State now[count];
    for (int r = 0; r < count; ++r) now[r] = state[r];
    for (int64_t i = n - 1; i > 0; --i)
      for (int r = 0; r < count; ++r)
        to[r][i] = T(times(now[r].step(g[r][i], x[r][i]), conjugate(A(before[r][i]))));
    for (int r = 0; r < count; ++r) {
      const A share = now[r].step(g[r][0], x[r][0]);
      to[r][0] = T(begins ? share : times(share, conjugate(A(before[r][0]))));
      out.done(first + r * f.n, n, to[r]);
      state[r] = now[r];
    }
  }
  void columns(int64_t first, int64_t w) {
    T a[kWidth], b[kWidth], c[kWidth], d[kWidth], one[kWidth];
    A share[kWidth] = {}, factor[kWidth] = {};
    std::fill(one, one + w, T(1));
    for (int64_t r = f.n; r-- > 0;) {
      const int64_t at = first + r * f.inner;
      const T *g = grad.at(at, w, a), *x = self.at(at, w, b), *before = r ? result.at(at - f.inner, w, c) : one;
      T* to = out.at(at, d);
      for (int64_t j = 0; j < w; ++j) {
        share[j] = A(g[j]) + times(factor[j], share[j]);
        factor[j] = conjugate(A(x[j]));
        to[j] = T(times(share[j], conjugate(A(before[j]))));
      }
      out.done(at, w, to);
    }
  }

  RowReader<T> grad, self, result;
  RowWriter<T> out;
  Fibres f;
};

// The gradient, the input and the result are of one dtype and lie one after the other.
template <class F>
void visit_numbers(const Call& c, DType t, F&& f) {
  if (t == DType::Complex64) return f.template operator()<complex64>();
  if (t == DType::Complex128) return f.template operator()<complex128>();
  visit_rows(c.name(), t, f);
}
void infer_prod_backward(Call& c) {
  const Tensor &g = c.tensor(0), &x = c.tensor(1);
  const int64_t n = x.ndim ? x.sizes[c.dim(2, x.ndim)] : 1;
  if (g.dtype != x.dtype || (x.numel && g.numel * n != x.numel))
    runtime_error(c.name(), ": a gradient of shape ", shape_text(g.shape()), " and dtype ", dtype_name(g.dtype),
                  " does not belong to products of ", dtype_name(x.dtype), " ", shape_text(x.shape()));
  c.output_like(x);
}
void infer_cumprod_backward(Call& c) {
  const Tensor& x = c.tensor(1);
  for (const Tensor* t : {&c.tensor(0), &c.tensor(2)})
    if (t->dtype != x.dtype || !std::ranges::equal(t->shape(), x.shape()))
      runtime_error(c.name(), ": the gradient and the result must have the input's dtype and shape ",
                    dtype_name(x.dtype), " ", shape_text(x.shape()), ", got ", dtype_name(t->dtype), " ",
                    shape_text(t->shape()));
  c.output_like(x);
}
void cpu_prod_backward(Call& c) {
  Tensor& out = c.out();
  if (!out.numel) return;
  const Fibres f(out, c.dim(2, out.ndim));
  TensorRef g = contiguous(c.tensor(0)), x = contiguous(c.tensor(1));
  LockRelease lock(out.numel * 8);
  visit_numbers(c, out.dtype, [&]<class T>() { ProdGradient<T>(*g, *x, out, f).run(); });
}
void cpu_cumprod_backward(Call& c) {
  Tensor& out = c.out();
  if (!out.numel) return;
  const Fibres f(out, c.dim(3, out.ndim));
  TensorRef g = contiguous(c.tensor(0)), x = contiguous(c.tensor(1)), result = contiguous(c.tensor(2));
  LockRelease lock(out.numel * 8);
  visit_numbers(c, out.dtype, [&]<class T>() { CumprodGradient<T>(*g, *x, *result, out, f).run(); });
}

const Primitives rows{
    {"_prod_backward", infer_prod_backward, cpu_prod_backward},
    {"_cumprod_backward", infer_cumprod_backward, cpu_cumprod_backward},
};

}  // namespace
}  // namespace flambeau
